"""What the neighbours of consecutive rows reduce to. Rows of numbers are read where they lie; others, and edges with weights, come
piece by piece, so that no node has too many edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from hopfeed.results.convolutions import Edges, Reducing
from hopfeed.results.graph import Graph
from hopfeed.results.rows import Rows
from hopfeed.results.stages import Relation

Array = np.ndarray[Any, Any]
_FROM = {"sum": 0.0, "mean": 0.0, "max": float("-inf"), "min": float("inf")}


def reduced(graph: Graph, relation: Relation, rows: Rows, part: int, begin: int, bounds: Array, limit: int) -> torch.Tensor:
    """[rows, width], 0 for rows without edges.

    Args:
        rows: of the sources.
        begin: the first row, by its number in the partition.
        bounds: where its edges begin, those of each further row, and where the last ones end.
        limit: edges of a piece.
    """
    convolution = relation.convolution
    assert isinstance(convolution, Reducing) and convolution.reduce is not None
    kind = "sum" if convolution.reduce == "mean" else convolution.reduce
    out = torch.full((len(bounds) - 1, rows.width), _FROM[kind], dtype=rows.numbers)
    if rows.are_numbers and not convolution.weighs:
        limit = max(1, int(bounds[-1] - bounds[0]))
    for at in range(int(bounds[0]), int(bounds[-1]), limit):
        first, last = int(np.searchsorted(bounds, at, "right")) - 1, int(np.searchsorted(bounds, at + limit, "left"))
        piece = np.clip(bounds[first : min(last, len(bounds) - 1) + 1], at, at + limit)
        _reduce(graph, relation, rows, part, begin + first, piece, kind, out[first : first + len(piece) - 1])
    degrees = torch.from_numpy(np.diff(bounds)).view(-1, 1)
    if convolution.reduce == "mean":
        out /= degrees.clamp(min=1)
    elif kind != "sum":
        out.masked_fill_(degrees == 0, 0)
    return out


def _reduce(graph: Graph, relation: Relation, rows: Rows, part: int, begin: int, bounds: Array, kind: str, out: torch.Tensor) -> None:
    """Of a piece of the edges, into ``out``."""
    convolution, edge_type = relation.convolution, relation.edge_type
    assert isinstance(convolution, Reducing)
    weights = None
    if convolution.weighs:
        first, last = int(bounds[0]), int(bounds[-1])
        own = np.repeat(np.arange(begin, begin + len(out)) + graph.partition_offsets(edge_type[2])[part], np.diff(bounds))
        given = {argument: graph.edge_rows(edge_type, attribute, part, first, last, out.dtype) for argument, attribute in convolution.edge.items()}
        weights = convolution.weights(Edges(graph.sources(edge_type, part, first, last), torch.from_numpy(own), given)).to(out.dtype)
    if rows.are_numbers:
        indices, path = graph.indices(edge_type, part)
        rows.reduce(indices, bounds, weights, kind, out, path)
    else:  # as numbers first, each once
        sources, edges = graph.block(edge_type, part, bounds, -1)
        numbers = Rows([rows[sources].to(out.dtype).numpy()], {"name": "x", "element_type": str(out.dtype).removeprefix("torch."), "shape": [rows.width]}, out.dtype)
        numbers.reduce(edges[0].numpy(), bounds - bounds[0], weights, kind, out, "edges")
