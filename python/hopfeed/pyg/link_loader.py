"""PyG's ``LinkNeighborLoader``."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch_geometric.loader
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from hopfeed.batch import EdgeType
from hopfeed.errors import InvalidError
from hopfeed.loader import as_array
from hopfeed.pyg import arguments
from hopfeed.pyg.base import PygBatch, PygLoader
from hopfeed.pyg.graph import Graph
from hopfeed.pyg.torch_loader import Sampling
from hopfeed.tool import PathLike

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from hopfeed.keywords import PygKeywords

# Node attributes that hold the weights of negatives, in the folder that a graph is converted to. Errors name them.
_WEIGHTS = {"src_weight": "neg_sampling.src_weight", "dst_weight": "neg_sampling.dst_weight"}


class LinkNeighborLoader(PygLoader, torch_geometric.loader.LinkNeighborLoader):
    """``torch_geometric.loader.LinkNeighborLoader``, sampled by hopfeed.

    An instance of it, too, and so of torch's ``DataLoader``; of their constructors only the last one runs.

    Arguments, defaults and batches are PyG's (docs/python.md has them all). Each ``iter()`` is the next epoch.

    Args:
        data, num_neighbors, replace, subgraph_type, disjoint, temporal_strategy, time_attr, weight_attr, transform,
            batch_size, shuffle, drop_last, num_workers, seed, edge_ids, rank, world_size, distributed, servers, cache_dir,
            cache_limit, progress, others: as :class:`NeighborLoader` has them.
        edge_label_index: links: None (all edges), int64 [2, P], or with several types (edge type, one of these).
        edge_label: [P], a number for each link.
        edge_label_time: int64 [P], the time of each link.
        neg_sampling: PyG's ``NegativeSampling``, ``"binary"`` or ``"triplet"``; ``neg_sampling_ratio``: binary.
        link_split, edge_type: in place of ``edge_label_index``: the links of this split of a dataset, with its labels and times,
            of the only edge type that has it or of this one.
        strict: no negative is an edge or one of the links.
        exclude: which of the batch's own links message passing does not see: ``"none"`` (as in PyG), ``"self"``,
            ``"reverse"`` (their reverse edges too).
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Sequence[int] | Mapping[EdgeType, Sequence[int]] | Any = None,
        edge_label_index: Any = None,
        edge_label: Any = None,
        edge_label_time: Any = None,
        replace: bool = False,
        subgraph_type: Any = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        neg_sampling: Any = None,
        neg_sampling_ratio: float | None = None,
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        transform_sampler_output: Any = None,
        is_sorted: bool = False,
        filter_per_worker: bool | None = None,
        neighbor_sampler: Any = None,
        directed: bool = True,
        *,
        link_split: str | None = None,
        edge_type: str | EdgeType | None = None,
        strict: bool = False,
        exclude: str = "none",
        batch_size: int = 1,
        shuffle: bool = False,
        num_workers: int = 0,
        seed: int = 0,
        edge_ids: bool = True,
        rank: int | None = None,
        world_size: int | None = None,
        distributed: bool = False,
        servers: Sequence[str] | str | None = None,
        cache_dir: PathLike | None = None,
        cache_limit: int = 1 << 40,
        progress: bool | None = None,
        **others: Unpack[PygKeywords],
    ) -> None:
        options: dict[str, Any] = self._keep_arguments(locals(), others)
        chosen = {"link_split": link_split, "edge_type": edge_type, "edge_label_index": edge_label_index}
        arguments.refuse_both(chosen)
        if link_split is not None:
            _refuse_with_split(data, {"edge_label": edge_label, "edge_label_time": edge_label_time})
        elif (edge_label_time is None) != (time_attr is None):
            absent, given = ("edge_label_time", "time_attr") if edge_label_time is None else ("time_attr", "edge_label_time")
            raise InvalidError(f"'{absent}' is not set and '{given}' is; the links' times and the attribute that tells the others' go together")
        negatives = self.neg_sampling = arguments.negatives(neg_sampling, neg_sampling_ratio)
        if edge_label is not None and negatives is not None and negatives.is_triplet():
            raise InvalidError("edge_label is given with triplet negatives; their batches have src_index, dst_pos_index and dst_neg_index in its place")
        if strict and negatives is None:
            raise InvalidError("strict is of negatives, and none are drawn; give neg_sampling=, or leave it out")
        exclude = "none" if exclude is None else exclude
        data = _with_type_of(edge_label_index, data)
        self._labels: Tensor | None = None
        self._binary = negatives is not None and negatives.is_binary()
        extra, weights = _negative_weights(data, edge_label_index, negatives)

        def start_of(graph: Graph) -> dict[str, Any]:
            if link_split is not None:
                number = arguments.split_number(chosen, graph.edge_names, graph.edge_splits)
                return {"edge_type": graph.edge_names[number], "link_split": link_split, **weights}
            number, links = arguments.links(edge_label_index, graph.edge_keys, graph.edge_index)
            start: dict[str, Any] = {"edge_type": graph.edge_names[number], "links": links, **weights}
            if edge_label_time is not None:
                start["link_times"] = _of_links("edge_label_time", as_array("edge_label_time", edge_label_time, np.int64, 1), len(links))
            if edge_label is not None:
                self._labels = _labels(edge_label, len(links), self._binary)
            return start

        if negatives is not None:
            weights |= {"negatives": negatives.mode.value, "amount": float(negatives.amount), "strict": strict}
        options |= {"transform_sampler_output": transform_sampler_output, "neighbor_sampler": neighbor_sampler}
        options |= {"is_sorted": is_sorted, "filter_per_worker": filter_per_worker}
        super().__init__(
            data,
            num_neighbors=num_neighbors,
            sampling={"replace": replace, "disjoint": disjoint, "temporal_strategy": temporal_strategy, "seed": seed, "exclude": exclude},
            weight_attr=weight_attr,
            time_attr=time_attr,
            subgraph_type=subgraph_type,
            directed=directed,
            extra=extra,
            start_of=start_of,
            fixed={
                "edge_label_index": edge_label_index,
                "edge_label_time": edge_label_time,
                **{f"neg_sampling.{name}": getattr(negatives, name, None) for name in _WEIGHTS},
            },
            transform=transform,
            batch_size=batch_size,
            shuffle=shuffle,
            num_workers=num_workers,
            edge_ids=edge_ids,
            servers=servers,
            cache_dir=cache_dir,
            cache_limit=cache_limit,
            progress=progress,
            rank=rank,
            world_size=world_size,
            distributed=distributed,
            others=options,
        )

    @property
    def link_sampler(self) -> Sampling:  # type: ignore[override]
        """What PyG asks its sampler: ``num_neighbors`` and the other arguments of sampling."""
        return Sampling(self)

    def _finish(self, out: PygBatch) -> PygBatch:
        """Labels of any element type: those of the links, then zeros of the negatives."""
        if self._labels is not None:
            fields = self._assembly.input_fields(out)
            labels = self._labels[fields["input_id"]]
            missing = fields["edge_label_index"].size(1) - len(labels)
            fields["edge_label"] = torch.cat([labels, labels.new_zeros(missing, *labels.shape[1:])]) if missing else labels
        return out


