"""The folder of a run: a lock, files that are there whole or not at all, and what a killed run has left whole."""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from hopfeed import _core
from hopfeed.errors import BusyError, CorruptError, InputOutputError, NoSpaceError

Array = np.ndarray[Any, Any]
LOCK, WORK, MANIFEST = ".lock", ".work", "manifest.json"


def lock(folder: Path) -> int:
    """A file descriptor that holds the folder's lock until it is closed. Makes the folder.

    Raises:
        BusyError: another run has it.
    """
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            held = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except FileNotFoundError:
            continue  # its owner has just removed the folder
        except OSError as error:
            raise InputOutputError(f"{folder}: {error.strerror}") from None
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(held)
            raise BusyError(f"another run writes to {folder}; wait for it, or give another folder") from None
        try:
            if os.stat(folder / LOCK).st_ino == os.fstat(held).st_ino:
                return held
        except FileNotFoundError:
            pass
        os.close(held)


class Files:
    """Writes files whole: under a hidden name, synced, renamed.

    Args:
        sync: whether a file is to outlive the machine's sudden end.
    """

    def __init__(self, sync: bool) -> None:
        self._sync = sync

    def write(self, path: Path, fill: Callable[[Summed], object]) -> dict[str, Any]:
        """``fill`` writes the file; gives its bytes and its checksum.

        Raises:
            NoSpaceError: the disk is full; InputOutputError: it cannot be written. Nothing is left of it.
        """
        made = path.with_name(f".{path.name}.new")
        try:
            with errors_as_lines(path):
                with open(made, "wb", buffering=0) as file:
                    summed = Summed(file)
                    fill(summed)
                    if self._sync:
                        os.fsync(file.fileno())
                os.rename(made, path)
                if self._sync:
                    _sync_folder(path.parent)
        except BaseException:
            made.unlink(missing_ok=True)
            raise
        return {"bytes": summed.bytes, "xxh3": summed.sum.hex()}

    def array(self, path: Path, parts: Sequence[Array]) -> dict[str, Any]:
        """A ``.npy`` file of arrays one behind the other."""
        rows = [np.ascontiguousarray(part) for part in parts]
        header = {"descr": np.lib.format.dtype_to_descr(rows[0].dtype), "fortran_order": False, "shape": (sum(map(len, rows)), *rows[0].shape[1:])}

        def fill(file: Summed) -> None:
            np.lib.format.write_array_header_1_0(file, header)
            for part in rows:
                file.write(part.reshape(-1).view(np.uint8))

        return self.write(path, fill)

    def json(self, path: Path, content: Any) -> None:
        text = json.dumps(content, indent=1).encode()
        self.write(path, lambda file: file.write(text))


class Summed(io.RawIOBase):
    """A file that is written once, from its begin to its end, and what it comes to.

    Attributes:
        bytes: written so far.
        sum: their checksum.
    """

    def __init__(self, file: io.RawIOBase | Any) -> None:
        self._file, self.bytes, self.sum = file, 0, _core.Checksum()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        left = memoryview(data).cast("B")
        self.sum.update(np.frombuffer(left, np.uint8))
        self.bytes += len(left)
        written = len(left)
        while left:
            left = left[self._file.write(left) :]
        return written


@contextmanager
def errors_as_lines(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoSpaceError(f"{path}: the disk is full; make room and make the same call again, which goes on with what is whole") from None
        raise InputOutputError(f"{path}: {error.strerror or error}") from None


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def checksum(path: Path) -> str:
    """XXH3-64 of a file, 16 hex digits."""
    found = _core.Checksum()
    if os.path.getsize(path):
        found.update(np.memmap(path, np.uint8, "r"))
    return str(found.hex())


def require_whole(path: Path, facts: Mapping[str, Any], *, sums: bool, remedy: str) -> None:
    """Raises ``CorruptError`` naming a file that is not as it was written."""
    try:
        size = os.path.getsize(path)
    except OSError:
        raise CorruptError(f"{path} is gone; {remedy}") from None
    if size != facts["bytes"]:
        raise CorruptError(f"{path} has {size:,} bytes and was written with {facts['bytes']:,}; {remedy}")
    if sums and checksum(path) != facts["xxh3"]:
        raise CorruptError(f"{path} is damaged: its checksum is another; {remedy}")


def read_json(path: Path) -> Any:
    """None where there is no such file, or it is none of ours."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return None


def free_bytes(folder: Path) -> int:
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free
