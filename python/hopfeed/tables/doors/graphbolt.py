"""GraphBolt's OnDiskDataset: a folder with ``metadata.yaml``, which names files of edges and of features, and tasks whose sets
are seeds and labels (DGL's "YAML specification")."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hopfeed.errors import InvalidError, NotFoundError
from hopfeed.tables.description import Description
from hopfeed.tables.doors.arrays import Lying, Piece, csv_pairs
from hopfeed.tables.doors.columns import Column, Expected
from hopfeed.tables.doors.folder import Fields, edge_type
from hopfeed.tables.doors.tasks import SETS, Task, column_of, label_field, links_of, split_field, task_of
from hopfeed.tables.doors.types import EdgeType, NodeType, Types, Wishes, free

_NODE, _EDGE = "node", "node:to:node"  # types without a name


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
    graph = given.inner("graph")
    counts = _counts(graph)
    features = _features(given, graph)
    asked = graph.objects("edges")
    names = [":".join(_ends_of(one, counts)) for one in asked]
    _check_types(features, list(counts), names)
    sets = task_of(given, task, list(counts), names)
    edges = [_edges(one, counts, features, sets) for one in asked]
    nodes = [_nodes(name, count, features, sets) for name, count in counts.items()]
    name = str(given.given.get("dataset_name") or folder.resolve().name)
    return Types(metadata, wishes).description(name, nodes, edges, sets.notes)


def _type_of(one: Fields, default: str) -> str:
    return one.text("type") if one.has("type") else default


def _counts(graph: Fields) -> dict[str, int]:
    """How many nodes each type has."""
    found = dict[str, int]()
    for one in graph.objects("nodes"):
        if (name := _type_of(one, _NODE)) in found:
            raise InvalidError(f"{one.where}: node type '{name}' is there twice; make them one")
        found[name] = one.whole("num")
    if not found:
        raise InvalidError(f"{graph.where} has no 'nodes'")
    return found


def _features(given: Fields, graph: Fields) -> list[Fields]:
    """All arrays of nodes and edges. Those that sampling wants too are named a second time, below ``graph``."""
    found = dict[tuple[str, str, str], Fields]()
    for one in [*given.objects("feature_data"), *graph.objects("feature_data")]:
        key = (one.chosen("domain", ("node", "edge")), str(one.given.get("type")), one.text("name"))
        if found.setdefault(key, one).text("path") != one.text("path"):
            raise InvalidError(f"{one.where}: '{key[2]}' is {one.text('path')}, and {found[key].text('path')} before; name one of them otherwise")
    return list(found.values())


def _check_types(features: Sequence[Fields], nodes: Sequence[str], edges: Sequence[str]) -> None:
    for one in features:
        domain = one.chosen("domain", ("node", "edge"))
        known, name = (nodes, _type_of(one, _NODE)) if domain == "node" else (edges, _type_of(one, _EDGE))
        if name not in known:
            raise InvalidError(f"{one.where}: 'type' is '{name}', which is no {domain} type; there are: {', '.join(known)}")


def _ends_of(one: Fields, counts: dict[str, int]) -> tuple[str, str, str]:
    name = _type_of(one, _EDGE)
    src, rel, dst = edge_type(name, one.where)
    for end in (src, dst):
        if end not in counts:
            raise InvalidError(f"{one.where}: edge type '{name}' ends at '{end}', which is no node type; there are: {', '.join(counts)}")
    return src, rel, dst


def _edges(one: Fields, counts: dict[str, int], features: Sequence[Fields], sets: Task) -> EdgeType:
    src, rel, dst = _ends_of(one, counts)
    name = f"{src}:{rel}:{dst}"
    form, path = one.chosen("format", ("csv", "numpy")), one.path(one.text("path"))
    if not path.is_file():
        raise NotFoundError(f"{one.where}: 'path' is {one.text('path')}, and {path} is not there")
    pairs: Piece = csv_pairs(path, ",") if form == "csv" else _pairs(one)
    rows, says, columns = pairs.rows, f"the number of edges in {path}", list[Column]()
    for of in features:
        if of.given.get("domain") == "edge" and _type_of(of, _EDGE) == name:
            columns.append(column_of(of, rows, says))
            if rows is None:  # how many edges a CSV has only reading tells
                rows, says = columns[0].pieces[0].rows, f"'{columns[0].name}' of the same edges"
    links = [links_of(members, src, dst, counts) for members in sets.links.get(name, [])]
    return EdgeType(src, rel, dst, Column("edges", one.where, (pairs,), Expected(says, all=rows)), columns, links)


def _pairs(one: Fields) -> Lying:
    array = one.array("path", one.text("path"), "numpy")
    assert isinstance(array, Lying)
    if len(array.shape) != 2 or array.shape[0] != 2 or array.dtype.kind not in "iu":
        raise InvalidError(f"{one.where}: {array.path} is {array.dtype} of shape {list(array.shape)}, expected whole numbers of shape [2, edges]")
    return array.turned()


def _nodes(name: str, count: int, features: Sequence[Fields], sets: Task) -> NodeType:
    of_type = [one for one in features if one.given.get("domain") == "node" and _type_of(one, _NODE) == name]
    columns = [column_of(one, count, f"'num' of node type '{name}'") for one in of_type]
    members = sets.nodes.get(name, [])
    labelled = [one for one in members if one.labels is not None]
    split = split_field(members, name, count, free("split", columns)) if members else None
    label = label_field(labelled, name, count, free("labels", columns)) if labelled else None
    values = {SETS[one.set]: one.number for one in members}
    files = [path for one in members for path in one.files]
    return NodeType(name, count, columns, label, split, values, sets.num_classes if members else 0, files)
