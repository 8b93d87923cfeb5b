"""What all loaders are: an iterable whose every ``iter()`` is the next epoch, over a stream of the C++ library."""

from __future__ import annotations

import atexit
import os
import warnings
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

from hopfeed import _core
from hopfeed.errors import InvalidError
from hopfeed.programs import program

T = TypeVar("T")

_open: weakref.WeakSet[EpochIterable[Any]] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Workers end before the interpreter does, whatever still refers to a loader."""
    for loader in list(_open):
        loader.close()


class EpochIterable(Generic[T]):
    """Iterates the batches of an epoch; each ``iter()`` begins the next one, with another shuffle.

    A subclass says in ``_convert`` what a batch looks like. One iteration at a time: an older iterator raises
    ``InvalidError`` once a newer one was made.

    Args:
        options: of the stream (``hopfeed.Loader`` has them).
        epoch: the first epoch; it decides the shuffle and the draws, as the seed does.
    """

    _STATE_VERSION = 1

    def __init__(self, options: Mapping[str, object], *, epoch: int = 0) -> None:
        self._options = {name: value for name, value in options.items() if value is not None}
        self._process = os.getpid()
        self._generation = 0  # of iterators
        if isinstance(epoch, bool) or not isinstance(epoch, int):
            raise InvalidError(f"epoch is {epoch!r} ({type(epoch).__name__}); give a whole number")
        self._next_epoch = epoch
        self._running: int | None = None  # the epoch that has begun
        self._resume_at = 0  # the position at which the next epoch begins
        self._told_of_copies = False
        self._stream: _core.Stream | None = None
        self._open_stream()

    def _open_stream(self) -> None:
        options = dict(self._options)
        if options.get("num_workers", 1) and "servers" not in options:
            options.setdefault("worker_program", program("hopfeed-worker"))
        self._stream = _core.Stream(options)
        self._meta: dict[str, Any] = self._stream.meta()
        _open.add(self)

    def _reopen(self, **changed: object) -> None:
        """Opens the stream anew with other options; epochs are counted on."""
        self.close()
        self._options.update(changed)
        self._options = {name: value for name, value in self._options.items() if value is not None}
        self._generation += 1
        self._open_stream()

    def _convert(self, batch: _core.Batch) -> T:
        raise NotImplementedError

    @property
    def stream(self) -> _core.Stream:
        """The open stream. Raises ``InvalidError`` where the loader is closed, or belongs to another process."""
        if os.getpid() != self._process:
            raise InvalidError(
                f"this loader belongs to process {self._process}, and this is a fork of it, {os.getpid()}; make a "
                "loader in each process (with torch's DataLoader: num_workers=0, since hopfeed has its own workers)"
            )
        if self._stream is None:
            raise InvalidError("the loader is closed; make a new one")
        return self._stream

    def __iter__(self) -> Iterator[T]:
        stream = self.stream
        self._generation += 1
        self._running, start = self._next_epoch, self._resume_at
        stream.begin_epoch(self._running, start)
        self._next_epoch, self._resume_at = self._running + 1, 0
        return _Batches(self, self._generation)

    def __len__(self) -> int:
        """Batches of a whole epoch for this rank."""
        batch_size, world = int(self._options.get("batch_size", 1024)), int(self._options.get("world_size", 1))
        seeds, round_size = self.num_seeds, batch_size * world
        return seeds // round_size if self._options.get("drop_last") else -(-seeds // round_size)

    @property
    def epoch(self) -> int:
        """The running epoch, else the next one."""
        return self._next_epoch if self._running is None else self._running

    @property
    def num_seeds(self) -> int:
        """Seeds of the whole list, over all ranks; with links the number of these."""
        return self.stream.num_seeds

    @property
    def meta(self) -> dict[str, Any]:
        """The dataset's ``meta.json``: types, attributes, splits."""
        return self._meta

    @property
    def node_types(self) -> list[str]:
        """Names of the node types, by number."""
        return [node["name"] for node in self._meta["node_types"]]

    @property
    def edge_types(self) -> list[tuple[str, str, str]]:
        """(source type, relation, destination type) of the edge types, by number."""
        return [(edge["src"], edge["rel"], edge["dst"]) for edge in self._meta["edge_types"]]

    @property
    def spec(self) -> dict[str, Any]:
        """Everything that decides the bytes of the batches: what a bug report and a checkpoint need."""
        return self.stream.spec()

    def stats(self) -> dict[str, Any]:
        """Counts and seconds so far: batches, workers that died, batches made again, waits, rows by where they lay."""
        return self.stream.stats()

    def worker_pids(self) -> list[int]:
        """Process ids of the workers on this machine."""
        return self.stream.worker_pids()

    def state_dict(self) -> dict[str, Any]:
        """Where the iteration is, for a checkpoint: within an epoch too, and for a later run of another world size.

        Batches that the loop has been given count as used.
        """
        position = self.stream.next_position if self._running is not None else self._resume_at
        if self._running is not None and position >= self.num_seeds:
            return {"version": self._STATE_VERSION, "epoch": self._running + 1, "position": 0, "spec": self.spec}
        return {"version": self._STATE_VERSION, "epoch": self.epoch, "position": position, "spec": self.spec}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next ``iter()`` goes on where :meth:`state_dict` was taken.

        Raises:
            InvalidError: the state is of other batches; it names what differs.
        """
        if state.get("version") != self._STATE_VERSION:
            raise InvalidError(f"the state is of version {state.get('version')!r}; this release reads {self._STATE_VERSION}")
        differing = _differences(state["spec"], self.spec)
        if differing:
            raise InvalidError(f"the state is of other batches than this loader's: {'; '.join(differing)}")
        self._next_epoch, self._resume_at, self._running = int(state["epoch"]), int(state["position"]), None
        self._generation += 1

    def close(self) -> None:
        """Ends the workers, or the connections. Batches that are held stay as they are."""
        stream, self._stream = self._stream, None
        _open.discard(self)
        if stream is not None and os.getpid() == self._process:
            stream.close()

    def __enter__(self) -> EpochIterable[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __copy__(self) -> EpochIterable[T]:
        raise InvalidError(f"{type(self).__name__} cannot be copied: workers and slots belong to one loader; make another with the same arguments")

    def __deepcopy__(self, memo: object) -> EpochIterable[T]:
        return self.__copy__()

    def __reduce__(self) -> str:
        raise InvalidError(
            f"{type(self).__name__} cannot be pickled: its workers and slots belong to this process; make a loader in "
            "each process"
        )


class _Batches(Iterator[T]):
    """The rest of an epoch. No generator, since what is raised within one ends it: here the iteration can go on."""

    def __init__(self, loader: EpochIterable[T], generation: int) -> None:
        self._loader, self._generation = loader, generation
        self._pending: _core.Batch | None = None  # taken, and not given yet

    def __next__(self) -> T:
        loader = self._loader
        if self._generation != loader._generation:
            raise InvalidError("another iteration of this loader has begun since; use one iterator at a time, or two loaders")
        if self._pending is None:
            if loader._running is None:
                raise StopIteration
            self._pending = loader.stream.next()
        if self._pending is None:
            loader._running = None
            raise StopIteration
        if self._pending.is_copy and not loader._told_of_copies:
            loader._told_of_copies = True
            warnings.warn(
                "so many batches are held that this one was copied, as the following ones will be; drop them, or raise "
                "num_slots and channel_size",
                stacklevel=2,
            )
        batch, self._pending = self._pending, None
        return loader._convert(batch)


def _differences(saved: object, present: object, name: str = "") -> list[str]:
    """What differs between two specs, as sentences."""
    if isinstance(saved, Mapping) and isinstance(present, Mapping):
        names = list(saved) + [key for key in present if key not in saved]
        return [line for key in names for line in _differences(saved.get(key), present.get(key), f"{name}.{key}" if name else key)]
    return [] if saved == present else [f"{name} is {saved!r} there and {present!r} here"]
