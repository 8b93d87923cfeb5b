"""Seeds that are given by the keys of the tables which a dataset was imported from, and the keys of a batch's nodes."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hopfeed.dataset import Dataset, Keys
from hopfeed.errors import InvalidError, NotFoundError

_HEX = "[0-9a-fA-F]"
_KINDS: dict[str, tuple[Callable[[str], Any], re.Pattern[str]]] = {
    "int64": (int, re.compile("-?[0-9]+")),
    "uuid": (uuid.UUID, re.compile(f"{_HEX}{{8}}(-{_HEX}{{4}}){{3}}-{_HEX}{{12}}")),
    "string": (str, re.compile(".*", re.DOTALL)),
}
_OTHER_SEEDS = ("seeds", "seed_mask", "links", "edge_type")


def seeds_by_key(given: Any, dataset: Any, options: dict[str, Any]) -> np.ndarray[Any, Any]:
    """The ids of keys, in their order: of a list or array of them, or of a file with a key in each line (or .npy).

    Raises:
        InvalidError: seeds are given otherwise too, there is no folder, or a line is no key; NotFoundError: naming the first
            key that no node has.
    """
    _require_folder("seeds_by_key", "turn keys into ids by Dataset.ids where the folder is, and give seeds", options)
    if also := [name for name in _OTHER_SEEDS if options.get(name) is not None]:
        raise InvalidError(f"seeds_by_key and {also[0]} both say what the seeds are; give one of them")
    keys = Dataset(dataset).keys(options.get("node_type"))
    if not isinstance(given, (str, os.PathLike)):
        return keys.ids(given)
    path = Path(given)
    try:
        several = _entries(path) if path.suffix == ".npy" else _lines(path, keys.kind)
        if not several:
            raise ValueError("it is empty")
    except OSError as error:
        raise NotFoundError(f"seeds_by_key: {path}: {error.strerror}") from None
    except ValueError as error:
        raise InvalidError(f"seeds_by_key: {path}: {error}") from None
    try:
        return keys.ids(several)
    except (InvalidError, NotFoundError) as error:
        raise type(error)(f"seeds_by_key: {path}: {error}") from None


def _entries(path: Path) -> list[Any]:
    array = np.load(path)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"it is no list of whole numbers: it holds {array.dtype} in the shape {list(array.shape)}")
    found: list[Any] = array.tolist()
    return found


def _lines(path: Path, kind: str) -> list[Any]:
    text = path.read_bytes().decode()
    lines = text.removesuffix("\n").split("\n") if text else []
    of_kind, form = _KINDS[kind]
    for number, line in enumerate(lines, 1):
        if form.fullmatch(line) is None:
            raise ValueError(f"line {number}: {line[:80]!r} is no key of type {kind}")
    return [of_kind(line) for line in lines]


def batch_keys(dataset: Any, options: dict[str, Any]) -> dict[str, Keys]:
    """The keys of each node type that has some.

    Raises:
        NotFoundError: none has; InvalidError: there is no folder.
    """
    _require_folder("keys=True", "take them where the folder is: Dataset.keys()[batch.n_id]", options)
    found = Dataset(dataset)
    several = {node["name"]: found.keys(node["name"]) for node in found.meta["node_types"] if "keys" in node}
    if not several:
        raise NotFoundError(f"keys=True: {found.folder} has no keys; an import of tables keeps them")
    return several


def _require_folder(name: str, remedy: str, options: dict[str, Any]) -> None:
    if options.get("servers") is not None:
        raise InvalidError(f"{name} reads the keys in the dataset's folder, and with servers there is none; {remedy}")
