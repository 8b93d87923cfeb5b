"""One layer over a block of rows, as it is over the whole graph.

Layers that sum their neighbours' rows, take their mean, maximum or minimum, and know of them nothing else, are computed from
that alone: no row is copied for each edge, and a node may have any number of them. GCNConv weighs an edge by the degrees of
both ends in the whole graph, which a block does not know: these are computed once. All other layers, and of the first those that
are not as their class made them (a hook for messages), are called with a block of edges. Its sources have the rows' own nodes
first, in the rows' order, where both are of one type: so loops that a layer adds to nodes of equal numbers are those of the nodes
themselves.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.utils.parametrize import type_before_parametrizations

from hopfeed.errors import InvalidError, UnsupportedError
from hopfeed.results.alterations import alteration
from hopfeed.results.rows import Rows
from hopfeed.results.stages import EdgeType

if TYPE_CHECKING:
    from hopfeed.results.graph import Graph
    from hopfeed.results.tables import Table, Tables


@dataclass
class Block:
    """Consecutive rows of one partition with all their in-edges of one type.

    Attributes:
        x_source: [M, width] of the sources.
        x_own: [rows, width] of the rows themselves.
        edge_index: [2, E], sources by their place in ``x_source``, and rows.
        edge: arguments of edges, by name.
    """

    x_source: torch.Tensor
    x_own: torch.Tensor
    edge_index: torch.Tensor
    edge: dict[str, torch.Tensor] = field(default_factory=dict)

    def to(self, device: torch.device) -> Block:
        if device.type == "cpu":
            return self
        moved = {name: value.to(device) for name, value in self.edge.items()}
        return Block(self.x_source.to(device), self.x_own.to(device), self.edge_index.to(device), moved)


@dataclass
class Edges:
    """Some edges, of which a layer wants the weights.

    Attributes:
        sources, own: dataset ids of both ends.
        given: arguments of edges, by name.
    """

    sources: torch.Tensor
    own: torch.Tensor
    given: dict[str, torch.Tensor]


@dataclass
class Reduced:
    """Consecutive rows, and what their neighbours' rows reduce to.

    Attributes:
        neighbours: [rows, width of the sources].
        x_own: [rows, width] of the rows themselves.
        first: dataset id of the first row.
    """

    neighbours: torch.Tensor
    x_own: torch.Tensor
    first: int = 0

    def to(self, device: torch.device) -> Reduced:
        return Reduced(self.neighbours.to(device), self.x_own.to(device), self.first)


class Convolution:
    """A layer that is called on ``((x_source, x_own), edge_index, **edge)``, with all edges of a row at once.

    Args:
        layer: the user's.
        title: what errors call it.
        edge: which attribute of the edges goes by which of its arguments.
    """

    arguments = "(x_source, x_own), edge_index"

    def __init__(self, layer: Any, title: str, edge: dict[str, str]) -> None:
        self.layer, self.title, self.edge = layer, title, edge

    def prepare(self, graph: Graph, edge_type: EdgeType, tables: Tables) -> None:
        """Before the first block."""

    def shared(self, edge_type: EdgeType) -> list[Table]:
        """Tables that it makes beside the layers' own, which machines ask each other for."""
        return []

    def __call__(self, block: Block) -> torch.Tensor:
        return self.layer((block.x_source, block.x_own), block.edge_index, **block.edge)


class Plain(Convolution):
    """A layer that is called on ``(x_source, x_own, edge_index, **edge)``."""

    arguments = "x_source, x_own, edge_index"

    def __call__(self, block: Block) -> torch.Tensor:
        return self.layer(block.x_source, block.x_own, block.edge_index, **block.edge)


