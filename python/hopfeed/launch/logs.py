"""A log of each process of a run, in one folder of this machine."""

from __future__ import annotations

from collections.abc import Callable
from io import TextIOWrapper
from pathlib import Path

from hopfeed.launch.errors import LaunchError


class Logs:
    """Files ``HOST.PROCESS.log``, begun anew by each run.

    Args:
        warn: told once, when a line cannot be written; the run goes on without.

    Raises:
        LaunchError: the folder cannot be made.
    """

    def __init__(self, folder: str, warn: Callable[[str], None]) -> None:
        self._folder, self._warn = Path(folder), warn
        self._files: dict[str, TextIOWrapper] = {}
        self._broken = False
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LaunchError(f"--logs: cannot make {folder}: {error.strerror}") from error

    def write(self, host: str, process: str, text: str) -> None:
        name = f"{host}.{process}.log"
        try:
            if name not in self._files:
                self._files[name] = (self._folder / name).open("w", buffering=1, encoding="utf-8", errors="replace")
            self._files[name].write(text + "\n")
        except OSError as error:
            if not self._broken:
                self._warn(f"--logs: cannot write {self._folder / name} ({error.strerror}); the run goes on without")
            self._broken = True

    def close(self) -> None:
        for file in self._files.values():
            try:
                file.close()
            except OSError:
                pass
