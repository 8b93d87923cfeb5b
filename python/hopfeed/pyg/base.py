"""What PyG's two loaders share: where batches come from, the options of hopfeed, transforms, one batch by itself."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

import numpy as np
from torch import Tensor
from torch.utils.data import IterableDataset
from torch_geometric.data import Data, HeteroData

from hopfeed import _core
from hopfeed.epochs import EpochIterable
from hopfeed.errors import Error, InvalidError, UnsupportedError
from hopfeed.loader import as_array, loader_options
from hopfeed.pyg import arguments, samplers
from hopfeed.pyg.assembly import Assembly
from hopfeed.pyg.graph import Graph, open_graph
from hopfeed.pyg.torch_loader import TorchLoader
from hopfeed.pyg.written import EDGE, NODE, Inputs
from hopfeed.streams import note_streams
from hopfeed.switches import refuse_switches
from hopfeed.tool import PathLike

PygBatch = Union[Data, HeteroData]

# Options that say how servers are reached.
_REMOTE = (
    "token_file", "tls", "tls_ca", "tls_cert", "tls_key", "connect_all", "batches_ahead", "connect_timeout", "reconnect_deadline", "cache",
)  # fmt: skip
# Options that name attributes which draws go by, beside weight_attr and time_attr.
_OF_DRAWS = ("seed_time", "cluster", "src_weight", "dst_weight")
# Options that act on rows that hopfeed reads, or name such rows.
_OF_STORED_ROWS = ("features_from", "row_cache_bytes", "check_finite", "graph_mode", "cpu_fallback", "gpu_cache", "gpu_graph_cache", "pin_slots", "plugins", *_OF_DRAWS)
# Keys of a spec's batch that say who reads a graph's attributes, hopfeed or Python: the batch is the same.
_OF_READERS = ("attrs", "edge_attrs", "edge_ids")


class PygLoader(EpochIterable[PygBatch], TorchLoader, IterableDataset):  # type: ignore[misc]
    """Iterates PyG batches. ``loader.data`` is a copy of the graph: attributes may be deleted, added or replaced there, and
    batches follow from the next ``iter()`` on. Where batches come from a folder or from servers it is what was given.
    """

    def __init__(
        self,
        data: Any,
        *,
        num_neighbors: Any,
        sampling: dict[str, Any],
        weight_attr: str | None,
        time_attr: str | None,
        subgraph_type: Any,
        directed: bool,
        extra: dict[Any, Any],
        start_of: Callable[[Graph], dict[str, Any]],
        fixed: dict[str, Any],
        transform: Callable[[Any], Any] | None,
        batch_size: int,
        shuffle: bool,
        num_workers: int,
        edge_ids: bool,
        servers: Sequence[str] | str | None,
        cache_dir: PathLike | None,
        cache_limit: int,
        progress: bool | None,
        rank: int | None,
        world_size: int | None,
        distributed: bool,
        others: dict[str, Any],
    ) -> None:
        if transform is not None and not callable(transform):
            raise InvalidError(f"transform is {transform!r}; give a function of a batch")
        arguments.refuse_none(
            {**sampling, **others, "subgraph_type": subgraph_type, "directed": directed, "batch_size": batch_size, "num_workers": num_workers}
        )
        refuse_switches({**sampling, **others, "batch_size": batch_size, "num_workers": num_workers, "cache_limit": cache_limit})
        edge_ids, shuffle = edge_ids is None or edge_ids, False if shuffle is None else shuffle
        of_torch = {**others, "batch_size": batch_size, "shuffle": shuffle, "num_workers": num_workers}
        others = arguments.take_torch_arguments(others)
        sampler = others.pop("sampler", None) if not isinstance(others.get("sampler"), str) else None
        batch_sampler = others.pop("batch_sampler", None)
        if batch_sampler is not None:
            cut = samplers.of_batch_sampler(batch_sampler)
            sampler, batch_size, others["drop_last"] = cut["sampler"], cut["batch_size"], cut["drop_last"]
        asked = {name: others.pop(name, None) for name in ("attrs", "edge_attrs")}
        remote = {name: others.pop(name) for name in _REMOTE if name in others}
        if remote and servers is None:
            raise InvalidError(f"{next(iter(remote))} is of servers, and none are given; give servers=, or leave it out")
        if "seed_weights" in others:
            others["seed_weights"] = as_array("seed_weights", others["seed_weights"], np.float64, 1)
        # Workers read rows from a folder that they share; the calling thread reads them from the graph's own tensors.
        rows = bool(num_workers) or any(others.get(name) for name in _OF_STORED_ROWS)
        graph = open_graph(
            data, servers, remote, weight=weight_attr, time_attr=time_attr, extra=extra, rows=rows, cache_dir=cache_dir,
            cache_limit=1 << 40 if cache_limit is None else cache_limit, progress=progress,
        )  # fmt: skip
        in_memory = copy.copy(data) if isinstance(data, (Data, HeteroData)) else None
        self.data: Any = data if in_memory is None else in_memory
        self.transform = transform
        start = start_of(graph)
        if others.get("sampler") == "cluster":  # which takes all clusters where it is given no ids
            start = graph.with_ids(start)
            if "split" in start:
                raise InvalidError("split is of seeds that lie on other machines, and sampler 'cluster' takes clusters by ids; give input_nodes=")
        ordered: dict[str, Any] = {}
        if sampler is not None:
            if shuffle:
                raise InvalidError("sampler and shuffle=True are given; a sampler decides the order: leave shuffle out")
            ordered = samplers.options_of(sampler, graph.num_seeds(start))
            shuffle = ordered.pop("shuffle")
            if "seed_weights" in ordered and "seed_weights" in others:
                raise InvalidError(f"seed_weights and sampler={type(sampler).__name__} both say how seeds are drawn; give one of them")
        edge_types = [key for key in graph.edge_keys if key is not None]
        subgraph = arguments.subgraph(subgraph_type, directed)
        chosen = arguments.fanouts(num_neighbors, edge_types, graph.typed, others.get("sampler"), subgraph)
        if "edge_fanouts" in chosen:
            names = dict(zip(graph.edge_keys, graph.edge_names))
            chosen["edge_fanouts"] = {names[key]: value for key, value in chosen["edge_fanouts"].items()}
        # Where a reverse stands in for an edge of another type, nothing is known of the edge itself (as in PyG).
        edges_known = not (graph.typed and subgraph == "bidirectional")
        inputs = _inputs(graph, {**sampling, **start, **others}, time_attr, subgraph)
        drawn_by = {"weight_attr": weight_attr, "time_attr": time_attr, **{name: {**start, **others}.get(name) for name in _OF_DRAWS}}
        draws = {name: argument for argument, name in drawn_by.items() if isinstance(name, str)}
        self._assembly = Assembly(graph, in_memory, inputs, draws=draws, fixed=fixed, asked=asked, edge_ids=edge_ids, edges_known=edges_known)
        self._graph = graph
        placed = loader_options(
            dataset=graph.options.get("dataset"), servers=graph.options.get("servers"), rank=rank, world_size=world_size, distributed=distributed
        )  # fmt: skip
        placed |= samplers.placed_by(ordered, placed)
        options = {
            **graph.options, **placed, **chosen, **sampling, **start, **ordered, **self._assembly.options, "weight": weight_attr, "time": time_attr,
            "subgraph": subgraph, "batch_size": batch_size, "shuffle": shuffle, "num_workers": num_workers, **others,
        }  # fmt: skip
        self._asked = 0  # calls
        self._told_of_epoch = False
        self._sampler, self._batch_sampler = sampler, batch_sampler
        super().__init__(options)
        self._be_torch_loader(self.num_seeds, of_torch)

    def _new_stream(self) -> _core.Stream:
        try:
            return super()._new_stream()
        except Error as error:
            raise arguments.in_pygs_words(error, self._graph.options.get("dataset") if self._graph.planned else None) from None

    def __iter__(self) -> Any:
        self._follow_sampler()
        assembly = copy.copy(self._assembly)  # older iterators keep theirs
        changed = assembly.refresh()
        self._assembly = assembly
        if changed:
            self._reopen(**assembly.options)
        return super().__iter__()

    def _converter(self) -> Callable[[_core.Batch], PygBatch]:
        assembly = self._assembly

        seen = samplers.begin_to_note(self._batch_sampler)

        def convert(batch: _core.Batch) -> PygBatch:
            note_streams(batch, self._options)
            out = self._finish(assembly(batch))
            positions = None if seen is None else self._positions(assembly.input_fields(out)["input_id"])
            out = out if self.transform is None else self.transform(out)
            if seen is not None:
                seen.append(positions)
            return out

        return convert

    def _positions(self, input_id: Tensor) -> list[int]:
        """Positions of seeds, which input_id tells but for a mask, of which it tells the nodes."""
        if "seed_mask" in self._options:
            return list(np.searchsorted(np.flatnonzero(self._options["seed_mask"]), input_id.numpy()))
        return list(input_id.tolist())

    def _follow_sampler(self) -> None:
        """The next epoch is that of a ``DistributedSampler`` (``set_epoch``)."""
        epoch = samplers.epoch_of(self._sampler)
        if epoch is None or epoch == self._next_epoch:
            return
        place = self._place
        if place is not None and place.finished and place.epoch == epoch and self._options["shuffle"] and not self._told_of_epoch:
            self._told_of_epoch = True
            warnings.warn(
                f"the sampler's epoch is still {epoch}: the batches are those of the epoch before. Call sampler.set_epoch(epoch) before each",
                stacklevel=3,
            )
        self._next_epoch, self._resume_at = epoch, 0

    def _epoch_now(self, epoch: int) -> int:
        set_to = samplers.epoch_of(self._sampler)
        return epoch if set_to is None else set_to

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        if samplers.epoch_of(self._sampler) is not None:
            self._sampler.set_epoch(self._next_epoch)

    @property
    def spec(self) -> dict[str, Any]:
        """Everything that decides the batches: what a bug report and a checkpoint need."""
        told = super().spec
        if self._graph.fingerprint is not None:
            told["fingerprint"] = self._graph.fingerprint
            told["batch"] = {name: value for name, value in told["batch"].items() if name not in _OF_READERS}
        return told

    def _finish(self, out: PygBatch) -> PygBatch:
        """What a loader adds to its batches."""
        return out

    def __call__(self, index: Any) -> PygBatch:
        """The batch of some positions of ``input_nodes`` (or ``edge_label_index``), by itself: int64 [B], in this process.

        Each call draws anew; the calls of two loaders of one seed draw alike.
        """
        assembly = copy.copy(self._assembly)
        assembly.refresh()
        options, positions = self._options_of(index)
        options |= assembly.options
        stream = _core.Stream(options)
        stream.begin_epoch(self._number_of_call(self._asked))
        self._asked += 1
        batch = stream.next()
        assert batch is not None
        out = assembly(batch)
        fields = assembly.input_fields(out)
        fields["input_id"] = positions[fields["input_id"]]
        stream.close()
        out = self._finish(out)
        return out if self.transform is None else self.transform(out)

    def _options_of(self, index: Any) -> tuple[dict[str, Any], Tensor]:
        """Of a stream of one batch; and what its input_id is to become."""
        import torch

        flat = index.reshape(-1) if isinstance(index, Tensor) else np.asarray(index).reshape(-1)
        ids = as_array("index", flat, np.int64, 1)
        if not ids.size:
            raise InvalidError("index is empty; give positions")
        given = self._graph.with_ids(self._options)
        options = {name: value for name, value in given.items() if name not in ("rank", "world_size", "drop_last", "seed_weights", "seed_mask")}
        options |= {"batch_size": len(ids), "shuffle": False, "num_workers": 0}
        positions = torch.from_numpy(ids)
        if not given.keys() & {"seeds", "seed_mask", "links"}:
            what = next((f"{name}={given[name]!r}" for name in ("split", "link_split") if name in given), "clusters")
            argument = "edge_label_index" if "edge_type" in given else "input_nodes"
            raise UnsupportedError(f"a batch of positions of {what} cannot be made here; give the loader {argument}=, the same by id")
        if "seed_mask" in given:
            nodes = np.flatnonzero(given["seed_mask"])
            options["seeds"] = _rows("index", nodes, ids)
            positions = torch.from_numpy(options["seeds"])
        for name in ("seeds", "seed_times", "links", "link_labels", "link_times"):
            if name in given:
                options[name] = _rows("index", given[name], ids)
        return options, positions


def _inputs(graph: Graph, options: dict[str, Any], time_attr: str | None, subgraph: str) -> Inputs:
    links = "edge_type" in options
    return Inputs(
        place=(EDGE, graph.edge_names.index(options["edge_type"])) if links else (NODE, graph.node_names.index(options["node_type"])),
        triplets=options.get("negatives") == "triplet",
        trees=bool(options.get("disjoint")) or time_attr is not None,
        hops=subgraph == "directional" or bool(options.get("keep_orig_edges")),
        drawn=subgraph == "bidirectional" and bool(options.get("keep_orig_edges")),
        timed="link_times" in options or "link_split" in options or "seed_times" in options,
        path=tuple(_edge_number(graph, name) for name in options.get("metapath", ())) or (0,),
    )


def _edge_number(graph: Graph, name: str) -> int:
    """Of an edge type by its whole name or its relation. One that is not there is refused where the stream is opened."""
    return next((number for number, edge in enumerate(graph.edge_names) if name in (edge, edge.split("__")[1])), 0)


def _rows(name: str, array: np.ndarray[Any, Any], ids: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if ids.min() < -len(array) or ids.max() >= len(array):
        raise InvalidError(f"{name} has {ids.max() if ids.max() >= len(array) else ids.min()}; there are {len(array)} positions")
    return np.ascontiguousarray(array[ids])
