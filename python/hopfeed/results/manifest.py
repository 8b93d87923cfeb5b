"""``manifest.json`` of a folder of results: written last, so a folder without it holds no results."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hopfeed.errors import CorruptError, NotFoundError, VersionError
from hopfeed.results.folder import MANIFEST, read_json

FORMAT, VERSION = "hopfeed-results", 1
_FIELDS = {
    "run": str, "dataset": str, "fingerprint": str, "dtype": str, "file_format": str, "outputs": list, "shards": list, "torch": str, "processor": str,
}  # fmt: skip


def is_manifest(found: Any) -> bool:
    """Whether a file of JSON says what results a folder has, and of which run they are."""
    if not _has(found, format=str, run=str, outputs=list) or found["format"] != FORMAT or not re.fullmatch("[0-9a-f]{16}([0-9a-f]{16})?", found["run"]):
        return False
    return all(_has(output, name=str) for output in found["outputs"])


def read_manifest(folder: Path) -> dict[str, Any]:
    """Of a folder whose results are whole.

    Raises:
        NotFoundError: there is none; CorruptError, VersionError: it is no such manifest.
    """
    path = folder / MANIFEST
    if not path.exists():
        raise NotFoundError(f"{folder} holds no results: there is no {MANIFEST}, which is written last")
    manifest = read_json(path)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise CorruptError(f"{path} is no manifest of results, or damaged")
    if manifest.get("version") != VERSION:
        raise VersionError(f"{path} has version {manifest.get('version')}; this hopfeed reads {VERSION}")
    for name, kind in _FIELDS.items():
        if not isinstance(manifest.get(name), kind):
            raise CorruptError(f"{path} is damaged: it has no {name}")
    for output in manifest["outputs"]:
        if not _has(output, name=str, node_types=list) or not all(_is_node_type(node) for node in output["node_types"]):
            raise CorruptError(f"{path} is damaged: an output is not described")
    for shard in manifest["shards"]:
        if not _has(shard, output=str, node_type=str, partition=int, rows=int, files=dict):
            raise CorruptError(f"{path} is damaged: a shard is not described")
        if not all(_has(file, path=str, bytes=int, xxh3=str) and _is_below(file["path"]) for file in shard["files"].values()):
            raise CorruptError(f"{path} is damaged: a shard's file is not described")
    return manifest


def _is_node_type(described: Any) -> bool:
    """Earlier releases did not say of how many nodes rows were ``chosen``."""
    return _has(described, name=str, width=int, rows=int, count=int) and isinstance(described.get("chosen", 0), int)


def _has(value: Any, **fields: type) -> bool:
    return isinstance(value, Mapping) and all(isinstance(value.get(name), kind) for name, kind in fields.items())


def _is_below(path: str) -> bool:
    """Whether a manifest's path stays in its folder."""
    parts = path.split("/")
    return bool(path) and not path.startswith("/") and ".." not in parts
