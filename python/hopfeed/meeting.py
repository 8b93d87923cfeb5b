"""Ranks that do something together once, through the store of the process group: no collective, so nobody's order of collectives
is disturbed. Rank 0 says what all are to do, and it was done once each has said that it has.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from hopfeed import errors
from hopfeed.errors import DeadlineError, Error, InvalidError, PeerDiedError
from hopfeed.ranks import group_store, process_group

_LONGEST_PAUSE = 0.05  # seconds between two looks into the store


class Meeting:
    """As a context: its end waits for the others. What one of them raises within it, all raise, so it is done by all or by none::

        with Meeting("state/rows", rank, world_size, timeout=300) as meeting:
            if rank == 0:
                meeting.say({"attempt": begin()})
            else:
                join(meeting.heard()["attempt"])

    A rank's n-th meeting for a purpose is every other rank's n-th. One that does something within it, however long that takes, says
    all the while that it is there.

    Args:
        timeout: seconds that a rank may be late.

    Raises:
        InvalidError: there is no process group of so many ranks.
        DeadlineError: a rank is late. PeerDiedError: one has ended.
    """

    def __init__(self, purpose: str, rank: int, world_size: int, *, timeout: float) -> None:
        self._rank, self._world_size, self._timeout = rank, world_size, timeout
        self._store = _store_of(world_size)
        number = self._asked(lambda store: store.add(f"{purpose}/rank/{rank}", 1)) if self._store is not None else 0
        self._key = f"{purpose}/{number}"
        self._waits, self._over = False, threading.Event()

    def say(self, what: Any) -> None:
        """Rank 0 alone, once."""
        self._set("said", what)

    def heard(self) -> Any:
        """What rank 0 says."""
        self._wait_for("said", [0])
        return json.loads(self._get("said"))

    def __enter__(self) -> Meeting:
        if self._store is not None:
            threading.Thread(target=self._say_that_it_is_here, daemon=True).start()
        return self

    def _say_that_it_is_here(self) -> None:
        """While it waits for others it is no reason to wait for it."""
        while not self._over.wait(min(1, self._timeout / 4)):
            try:
                if not self._waits:
                    self._asked(lambda store: store.add(f"{self._key}/here", 1))
            except PeerDiedError:  # of the store: the call itself hears so
                return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        if self._store is None:
            return
        if error is not None:
            self._fail(error)
            return
        try:
            self._set(f"done/{self._rank}", True)
            if self._asked(lambda store: store.add(f"{self._key}/done", 1)) == self._world_size:
                self._decide(None)
            self._wait_for("outcome", range(self._world_size))
        except Error as late:
            if self._fail(late) is not None:
                raise
        except BaseException as other:
            self._fail(other)
            raise

    def _fail(self, error: BaseException) -> list[Any] | None:
        if isinstance(error, Error):
            why = [type(error).code, str(error)]
        else:
            why = [PeerDiedError.code, f"it has left ({type(error).__name__}: {error})"]
        try:
            return self._decide([self._rank, *why])
        except PeerDiedError:  # of the store: what the others see too
            return why

    def _decide(self, why: list[Any] | None) -> list[Any] | None:
        """The first to say so decides for all whether it was done (None), or why not; returns that."""
        told: list[Any] | None = json.loads(self._asked(lambda store: store.compare_set(f"{self._key}/outcome", "", json.dumps(why))))
        return told

    def _wait_for(self, name: str, ranks: Iterable[int]) -> None:
        """Waits until it has been set. Raises what another rank has raised."""
        until, here, pause = time.monotonic() + self._timeout, 0, 0.001
        self._waits = True
        while True:
            is_there = self._has(name)  # before the outcome is read, which may be that another rank failed
            why = json.loads(self._get("outcome")) if self._has("outcome") else None
            if why is not None:
                rank, code, message = why
                raise errors.class_of(code)(message if rank == self._rank else f"rank {rank}: {message}")
            if is_there:
                self._waits = False
                return
            if time.monotonic() > until:
                said = self._asked(lambda store: store.add(f"{self._key}/here", 0))
                if said == here:
                    late = next((rank for rank in ranks if not self._has(f"done/{rank}")), 0)
                    raise DeadlineError(f"rank {late} has not come within {self._timeout:g} s; all ranks go back to a checkpoint together")
                until, here = time.monotonic() + self._timeout, said
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _has(self, name: str) -> bool:
        return bool(self._asked(lambda store: store.check([f"{self._key}/{name}"])))

    def _get(self, name: str) -> Any:
        return self._asked(lambda store: store.get(f"{self._key}/{name}"))

    def _set(self, name: str, value: Any) -> None:
        if self._store is not None:
            self._asked(lambda store: store.set(f"{self._key}/{name}", json.dumps(value)))

    def _asked(self, ask: Callable[[Any], Any]) -> Any:
        try:
            return ask(self._store)
        except RuntimeError as error:
            if isinstance(error, Error):
                raise
            said = str(error).partition("\n")[0]
            raise PeerDiedError(f"the store of the process group gives no answer ({said}); the rank that has it has ended") from error


def _store_of(world_size: int) -> Any:
    """Of the default group; None for one who is alone."""
    if world_size == 1:
        return None
    group = process_group()
    if group is None or group.get_world_size() != world_size:
        raise InvalidError(
            f"{world_size} ranks go back to a checkpoint together, and there is no process group of them to agree; call "
            "torch.distributed.init_process_group first"
        )
    return group_store()
