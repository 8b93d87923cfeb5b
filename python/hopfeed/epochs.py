"""What all loaders are: an iterable whose every ``iter()`` is the next epoch, over a stream of the C++ library."""

from __future__ import annotations

import atexit
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from hopfeed import _core, no_seeds
from hopfeed.agreement import Notice
from hopfeed.errors import InvalidError, NoSpaceError
from hopfeed.programs import program
from hopfeed.ranks import tell_world_size
from hopfeed.switches import refuse_switches

T = TypeVar("T")

_open: weakref.WeakSet[EpochIterable[Any]] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Workers end before the interpreter does, whatever still refers to a loader."""
    for loader in list(_open):
        loader.close()


class EpochIterable(Generic[T]):
    """Iterates the batches of an epoch; each ``iter()`` begins the next one, with another shuffle.

    A subclass says in ``_convert`` what a batch looks like. Iterators are independent: one that begins while an older one is
    alive and unfinished has a stream of its own.

    Args:
        options: of the stream (``hopfeed.Loader`` has them).
        epoch: the first epoch; it decides the shuffle and the draws, as the seed does.
    """

    _STATE_VERSION = 1

    def __init__(self, options: Mapping[str, object], *, epoch: int = 0) -> None:
        refuse_switches(options)
        self._options = {name: value for name, value in options.items() if value is not None}
        self._has_no_seeds = no_seeds.with_seeds(self._options) is not None
        self._process = os.getpid()
        self._iterators: weakref.WeakSet[_Batches[T]] = weakref.WeakSet()
        if isinstance(epoch, bool) or not isinstance(epoch, int):
            raise InvalidError(f"epoch is {epoch!r} ({type(epoch).__name__}); give a whole number")
        self._next_epoch = epoch
        self._resume_at = 0  # the position at which the next epoch begins
        self._place: _Place | None = None  # of the iterator that gave the last batch; of a new one where that one has ended or is gone
        self._told_of_copies = False
        self._stream: _core.Stream | None = None
        self._open_stream()
        self._notice = Notice(self.spec, self.stream.deal())
        try:
            self._notice.post()
        except InvalidError:
            self.close()
            raise

    def _open_stream(self) -> None:
        self._stream = self._new_stream()
        self._meta: dict[str, Any] = self._stream.meta()
        try:
            no_seeds.check_mask(self._options, self._meta["node_types"])
        except InvalidError:
            self._stream.close()
            raise
        _open.add(self)

    def _new_stream(self) -> _core.Stream:
        options = no_seeds.with_seeds(self._options) or dict(self._options)
        if options.get("num_workers", 1) and "servers" not in options:
            options.setdefault("worker_program", program("hopfeed-worker"))
        tell_world_size()
        return _core.Stream(options)

    def _second_stream(self) -> _core.Stream:
        try:
            return self._new_stream()
        except NoSpaceError as error:
            why = "An older iterator of this loader is alive and unfinished; end it (del) to go without a second one"
            raise NoSpaceError(f"{error}. {why}") from None

    def _is_taken(self, stream: _core.Stream) -> bool:
        """Whether an iterator goes on with it."""
        return any(batches.stream is stream for batches in self._iterators)

    def _reopen(self, **changed: object) -> None:
        """Opens the stream anew with other options; epochs are counted on. Iterators keep theirs."""
        stream = self.stream
        self._stream = None
        if not self._is_taken(stream):
            stream.close()
        self._options.update(changed)
        self._options = {name: value for name, value in self._options.items() if value is not None}
        self._open_stream()

    def _epoch_now(self, epoch: int) -> int:
        """The epoch of an iterator that has begun with ``epoch`` and is asked for its first batch now."""
        return epoch

    def _converter(self) -> Callable[[_core.Batch], T]:
        """What makes the batches of an iterator that begins now."""
        return self._convert

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
        self._notice.begin()
        stream, epoch, start = self.stream, self._next_epoch, self._resume_at
        if self._has_no_seeds:
            self._next_epoch, self._resume_at = epoch + 1, 0
            return iter(())
        if self._is_taken(stream):
            stream = self._second_stream()
        stream.begin_epoch(epoch, start)
        batches = _Batches(self, stream, _Place(epoch, start), self._converter())
        if self._place is None or self._place.finished or not any(other.place is self._place for other in self._iterators):
            self._place = batches.place
        self._iterators.add(batches)
        self._next_epoch, self._resume_at = epoch + 1, 0
        return batches

    def __len__(self) -> int:
        """Batches of a whole epoch for this rank."""
        seeds, round_size = self.num_seeds, self._round_size
        return seeds // round_size if self._options.get("drop_last") else -(-seeds // round_size)

    @property
    def _round_size(self) -> int:
        """Seeds of a full batch of each rank."""
        return int(self._options.get("batch_size", 1024)) * int(self._options.get("world_size", 1))

    def _has_batches_from(self, position: int) -> bool:
        """Whether the epoch has any behind it: an incomplete round is none where it is dropped."""
        return self.num_seeds - position >= (self._round_size if self._options.get("drop_last") else 1)

    @property
    def epoch(self) -> int:
        """The running epoch, else the next one."""
        return self._next_epoch if self._place is None or self._place.finished else self._place.epoch

    @property
    def num_seeds(self) -> int:
        """Seeds of the whole list, over all ranks; with links the number of these."""
        return 0 if self._has_no_seeds else self.stream.num_seeds

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
        spec = self.stream.spec()
        if self._has_no_seeds:
            spec["seeds"]["sha256"] = no_seeds.SHA256
        return spec

    def stats(self) -> dict[str, Any]:
        """Counts and seconds so far: batches, workers that died, batches made again, waits, rows by where they lay."""
        return self.stream.stats()

    def worker_pids(self) -> list[int]:
        """Process ids of the workers on this machine."""
        return self.stream.worker_pids()

    def state_dict(self) -> dict[str, Any]:
        """Where the iteration is, for a checkpoint: within an epoch too, and for a later run of another world size.

        Batches that the loop has been given count as used. Of several iterators it is the one that gave the last batch.
        """
        epoch, position, place = self._next_epoch, self._resume_at, self._place
        if place is not None and not place.finished and self._has_batches_from(place.position):
            epoch, position = place.epoch, place.position
        return {"version": self._STATE_VERSION, "epoch": epoch, "position": position, "spec": self.spec}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next ``iter()`` goes on where :meth:`state_dict` was taken.

        Raises:
            InvalidError: the state is of other batches; it names what differs. Or it is none that state_dict() gave.
        """
        if not isinstance(state, Mapping):
            raise InvalidError(f"the state is {_shown(state)}; give what state_dict() gave")
        if state.get("version") != self._STATE_VERSION:
            raise InvalidError(f"the state is of version {_shown(state.get('version'))}; this release reads {self._STATE_VERSION}")
        epoch, position = _count(state, "epoch"), _count(state, "position")
        if not isinstance(state.get("spec"), Mapping):
            raise InvalidError(f"'spec' of the state is {_shown(state.get('spec'))}; give what state_dict() gave")
        differing = _differences(state["spec"], self.spec)
        if differing:
            raise InvalidError(f"the state is of other batches than this loader's: {'; '.join(differing)}")
        if 0 < position <= self.num_seeds and not self._has_batches_from(position):  # that epoch is over, for ranks of this number at least
            epoch, position = epoch + 1, 0
        self._next_epoch, self._resume_at, self._place = epoch, position, None

    def close(self) -> None:
        """Ends the workers, or the connections, of iterators too. Batches that are held stay as they are."""
        stream, self._stream = self._stream, None
        _open.discard(self)
        streams = {batches.stream for batches in self._iterators} | {stream}
        if os.getpid() == self._process:
            for each in streams - {None}:
                each.close()

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


