"""GraphBolt's OnDiskDataset: a folder with ``metadata.yaml``, which names files of edges and of features, and tasks whose sets
are seeds and labels (DGL's "YAML specification")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hopfeed.errors import InvalidError, NotFoundError
from hopfeed.tables.arrays import Array, created
from hopfeed.tables.description import Description
from hopfeed.tables.doors.arrays import Lying, Piece, csv_pairs
from hopfeed.tables.doors.columns import Column, Expected, Field
from hopfeed.tables.doors.folder import Fields, edge_type
from hopfeed.tables.doors.types import NONE, EdgeType, NodeType, Types, Wishes, free

if TYPE_CHECKING:
    from hopfeed.tables.engine import Engine

_SETS = {"train_set": "train", "validation_set": "valid", "test_set": "test"}
_SEEDS, _LINKS = ("seeds", "seed_nodes"), ("node_pairs",)  # all but the first are of older folders
_HOMOGENEOUS = ("node", "node:to:node")


def described(folder: Path, task: str | None, wishes: Wishes) -> Description:
    """The description of a folder.

    Args:
        task: whose sets are splits and labels; None: of the only one; ``none``: of no task.

    Raises:
        NotFoundError, InvalidError, CorruptError: what is wrong with the file or with one that it names.
    """
    metadata = folder / "metadata.yaml"
    given = Fields.of_file(metadata, "give the folder that OnDiskDataset is given")
    if not given.has("graph"):
        told = "; this is what GraphBolt has made of a folder: give that folder" if given.has("graph_topology") else ""
        raise InvalidError(f"{given.where} has no 'graph'{told}")
    graph = given.object("graph")
    counts = {str(one.given.get("type") or _HOMOGENEOUS[0]): one.whole("num") for one in graph.objects("nodes")}
    if not counts:
        raise InvalidError(f"{graph.where} has no 'nodes'")
    features = [*given.objects("feature_data"), *graph.objects("feature_data")]
    edges = [_edges(one, counts, features) for one in graph.objects("edges")]
    _check_types(features, counts, edges)
    members = _members(given, task, counts)
    nodes = [_nodes(name, count, features, members.get(name, []), _classes(given, task)) for name, count in counts.items()]
    name = str(given.given.get("dataset_name") or folder.resolve().name)
    return Types(metadata, wishes).description(name, nodes, edges)


def _type_of(one: Fields, default: str) -> str:
    return one.text("type") if one.has("type") else default


def _edges(one: Fields, counts: dict[str, int], features: Sequence[Fields]) -> EdgeType:
    name = _type_of(one, _HOMOGENEOUS[1])
    src, rel, dst = edge_type(name, one.where)
    for end in (src, dst):
        if end not in counts:
            raise InvalidError(f"{one.where}: edge type '{name}' ends at '{end}', which is no node type; there are: {', '.join(counts)}")
    form, path = one.chosen("format", ("csv", "numpy")), one.path(one.text("path"))
    if not path.is_file():
        raise NotFoundError(f"{one.where}: 'path' is {one.text('path')}, and {path} is not there")
    pairs: Piece = csv_pairs(path, ",") if form == "csv" else _ends(one)
    rows, says, columns = pairs.rows, f"the number of edges in {path}", list[Column]()
    for of in features:
        if of.given.get("domain") == "edge" and _type_of(of, _HOMOGENEOUS[1]) == name:
            columns.append(_column(of, rows, says))
            if rows is None:  # how many edges a CSV has only reading tells
                rows, says = columns[0].pieces[0].rows, f"'{columns[0].name}' of the same edges"
    return EdgeType(src, rel, dst, Column("edges", one.where, (pairs,), Expected(says, all=rows)), columns)


def _ends(one: Fields) -> Lying:
    array = one.array("path", one.text("path"), "numpy")
    assert isinstance(array, Lying)
    if len(array.shape) != 2 or array.shape[0] != 2 or array.dtype.kind not in "iu":
        raise InvalidError(f"{one.where}: {array.path} is {array.dtype} of shape {list(array.shape)}, expected whole numbers of shape [2, edges]")
    return array.turned()


def _column(one: Fields, rows: int | None, says: str) -> Column:
    name, form = one.text("name"), one.chosen("format", ("numpy", "torch"))
    where = f"{one.where} ('{name}')"
    return Column(name, where, (one.array("path", one.text("path"), form),), Expected(says, all=rows))


def _check_types(features: Sequence[Fields], counts: dict[str, int], edges: Sequence[EdgeType]) -> None:
    names = {"node": list(counts), "edge": [f"{one.src}:{one.rel}:{one.dst}" for one in edges]}
    for one in features:
        domain = one.chosen("domain", ("node", "edge"))
        name = _type_of(one, _HOMOGENEOUS[domain == "edge"])
        if name not in names[domain]:
            raise InvalidError(f"{one.where}: 'type' is '{name}', which is no {domain} type; there are: {', '.join(names[domain])}")


def _nodes(name: str, count: int, features: Sequence[Fields], members: Sequence[Members], num_classes: int) -> NodeType:
    of_type = [one for one in features if one.given.get("domain") == "node" and _type_of(one, _HOMOGENEOUS[0]) == name]
    columns = [_column(one, count, f"'num' of node type '{name}'") for one in of_type]
    labelled = [one for one in members if one.labels is not None]
    split = _split_field(members, name, count, free("split", columns)) if members else None
    label = _label_field(labelled, name, count, free("labels", columns)) if labelled else None
    values = {_SETS[one.set]: list(_SETS).index(one.set) + 1 for one in members}
    files = [path for one in members for column in (one.seeds, one.labels) if column for path in column.paths]
    return NodeType(name, count, columns, label, split, values, num_classes if label else 0, files)


@dataclass(frozen=True)
class Members:
    """A set of a task, of one node type."""

    set: str
    where: str
    seeds: Column
    labels: Column | None


def _task(given: Fields, asked: str | None) -> Fields | None:
    """The task whose sets are taken."""
    tasks = given.objects("tasks")
    names = [str(one.given.get("name") or i) for i, one in enumerate(tasks)]
    if asked == NONE or (asked is None and not tasks):
        return None
    if asked is None and len(tasks) > 1:
        raise InvalidError(f"{given.where} has {len(tasks)} tasks: {', '.join(names)}; --task NAME takes the sets of one, --task none those of none")
    if asked is not None and asked not in names:
        raise InvalidError(f"--task {asked}: {given.where} has no such task; there are: {', '.join(names) or 'none'}")
    return tasks[names.index(asked) if asked is not None else 0]


def _classes(given: Fields, asked: str | None) -> int:
    task = _task(given, asked)
    return task.whole("num_classes") if task is not None and task.has("num_classes") else 0


def _members(given: Fields, asked: str | None, counts: dict[str, int]) -> dict[str, list[Members]]:
    """Sets of the task by node type."""
    task, found = _task(given, asked), dict[str, list[Members]]()
    if task is None:
        return found
    for key in _SETS:
        for one in task.objects(key):
            name = _type_of(one, _HOMOGENEOUS[0])
            arrays = {str(data.given.get("name")): data for data in one.objects("data")}
            seeds = next((arrays[kind] for kind in (*_SEEDS, *_LINKS) if kind in arrays), None)
            if seeds is None:
                raise InvalidError(f"{one.where} has no 'data' whose name is 'seeds'; --task none leaves tasks out")
            column = _column(seeds, None, "")
            if ":" in name or column.width > 1:
                raise InvalidError(
                    f"{one.where}: task '{task.given.get('name') or ''}' has links as seeds, which are not imported;"
                    " --task none leaves it out, and hopfeed-partition split-links makes splits of links of the graph"
                )
            if name not in counts:
                raise InvalidError(f"{one.where}: 'type' is '{name}', which is no node type; there are: {', '.join(counts)}")
            if column.dtype.kind not in "iu":
                raise InvalidError(f"{column.where}: {column.paths[0]} is {column.dtype}, and seeds are ids of nodes, whole numbers")
            found.setdefault(name, []).append(Members(key, one.where, column, _labels(arrays, column)))
    return found


def _labels(arrays: dict[str, Fields], seeds: Column) -> Column | None:
    if "labels" not in arrays:
        return None
    labels = _column(arrays["labels"], seeds.pieces[0].rows, f"'{seeds.name}' of the same set")
    if labels.width > 1:
        raise InvalidError(f"{labels.where}: {labels.paths[0]} has {labels.width} numbers in a row; a label is one class number. --task none leaves the task out; store them as feature_data")
    return labels


def _seed_blocks(of: Members, name: str, nodes: int, engine: Engine, count: int) -> Iterator[tuple[int, Array]]:
    begin = 0
    for block in of.seeds.blocks(engine, count):
        seeds = block.reshape(-1)
        wrong = np.flatnonzero((seeds < 0) | (seeds >= nodes))
        if len(wrong):
            at = int(wrong[0])
            raise InvalidError(f"{of.seeds.where}: {of.seeds.paths[0]} has the seed {seeds[at]} at {begin + at} (from 0), and node type '{name}' has {nodes:,} nodes")
        yield begin, seeds.astype(np.int64, copy=False)
        begin += len(seeds)


def _split_field(members: Sequence[Members], name: str, nodes: int, column: str) -> Field:
    """Which set a node is in, from 1 on; 0: none."""

    def blocks(engine: Engine, folder: Path, count: int) -> Iterator[Array]:
        code = created(folder / "split.npy", np.uint8, nodes)
        for of in members:
            number = list(_SETS).index(of.set) + 1
            for _, seeds in _seed_blocks(of, name, nodes, engine, count):
                there = code[seeds]
                if len(both := np.flatnonzero((there != 0) & (there != number))):
                    other = list(_SETS)[int(there[both[0]]) - 1]
                    raise InvalidError(f"{of.where}: node {seeds[both[0]]} of '{name}' is in {other} and in {of.set}; a node is in one split")
                code[seeds] = number
        yield from _blocks_of(code, folder / "split.npy", count)

    of_files = "; ".join(f"{one.set}: {one.seeds.paths[0]}" for one in members)
    return Field((column,), np.dtype(np.uint8), 0, of_files, blocks)


def _label_field(members: Sequence[Members], name: str, nodes: int, column: str) -> Field:
    """The labels of the sets by node; -1 or NaN: none."""
    floats = any(one.labels is not None and one.labels.dtype.kind == "f" for one in members)
    dtype, missing = (np.float64, np.nan) if floats else (np.int64, -1)

    def blocks(engine: Engine, folder: Path, count: int) -> Iterator[Array]:
        label = created(folder / "labels.npy", dtype, nodes)
        for begin in range(0, nodes, count):
            label[begin : begin + count] = missing
        for of in members:
            assert of.labels is not None
            for (_, seeds), values in zip(_seed_blocks(of, name, nodes, engine, count), of.labels.blocks(engine, count)):
                _scatter(label, seeds, values.reshape(-1).astype(dtype), missing, of, name)
        yield from _blocks_of(label, folder / "labels.npy", count)

    of_files = "; ".join(f"{one.set}: {one.labels.paths[0]}" for one in members if one.labels is not None)
    return Field((column,), np.dtype(dtype), 0, of_files, blocks)


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
