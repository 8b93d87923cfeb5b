"""Keys to ids: the keys of each node type in order, once each; and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopfeed import _core
from hopfeed.errors import InvalidError
from hopfeed.tables import sql
from hopfeed.tables.arrays import created, opened
from hopfeed.tables.dirt import check_rows, counted, shown
from hopfeed.tables.job import Job, Options
from hopfeed.tables.plan import NodePlan
from hopfeed.tables.stored import Check, Stored

_MAX_TEXTS = 1 << 16  # more are no classes


def check_nodes(job: Job, number: int) -> None:
    """Reads a node type's table once and refuses what cannot be stored; adds the stage, whose facts are ``rows``,
    ``values``, ``warnings``, ``classes`` and ``num_classes``."""
    plan = job.plan.nodes[number]
    if plan.source is None:
        return

    def make(folder: Path) -> dict[str, Any]:
        assert plan.source is not None
        checks = node_checks(plan, job.options.nulls == "0")
        facts = check_rows(job, plan.relation, ["key"], checks, plan.columns, plan.where, plan.source.title, f"key AS {sql.name(plan.nodes.key)}")
        return facts | _classes(job, plan)

    job.checks[number] = job.work.stage(f"check-{number}", f"{plan.where}: checking {plan.source.title}", make)


def node_checks(plan: NodePlan, keeps_nulls: bool) -> list[Check]:
    """What may be wrong with the rows of a node type."""
    no_key = "have no key" + (", or one beyond int64," if plan.key_kind == "int64" else "") + f" in '{plan.nodes.key}'"
    return [Check("null keys", "key IS NULL", no_key, "give them one, or leave them out"), *(check for one in plan.stored for check in one.checks(keeps_nulls))]


def _classes(job: Job, plan: NodePlan) -> dict[str, Any]:
    label = plan.label()
    if label is None:
        return {"classes": [], "num_classes": 0}
    if label.is_text and label.attr.classes:
        return {"classes": list(label.attr.classes), "num_classes": len(label.attr.classes)}
    found = [row[0] for row in job.engine.run(class_query(label, plan.relation))]
    if label.is_text:
        check_texts(plan, label, found)
        return {"classes": found, "num_classes": len(found)}
    return class_count(plan, label, found[0])


def class_query(label: Stored, relation: str) -> str:
    """Query of the texts of a label, in order, or of its largest number."""
    column = label.inputs[0]
    if label.is_text:
        return f"SELECT DISTINCT {column} FROM {relation} WHERE {column} IS NOT NULL ORDER BY {column} LIMIT {_MAX_TEXTS + 1}"
    finite = f" WHERE NOT isnan({column})" if label.types[0] in ("FLOAT", "DOUBLE") else ""
    return f"SELECT max({column}::BIGINT) FROM {relation}{finite}"


def check_texts(plan: NodePlan, label: Stored, texts: Sequence[str]) -> None:
    """Raises ``InvalidError`` where there are too many to be classes."""
    if len(texts) > _MAX_TEXTS:
        raise InvalidError(f"{plan.where}: '{label.attr.columns[0]}' has more than {_MAX_TEXTS:,} different texts, which are no classes")


def class_count(plan: NodePlan, label: Stored, largest: int | None) -> dict[str, Any]:
    """Classes of a label of numbers."""
    number, names = max(int(largest) + 1, 0) if largest is not None else 0, list(label.attr.classes)
    if label.attr.num_classes and number > label.attr.num_classes:
        raise InvalidError(f"{plan.where}: '{label.attr.columns[0]}' has the class {number - 1}, and {label.attr.num_classes} classes are said, from 0 on")
    if names and number > len(names):
        raise InvalidError(f"{plan.where}: '{label.attr.columns[0]}' has the class {number - 1}, and 'classes' names {len(names)}, from 0 on")
    return {"classes": names, "num_classes": max(number, len(names), label.attr.num_classes)}


def make_keys(job: Job, number: int) -> None:
    """Adds the stage of a node type's keys: ``keys.parquet``, and ``duplicates.parquet`` of keys that several rows have.
    Facts: ``count``, ``duplicates`` (keys), ``added`` (nodes that have no row)."""
    plan = job.plan.nodes[number]

    def make(folder: Path) -> dict[str, Any]:
        path = folder / "keys.parquet"
        own = f"SELECT key FROM {plan.relation}" if plan.source else ""
        ends = _ends(job, plan) if plan.source is None or job.options.dangling == "add" else []
        if own:
            job.engine.write(f"{own} ORDER BY key", path, ordered=True, of=plan.where)
            repeated = _repeated(job, path)
        else:
            repeated = 0
        if repeated:
            _take_duplicates(job, plan, path, folder / "duplicates.parquet")
        added = 0
        if ends:
            has = job.engine.one(f"SELECT count(*) FROM {sql.parquet(path)}")[0] if own else 0
            several = [*ends, f"SELECT key FROM {sql.parquet(path)}"] if own else ends
            whole = folder / "whole.parquet"
            job.engine.write(f"SELECT DISTINCT key FROM ({' UNION ALL '.join(several)}) WHERE key IS NOT NULL ORDER BY key", whole, ordered=True, of=plan.where)
            whole.replace(path)
            added = job.engine.one(f"SELECT count(*) FROM {sql.parquet(path)}")[0] - has
        count = job.engine.one(f"SELECT count(*) FROM {sql.parquet(path)}")[0]
        return {"count": count, "duplicates": repeated, "added": added if plan.source else 0}

    stage = job.work.stage(f"keys-{number}", f"{plan.where}: ordering keys", make)
    job.keys.append(stage)
    tell_keys(job, plan, stage.facts)


def tell_keys(job: Job, plan: NodePlan, facts: dict[str, Any]) -> None:
    """What is told of keys that were added, or that several rows have."""
    added, several = facts["added"], facts["duplicates"]
    if added and plan.source:
        job.told.note(plan.where, "added", added, f"{plan.where}: {counted(added, 'node')} that edges name and {plan.source.title} has not {'is' if added == 1 else 'are'} added, with zeros")
    if several:
        job.told.note(plan.where, "duplicates", several, f"{plan.where}: {counted(several, 'key')} with several rows; one of them is taken")


def _ends(job: Job, plan: NodePlan) -> list[str]:
    """Queries of the keys that edges name of a node type."""
    found = []
    for edges in job.plan.edges:
        for end, column in ((edges.edges.src, "sk"), (edges.edges.dst, "dk")):
            if edges.source is not None and end == plan.nodes.name:
                found.append(f"SELECT DISTINCT {column} AS key FROM {edges.relation}")
    return found


def _repeated(job: Job, path: Path) -> int:
    """How many keys come several times, in a file of keys in order."""
    repeated, last, last_is_repeated = 0, None, False
    for batch in job.engine.batches(f"SELECT key FROM {sql.parquet(path)}"):
        keys = storage(batch.column(0))
        if len(keys) == 0:
            continue
        before = keys[:-1] if last is None else pa.concat_arrays([last, keys[:-1]])
        same = np.asarray(pc.equal(keys[len(keys) - len(before) :], before))
        again = np.flatnonzero(same & ~np.concatenate([[last_is_repeated], same[:-1]])) if len(same) else same
        repeated += len(again)
        last, last_is_repeated = keys[len(keys) - 1 :], bool(same[-1]) if len(same) else False
    return repeated


def storage(column: pa.Array) -> pa.Array:
    """A column of keys: int64, strings, or 16 bytes each."""
    return column.storage if isinstance(column, pa.ExtensionArray) else column


def _take_duplicates(job: Job, plan: NodePlan, path: Path, duplicates: Path) -> None:
    """Leaves each key once; refuses what the option does not let through."""
    assert plan.source is not None
    job.engine.write(f"SELECT key FROM {sql.parquet(path)} GROUP BY key HAVING count(*) > 1 ORDER BY key", duplicates, ordered=True)
    twice = sql.parquet(duplicates)
    rows = f"{plan.relation} SEMI JOIN {twice} USING (key)"
    first, keys = job.engine.one(f"SELECT min(key), count(*) FROM {twice}")
    line = refused_duplicates(job.options, plan, first, keys, lambda query: job.engine.run(query), rows)
    rejected = rows if line else f"({plan.others_of_each(f'(SELECT * FROM {rows})')})"
    job.rejected.keep("duplicates", plan.source.title, f"SELECT key AS {sql.name(plan.nodes.key)}{plan.columns.shown()} FROM {rejected}")
    if line:
        raise InvalidError(line)
    whole = path.with_name("whole.parquet")
    job.engine.write(f"SELECT DISTINCT key FROM {sql.parquet(path)} ORDER BY key", whole, ordered=True)
    whole.replace(path)


def refused_duplicates(options: Options, plan: NodePlan, first: Any, keys: int, run: Callable[[str], list[tuple[Any, ...]]], rows: str) -> str:
    """What an import says that ends by keys which several rows have; empty where the option lets them through. ``rows``: theirs."""
    assert plan.source is not None
    if options.duplicates == "error":
        return (
            f"{plan.where}: {counted(keys, 'key')} of {plan.source.title} {'has' if keys == 1 else 'have'} several rows; the first is {shown(first)};"
            " leave one of each, or --duplicates same (where they are the same) or smallest"
        )
    if options.duplicates == "same" and plan.columns.names:
        differ = " OR ".join(f"count(DISTINCT {one}::VARCHAR) > 1 OR count({one}) NOT IN (0, count(*))" for one in plan.columns.inputs)
        found = run(f"SELECT key FROM (SELECT * FROM {rows}) GROUP BY key HAVING {differ} ORDER BY key")
        if found:
            return (
                f"{plan.where}: {counted(len(found), 'key')} of {plan.source.title} {'has' if len(found) == 1 else 'have'} rows that differ; the first is {shown(found[0][0])};"
                " leave one of each, or --duplicates smallest"
            )
    return ""


def hashes(job: Job, number: int) -> np.ndarray[Any, Any]:
    """XXH3-64 of each key with the seed, uint64 by original id; mapped from a stage."""

    def make(folder: Path) -> dict[str, Any]:
        out = created(folder / "hashes.npy", np.uint64, job.counts[number])
        begin = 0
        for batch in job.engine.batches(f"SELECT key FROM {sql.parquet(job.keys[number] / 'keys.parquet')}"):
            out[begin : begin + len(batch)] = _core.hash_keys(pa.record_batch([storage(batch.column(0))], ["key"]), job.options.seed)
            begin += len(batch)
        return {}

    stage = job.work.stage(f"hashes-{number}", f"{job.plan.nodes[number].where}: hashing keys", make)
    return opened(stage / "hashes.npy")
