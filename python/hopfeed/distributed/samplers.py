"""What a batch is drawn by: DGL's samplers as options of hopfeed's loaders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hopfeed.batch import EdgeType
from hopfeed.errors import InvalidError, UnsupportedError
from hopfeed.loader import fanout_list
from hopfeed.switches import is_switch

Fanout = int | Mapping[EdgeType, int]


@dataclass(frozen=True)
class Uniform:
    """``k`` destinations for each link, uniformly: the batch's ``neg_graph`` keeps the sources."""

    k: int
    kind = "triplet"


@dataclass(frozen=True)
class GlobalUniform:
    """``k`` pairs for each link, both ends drawn uniformly, none of which is an edge of the type."""

    k: int
    kind = "binary"


class NeighborSampler:
    """Neighbours drawn hop by hop.

    **Fanouts run from the seeds outwards**: the first is of the seeds' own neighbours. DGL's run the other way, from the layer that
    reads the input; :meth:`from_dgl` takes them as DGL does.

    Args:
        fanouts: neighbours drawn per node in each hop, -1 takes all; of several edge types a dict for each hop, which names all types
            that are drawn.
        prob: an edge attribute in proportion to which they are drawn.
        replace: with replacement.
        prefetch_node_feats, prefetch_labels, prefetch_edge_feats: attributes that batches have; by default all of nodes, none of edges.
        edge_dir, mask, output_device, fused: DGL's; refused but for their defaults.
    """

    def __init__(
        self,
        fanouts: Sequence[Fanout],
        edge_dir: str = "in",
        prob: str | None = None,
        mask: str | None = None,
        replace: bool = False,
        prefetch_node_feats: Sequence[str] | str | None = None,
        prefetch_labels: Sequence[str] | str | None = None,
        prefetch_edge_feats: Sequence[str] | str | None = None,
        output_device: Any = None,
        fused: bool = True,
    ) -> None:
        if edge_dir != "in":
            raise UnsupportedError(f"edge_dir is {edge_dir!r}, and in-neighbours alone are drawn; import the edges the other way round")
        if mask is not None:
            raise UnsupportedError(f"mask is {mask!r}; give prob= an edge attribute of 0 and 1")
        if output_device is not None:
            raise UnsupportedError("output_device is given; move what you need: block.to(device)")
        self.options: dict[str, Any] = _fanouts(fanouts)
        if prob is not None:
            self.options["weight"] = prob
        if replace:
            self.options["replace"] = True
        nodes = [*_names(prefetch_node_feats), *_names(prefetch_labels)]
        if nodes:
            self.options["attrs"] = list(dict.fromkeys(nodes))
        if prefetch_edge_feats is not None:
            self.options["edge_attrs"] = _names(prefetch_edge_feats)

    @classmethod
    def from_dgl(cls, fanouts: Sequence[Fanout], **others: Any) -> NeighborSampler:
        """With fanouts as DGL has them: the last is of the seeds' own neighbours."""
        return cls(list(fanouts)[::-1], **others)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.options})"


class MultiLayerFullNeighborSampler(NeighborSampler):
    """All neighbours, ``num_layers`` hops deep."""

    def __init__(self, num_layers: int, **others: Any) -> None:
        super().__init__([-1] * num_layers, **others)


@dataclass(frozen=True)
class EdgeSampler:
    """What ``as_edge_prediction_sampler`` gives.

    Attributes:
        exclude: which of the batch's own links message passing does not see: ``"self"``, ``"reverse"``, ``"none"``.
    """

    sampler: NeighborSampler
    exclude: str = "none"
    negative_sampler: Uniform | GlobalUniform | None = None

    def link_options(self) -> dict[str, Any]:
        """Those of a loader of links."""
        options: dict[str, Any] = {"exclude": self.exclude}
        negative = self.negative_sampler
        if negative is not None:
            if not isinstance(negative, (Uniform, GlobalUniform)):
                raise UnsupportedError(f"negative_sampler is {negative!r}; give Uniform(k) or GlobalUniform(k)")
            if is_switch(negative.k) or not isinstance(negative.k, int) or negative.k < 1:
                raise InvalidError(f"k of {type(negative).__name__} is {negative.k!r}; give a whole number from 1 on")
            options |= {"negatives": negative.kind, "amount": negative.k}
            if negative.kind == "binary":
                options["strict"] = True
        return options


_EXCLUDED = {None: "none", "none": "none", "self": "self", "reverse": "reverse", "reverse_id": "reverse", "reverse_types": "reverse"}


def as_edge_prediction_sampler(
    sampler: NeighborSampler,
    exclude: str | None = None,
    reverse_eids: Any = None,
    reverse_etypes: Any = None,
    negative_sampler: Uniform | GlobalUniform | None = None,
) -> EdgeSampler:
    """A sampler for links.

    Args:
        exclude: which of the batch's own links message passing does not see: None, ``"self"``, or ``"reverse"`` (their reverse edges
            too; DGL's ``"reverse_id"`` and ``"reverse_types"`` mean the same). Edges are known by their ends, so parallel ones go too.
        reverse_eids, reverse_etypes: DGL's; refused, since the import knows the reverse of each edge type.
        negative_sampler: :class:`Uniform` or :class:`GlobalUniform`.
    """
    if reverse_eids is not None or reverse_etypes is not None:
        raise UnsupportedError("reverse_eids and reverse_etypes are not taken: the import knows the reverse of an edge type (rev_of); leave them out")
    if not isinstance(exclude, (str, type(None))) or exclude not in _EXCLUDED:
        raise UnsupportedError(f"exclude is {exclude!r}; give None, 'self' or 'reverse'")
    return EdgeSampler(of_nodes(sampler), _EXCLUDED[exclude], negative_sampler)


def of_edges(sampler: Any, negative_sampler: Any, exclude: str | None) -> EdgeSampler:
    """What a loader of links was given, as one."""
    made = sampler if isinstance(sampler, EdgeSampler) else as_edge_prediction_sampler(sampler, exclude, negative_sampler=negative_sampler)
    if made is sampler and (negative_sampler is not None or exclude is not None):
        raise InvalidError("negative_sampler and exclude are given twice, to as_edge_prediction_sampler too; give them once")
    return replace(made)


def of_nodes(sampler: Any) -> NeighborSampler:
    """``sampler``, or what is said of another."""
    if isinstance(sampler, EdgeSampler):
        raise InvalidError("the sampler is of links; give it to DistEdgeDataLoader")
    if not isinstance(sampler, NeighborSampler):
        raise InvalidError(f"sampler is {sampler!r}; give a NeighborSampler or a MultiLayerFullNeighborSampler of hopfeed.distributed")
    return sampler


def _fanouts(given: Sequence[Fanout]) -> dict[str, Any]:
    """Of all edge types, or a list for each that is named, where the others are not drawn."""
    hops = given if isinstance(given, (list, tuple)) else [given]
    if not any(isinstance(hop, Mapping) for hop in hops):
        return {"fanouts": fanout_list("fanouts", given)}
    if not all(isinstance(hop, Mapping) for hop in hops):
        raise InvalidError(f"fanouts is {given!r}; give a number for each hop, or a dict for each")
    types = list(dict.fromkeys(edge for hop in hops for edge in hop))
    by_type = {edge: fanout_list(f"fanouts of {edge}", [hop.get(edge, 0) for hop in hops]) for edge in types}
    return {"fanouts": [0] * len(hops), "edge_fanouts": by_type}


def _names(given: Sequence[str] | str | None) -> list[str]:
    return [given] if isinstance(given, str) else list(given or [])