class Reducing(Convolution):
    """A layer that needs no more of a row's neighbours than what they reduce to: SAGEConv, GINConv, GraphConv. That stands as
    the one neighbour, of which sum, mean, maximum and minimum are that neighbour.

    Attributes:
        reduce: sum, mean, max or min.
        weighs: whether edges have weights.
    """

    def __init__(self, layer: Any, title: str, edge: dict[str, str]) -> None:
        super().__init__(layer, title, edge)
        self.reduce = reduction_of(layer)
        self.weighs = bool(edge)

    def weights(self, edges: Edges) -> torch.Tensor:
        """What the rows of the sources are multiplied by."""
        return edges.given["edge_weight"]

    def finish(self, reduced: Reduced) -> torch.Tensor:
        """The layer's rows."""
        itself = torch.arange(len(reduced.x_own), device=reduced.x_own.device).expand(2, -1)
        return self.layer((reduced.neighbours, reduced.x_own), itself)


class Gcn(Reducing):
    """GCNConv, its edges weighed by degrees of the whole graph: row i is s_i (the sum of s_j w_ji x_j) + s_i^2 l_i x_i, where
    s is a degree's inverse root and l what the loop weighs."""

    def __init__(self, layer: Any, title: str, edge: dict[str, str]) -> None:
        super().__init__(layer, title, edge)
        self._loop_weight = _fill_of_loops(layer, bool(edge))
        self._scale: Rows | None = None
        self._loops: Rows | None = None
        self.weighs = layer.normalize or bool(edge)

    def prepare(self, graph: Graph, edge_type: EdgeType, tables: Tables) -> None:
        if edge_type[0] != edge_type[2]:
            raise UnsupportedError(f"{self.title} weighs edges by degrees, and {edge_type} goes from one type to another; use SAGEConv")
        if not self.layer.normalize or self._scale is not None:
            return
        scales, loops = [], []
        for part in graph.parts:
            degrees, loop = graph.degrees(edge_type, part, self.edge.get("edge_weight"), self._loop_weight)
            with np.errstate(divide="ignore", invalid="ignore"):
                scale = degrees**-0.5
            scales.append(np.where(np.isinf(scale), 0, scale).astype(np.float32).reshape(-1, 1))
            loops.append(loop.astype(np.float32).reshape(-1, 1))
        self._loops = tables.own(edge_type[2], loops)
        self._scale = tables.shared(self.shared(edge_type)[0], edge_type, scales)

    def shared(self, edge_type: EdgeType) -> list[Table]:
        if not self.layer.normalize:
            return []
        what = "/".join([*edge_type, self.edge.get("edge_weight", ""), str(self._loop_weight)])
        return [(f"degrees.{hashlib.sha256(what.encode()).hexdigest()[:16]}", edge_type[2])]

    def weights(self, edges: Edges) -> torch.Tensor:
        given = edges.given.get("edge_weight")
        if not self.layer.normalize:
            assert given is not None
            return given
        assert self._scale is not None
        weights = self._scale[edges.sources].flatten()
        if given is not None:
            weights *= given
        if self.layer.add_self_loops:  # instead of those that there are
            weights[edges.sources == edges.own] = 0
        return weights

    def finish(self, reduced: Reduced) -> torch.Tensor:
        neighbours = reduced.neighbours
        if self._scale is not None and self._loops is not None:
            scale, loops = (rows.run(reduced.first, len(reduced.x_own)).to(neighbours) for rows in (self._scale, self._loops))
            neighbours = neighbours * scale
            if self.layer.add_self_loops:
                neighbours += scale.square() * loops * reduced.x_own
        out = self.layer.lin(neighbours)
        return out if self.layer.bias is None else out + self.layer.bias


def reduction_of(layer: Any) -> str | None:
    """How the messages to a row become one, where that is a sum, a mean, a maximum or a minimum."""
    from torch_geometric.nn.aggr import MaxAggregation, MeanAggregation, MinAggregation, SumAggregation

    known = {SumAggregation: "sum", MeanAggregation: "mean", MaxAggregation: "max", MinAggregation: "min"}
    return None if getattr(layer, "project", False) else known.get(type(layer.aggr_module))


