"""Loaders by DGL's names: hopfeed's own over a folder, peers or servers, whose batches are DGL's blocks or PyG's."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

import hopfeed.torch
from hopfeed.agreement import OwnSeeds
from hopfeed.batch import EdgeType
from hopfeed.distributed.blocks import ID, MiniBatch, blocks_of, pairs_of_batch
from hopfeed.distributed.graph import DistGraph
from hopfeed.distributed.nodes import Nodes
from hopfeed.distributed.place import rank_and_world
from hopfeed.distributed.refused import OF_LOADERS
from hopfeed.distributed.samplers import NeighborSampler, of_edges, of_nodes
from hopfeed.distributed.split import pairs_of
from hopfeed.epochs import EpochIterable
from hopfeed.errors import InvalidError, UnsupportedError

# What hopfeed.Loader's options are called by PyG's loaders.
_OF_PYG = {"fanouts": "num_neighbors", "weight": "weight_attr", "time": "time_attr"}
_HERE_ONLY = ("num_workers", "cores", "worker_concurrency", "row_cache_bytes", "window", "features_from")  # of who samples itself


class DistLoader:
    """What both loaders are: each ``iter()`` is the next epoch of the seeds that this trainer was given.

    A batch depends on the dataset, the sampler, the seeds and ``seed``, and on nothing else: it is the same over a folder, peers and
    servers. Each rank draws by a seed of its own, :func:`seed_of_rank`, since trainers that draw alike would learn less; with
    ``distributed=True`` the seeds are the same at all ranks, who share each epoch.

    Raises:
        InvalidError: where an epoch begins and ``shuffle`` is on: another rank has another graph, cut or options, which it names.
    """

    _as_pyg: bool

    def __init__(self, g: DistGraph, device: Any, options: dict[str, Any]) -> None:
        if device is not None and str(device) != "cpu":
            raise UnsupportedError(f"device is {device!r}, and batches lie in the host's memory; move them: block.to(device), of PyG batch.to(device)")
        options = _without_dgls(options)
        if not self._as_pyg and options["fanouts"] == []:
            raise InvalidError("fanouts is [], and there is a block for each hop; give a number of neighbours for each, or as_pyg=True")
        place = g._nodes.place
        if place.servers:
            options = {name: value for name, value in options.items() if name not in _HERE_ONLY}
        else:
            options.setdefault("num_workers", place.num_workers)
        given = None
        if not options.get("distributed") and options.get("world_size") is None:
            given = options.get("seed", 0)
            options["seed"] = seed_of_rank(given, rank_and_world()[0])
        if "edge_fanouts" in options:
            options["edge_fanouts"] = {g._nodes.edge_key(edge): fanouts for edge, fanouts in options["edge_fanouts"].items()}
        self._graph, self._options = g, g._nodes.options | options
        self._typed = len(g.ntypes) > 1 or len(g.etypes) > 1
        self._loader = self._open()
        self._notice: OwnSeeds | None = None
        if given is not None and self._options.get("shuffle"):  # who evaluates may do it at one rank
            self._notice = OwnSeeds(g._nodes.known_by, self._loader.spec, self._loader.stream.deal(), given)

    def _open(self) -> EpochIterable[Any]:
        raise NotImplementedError

    def _convert(self, batch: Any) -> Any:
        raise NotImplementedError

    def _of_pyg(self) -> dict[str, Any]:
        """The options as arguments of ``hopfeed.pyg``'s loaders."""
        named = {_OF_PYG.get(name, name): value for name, value in self._options.items()}
        by_type = named.pop("edge_fanouts", None)
        if by_type:
            named["num_neighbors"] = {edge: by_type.get(edge, named["num_neighbors"]) for edge in self._graph.canonical_etypes}
        return {"data": named.pop("dataset", None), **named}

    def __iter__(self) -> Iterator[Any]:
        if self._notice is not None:
            self._notice.begin()
        return map(self._convert, iter(self._loader))

    def __len__(self) -> int:
        """Batches of an epoch for this trainer."""
        return len(self._loader)

    @property
    def loader(self) -> EpochIterable[Any]:
        """The loader of ``hopfeed.torch`` or ``hopfeed.pyg`` that batches come from."""
        return self._loader

    @property
    def epoch(self) -> int:
        """The running epoch, else the next one."""
        return self._loader.epoch

    def stats(self) -> dict[str, Any]:
        """Counts and seconds so far."""
        return self._loader.stats()

    def state_dict(self) -> dict[str, Any]:
        """Where the iteration is, for a checkpoint."""
        return self._loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next ``iter()`` goes on there."""
        self._loader.load_state_dict(state)

    def close(self) -> None:
        """Ends the workers, or the connections."""
        self._loader.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def seed_of_rank(seed: int, rank: int) -> int:
    """By what a rank's loader draws where all ranks give ``seed``: itself at rank 0, at others 63 bits of a hash (SHA-256) of both, so
    that no rank of a run draws as one of a run of another seed does."""
    return seed if rank == 0 else int.from_bytes(hashlib.sha256(f"{seed}/{rank}".encode()).digest()[:8], "little") >> 1


class DistNodeDataLoader(DistLoader):
    """Batches of nodes: ``input_nodes, output_nodes, blocks``, with the rows of the input in ``blocks[0].srcdata`` and those of the
    output, labels too, in ``blocks[-1].dstdata``.

    Args:
        g: the graph.
        nids: the seeds, original ids, such as ``node_split`` gives; with several types ``{type: ids}`` of one.
        sampler: a :class:`NeighborSampler`.
        device: DGL's; batches lie in the host's memory.
        batch_size, shuffle, drop_last: as of ``hopfeed.torch.Loader``.
        seed: of everything random.
        as_pyg: batches are PyG's ``Data`` or ``HeteroData``, of ``hopfeed.pyg.NeighborLoader``.
        options: other options of ``hopfeed.torch.Loader``. Those of sampling on this machine are passed over where servers sample.
    """

    def __init__(
        self,
        g: DistGraph,
        nids: Any,
        sampler: NeighborSampler,
        device: Any = None,
        *,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: int = 0,
        as_pyg: bool = False,
        **options: Any,
    ) -> None:
        given = of_nodes(sampler).options | options | {"batch_size": batch_size, "shuffle": shuffle, "drop_last": drop_last, "seed": seed}
        self._as_pyg = as_pyg
        self._node_type, self._seeds = _node_seeds(g, nids)
        super().__init__(g, device, given)

    def _open(self) -> EpochIterable[Any]:
        if not self._as_pyg:
            return hopfeed.torch.Loader(**self._options, node_type=self._node_type, seeds=self._seeds)
        from hopfeed.pyg import NeighborLoader

        seeds = torch.from_numpy(self._seeds)
        return NeighborLoader(**self._of_pyg(), input_nodes=(self._node_type, seeds) if self._typed else seeds)

    def _convert(self, batch: Any) -> Any:
        if self._as_pyg:
            return batch
        blocks = blocks_of(batch, self._graph.meta)
        return MiniBatch((blocks[0].srcdata[ID], blocks[-1].dstdata[ID], blocks), batch)


class DistEdgeDataLoader(DistLoader):
    """Batches of links: ``input_nodes, pos_graph, neg_graph, blocks``, or without ``neg_graph`` where no negatives are drawn.

    Args:
        g: the graph.
        eids: the links, pairs [2, P] of original ids, such as ``edge_split`` gives; with several types ``{type: pairs}`` of one.
        sampler: a :class:`NeighborSampler`, or what ``as_edge_prediction_sampler`` gave.
        negative_sampler, exclude: as of ``as_edge_prediction_sampler``.
        all other: as of :class:`DistNodeDataLoader`; ``as_pyg``: batches of ``hopfeed.pyg.LinkNeighborLoader``.
    """

    def __init__(
        self,
        g: DistGraph,
        eids: Any,
        sampler: Any,
        device: Any = None,
        *,
        negative_sampler: Any = None,
        exclude: str | None = None,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: int = 0,
        as_pyg: bool = False,
        **options: Any,
    ) -> None:
        of_links = of_edges(sampler, negative_sampler, exclude)
        self._as_pyg = as_pyg
        self._edge_type, self._pairs = _link_seeds(g, eids)
        given = of_links.sampler.options | of_links.link_options() | options
        super().__init__(g, device, given | {"batch_size": batch_size, "shuffle": shuffle, "drop_last": drop_last, "seed": seed})

    def _open(self) -> EpochIterable[Any]:
        if not self._as_pyg:
            return hopfeed.torch.Loader(**self._options, edge_type=self._edge_type, links=np.ascontiguousarray(self._pairs.T))
        from hopfeed.pyg import LinkNeighborLoader

        options = self._of_pyg()
        if "negatives" in options:
            from torch_geometric.sampler import NegativeSampling

            weights = {name: options.pop(name, None) for name in ("src_weight", "dst_weight")}
            options["neg_sampling"] = NegativeSampling(options.pop("negatives"), options.pop("amount"), **weights)
        pairs = torch.from_numpy(self._pairs)
        return LinkNeighborLoader(**options, edge_label_index=(self._edge_type, pairs) if self._typed else pairs)

    def _convert(self, batch: Any) -> Any:
        if self._as_pyg:
            return batch
        blocks = blocks_of(batch, self._graph.meta)
        positive, negative = pairs_of_batch(batch, self._edge_type)
        pairs = (positive,) if negative is None else (positive, negative)
        return MiniBatch((blocks[0].srcdata[ID], *pairs, blocks), batch)


def _node_seeds(g: DistGraph, nids: Any) -> tuple[str, np.ndarray[Any, Any]]:
    node_type = None
    if isinstance(nids, Mapping):
        node_type, nids = _only_type(nids, "node")
    name = _nodes_of(g).node_meta(node_type)["name"]
    return name, g._nodes.ids(name, nids)


def _link_seeds(g: DistGraph, eids: Any) -> tuple[EdgeType, np.ndarray[Any, Any]]:
    edge_type = None
    if isinstance(eids, Mapping):
        edge_type, eids = _only_type(eids, "edge")
    return _nodes_of(g).edge_key(edge_type), pairs_of("eids", eids)


def _without_dgls(options: dict[str, Any]) -> dict[str, Any]:
    """Without DGL's that ask for nothing, ``use_ddp=False``. Raises ``UnsupportedError`` for others of DGL's."""
    for name, instead in OF_LOADERS.items():
        if options.get(name):
            raise UnsupportedError(f"{name} is DGL's, and this loader has none: {instead}")
    return {name: value for name, value in options.items() if name not in OF_LOADERS}


def _nodes_of(g: Any) -> Nodes:
    if not isinstance(g, DistGraph):
        raise InvalidError(f"g is {g!r}; give a hopfeed.distributed.DistGraph")
    return g._nodes


def _only_type(given: Mapping[Any, Any], kind: str) -> tuple[Any, Any]:
    if len(given) != 1:
        raise UnsupportedError(f"seeds of {len(given)} {kind} types are given to one loader; make a loader for each type")
    return next(iter(given.items()))
