"""One layer over a block of rows, as it is over the whole graph.

A block's sources have the rows' own nodes first, in the rows' order, where both are of one type: so loops that a layer adds
to nodes of equal numbers are those of the nodes themselves. GCNConv weighs an edge by the degrees of both ends in the whole
graph, which a block does not know: these are computed once, and it is given the weights.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from hopfeed.errors import InvalidError, UnsupportedError
from hopfeed.results.stages import EdgeType

if TYPE_CHECKING:
    from hopfeed.results.graph import Graph


@dataclass
class Block:
    """Consecutive rows of one partition with all their in-edges of one type, or with some of those of a single row.

    Attributes:
        x_source: [M, width] of the sources.
        x_own: [rows, width] of the rows themselves.
        edge_index: [2, E], sources by their place in ``x_source``, and rows.
        edge: arguments of edges, by name.
        sources: dataset ids of the sources; None: no nodes of the graph, but a trial.
        first: dataset id of the first row.
        own_first: whether the rows' own nodes are the first sources.
    """

    x_source: torch.Tensor
    x_own: torch.Tensor
    edge_index: torch.Tensor
    edge: dict[str, torch.Tensor] = field(default_factory=dict)
    sources: torch.Tensor | None = None
    first: int = 0
    own_first: bool = False

    @property
    def rows(self) -> int:
        return len(self.x_own)

    def to(self, device: torch.device) -> Block:
        if device.type == "cpu":
            return self
        moved = {name: value.to(device) for name, value in self.edge.items()}
        sources = None if self.sources is None else self.sources.to(device)
        return Block(
            self.x_source.to(device), self.x_own.to(device), self.edge_index.to(device), moved, sources, self.first, self.own_first
        )


class Convolution:
    """A callable on ``((x_source, x_own), edge_index, **edge)``.

    Args:
        layer: the user's.
        title: what errors call it.
        edge: which attribute of the edges goes by which of its arguments.

    Attributes:
        reduce: how the messages to a row become one (sum, mean, max, min), where a row's edges may come in pieces; else None.
        looks_up: whether rows that no edge begins at cost nothing, and equal places of sources and rows mean nothing: then
            all nodes may be the sources of every block.
    """

    reduce: str | None = None
    looks_up = False

    def __init__(self, layer: Any, title: str, edge: dict[str, str]) -> None:
        self.layer, self.title, self.edge = layer, title, edge

    def prepare(self, graph: Graph, edge_type: EdgeType) -> None:
        """Before the first block."""

    def __call__(self, block: Block) -> torch.Tensor:
        return self.layer((block.x_source, block.x_own), block.edge_index, **block.edge)

    def messages(self, block: Block) -> torch.Tensor:
        """Of the edges of a piece, [E, width]; only with ``reduce``."""
        raise NotImplementedError

    def finish(self, reduced: torch.Tensor, block: Block) -> torch.Tensor:
        """The row of all messages together; ``block`` is one of its pieces."""
        raise NotImplementedError


class Reducing(Convolution):
    """A layer that reduces its sources' rows and knows of them nothing else: SAGEConv, GINConv, GraphConv. What they come to
    stands as the one neighbour, of which sum, mean and maximum are that neighbour."""

    def __init__(self, layer: Any, title: str, edge: dict[str, str]) -> None:
        super().__init__(layer, title, edge)
        reduce = {"add": "sum"}.get(layer.aggr, layer.aggr)
        if reduce in ("sum", "mean", "max", "min") and not getattr(layer, "project", False):
            self.reduce = reduce
        self.looks_up = not getattr(layer, "project", False)

    def messages(self, block: Block) -> torch.Tensor:
        rows = block.x_source[block.edge_index[0]]
        weights = block.edge.get("edge_weight")
        return rows if weights is None else rows * weights.view(-1, 1)

    def finish(self, reduced: torch.Tensor, block: Block) -> torch.Tensor:
        return self.layer((reduced, block.x_own), torch.zeros((2, 1), dtype=torch.int64, device=reduced.device))


class Gcn(Convolution):
    """GCNConv, its edges weighed by degrees of the whole graph."""

    def __init__(self, layer: Any, title: str, edge: dict[str, str]) -> None:
        super().__init__(layer, title, edge)
        self.reduce = "sum" if layer.aggr in ("add", "sum") else None
        self._loop_weight = _fill_of_loops(layer, bool(edge))
        self._scale = self._loops = None

    def prepare(self, graph: Graph, edge_type: EdgeType) -> None:
        if edge_type[0] != edge_type[2]:
            raise UnsupportedError(f"{self.title} weighs edges by degrees, and {edge_type} goes from one type to another; use SAGEConv")
        if self.layer.normalize and self._scale is None:
            degrees, loops = graph.degrees(edge_type, self.edge.get("edge_weight"), self._loop_weight)
            scale = degrees.pow_(-0.5)
            self._scale = scale.masked_fill_(scale == float("inf"), 0).float()
            self._loops = loops.float()

    def _weighed(self, block: Block) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        """Edges without loops, their weights, and those of the rows' own loops; None: all 1, and none."""
        edges, weights = block.edge_index, block.edge.get("edge_weight")
        if not self.layer.normalize:
            return edges, weights, None
        if weights is None:
            weights = torch.ones(edges.shape[1], dtype=block.x_source.dtype, device=edges.device)
        weights = weights.view(-1)
        if block.sources is None or self._scale is None:  # a trial
            scale_source, scale_own, loops = torch.ones(len(block.x_source)), torch.ones(block.rows), torch.ones(block.rows)
        else:
            scale_source = self._scale[block.sources.cpu()]
            own = slice(block.first, block.first + block.rows)
            scale_own, loops = self._scale[own], self._loops[own]
        kind = {"dtype": block.x_source.dtype, "device": edges.device}
        scale_source, scale_own, loops = scale_source.to(**kind), scale_own.to(**kind), loops.to(**kind)
        of_loops = None
        if self.layer.add_self_loops:
            others = edges[0] != edges[1]
            edges, weights = edges[:, others], weights[others]
            of_loops = scale_own * loops * scale_own
        return edges, scale_source[edges[0]] * weights * scale_own[edges[1]], of_loops

    def __call__(self, block: Block) -> torch.Tensor:
        edges, weights, of_loops = self._weighed(block)
        if of_loops is not None:
            own = torch.arange(block.rows, device=edges.device)
            edges, weights = torch.cat([edges, own.expand(2, -1)], 1), torch.cat([weights, of_loops])
        out = self.layer.propagate(edges, x=self.layer.lin(block.x_source), edge_weight=weights, size=(len(block.x_source), block.rows))
        return out if self.layer.bias is None else out + self.layer.bias

    def messages(self, block: Block) -> torch.Tensor:
        edges, weights, _ = self._weighed(block)
        rows = block.x_source[edges[0]]
        return rows if weights is None else rows * weights.view(-1, 1)

    def finish(self, reduced: torch.Tensor, block: Block) -> torch.Tensor:
        of_loops = self._weighed(block)[2]
        if of_loops is not None:
            reduced = reduced + of_loops.view(-1, 1) * block.x_own
        out = self.layer.lin(reduced)
        return out if self.layer.bias is None else out + self.layer.bias


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
    from torch_geometric.nn import GCNConv, GINConv, GraphConv, MessagePassing, SAGEConv

    taken = {argument: attribute for argument, attribute in edge.items() if takes(layer, argument)}
    if isinstance(layer, MessagePassing) and layer.flow != "source_to_target":
        raise UnsupportedError(f"{title} has flow={layer.flow!r}; in-edges are what is stored, so give source_to_target")
    if type(layer) is GCNConv:
        return Gcn(layer, title, taken)
    if type(layer) in (SAGEConv, GINConv, GraphConv):
        return Reducing(layer, title, taken)
    return Convolution(layer, title, taken)


def takes(layer: Any, argument: str) -> bool:
    """Whether a layer has an argument of that name."""
    call = layer.forward if isinstance(layer, torch.nn.Module) else layer
    try:
        return argument in inspect.signature(call).parameters
    except (TypeError, ValueError):
        return False


def require_layer(layer: Any, title: str) -> None:
    """Raises ``InvalidError`` where it cannot be called."""
    if not callable(layer):
        raise InvalidError(f"{title} is {type(layer).__name__}, which cannot be called; give layers as PyG has them")
