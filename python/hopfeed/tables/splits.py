"""Splits of nodes: by a column, by shares of a hash of the key, or by time. Their ids are in rising order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hopfeed.errors import InvalidError
from hopfeed.tables import convert
from hopfeed.tables.arrays import Array
from hopfeed.tables.dirt import shown
from hopfeed.tables.job import Job
from hopfeed.tables.keys import hashes
from hopfeed.tables.names import checked
from hopfeed.tables.plan import NodePlan

Tell = Callable[[Array, pa.RecordBatch], Iterator[tuple[str, Array]]]  # (hashes of keys, batch) -> names, and which rows are in them


def make_splits(job: Job, number: int) -> None:
    """Adds the stage of a node type's splits: ``NAME.npy`` of each. Facts: ``counts``, ``warnings``."""
    plan = job.plan.nodes[number]
    split = plan.nodes.split
    if split is None:
        return
    tell = teller(plan)
    of_key = hashes(job, number) if split.kind == "fractions" else None

    def make(folder: Path) -> dict[str, Any]:
        ids_of, classes_of = dict[str, list[Array]](), dict[str, set[int]]()
        label = plan.label()
        asked = "".join(f", r.{one} AS {one}" for one in asked_of(plan))
        query = f"SELECT k.file_row_number AS id{asked} FROM {job.node_rows(number)} AS r JOIN {job.key_table(number)} AS k ON k.key = r.key ORDER BY id"
        for batch in job.engine.batches(query, of=plan.where):
            ids = batch.column("id").to_numpy()
            classes = convert.labels(batch.column(label.inputs[0]), job.checks[number].facts["classes"]) if label else None
            for name, members in members_of(plan, tell, ids if of_key is None else of_key[ids], batch, classes):
                ids_of.setdefault(name, []).append(ids[members])
                if classes is not None:
                    classes_of.setdefault(name, set()).update(np.unique(classes[members]).tolist())
        for name in names_told(plan):
            ids_of.setdefault(name, [])
        for name, parts in ids_of.items():
            np.save(folder / f"{name}.npy", np.concatenate([np.zeros(0, np.int64), *parts]))
        counts = {name: sum(map(len, ids_of[name])) for name in sorted(ids_of)}
        return {"counts": counts, "warnings": warnings(plan, counts, classes_of, job.checks[number].facts["classes"])}

    stage = job.work.stage(f"splits-{number}", f"{plan.where}: splitting", make)
    job.splits[number] = stage
    for kind, count, line in stage.facts["warnings"]:
        job.told.note(plan.where, kind, count, line)


def names_told(plan: NodePlan) -> list[str]:
    """Splits that the description names; they are there though they have no node."""
    assert plan.nodes.split is not None
    return [*plan.nodes.split.values, *plan.nodes.split.fractions, *plan.nodes.split.until]


def members_of(plan: NodePlan, tell: Tell, hashes_: Array, batch: pa.RecordBatch, classes: Array | None) -> Iterator[tuple[str, Array]]:
    """Names of splits, and which rows of a batch are in them; a row is in one at most. ``classes``: of the rows, where there is a label."""
    assert plan.nodes.split is not None
    for name, members in tell(hashes_, batch):
        if plan.nodes.split.of == "labelled" and classes is not None:
            members = members & (classes >= 0)
        yield name, members


def teller(plan: NodePlan) -> Tell:
    """What tells the rows of a node type into splits."""
    assert plan.nodes.split is not None
    return {"column": _by_column, "fractions": _by_fractions, "time": _by_time}[plan.nodes.split.kind](plan)


def warnings(plan: NodePlan, counts: dict[str, int], classes_of: dict[str, set[int]], names: list[str]) -> list[list[Any]]:
    """What is told of splits: kind, count, line."""
    return _lacking(plan, classes_of, names) + _empty(plan, counts)


def asked_of(plan: NodePlan) -> list[str]:
    """Columns that a split is told by."""
    assert plan.nodes.split is not None
    label = plan.label()
    found = [label.inputs[0]] if label else []
    if plan.nodes.split.column:
        found.append(plan.columns.input(plan.nodes.split.column))
    return list(dict.fromkeys(found))


