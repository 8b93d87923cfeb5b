"""A look at all rows of a table, a task for each piece: how many there are, and what is wrong with them."""

from __future__ import annotations

import hashlib
import shutil
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hopfeed.errors import InvalidError
from hopfeed.tables import sql
from hopfeed.tables.cluster.job import ClusterJob
from hopfeed.tables.cluster.pieces import Piece, relation_of, task_engine
from hopfeed.tables.dirt import as_json, check_line, counting
from hopfeed.tables.engine import Engine
from hopfeed.tables.keys import check_texts, class_count, class_query
from hopfeed.tables.plan import EdgePlan, NodePlan
from hopfeed.tables.stored import Check


@dataclass(frozen=True)
class Look:
    """What tasks have found in the rows of a table.

    Attributes:
        sums: rows, values of each column, and rows of each check; more that was asked.
        firsts: of each check the first such row, by its keys.
    """

    checks: Sequence[Check]
    sums: list[int]
    firsts: list[tuple[Any, ...] | None]


def look(job: ClusterJob, plan: NodePlan | EdgePlan, pieces: Sequence[Piece], keys: Sequence[str], checks: Sequence[Check], *, there: str = "") -> Look:
    """Reads a table once. ``there``: a condition in SQL of the rows that are looked at; empty: all."""
    assert plan.source is not None
    of = f"{plan.where}: {plan.source.title}"

    def read(piece: Piece) -> list[Any]:
        with task_engine(piece) as engine:
            relation = relation_of(plan, piece)
            relation = f"(SELECT * FROM {relation} WHERE {there})" if there else relation
            found = list(engine.one(counting(plan.columns, checks, relation), of=of))
            counts = found[1 + len(plan.columns.names) :]
            firsts = [_first(engine, relation, check.condition, keys) if rows else None for check, rows in zip(checks, counts)]
        return [found, firsts]

    told = job.tasks(pieces, read)
    sums = [sum(column) for column in zip(*(found for found, _ in told))] or [0] * (1 + len(plan.columns.names) + len(checks))
    firsts = [[one for one in column if one is not None] for column in zip(*(firsts for _, firsts in told))] or [[] for _ in checks]
    return Look(checks, sums, [least(one) if one else None for one in firsts])


def told_of(job: ClusterJob, plan: NodePlan | EdgePlan, pieces: Sequence[Piece], found: Look, own_keys: str, *, there: str = "") -> dict[str, Any]:
    """The facts that :func:`hopfeed.tables.dirt.check_rows` gives; raises what it raises."""
    assert plan.source is not None
    title, columns, warnings = plan.source.title, len(plan.columns.names), list[list[Any]]()
    for check, rows, first in zip(found.checks, found.sums[1 + columns :], found.firsts):
        if not rows:
            continue
        assert first is not None
        line = check_line(check, rows, first, plan.where, title)
        if check.remedy:
            such = f"({check.condition}){f' AND {there}' if there else ''}"
            reject(job, check.kind, plan, pieces, lambda piece, such=such: f"SELECT {own_keys}{plan.columns.shown()} FROM {relation_of(plan, piece)} WHERE {such}")
            raise InvalidError(f"{line}; {check.remedy}")
        warnings.append([check.kind, rows, line])
    return {"rows": found.sums[0], "values": found.sums[1 : 1 + columns], "warnings": warnings}


def _first(engine: Engine, relation: str, condition: str, keys: Sequence[str]) -> tuple[Any, ...]:
    return engine.one(f"SELECT {', '.join(keys)} FROM {relation} WHERE {condition} ORDER BY {', '.join(keys)} LIMIT 1")


def least(found: Sequence[tuple[Any, ...]], *, nulls_first: bool = False) -> tuple[Any, ...]:
    """The first of rows of keys, as SQL orders them."""
    return min(found, key=lambda row: [_rank(one, nulls_first) for one in row])


def _rank(key: Any, nulls_first: bool) -> tuple[Any, ...]:
    if key is None:
        return (0 if nulls_first else 2,)
    return (1, key.encode() if isinstance(key, str) else key.bytes if isinstance(key, uuid.UUID) else key)


def reject(job: ClusterJob, kind: str, plan: NodePlan | EdgePlan, pieces: Sequence[Piece], query: Callable[[Piece], str]) -> None:
    """Keeps rows that are left out, or that the import fails by (:class:`hopfeed.tables.dirt.Rejected`)."""
    if job.rejected.path is None:
        return
    assert plan.source is not None
    title = plan.source.title
    folder, name = job.rejected.folder, hashlib.blake2b(f"{kind}/{plan.where}".encode(), digest_size=16).hexdigest()
    folder.mkdir(exist_ok=True)

    def keep(piece: Piece) -> str:
        path = folder / f"{name}-{piece.number:05d}.{uuid.uuid4().hex}"
        with task_engine(piece) as engine:
            engine.run(f"COPY ({as_json(kind, title, query(piece))}) TO {sql.text(str(path))} (FORMAT json)")
        return str(path)

    with open(folder / f"{name}.json.new", "wb") as whole:
        for path in map(Path, job.tasks(pieces, keep)):
            with open(path, "rb") as part:
                shutil.copyfileobj(part, whole)
            path.unlink()
    (folder / f"{name}.json.new").replace(folder / f"{name}.json")


def classes_of(job: ClusterJob, plan: NodePlan, pieces: Sequence[Piece]) -> dict[str, Any]:
    """As an import on one machine finds them."""
    label = plan.label()
    if label is None:
        return {"classes": [], "num_classes": 0}
    if label.is_text and label.attr.classes:
        return {"classes": list(label.attr.classes), "num_classes": len(label.attr.classes)}

    def look(piece: Piece) -> list[Any]:
        with task_engine(piece) as engine:
            return [row[0] for row in engine.run(class_query(label, relation_of(plan, piece)))]

    found = [value for values in job.tasks(pieces, look) for value in values if value is not None]
    if label.is_text:
        texts = sorted(set(found), key=str.encode)
        check_texts(plan, label, texts)
        return {"classes": texts, "num_classes": len(texts)}
    return class_count(plan, label, max(found) if found else None)
