"""Processes of this machine as /proc tells of them, and what Linux does for who holds them."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable

_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36
_libc = ctypes.CDLL(None, use_errno=True)

MARK = "HOPFEED_HELD_BY"  # in the environment: who started a process, whatever became of those between


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Of the calling process: gets this signal when its parent ends."""
    _libc.prctl(_SET_PDEATHSIG, int(number), 0, 0, 0)


def adopt_orphans() -> None:
    """What descendants of the calling process leave behind becomes its children."""
    if _libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot adopt processes (PR_SET_CHILD_SUBREAPER)")


def _parents() -> dict[int, int]:
    found = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue  # it has ended
            if fields[0] not in (b"Z", b"X"):
                found[int(name)] = int(fields[1])
    return found


def descendants(root: int) -> set[int]:
    """All that live below a process; zombies apart."""
    parents = _parents()
    below = {root}
    while more := {pid for pid, parent in parents.items() if parent in below and pid not in below}:
        below |= more
    return below - {root}


def marked(mark: str, among: Iterable[int]) -> set[int]:
    """Those whose environment says that ``mark`` holds them."""
    word, found = f"{MARK}={mark}".encode(), set()
    for pid in among:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if word in file.read().split(b"\0"):
                    found.add(pid)
        except OSError:
            pass
    return found


def kill_all(which: Callable[[], set[int]], *, within: float) -> bool:
    """SIGKILL to all of them, again and again, until there is none; False where some are left at the deadline.

    Args:
        which: looks for them: who is killed may have started others meanwhile.
    """
    until = time.monotonic() + within
    pause = 0.001
    while found := which():
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        if time.monotonic() > until:
            return False
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    return True
