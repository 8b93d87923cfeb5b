"""A graph cut in two, on two machines that are processes here: a folder with one partition each, and a server of each that answers the
other, samples for trainers and keeps state."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conftest import partition
from state_owners import start


@dataclass
class Machines:
    """Attributes:
        whole: the folder with both partitions.
        folders: of each machine, with its own partition.
        addresses: of their servers.
    """

    whole: Path
    folders: list[Path]
    addresses: list[str]

    def places(self) -> dict[str, dict[str, Any]]:
        """Arguments of ``initialize`` for each way to reach the graph."""
        owners = {"owners": self.addresses}
        return {
            "alone": {"data": self.whole, **owners},
            "first": {"data": self.folders[0], "peers": self.addresses},
            "second": {"data": self.folders[1], "peers": self.addresses, "num_workers": 0},
            "servers": {"servers": self.addresses},
        }


@contextmanager
def machines(dataset: Path, folder: Path, addresses: list[str] | None = None, ids: str = "auto") -> Iterator[Machines]:
    """Cuts a dataset, spreads it, starts the servers; ends them."""
    folder.mkdir(exist_ok=True)
    addresses = addresses or [f"unix:{folder}/{i}" for i in range(2)]
    partition("partition", dataset, folder / "cut", "--parts", 2, "--ids", ids)
    folders = []
    for i in range(2):
        folders.append(folder / f"machine{i}")
        shutil.copytree(folder / "cut", folders[i], ignore=shutil.ignore_patterns(f"part-000{1 - i}"))
    processes: list[subprocess.Popen[str]] = []
    try:
        for i, address in enumerate(addresses):
            more = ["--peers", ",".join(addresses), "--state", folder / "state", "--num-workers", 1]
            processes.append(start(folders[i], address, str(i), *more))
        yield Machines(folder / "cut", folders, addresses)
    finally:
        for process in processes:
            process.kill()
            process.wait()
