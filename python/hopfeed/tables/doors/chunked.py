"""DistDGL's chunked graph: ``metadata.json`` beside files of edges, of node data and of edge data, each of which may be in
several chunks (DGL's guide, "Distributed graph partitioning pipeline")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hopfeed.errors import InvalidError, NotFoundError
from hopfeed.tables.arrays import Array
from hopfeed.tables.description import Description
from hopfeed.tables.doors.arrays import Piece, csv_pairs
from hopfeed.tables.doors.columns import Column, Expected, Field
from hopfeed.tables.doors.folder import MOST, Fields, edge_type
from hopfeed.tables.doors.types import EdgeType, NodeType, Types, Wishes, free

if TYPE_CHECKING:
    from hopfeed.tables.engine import Engine

_MASKS = {"train_mask": "train", "val_mask": "valid", "valid_mask": "valid", "test_mask": "test"}


def described(metadata: Path, wishes: Wishes) -> Description:
    """The description of a chunked graph.

    Raises:
        NotFoundError, InvalidError, CorruptError: what is wrong with the file or with one that it names.
    """
    given = Fields.of_file(metadata, "a chunked graph is described by its metadata.json")
    for name in given.texts("edge_type"):
        edge_type(name, f"{given.where}: 'edge_type'")
    nodes = [_nodes(given, name, i) for i, name in enumerate(given.texts("node_type"))]
    for kind, known in (("node_data", given.texts("node_type")), ("edges", given.texts("edge_type")), ("edge_data", given.texts("edge_type"))):
        for name in given.inner(kind).given if given.has(kind) else ():
            if name not in known:
                raise InvalidError(f"{given.where}: '{kind}' has the type '{name}', which '{'node_type' if kind == 'node_data' else 'edge_type'}' has not")
    names = {one.name for one in nodes}
    edges = [_edges(given, name, i, names) for i, name in enumerate(given.texts("edge_type"))]
    return Types(metadata, wishes).description(given.text("graph_name"), nodes, edges)


def _counts(given: Fields, kind: str, number: int, name: str) -> Expected | None:
    """How many nodes or edges each chunk of a type has, or all together."""
    each, whole = f"num_{kind}_per_chunk", f"num_{kind}_per_type"
    chunks, total = None, None
    for key in (each, whole):
        if given.has(key) and len(given.items(key)) <= number:
            raise InvalidError(f"{given.where}: '{key}' has {len(given.items(key))} entries, and '{kind[:-1]}_type' has more; '{name}' is the first that lacks one")
    if given.has(each):
        chunks = given.items(each)[number]
        if not isinstance(chunks, Sequence) or not all(_is_count(one) for one in chunks):
            raise InvalidError(f"{given.where}: '{each}' of '{name}' is {str(chunks)[:60]}, expected a list of whole numbers")
    if given.has(whole):
        total = given.items(whole)[number]
        if not _is_count(total):
            raise InvalidError(f"{given.where}: '{whole}' of '{name}' is {str(total)[:60]}, expected a whole number")
    if chunks is not None and total is not None and sum(chunks) != total:
        raise InvalidError(f"{given.where}: '{whole}' of '{name}' is {total:,}, and the chunks of '{each}' are {sum(chunks):,} together")
    if chunks is not None:
        return Expected(f"'{each}' of '{name}'", tuple(chunks), sum(chunks))
    return None if total is None else Expected(f"'{whole}' of '{name}'", (), total)


def _is_count(given: Any) -> bool:
    return type(given) is int and 0 <= given <= MOST


def _nodes(given: Fields, name: str, number: int) -> NodeType:
    expected = _counts(given, "nodes", number, name)
    if expected is None or expected.all is None:
        raise InvalidError(f"{given.where} has neither 'num_nodes_per_chunk' nor 'num_nodes_per_type'")
    columns = _data(given, "node_data", name, expected)
    masks = [column for column in columns if column.name in _MASKS]
    if len({_MASKS[column.name] for column in masks}) < len(masks):
        raise InvalidError(f"{given.where}: node_data: {name}: has 'val_mask' and 'valid_mask'; leave one")
    others = [column for column in columns if column.name not in _MASKS]
    split = _split(masks, name, free("split", others)) if masks else None
    values = {_MASKS[column.name]: i + 1 for i, column in enumerate(masks)}
    files = [path for column in masks for path in column.paths]
    return NodeType(name, expected.all, others, split=split, split_values=values, files=files)


def _edges(given: Fields, name: str, number: int, nodes: set[str]) -> EdgeType:
    src, rel, dst = edge_type(name, given.where)
    for end in (src, dst):
        if end not in nodes:
            raise InvalidError(f"{given.where}: edge type '{name}' ends at '{end}', which 'node_type' has not")
    expected = _counts(given, "edges", number, name) or Expected("")
    if not given.inner("edges").has(name):
        raise InvalidError(f"{given.where}: 'edges' has no '{name}'")
    spec = given.inner("edges").inner(name)
    form = spec.inner("format")
    kind = form.chosen("name", ("csv", "parquet", "numpy"))
    delimiter = str(form.given.get("delimiter") or ",")
    if len(delimiter) != 1:
        raise InvalidError(f"{form.where}: 'delimiter' is '{delimiter}', expected one character")
    pieces = [_pairs(spec, path, kind, delimiter) for path in spec.texts("data")]
    if not pieces:
        raise InvalidError(f"{spec.where}: 'data' names no file")
    return EdgeType(src, rel, dst, Column("edges", spec.where, tuple(pieces), expected), _data(given, "edge_data", name, expected))


def _pairs(spec: Fields, given: str, kind: str, delimiter: str) -> Piece:
    path = spec.path(given)
    if not path.is_file():
        raise NotFoundError(f"{spec.where}: 'data' is {given}, and {path} is not there")
    if kind == "csv":
        return csv_pairs(path, delimiter)
    piece = spec.array("data", given, kind)
    if piece.width != 2 or piece.dtype.kind not in "iu":
        raise InvalidError(f"{spec.where}: {path} has {max(piece.width, 1)} of {piece.dtype} in a row; an edge is a source and a destination, whole numbers")
    return piece


def _data(given: Fields, kind: str, name: str, expected: Expected) -> list[Column]:
    """What nodes or edges of a type have, in the order of their names in the file."""
    if not given.has(kind) or not given.inner(kind).has(name):
        return []
    of_type = given.inner(kind).inner(name)
    found = []
    for key in of_type.given:
        spec = of_type.inner(key)
        form = spec.inner("format").chosen("name", ("numpy", "parquet"))
        pieces = tuple(spec.array("data", path, form) for path in spec.texts("data"))
        if not pieces:
            raise InvalidError(f"{spec.where}: 'data' names no file")
        found.append(Column(key, spec.where, pieces, expected))
    return found


def _split(masks: Sequence[Column], name: str, column: str) -> Field:
    """Which mask a node is in, from 1 on; 0: none."""
    for mask in masks:
        if mask.width > 1:
            raise InvalidError(f"{mask.where}: '{mask.name}' has {mask.width} numbers in a row; a mask has one")

    def blocks(engine: Engine, _: Path, count: int) -> Iterator[Array]:
        begin = 0
        for several in zip(*(mask.blocks(engine, count) for mask in masks)):
            code = np.zeros(len(several[0]), np.uint8)
            for i, block in enumerate(several):
                if block.dtype.kind == "f" and np.isnan(block).any():
                    node = begin + int(np.flatnonzero(np.isnan(block.reshape(-1)))[0])
                    raise InvalidError(f"{masks[i].where}: node {node} of '{name}' has NaN in '{masks[i].name}'; a mask is 0 or 1")
                inside = block.reshape(-1) != 0
                if len(both := np.flatnonzero(inside & (code != 0))):
                    other = masks[int(code[both[0]]) - 1].name
                    raise InvalidError(f"{masks[i].where}: node {begin + int(both[0])} of '{name}' is in '{other}' and in '{masks[i].name}'; a node is in one split")
                code[inside] = i + 1
            yield code
            begin += len(code)

    of = "; ".join(f"{mask.name}: {', '.join(map(str, mask.paths))}" for mask in masks)
    return Field((column,), np.dtype(np.uint8), 0, of, blocks)