def _by_column(plan: NodePlan) -> Tell:
    assert plan.nodes.split is not None and plan.source is not None
    column, values = plan.nodes.split.column, plan.nodes.split.values
    where, of = f"{plan.where}, split by '{column}'", plan.columns.input(column)
    if plan.source.columns[column] == "BOOLEAN" and not values:
        raise InvalidError(f"{where}: it is true or false; say \"values\": {{\"train\": true, ...}}")
    name_of = {value: name for name, several in values.items() for value in several}

    def tell(_: Array, batch: pa.RecordBatch) -> Iterator[tuple[str, Array]]:
        texts = np.asarray([None if value is None else _text(value) for value in batch.column(of).to_pylist()], object)
        for text in sorted({value for value in texts if value is not None}):
            if values and text not in name_of:
                continue
            yield name_of[text] if values else checked(text, where, "split"), texts == text

    return tell


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _by_fractions(plan: NodePlan) -> Tell:
    split = plan.nodes.split
    assert split is not None
    names, ends = list(split.fractions), np.cumsum(list(split.fractions.values()))

    def tell(of_key: Array, _: pa.RecordBatch) -> Iterator[tuple[str, Array]]:
        shares = (of_key >> np.uint64(11)).astype(np.float64) * 2.0**-53  # [0, 1)
        places = np.searchsorted(ends, shares, side="right")
        if ends[-1] >= 1 - 1e-9:
            places = np.minimum(places, len(names) - 1)
        for i, name in enumerate(names):
            yield name, places == i

    return tell


def _by_time(plan: NodePlan) -> Tell:
    split = plan.nodes.split
    assert split is not None and plan.source is not None
    column, kind = plan.columns.input(split.column), plan.source.columns[split.column]
    where = f"{plan.where}, split by '{split.column}'"
    whole = not kind.startswith(("TIMESTAMP", "DATE"))
    if whole and kind not in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"):
        raise InvalidError(f"{where}: the column is {kind}, which is no time")
    names = list(split.until)
    ends = [_end(end, whole, where) for end in split.until.values()]
    if ends != sorted(ends) or len(set(ends)) < len(ends):
        raise InvalidError(f"{where}: the times of 'until' do not rise")

    def tell(_: Array, batch: pa.RecordBatch) -> Iterator[tuple[str, Array]]:
        there = np.asarray(batch.column(column).is_valid())
        places = np.searchsorted(np.asarray(ends), convert.times(batch.column(column), "us"), side="right")
        for i, name in enumerate(names):
            yield name, there & (places == i)

    return tell


def _end(end: object, whole: bool, where: str) -> int:
    """A time of the description as the column has it, in microseconds where that is no number."""
    if end is None:
        return (1 << 63) - 1
    if whole:
        if isinstance(end, bool) or not isinstance(end, int):
            raise InvalidError(f"{where}: 'until' has {end!r}, and the column has whole numbers")
        return end
    try:
        told = datetime.fromisoformat(str(end))
    except ValueError:
        raise InvalidError(f"{where}: 'until' has {end!r}, which is no time as 2026-11-28 or 2026-11-28T12:00:00") from None
    since = (told if told.tzinfo else told.replace(tzinfo=timezone.utc)) - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return (since.days * 86_400 + since.seconds) * 10**6 + since.microseconds


def _lacking(plan: NodePlan, classes_of: dict[str, set[int]], names: list[str]) -> list[list[Any]]:
    """Classes that another split has and training lacks."""
    if "train" not in classes_of:
        return []
    told = []
    for split, classes in sorted(classes_of.items()):
        lacks = sorted(classes - classes_of["train"] - {-1})
        if lacks:
            first = shown(names[lacks[0]]) if names else lacks[0]
            line = f"{plan.where}: {len(lacks)} class{'' if len(lacks) == 1 else 'es'} of split '{split}' {'is' if len(lacks) == 1 else 'are'} not in 'train', so no model learns it; the first is {first}; split otherwise, or leave its nodes unlabelled"
            told.append(["classes", len(lacks), line])
    return told


def _empty(plan: NodePlan, counts: dict[str, int]) -> list[list[Any]]:
    return [["empty splits", 1, f"{plan.where}: the split '{name}' has no node"] for name, count in counts.items() if count == 0]
