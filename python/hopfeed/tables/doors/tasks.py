"""Tasks of a GraphBolt folder: sets of seeds with labels. Seeds that are nodes are splits and labels of nodes, seeds that are
pairs of nodes are splits of links."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hopfeed.errors import InvalidError
from hopfeed.tables.arrays import Array, created
from hopfeed.tables.doors.columns import Column, Expected, Field
from hopfeed.tables.doors.folder import Fields
from hopfeed.tables.doors.types import NONE
from hopfeed.tables.made import LABELS, PAIRS, MadeLinks

if TYPE_CHECKING:
    from hopfeed.tables.engine import Engine

SETS = {"train_set": "train", "validation_set": "valid", "test_set": "test"}
_SEEDS = ("seeds", "seed_nodes", "node_pairs")  # all but the first are of older folders


@dataclass(frozen=True)
class Members:
    """A set of a task, of one type."""

    set: str
    where: str
    seeds: Column
    labels: Column | None

    @property
    def number(self) -> int:
        """Of the set, from 1 on."""
        return list(SETS).index(self.set) + 1

    @property
    def files(self) -> list[Path]:
        return [path for column in (self.seeds, self.labels) if column is not None for path in column.paths]


@dataclass
class Task:
    """The sets by node type and by edge type (``src:rel:dst``), and what is told of what was left out."""

    num_classes: int = 0
    nodes: dict[str, list[Members]] = field(default_factory=dict)
    links: dict[str, list[Members]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def column_of(one: Fields, rows: int | None, says: str) -> Column:
    """The array of a feature or of a set. ``rows``: how many it has to have, which ``says`` says."""
    name, form = one.text("name"), one.chosen("format", ("numpy", "torch"))
    return Column(name, f"{one.where} ('{name}')", (one.array("path", one.text("path"), form),), Expected(says, all=rows))


def task_of(given: Fields, asked: str | None, node_types: Sequence[str], edge_types: Sequence[str]) -> Task:
    """The task of a folder. ``node_types``, ``edge_types``: names; where there is one, it is that of sets without a type.

    Raises:
        InvalidError: it is not there, there are several, or its sets cannot be splits.
    """
    found, task = _asked(given, asked), Task()
    if found is None:
        return task
    task.num_classes = found.whole("num_classes") if found.has("num_classes") else 0
    for key in SETS:
        for one in found.objects(key):
            members = _members(one, key, task)
            is_links = members.seeds.width == 2
            known = edge_types if is_links else node_types
            name = known[0] if len(known) == 1 and not one.has("type") else one.text("type")
            if name not in known:
                kind = "edge" if is_links else "node"
                raise InvalidError(f"{one.where}: 'type' is '{name}', which is no {kind} type; there are: {', '.join(known) or 'none'}")
            of_type = (task.links if is_links else task.nodes).setdefault(name, [])
            if is_links and any(other.set == key for other in of_type):
                raise InvalidError(f"{one.where}: '{key}' has the type '{name}' twice; make them one")
            of_type.append(members)
    return task


def _asked(given: Fields, asked: str | None) -> Fields | None:
    tasks = given.objects("tasks")
    names = [str(one.given.get("name") or i) for i, one in enumerate(tasks)]
    if asked == NONE or (asked is None and not tasks):
        return None
    if asked is None and len(tasks) > 1:
        raise InvalidError(f"{given.where} has {len(tasks)} tasks: {', '.join(names)}; --task NAME takes the sets of one, --task none those of none")
    if asked is not None and asked not in names:
        raise InvalidError(f"--task {asked}: {given.where} has no such task; there are: {', '.join(names) or 'none'}")
    return tasks[names.index(asked) if asked is not None else 0]


def _members(one: Fields, key: str, task: Task) -> Members:
    arrays = {str(data.given.get("name")): data for data in one.objects("data")}
    seeds = next((kind for kind in _SEEDS if kind in arrays), None)
    if seeds is None:
        raise InvalidError(f"{one.where} has no 'data' whose name is 'seeds'; --task none leaves tasks out")
    column = column_of(arrays[seeds], None, "")
    if column.dtype.kind not in "iu" or column.width > 2:
        raise InvalidError(
            f"{column.where}: {column.paths[0]} has {max(column.width, 1)} of {column.dtype} in a row, and a seed is a node or a pair of nodes, whole numbers; --task none leaves the task out"
        )
    labels = None
    if "labels" in arrays:
        labels = column_of(arrays["labels"], column.pieces[0].rows, f"'{seeds}' of the same set")
        if labels.width > 1:
            raise InvalidError(f"{labels.where}: {labels.paths[0]} has {labels.width} numbers in a row; a label is one class number. --task none leaves the task out; store them as feature_data")
    for name in arrays:
        if name not in (seeds, "labels"):
            task.notes.append(f"{one.where}: '{name}' is left out; a set has seeds and labels")
    return Members(key, one.where, column, labels)


def _seed_blocks(of: Members, name: str, nodes: int, engine: Engine, count: int) -> Iterator[Array]:
    begin = 0
    for block in of.seeds.blocks(engine, count):
        seeds = block.reshape(-1)
        wrong = np.flatnonzero((seeds < 0) | (seeds >= nodes))
        if len(wrong):
            at = int(wrong[0])
            raise InvalidError(f"{of.seeds.where}: {of.seeds.paths[0]} has the seed {seeds[at]} at {begin + at} (from 0), and node type '{name}' has {nodes:,} nodes")
        yield seeds.astype(np.int64, copy=False)
        begin += len(seeds)


def split_field(members: Sequence[Members], name: str, nodes: int, column: str) -> Field:
    """Which set a node is in, by its number; 0: none."""

    def blocks(engine: Engine, folder: Path, count: int) -> Iterator[Array]:
        code = created(folder / "split.npy", np.uint8, nodes)
        for of in members:
            for seeds in _seed_blocks(of, name, nodes, engine, count):
                there = code[seeds]
                if len(both := np.flatnonzero((there != 0) & (there != of.number))):
                    other = list(SETS)[int(there[both[0]]) - 1]
                    raise InvalidError(f"{of.where}: node {seeds[both[0]]} of '{name}' is in {other} and in {of.set}; a node is in one split")
                code[seeds] = of.number
        yield from _blocks_of(code, folder / "split.npy", count)

    return Field((column,), np.dtype(np.uint8), 0, "; ".join(f"{one.set}: {one.seeds.paths[0]}" for one in members), blocks)


def label_field(members: Sequence[Members], name: str, nodes: int, column: str) -> Field:
    """The labels of the sets by node; -1 or NaN: none."""
    floats = any(one.labels is not None and one.labels.dtype.kind == "f" for one in members)
    dtype, missing = (np.float64, np.nan) if floats else (np.int64, -1)

    def blocks(engine: Engine, folder: Path, count: int) -> Iterator[Array]:
        label = created(folder / "labels.npy", dtype, nodes)
        for begin in range(0, nodes, count):
            label[begin : begin + count] = missing
        for of in members:
            assert of.labels is not None
            for seeds, values in zip(_seed_blocks(of, name, nodes, engine, count), of.labels.blocks(engine, count)):
                _scatter(label, seeds, values.reshape(-1).astype(dtype), missing, of, name)
        yield from _blocks_of(label, folder / "labels.npy", count)

    return Field((column,), np.dtype(dtype), 0, "; ".join(f"{one.set}: {one.labels.paths[0]}" for one in members if one.labels is not None), blocks)


def _scatter(label: Array, seeds: Array, values: Array, missing: Any, of: Members, name: str) -> None:
    there = label[seeds]
    was = ~np.isnan(there) if there.dtype.kind == "f" else there != missing
    label[seeds] = values
    now = label[seeds]  # where a seed is twice in a block, the last one's
    differ = np.flatnonzero((was & (there != values)) | ((now != values) & (values == values)))
    if len(differ):
        at = int(differ[0])
        raise InvalidError(f"{of.where}: node {seeds[at]} of '{name}' comes with the labels {there[at] if was[at] else now[at]} and {values[at]}; leave one")


def _blocks_of(values: Array, path: Path, count: int) -> Iterator[Array]:
    path.unlink()  # the mapping stays
    for begin in range(0, len(values), count):
        yield np.array(values[begin : begin + count])


def links_of(members: Members, src: str, dst: str, counts: dict[str, int]) -> MadeLinks:
    """A set of pairs as a split of links, in the order of its file."""
    rows = members.seeds.pieces[0].rows
    assert rows is not None

    def write(engine: Engine, folder: Path) -> None:
        pairs = created(folder / PAIRS, np.int64, rows * 2)
        _fill(pairs, members.seeds, engine, lambda begin, block: _check_ends(members.seeds, begin, block, (src, dst), counts))
        if members.labels is not None:
            labels = created(folder / LABELS, np.int64, rows)
            _fill(labels, members.labels, engine, lambda begin, block: _check_whole(members.labels, begin, block))

    return MadeLinks(SETS[members.set], tuple(map(str, members.files)), rows, members.labels is not None, write)


def _fill(out: Array, column: Column, engine: Engine, check: Callable[[int, Array], None]) -> None:
    begin = done = 0
    for block in column.blocks(engine, 1 << 20):
        check(begin, block)
        begin += len(block)
        out[done : done + block.size] = block.reshape(-1).astype(np.int64)
        done += block.size


def _check_ends(column: Column, begin: int, block: Array, ends: tuple[str, str], counts: dict[str, int]) -> None:
    for i, end in enumerate(ends):
        wrong = np.flatnonzero((block[:, i] < 0) | (block[:, i] >= counts[end]))
        if len(wrong):
            src, dst = (int(one) for one in block[wrong[0]])
            raise InvalidError(f"{column.where}: {column.paths[0]}: link {begin + int(wrong[0])} (from 0) is {src} -> {dst}, and node type '{end}' has {counts[end]:,} nodes, from 0 on")


def _check_whole(column: Any, begin: int, block: Array) -> None:
    wrong = np.flatnonzero(block.reshape(-1) != np.trunc(block.reshape(-1).astype(np.float64)))
    if len(wrong):
        raise InvalidError(f"{column.where}: {column.paths[0]} has {block.reshape(-1)[wrong[0]]} at {begin + int(wrong[0])} (from 0), and labels of links are whole numbers")
