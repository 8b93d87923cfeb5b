"""What makes a loader one of torch's and of PyG's: the attributes that others read, and the methods that they call."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from torch.utils.data import DataLoader, get_worker_info
from torch_geometric.sampler import BaseSampler, NumNeighbors

from hopfeed.errors import InvalidError, UnsupportedError
from hopfeed.pyg import arguments

# Arguments of torch's DataLoader that a loader shows as torch does; who makes a loader of his own from it reads them.
_SHOWN = (
    "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "drop_last", "pin_memory", "timeout", "worker_init_fn", "prefetch_factor",
    "persistent_workers", "multiprocessing_context",
)  # fmt: skip
_OF_WORKERS = ("prefetch_factor", "persistent_workers", "multiprocessing_context")  # which torch refuses without any
_OF_ORDER = ("batch_size", "shuffle", "sampler", "drop_last")

_SETTABLE = {"transform", "filter_per_worker"}

_WITHOUT_PYTHON = "workers are programs without Python"


class NoSampler(BaseSampler):
    """Stands where PyG has a sampler. It samples nothing."""

    def sample_from_nodes(self, *_: Any, **__: Any) -> Any:
        """PyG's; refused."""
        raise UnsupportedError("hopfeed's loaders sample whole batches, and have no sampler to call; call loader(positions) for a batch")

    def sample_from_edges(self, *_: Any, **__: Any) -> Any:
        """PyG's; refused."""
        return self.sample_from_nodes()


class Sampling(NoSampler):
    """What ``loader.node_sampler`` and ``loader.link_sampler`` tell: how batches are sampled.

    Attributes:
        num_neighbors: PyG's ``NumNeighbors``; its ``len`` is the number of hops.
        replace, subgraph_type, disjoint, temporal_strategy, time_attr, weight_attr: the loader's arguments.
    """

    def __init__(self, loader: Any) -> None:
        given = loader.num_neighbors
        if not isinstance(given, NumNeighbors):
            given = NumNeighbors(dict(given) if isinstance(given, Mapping) else [] if given is None else [int(number) for number in given])
        names = ("replace", "subgraph_type", "disjoint", "temporal_strategy", "time_attr", "weight_attr")
        self.__dict__.update({"num_neighbors": given, **{name: getattr(loader, name) for name in names}})

    def __setattr__(self, name: str, value: Any) -> None:
        raise _cannot_be_set(name)


def _cannot_be_set(name: str) -> InvalidError:
    return InvalidError(f"{name} cannot be set: batches go by what the loader was made with; make another loader")


class TorchLoader(DataLoader[Any]):
    """The part of a loader that is torch's and PyG's. Of their constructors only torch's runs."""

    # Of PyG's loaders; refused where a value is given.
    transform_sampler_output: Any = None
    filter_per_worker: bool | None = None
    custom_cls: Any = None
    input_id: Any = None

    _fixed: frozenset[str] = frozenset()  # attributes that cannot be set

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._fixed:
            raise _cannot_be_set(name)
        super().__setattr__(name, value)

    def _keep_arguments(self, given: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments as attributes: PyG has them so, and Lightning makes a loader anew from those. Returns the others.

        Lightning passes all attributes on that have the name of a parameter, ``others`` too.
        """
        others = {**others.get("others", {}), **{name: value for name, value in others.items() if name != "others"}}
        self._kept = [name for name in given if name not in ("self", "__class__", "data", "others")]
        for name in self._kept:
            setattr(self, name, given[name])
        self.others = {name: value for name, value in others.items() if name not in arguments.OF_TORCH}
        return others

    def _be_torch_loader(self, count: int, given: Mapping[str, Any]) -> None:
        """Runs torch's constructor. ``count``: seeds. ``given``: the loader's arguments that are torch's, those of its own left out."""
        shown = {name: given[name] for name in _SHOWN if given.get(name) is not None}
        if isinstance(given.get("sampler"), str):  # hopfeed's: what is sampled, and no order
            del shown["sampler"]
        if not given["num_workers"]:
            shown = {name: value for name, value in shown.items() if name not in _OF_WORKERS}
        if given.get("batch_sampler") is not None:  # torch takes no size beside it
            shown = {name: value for name, value in shown.items() if name not in _OF_ORDER}
        elif shown.get("shuffle") and not count:
            del shown["shuffle"]  # of torch's sampler, which takes no empty list
        DataLoader.__init__(self, range(count), collate_fn=self.collate_fn, **shown)
        del self.__dict__["collate_fn"]  # the class has it; here it would hold the loader alive
        if self.filter_per_worker is None:
            self.filter_per_worker = True
        self._fixed = frozenset({*self._kept, "data", "node_sampler", "link_sampler"} - _SETTABLE)

    def collate_fn(self, index: Any) -> Any:
        """The batch of some positions, as ``loader(index)`` gives it: for torch's loaders around ``loader.dataset``."""
        return self(index)

    def filter_fn(self, out: Any) -> Any:
        """Features are there already: gives back what it gets."""
        return out

    def _get_iterator(self) -> Iterator[Any]:  # type: ignore[override]
        return iter(self)

    def check_worker_number_rationality(self) -> None:
        """Torch's advice about its own workers; there are none."""

    def _number_of_call(self, asked: int) -> int:
        """Which draws a call of ``loader(index)`` takes: in workers of torch's loaders others than in this process."""
        worker = get_worker_info()
        if worker is None:
            return asked
        # Torch seeds each worker anew in each epoch.
        return int.from_bytes(hashlib.blake2b(f"{worker.seed} {asked}".encode(), digest_size=8).digest(), "big") >> 2

    def enable_cpu_affinity(self, loader_cores: Any = None) -> Any:
        """PyG's; workers are placed when they start."""
        del loader_cores
        raise UnsupportedError("enable_cpu_affinity() is not there: workers are placed as they start; give cores=[...] to the loader")

    def enable_multithreading(self, worker_threads: Any = None) -> Any:
        """PyG's; a worker has one thread that samples."""
        del worker_threads
        raise UnsupportedError(f"enable_multithreading() is not there: {_WITHOUT_PYTHON}, each with one thread that samples; give num_workers=")

    def enable_memory_log(self) -> Any:
        """PyG's; refused."""
        raise UnsupportedError(f"enable_memory_log() is not there: {_WITHOUT_PYTHON}; loader.worker_pids() names them, hopfeed-top shows them")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
