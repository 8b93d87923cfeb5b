"""What describes another system's folder: a file of JSON or YAML, whose fields are asked for with their type. Complaints name
the file and the field."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hopfeed.errors import InvalidError, NotFoundError
from hopfeed.tables.description import load
from hopfeed.tables.doors.arrays import Piece, numpy_array, parquet_array, torch_array

_OPEN: dict[str, Callable[[Path], Piece]] = {"numpy": numpy_array, "torch": torch_array, "parquet": parquet_array}

MOST = 1 << 48  # nodes, or edges, of a type


class Fields:
    """An object in a description, and where it is."""

    def __init__(self, given: Any, where: str, folder: Path) -> None:
        if not isinstance(given, Mapping):
            raise InvalidError(f"{where} is no object of fields")
        self.given, self.where, self.folder = given, where, folder

    @classmethod
    def of_file(cls, path: Path, missing: str) -> Fields:
        """All of a file. ``missing``: what is said where there is none."""
        if not path.is_file():
            raise NotFoundError(f"{path} is not there; {missing}")
        return cls(load(path), str(path), path.parent)

    def has(self, key: str) -> bool:
        return self.given.get(key) is not None

    def _wrong(self, key: str, what: str) -> InvalidError:
        value = self.given.get(key)
        return InvalidError(f"{self.where} has no '{key}'" if value is None else f"{self.where}: '{key}' is {str(value)[:60]!r}, expected {what}")

    def text(self, key: str) -> str:
        value = self.given.get(key)
        if not isinstance(value, str) or not value:
            raise self._wrong(key, "a text")
        return value

    def whole(self, key: str) -> int:
        value = self.given.get(key)
        if type(value) is not int or not 0 <= value <= MOST:
            raise self._wrong(key, "a whole number from 0 on" if type(value) is not int or value < 0 else f"{MOST:,} at most")
        return value

    def chosen(self, key: str, choices: Sequence[str]) -> str:
        value = self.given.get(key)
        if value not in choices:
            raise self._wrong(key, "one of " + ", ".join(choices))
        return str(value)

    def items(self, key: str) -> Sequence[Any]:
        value = self.given.get(key)
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise self._wrong(key, "a list")
        return value

    def texts(self, key: str) -> Sequence[str]:
        if not all(isinstance(one, str) and one for one in self.items(key)):
            raise self._wrong(key, "a list of texts")
        return self.items(key)

    def inner(self, key: str) -> Fields:
        value = self.given.get(key)
        if not isinstance(value, Mapping):
            raise self._wrong(key, "an object of fields")
        return Fields(value, f"{self.where}: {key}", self.folder)

    def objects(self, key: str) -> list[Fields]:
        """The objects of a list; none where it is not there."""
        return [Fields(one, f"{self.where}: {key}[{i}]", self.folder) for i, one in enumerate(self.items(key))] if self.has(key) else []

    def path(self, given: str) -> Path:
        """A path, which begins at the folder of the file."""
        return self.folder / given

    def array(self, key: str, given: str, form: str) -> Piece:
        """The array of a file. ``key``: the field that names it."""
        path = self.path(given)
        if not path.is_file():
            raise NotFoundError(f"{self.where}: '{key}' is {given}, and {path} is not there")
        return _OPEN[form](path)


def edge_type(name: str, where: str) -> tuple[str, str, str]:
    """The three names of ``src:rel:dst``."""
    parts = name.split(":")
    if len(parts) != 3 or not all(parts):
        raise InvalidError(f"{where}: the edge type is {name!r}, expected SRC:REL:DST")
    return parts[0], parts[1], parts[2]