def _refuse_with_split(data: Any, of_links: dict[str, Any]) -> None:
    """Raises ``InvalidError`` for a graph in memory, and for what a split has of its links."""
    if isinstance(data, (Data, HeteroData)):
        raise InvalidError("link_split is of datasets, and data is a graph in memory, which has no splits of edges; give edge_label_index=")
    for name, value in of_links.items():
        if value is not None:
            raise InvalidError(f"{name} and link_split are given, and a split has labels and times of its own; leave {name} out")


def _with_type_of(edge_label_index: Any, data: Any) -> Any:
    """Links may be of a type that has no edges yet: the graph with that type, empty."""
    if not isinstance(data, HeteroData) or not isinstance(edge_label_index, (tuple, list)) or len(edge_label_index) != 2:
        return data
    key = edge_label_index[0]
    if not isinstance(key, tuple) or len(key) not in (2, 3) or key[0] not in data.node_types or key[-1] not in data.node_types:
        return data
    key = key if len(key) == 3 else (key[0], "to", key[1])
    if any((edge[0], edge[2]) == (key[0], key[2]) for edge in data.edge_types):
        return data
    data = copy.copy(data)
    data[key].edge_index = torch.empty(2, 0, dtype=torch.int64)
    return data


def _labels(edge_label: Any, count: int, binary: bool) -> Tensor:
    """Those of the links; beside binary negatives none is theirs, 0."""
    labels = _of_links("edge_label", arguments.as_tensor("edge_label", edge_label), count)
    least = float(labels.min()) if binary and labels.numel() else 1
    if least < 0:
        raise InvalidError(f"edge_label has {least:g}, and negatives have label 0; give labels of 0 or more")
    return labels + 1 if least == 0 else labels


def _of_links(name: str, values: Any, count: int) -> Any:
    if len(values) != count:
        raise InvalidError(f"{name} has {len(values)} entries; there are {count} links")
    return values


def _negative_weights(data: Any, edge_label_index: Any, negatives: Any) -> tuple[dict[Any, Tensor], dict[str, Any]]:
    """(attributes to store beside those of the graph, options of the stream)."""
    given = {name: getattr(negatives, name, None) for name in _WEIGHTS}
    given = {name: value for name, value in given.items() if value is not None}
    if negatives is not None and negatives.is_triplet():
        given.pop("src_weight", None)  # triplets draw no sources, and PyG does not read it either
    if not given:
        return {}, {}
    if not isinstance(data, (Data, HeteroData)):
        of_tensors = [name for name, value in given.items() if not isinstance(value, str)]
        if of_tensors:
            raise InvalidError(f"{of_tensors[0]} is a tensor, and data is no graph in memory; name a node attribute of the dataset")
        return {}, dict(given)
    ends: tuple[Any, Any] = (None, None)
    if isinstance(data, HeteroData):
        key = data.edge_types[arguments.edge_type_number(edge_label_index, data.edge_types)]
        ends = (key[0], key[2])
    extra, options = {}, {}
    for (name, attr), end in zip(_WEIGHTS.items(), ends):
        if name not in given:
            continue
        store = data._store if end is None else data[end]
        if isinstance(given[name], str):  # an attribute's name, as hopfeed has it: stored whoever reads the rows
            attr = given[name]
            value = store.get(attr)
            if value is None:
                where = "data" if end is None else f"data[{end!r}]"
                raise InvalidError(f"neg_sampling.{name} is {attr!r}, which {where} has not; give a tensor, or a node attribute")
        else:
            value = arguments.as_tensor(f"neg_sampling.{name}", given[name])
            while attr in store:  # an attribute of the graph's own
                attr += "_"
        if isinstance(value, Tensor):
            value = value.detach()
            extra[end, attr] = value if value.dtype in (torch.float32, torch.float64, torch.int32, torch.int64) else value.float()
        options[name] = attr
    return extra, options