def _fill_of_loops(layer: Any, weighted: bool) -> float:
    """What a loop weighs that GCNConv adds: 0 where it adds none. PyG's own rule is asked, on a graph of two nodes and an edge."""
    from torch_geometric.nn.conv.gcn_conv import gcn_norm

    if not (layer.normalize and layer.add_self_loops):
        return 0.0
    weight = torch.ones(1) if weighted else None
    _, weights = gcn_norm(torch.tensor([[0], [1]]), weight, 2, layer.improved, True, layer.flow, torch.float64)
    loop = float(weights[-1])  # fill / (1 + fill)
    return round(loop / (1 - loop), 6)


def convolution(layer: Any, title: str, edge: dict[str, str]) -> Convolution:
    """How ``layer`` is computed by blocks; ``edge`` has the attributes that are there by the names of arguments.

    Raises:
        UnsupportedError: it cannot be; the message names it.
    """
    from torch_geometric.nn import GCNConv, GINConv, GraphConv, SAGEConv

    taken = {argument: attribute for argument, attribute in edge.items() if takes(layer, argument)}
    flow = getattr(layer, "flow", "source_to_target")  # of a compiled layer too
    if flow == "target_to_source":
        raise UnsupportedError(f"{title} has flow={flow!r}; in-edges are what is stored, so give source_to_target")
    kind = type_before_parametrizations(layer) if isinstance(layer, torch.nn.Module) else None
    if kind is GCNConv:
        _require_weighted_sum(layer, title)
        return Gcn(layer, title, taken)
    if kind in (SAGEConv, GINConv, GraphConv) and reduction_of(layer) and not (_altered(layer) or _altered(layer.aggr_module)):
        return Reducing(layer, title, taken)
    return (Plain if _wants_three(layer) else Convolution)(layer, title, taken)


def _altered(module: torch.nn.Module) -> str:
    return alteration(module, called=True)


def _require_weighted_sum(layer: Any, title: str) -> None:
    """Raises ``UnsupportedError`` where a GCNConv gives other rows than the weighted sum of its neighbours', times its matrix: it is not
    called on blocks, whose degrees are not the whole graph's."""
    from torch_geometric.nn import Linear

    if reduction_of(layer) != "sum":
        what = f"aggr={layer.aggr!r}" if layer.aggr not in ("add", "sum") else f"the aggr_module {type(layer.aggr_module).__name__}"
        raise UnsupportedError(f"{title} has {what}; give a GCNConv that adds, as it does by itself")
    for named, what in (
        (title, alteration(layer, called=False)), (f"lin of {title}", _altered(layer.lin)), (f"aggr_module of {title}", _altered(layer.aggr_module)),
    ):  # fmt: skip
        if what:
            raise UnsupportedError(
                f"{named} has {what}, which would not run as in a forward, since GCNConv is computed by the degrees of the whole graph; "
                "remove that, and do to the rows what it does in act=, or in a function in the list of layers"
            )
    if type_before_parametrizations(layer.lin) not in (Linear, torch.nn.Linear) or layer.lin.bias is not None:
        raise UnsupportedError(f"lin of {title} is no Linear without bias (a {type(layer.lin).__name__}); give a GCNConv with the one that it makes")


def takes(layer: Any, argument: str) -> bool:
    """Whether a layer has an argument of that name."""
    return argument in _parameters(layer)


def _wants_three(layer: Any) -> bool:
    """Whether sources' and own rows are two of its arguments, and not a pair."""
    wanted = [
        name for name, parameter in _parameters(layer).items()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD) and parameter.default is parameter.empty
    ]  # fmt: skip
    return len([name for name in wanted if name not in ("edge_weight", "edge_attr")]) == 3


def _parameters(layer: Any) -> Mapping[str, inspect.Parameter]:
    call = layer.forward if isinstance(layer, torch.nn.Module) else layer
    try:
        return inspect.signature(call).parameters
    except (TypeError, ValueError):
        return {}


def require_layer(layer: Any, title: str) -> None:
    """Raises ``InvalidError`` where it cannot be called."""
    if not callable(layer):
        raise InvalidError(f"{title} is {type(layer).__name__}, which cannot be called; give layers as PyG has them")
