"""Servers that own the partitions of a graph of 2,000 nodes and keep state of training."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hopfeed.programs import program

NODES = 2000
DEADLINE = 120


def start(cut: Path, address: str, partitions: str, *more: object) -> subprocess.Popen[str]:
    command = [program("hopfeed-server"), "--data", cut, "--partitions", partitions, "--listen", address, *map(str, more)]
    # Python ignores SIGXFSZ, and so does what it starts then: a file that grows too large is an error (disk_is_full).
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, restore_signals=False)
    assert process.stdout is not None and process.stdout.readline().startswith("listening")
    return process


@contextmanager
def owner(cut: Path, folder: Path, partitions: str, *, keeps_state: bool = True) -> Iterator[str]:
    """A server of these partitions; killed at the end."""
    folder.mkdir()
    address = f"unix:{folder}/socket"
    process = start(cut, address, partitions, *(["--state", folder / "state"] if keeps_state else []))
    try:
        yield address
    finally:
        process.kill()
        process.wait()


class Owners:
    """Owners of a cut that share a folder for checkpoints, and are killed and started again; a context that ends them.

    Args:
        partitions: those of each.
    """

    def __init__(self, cut: Path, folder: Path, partitions: list[str]) -> None:
        folder.mkdir(exist_ok=True)
        self.state = folder / "state"
        self.addresses = [f"unix:{folder}/{cut.name}-{i}" for i in range(len(partitions))]
        self._starts = [(cut, address, owned, "--state", self.state) for address, owned in zip(self.addresses, partitions)]
        self._processes = [start(*arguments) for arguments in self._starts]

    def kill(self, which: int) -> None:
        """Kills one and starts it again: what it held is gone."""
        self._processes[which].kill()
        self._processes[which].wait()
        self._processes[which] = start(*self._starts[which])

    @contextmanager
    def disk_is_full(self, which: int) -> Iterator[None]:
        """No file of a server grows beyond some bytes meanwhile."""
        pid = self._processes[which].pid
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (500, before[1]))
        try:
            yield
        finally:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, before)

    def shards(self) -> list[Path]:
        """The files of checkpoints that there are."""
        return sorted(self.state.glob("**/*.rows"))

    def __enter__(self) -> Owners:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
