"""Folders that hopfeed makes for itself: temporary ones, and a cache of those that stay. A lock tells who uses one."""

from __future__ import annotations

import fcntl
import functools
import json
import os
import shutil
import socket
import stat
import sys
import tempfile
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hopfeed.errors import DeadlineError

_PREFIX = "hopfeed-"
_UNNAMED = ".hopfeed-"  # until the folder's lock is held
_RANDOM = 8  # letters that tempfile.mkdtemp makes up
_LOCK = "hopfeed.lock"  # no name that a folder of the user's is likely to have
_LONG = 600  # seconds; a folder gets its name in a thousandth of one


class TemporaryFolder:
    """A folder in the system's temporary one, for as long as this object and the process that made it live.

    Its lock is held before it has its name: where a lock is free the folder's process is dead, and the next one on the
    same host that makes a folder removes it. A fork of the process removes nothing.

    Attributes:
        path: of the folder; what lies in it is the caller's.
    """

    def __init__(self) -> None:
        remove_abandoned()
        made = None
        while made is None:
            made = _make()
        self.path, lock = made
        self._end = weakref.finalize(self, _remove_ours, self.path, lock, os.getpid())

    def remove(self) -> None:
        """Before the object goes."""
        self._end()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()


def _make() -> tuple[Path, int] | None:
    """A new folder and its lock, held; None where another process took it for abandoned before it had its name."""
    unnamed = Path(tempfile.mkdtemp(prefix=_UNNAMED))
    path, lock = unnamed.with_name(unnamed.name[1:]), -1
    try:
        lock = os.open(unnamed / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        except OSError:
            pass  # a file system without locks: nobody can remove there what is not theirs
        os.write(lock, _owner().encode())
        os.rename(unnamed, path)
    except FileNotFoundError:
        if lock >= 0:
            os.close(lock)
        return None
    except BaseException:
        _remove(unnamed)
        if lock >= 0:
            os.close(lock)
        raise
    return path, lock


@functools.cache
def _owner() -> str:
    """What a lock says of the host that its process is on: the host's name, and since when it runs."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = ""
    return f"{socket.gethostname()}\n{boot}\n"


def _is_of_this_host(owner: str) -> bool:
    """Whether locks tell of its process: where hosts share a folder, those of another host may look free."""
    (host, boot, *_), (this_host, this_boot, *_) = f"{owner}\n\n".split("\n"), _owner().split("\n")
    if boot and boot == this_boot:  # containers of one host have names of their own, and share its locks
        return True
    return bool(host) and host == this_host and host != "localhost"  # it has been started again; many are called localhost


def _remove_ours(folder: Path, lock: int, process: int) -> None:
    if os.getpid() == process:
        _remove(folder)
    os.close(lock)


def _remove(folder: Path) -> None:
    """The lock goes last: who is killed meanwhile leaves a folder that can still be told from others."""
    try:
        for path in folder.iterdir():
            if path.name != _LOCK:
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        (folder / _LOCK).unlink(missing_ok=True)
        folder.rmdir()
    except OSError:
        pass  # the next process tries again


def _try_to_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def remove_abandoned() -> None:
    """Removes what this user's processes of this host left when they were killed: folders whose lock nobody holds, and
    old ones that never got their name."""
    temporary = Path(tempfile.gettempdir())
    for folder in [*temporary.glob(f"{_PREFIX}*"), *temporary.glob(_UNNAMED + "?" * _RANDOM)]:
        try:
            _remove_if_abandoned(folder, named=folder.name.startswith(_PREFIX))
        except OSError:
            pass  # gone meanwhile, or none of ours


def _remove_if_abandoned(folder: Path, *, named: bool) -> None:
    there = folder.lstat()  # a folder of ours is nobody else's to replace by a link
    if not stat.S_ISDIR(there.st_mode) or there.st_uid != os.getuid():
        return
    if not named and time.time() - there.st_mtime < _LONG:
        return
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        if not named:
            folder.rmdir()  # which leaves it where there is anything in it
        return
    try:
        owner = os.read(lock, 1000).decode(errors="replace")
        if (_is_of_this_host(owner) or not named and not owner) and _try_to_lock(lock):
            _remove(folder)
    finally:
        os.close(lock)


class CachedFolder:
    """A folder of a cache, which stays when the process ends and is not evicted for as long as this object lives.

    Attributes:
        path: of the folder.
    """

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._end = weakref.finalize(self, os.close, lock)


def _is_whole(folder: Path) -> bool:
    """Whether a dataset is there, with all its files as long as they were made."""
    try:
        meta = json.loads((folder / "meta.json").read_text())
        return all((folder / name).stat().st_size == told["bytes"] for name, told in meta["files"].items())
    except (OSError, ValueError, RecursionError, TypeError, LookupError, AttributeError):
        return False


def cached_folder(cache: Path, name: str, make: Callable[[Path], object], *, limit: int, deadline: float) -> CachedFolder:
    """The cache's dataset of a name; ``make`` makes it where it is not there or damaged, in one process while the others wait.

    Args:
        limit: bytes that the cache may have; what was used longest ago goes first, what is in use stays.
        deadline: seconds to wait for another process.

    Raises:
        DeadlineError: naming the lock that is held.
    """
    cache.mkdir(parents=True, exist_ok=True)
    folder, path = cache / name, cache / f"{name}.lock"
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        while True:
            if not _is_whole(folder):
                with _exclusive(lock, path, deadline):
                    if not _is_whole(folder):  # nobody made it while we waited
                        if folder.exists():
                            warnings.warn(f"{folder}, which is of the cache, is damaged, and is made anew", stacklevel=2)
                            shutil.rmtree(folder)
                        make(folder)
            _wait_for(lock, fcntl.LOCK_SH, path, deadline)
            if _is_whole(folder):
                break
            fcntl.flock(lock, fcntl.LOCK_UN)  # evicted in between
        os.utime(path)
        _evict(cache, limit, keep=name)
    except BaseException:
        os.close(lock)
        raise
    return CachedFolder(folder, lock)


@contextmanager
def _exclusive(lock: int, path: Path, deadline: float) -> Iterator[None]:
    _wait_for(lock, fcntl.LOCK_EX, path, deadline)
    try:
        yield
    finally:
        fcntl.flock(lock, fcntl.LOCK_UN)


def _wait_for(lock: int, kind: int, path: Path, deadline: float) -> None:
    end, told = time.monotonic() + deadline, False
    while True:
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            pass
        if time.monotonic() > end:
            raise DeadlineError(f"another process has held {path} for {deadline:g} s while it converts the graph; wait for it, or end it")
        if not told and time.monotonic() > end - deadline + 2:
            told = True
            print(f"waiting for another process that converts the graph ({path})", file=sys.stderr)
        time.sleep(0.05)


def _evict(cache: Path, limit: int, keep: str) -> None:
    """Removes what was used longest ago, until the cache fits; folders in use stay."""
    entries = sorted(cache.glob("*.lock"), key=lambda path: path.stat().st_mtime)
    folders = {path.stem: [cache / path.stem, *cache.glob(f".{path.stem}.tmp-*")] for path in entries}  # of killed processes too
    sizes = {name: sum(map(_size, of_name)) for name, of_name in folders.items()}
    total = sum(sizes.values())
    for path in entries:
        if total <= limit:
            return
        if path.stem == keep or not sizes[path.stem]:
            continue
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if _try_to_lock(lock):  # else it is in use
                for folder in folders[path.stem]:
                    shutil.rmtree(folder, ignore_errors=True)
                total -= sizes[path.stem]
        finally:
            os.close(lock)


def _size(folder: Path) -> int:
    """Of what is there; another process may be making the folder, or removing it."""
    total = 0
    for inner, _, files in os.walk(folder):  # which passes over folders that have gone
        for name in files:
            try:
                total += os.lstat(os.path.join(inner, name)).st_size
            except FileNotFoundError:
                pass
    return total
