"""The work folder of an import, beside what it makes: a folder for each stage, which is renamed when it is whole. A killed
import goes on behind its last whole stage; tables or options that have changed begin anew."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hopfeed.errors import InvalidError

FORMAT = 2  # of the stages; another begins anew
_SIGNATURE, _FACTS, _LOCK = "import.json", "stage.json", "lock"


class Stage:
    """A stage that is whole.

    Attributes:
        folder: what it has made.
        facts: what it knows of that: JSON.
    """

    def __init__(self, folder: Path, facts: dict[str, Any]) -> None:
        self.folder, self.facts = folder, facts

    def __truediv__(self, name: str) -> Path:
        return self.folder / name


class Work:
    """The work folder, locked for as long as this object is open.

    Args:
        folder: made where it is not there.
        say: is told what begins and what is there already.

    Raises:
        InvalidError: another process imports into it.
    """

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder, self._say = folder, say
        self._lock = _locked(folder)
        for left in folder.glob("*.tmp"):
            shutil.rmtree(left, ignore_errors=True)
        shutil.rmtree(self.spill, ignore_errors=True)

    @property
    def spill(self) -> Path:
        """A folder for what does not fit into memory; it is new in each process."""
        return self.folder / "spill"

    @property
    def rejected(self) -> Path:
        """A folder for rows that were left out; it stays with the stages that left them out."""
        return self.folder / "rejected"

    def agree(self, signature: Mapping[str, Any]) -> None:
        """Keeps what stages have made if they were of the same tables and options, else begins anew and says why."""
        path, told = self.folder / _SIGNATURE, {"format": FORMAT, **signature}
        text = json.dumps(told, indent=1)
        try:
            before = json.loads(path.read_text())
        except (OSError, ValueError):
            before = None
        if before is not None and before != json.loads(text):
            self._say(f"{self.folder}: {_difference(before, json.loads(text))}, so the import begins anew")
        if before != json.loads(text):
            for inner in self.folder.iterdir():
                if inner.is_dir() and inner != self.spill:
                    shutil.rmtree(inner)
            write_whole(path, text)

    def stage(self, name: str, title: str, make: Callable[[Path], dict[str, Any]]) -> Stage:
        """A stage: as an earlier process has made it, else ``make`` fills its folder and gives its facts."""
        folder = self.folder / name
        if not (folder / _FACTS).exists():
            self._say(title)
            made = self.folder / f"{name}.tmp"
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir()
            facts = make(made)
            (made / _FACTS).write_text(json.dumps(facts))
            os.rename(made, folder)
        return Stage(folder, json.loads((folder / _FACTS).read_text()))

    def close(self) -> None:
        """Lets another process go on; nothing stays where no stage is whole."""
        shutil.rmtree(self.spill, ignore_errors=True)
        if self.folder.exists() and not any(inner.is_dir() and inner != self.rejected for inner in self.folder.iterdir()):
            self.remove()
        os.close(self._lock)

    def remove(self) -> None:
        """Removes all of it; the lock goes last."""
        for inner in list(self.folder.iterdir()):
            if inner.name != _LOCK:
                shutil.rmtree(inner) if inner.is_dir() else inner.unlink()
        (self.folder / _LOCK).unlink()
        self.folder.rmdir()


def write_whole(path: Path, text: str) -> None:
    """A file that is there whole or not at all."""
    made = path.with_name(path.name + ".new")
    made.write_text(text)
    os.rename(made, path)


def _locked(folder: Path) -> int:
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except FileNotFoundError:
            continue  # its owner has just removed the folder
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise InvalidError(f"another import works in {folder}; wait for it, or import into another folder") from None
        try:
            if os.stat(folder / _LOCK).st_ino == os.fstat(lock).st_ino:
                return lock
        except FileNotFoundError:
            pass
        os.close(lock)


def _difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What an import that begins anew says."""
    for key in now:
        if before.get(key) == now[key]:
            continue
        if key == "files":
            old, new = ({path: rest for path, *rest in one} for one in (before.get(key) or [], now[key]))
            for path in sorted({*old, *new}):
                if old.get(path) != new.get(path):
                    return f"{path} {'is new' if path not in old else 'is gone' if path not in new else 'has changed'}"
        if key == "description":
            return "the description has changed"
        return f"{key.replace('_', ' ')} was {before.get(key)!r} and is {now[key]!r}"
    return "it was made by another version"
