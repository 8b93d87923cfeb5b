"""hopfeed's own loader: batches of NumPy arrays, for those who use neither PyG nor DGL."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from typing import Any, Union

import numpy as np

from hopfeed import _core
from hopfeed.batch import Batch, EdgeType, _Names
from hopfeed.epochs import EpochIterable
from hopfeed.errors import InvalidError
from hopfeed.ranks import this_rank
from hopfeed.switches import is_switch

EdgeTypeName = Union[str, EdgeType]


class Loader(EpochIterable[Batch]):
    """Iterates the batches of an epoch; each ``iter()`` begins the next one.

    A batch depends on the dataset, on the arguments down to ``seed``, and on its place in the epoch, and on nothing
    else: not on workers, servers, ranks or what died meanwhile.

    Where batches come from, one of:
        dataset: the dataset's folder.
        servers: addresses of ``hopfeed-server`` (``HOST:PORT``, ``unix:PATH``); ``dataset`` is then a name there.

    What is sampled:
        fanouts: neighbours drawn per node, hop by hop; -1 takes all.
        edge_fanouts: fanouts of edge types (``"src__rel__dst"`` or a tuple), in place of ``fanouts``.
        replace, disjoint, weight, time, seed_time, temporal_strategy, time_window, subgraph, keep_orig_edges, labor,
            labor_seeds: as in docs/loader.md.
        sampler: ``"neighbor"``, ``"walk"`` (with ``walk_length``, ``walks_per_seed``, ``walk_p``, ``walk_q``,
            ``metapath``), ``"cluster"`` (with ``cluster``), or a plugin's (``plugins``, ``sampler_options``).
        attrs, edge_attrs: attributes that batches carry; all of the nodes and none of the edges by default.
        edge_ids, dataset_ids: the field ``e_id``; ``n_id`` in the dataset's own order.

    What it starts from:
        split: of the dataset (``"train"``), or
        seeds: int64 [S] node ids, or ``seed_mask``: bool [N]; with ``seed_times`` int64 [S] and ``seed_weights``
            float64 [S] (draw in proportion, with replacement).
        node_type: of the seeds; the first by default.
        edge_type: seeds are links of this type: ``link_split``, or ``links`` int64 [P, 2] with ``link_labels`` and
            ``link_times``; ``negatives`` (``"none"``, ``"binary"``, ``"triplet"``), ``amount``, ``strict``,
            ``src_weight``, ``dst_weight``; ``exclude`` (``"self"``, ``"reverse"``, ``"none"``).
        shuffle, seed: a new order in each epoch; the seed of everything random.

    Who gets what: ``batch_size`` seeds (or links) a batch, ``drop_last``, ``rank`` and ``world_size``;
    ``distributed=True`` asks the process group of ``torch.distributed`` for these two, else RANK and WORLD_SIZE as torchrun
    sets them, else Slurm.

    How it is made (no byte of a batch depends on it): ``num_workers`` processes (0: the calling thread),
    ``channel_size``, ``max_batch_memory``, ``num_slots``, ``cores``, ``huge_pages``, ``batch_deadline``, ``start_deadline`` (seconds),
    ``max_worker_restarts``, ``check_finite``, ``features_from``, ``row_cache_bytes``, ``window``, ``graph_mode``,
    ``gpu_device``, ``pin_slots``, ``device_batches``, ``gpu_cache`` (rows held on the GPU), ``gpu_graph_cache`` (rows of
    the graph there); of servers ``token_file``, ``tls``, ``tls_ca``, ``tls_cert``, ``tls_key``, ``cache`` (rows held here: ``"0.2"``, ``"4G"``, ``"auto"``), ``connect_all``, ``batches_ahead``,
    ``connect_timeout``, ``reconnect_deadline``; where this machine has some partitions of the dataset ``peers`` (who
    serves the others), ``partitions``, ``replicas``, ``worker_concurrency``, ``peer_deadline``,
    ``peer_connect_timeout``, ``peer_token_file``, ``peer_ca``, ``peer_cert``, ``peer_key``.

    Raises:
        InvalidError: an argument that cannot be; the message names it.
        NotFoundError: no such dataset, split, type or attribute.
    """

    _torch = False

    def __init__(
        self,
        dataset: str | os.PathLike[str] | None = None,
        *,
        servers: Sequence[str] | str | None = None,
        fanouts: Sequence[int] = (15, 10, 5),
        edge_fanouts: Mapping[EdgeTypeName, Sequence[int]] | None = None,
        batch_size: int = 1024,
        split: str | None = None,
        seeds: Any = None,
        seed_mask: Any = None,
        seed_times: Any = None,
        seed_weights: Any = None,
        node_type: str | None = None,
        edge_type: EdgeTypeName | None = None,
        links: Any = None,
        link_labels: Any = None,
        link_times: Any = None,
        shuffle: bool = True,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        distributed: bool = False,
        num_workers: int = 1,
        epoch: int = 0,
        **options: Any,
    ) -> None:
        options |= loader_options(
            dataset=dataset,
            servers=servers,
            edge_fanouts=edge_fanouts,
            edge_type=edge_type,
            rank=rank,
            world_size=world_size,
            distributed=distributed,
        )
        options |= {
            "fanouts": None if fanouts is None else fanout_list("fanouts", fanouts),
            "batch_size": batch_size,
            "split": split,
            "seeds": as_array("seeds", seeds, np.int64, 1),
            "seed_mask": as_array("seed_mask", seed_mask, np.bool_, 1),
            "seed_times": as_array("seed_times", seed_times, np.int64, 1),
            "seed_weights": as_array("seed_weights", seed_weights, np.float64, 1),
            "node_type": node_type,
            "links": as_array("links", _links(links), np.int64, 2),
            "link_labels": as_array("link_labels", link_labels, np.int64, 1),
            "link_times": as_array("link_times", link_times, np.int64, 1),
            "shuffle": shuffle,
            "seed": seed,
            "num_workers": num_workers,
        }
        super().__init__(options, epoch=epoch)
        self._names = _Names(self.node_types, self.edge_types)

    def _convert(self, batch: _core.Batch) -> Batch:
        return Batch(batch, self._names, self._torch)


def loader_options(
    *,
    dataset: str | os.PathLike[str] | None,
    servers: Sequence[str] | str | None,
    edge_fanouts: Mapping[EdgeTypeName, Sequence[int]] | None = None,
    edge_type: EdgeTypeName | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    distributed: bool = False,
) -> dict[str, Any]:
    """Those of a stream's options that Python writes in another form.

    Raises:
        InvalidError: naming the argument.
    """
    if isinstance(servers, str):
        servers = servers.split(",")
    if servers is not None and not isinstance(servers, (list, tuple)):
        raise InvalidError(f"servers is {servers!r} ({type(servers).__name__}); give a list of addresses")
    if edge_fanouts is not None and not isinstance(edge_fanouts, Mapping):
        raise InvalidError(f"edge_fanouts is {edge_fanouts!r}; give a dict from edge types to lists of whole numbers")
    if dataset is None and servers is None:
        raise InvalidError("dataset is missing; give a dataset folder, or servers")
    if distributed:
        if rank is not None or world_size is not None:
            raise InvalidError("distributed=True finds rank and world_size by itself; give one or the other")
        rank, world_size = this_rank()
    if (rank is None) != (world_size is None):
        raise InvalidError("rank and world_size go together; give both or leave both out")
    return {
        "dataset": None if dataset is None else os.fspath(dataset),
        "servers": None if servers is None else list(servers),
        "edge_fanouts": None
        if edge_fanouts is None
        else {edge_type_name(edge): fanout_list(f"edge_fanouts[{edge!r}]", fanouts) for edge, fanouts in edge_fanouts.items()},
        "edge_type": None if edge_type is None else edge_type_name(edge_type),
        "rank": rank,
        "world_size": world_size,
    }


def edge_type_name(edge_type: EdgeTypeName) -> str:
    """``("a", "to", "b")`` as ``"a__to__b"``; text as it is."""
    return edge_type if isinstance(edge_type, str) else "__".join(edge_type)


def fanout_list(name: str, given: Any) -> list[int]:
    """A number of neighbours for each hop, as a list; NumPy's and torch's arrays will do.

    Raises:
        InvalidError: naming the argument, what was given and what is wanted.
    """
    numbers = given.tolist() if hasattr(given, "tolist") else given
    if isinstance(numbers, (str, bytes)) or not isinstance(numbers, Sequence):
        raise InvalidError(f"{name} is {given!r}; give a list, a number of neighbours for each hop")
    if not all(_is_fanout(number) for number in numbers):
        raise InvalidError(f"{name} is {list(numbers)}; give whole numbers from 0 on, or -1 for all neighbours")
    return [operator.index(number) for number in numbers]


def _is_fanout(number: Any) -> bool:
    if is_switch(number):
        return False
    try:
        return operator.index(number) >= -1
    except TypeError:
        return False


def _links(given: Any) -> Any:
    """An empty list of links has no second dimension of its own."""
    shape = np.shape(given) if isinstance(given, (list, tuple)) else getattr(given, "shape", None)
    return np.empty((0, 2), np.int64) if shape is not None and tuple(shape) == (0,) else given


def as_array(name: str, given: Any, dtype: type, dimensions: int) -> np.ndarray[Any, Any] | None:
    """``given`` as a C-contiguous array; a torch tensor in the host's memory will do. None stays None.

    Raises:
        InvalidError: naming the argument, what was given and what is wanted.
    """
    if given is None:
        return None
    wanted = f"an array of {np.dtype(dtype).name} with {dimensions} dimension{'s' * (dimensions > 1)}"
    device = getattr(given, "device", None)
    if device is not None and getattr(device, "type", "cpu") != "cpu":
        raise InvalidError(f"{name} lies on {device}; give it in the host's memory ({name}.cpu())")
    try:
        array = np.asarray(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidError(f"{name} is no array ({error}); give {wanted}") from None
    kinds = {"i": "iu", "b": "b", "f": "fiu"}[np.dtype(dtype).kind]
    if array.ndim != dimensions or (array.dtype.kind not in kinds and array.size):
        raise InvalidError(f"{name} is {array.dtype.name} {list(array.shape)}; give {wanted}")
    return np.ascontiguousarray(array, dtype=dtype)