@dataclass
class _Place:
    """Where an iterator is: the position after the last batch that it gave."""

    epoch: int
    position: int
    begun: bool = False  # it has given a batch
    finished: bool = False


class _Batches(Iterator[T]):
    """The rest of an epoch, for any number of threads. No generator, since what is raised within one ends it: here the iteration can
    go on."""

    def __init__(self, loader: EpochIterable[T], stream: _core.Stream, place: _Place, convert: Callable[[_core.Batch], T]) -> None:
        self._loader, self.place, self._convert = loader, place, convert
        self.stream: _core.Stream | None = stream  # None: it has finished
        # Whose turn it is. ``for _ in turns`` takes the lock and ``for _ in ends`` gives it back, each once: unlike
        # a call, and the end of a ``with``, a step of ``for`` looks for no signals. So nothing is raised while the
        # lock is taken and no ``try`` is entered, nor behind its end, where the batch counts as given. Who waits
        # for the lock does hear of signals.
        lock = threading.RLock()
        self._turns, self._ends = iter(lock.acquire, None), iter(lock.release, True)

    def __next__(self) -> T:
        if self.stream is None:
            raise StopIteration
        self._loader.stream  # raises where the loader is closed, or this is a fork, whose lock a thread may have that is not there
        for _ in self._turns:
            try:
                made, after = self._next_made()
                # int() is the last call: there Python looks for signals. After it the batch counts as given, and is the caller's at once.
                after = int(after)
            except BaseException:
                for _ in self._ends:
                    raise
            self.place.position, self.place.begun = after, True
            for _ in self._ends:
                return made
        raise AssertionError("each turn ends with a batch or an exception")

    def _next_made(self) -> tuple[T, int]:
        """The next batch as the caller wants it, and the position behind it. Raises ``StopIteration`` where there is none."""
        loader, stream, place = self._loader, self.stream, self.place
        if stream is None:
            raise StopIteration
        if not place.begun and place.epoch != (epoch := loader._epoch_now(place.epoch)):
            stream.begin_epoch(epoch)
            place.epoch, place.position, loader._next_epoch = epoch, 0, epoch + 1
        if stream.next_position != place.position:  # a batch was interrupted before it was given: it is made anew
            stream.begin_epoch(place.epoch, place.position)
        made = self._make(stream)
        if made is None:
            self._finish()
            raise StopIteration
        if loader._place is not place:
            loader._place = place
        return made[0], stream.next_position

    def _make(self, stream: _core.Stream) -> tuple[T] | None:
        """The next batch as the caller wants it; None where there is none. What a transform raises leaves its batch out."""
        batch = stream.next()
        if batch is None:
            return None
        if batch.is_copy and not self._loader._told_of_copies:
            self._loader._told_of_copies = True
            warnings.warn(
                "so many batches are held that this one was copied, as the following ones will be; drop them, or raise "
                "num_slots and channel_size",
                stacklevel=4,
            )
        try:
            return (self._convert(batch),)
        except Exception:  # an interrupt is none
            self._loader._place, self.place.position, self.place.begun = self.place, stream.next_position, True
            raise

    def _finish(self) -> None:
        stream, self.stream, self.place.finished = self.stream, None, True
        if stream is not None and stream is not self._loader._stream:
            stream.close()


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + "..."


def _count(state: Mapping[str, Any], name: str) -> int:
    """A number of a state, which may have been through a file."""
    value = state.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise InvalidError(f"'{name}' of the state is {_shown(value)}; give what state_dict() gave: a whole number from 0 on")
    return value


def _differences(saved: object, present: object, name: str = "") -> list[str]:
    """What differs between two specs, as sentences."""
    if isinstance(saved, Mapping) and isinstance(present, Mapping):
        names = list(saved) + [key for key in present if key not in saved]
        return [line for key in names for line in _differences(saved.get(key), present.get(key), f"{name}.{key}" if name else key)]
    return [] if saved == present else [f"{name} is {saved!r} there and {present!r} here"]
