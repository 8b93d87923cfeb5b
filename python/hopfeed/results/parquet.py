"""Results as Parquet: the table of a shard, and a folder of NumPy's files that is rewritten so."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hopfeed.errors import CorruptError, NoSpaceError
from hopfeed.results.folder import LOCK, MANIFEST, Files, Summed, free_bytes, lock, require_whole
from hopfeed.results.keys import as_arrow
from hopfeed.results.manifest import read_manifest

Array = np.ndarray[Any, Any]
GROUP_BYTES = 64 << 20  # rows that a writer has in memory
_NPY = (".npy", ".ids.npy", ".keys.npy", ".key_offsets.npy")
_REMEDY = "restore it, or compute the results anew"


def write_table(file: Summed, rows: Array, ids: Array, key_kind: str | None, keys: dict[str, Array]) -> None:
    """A shard as one table: id, key where there are keys, and row, a list of fixed size."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"id": pa.array(ids)}
    if key_kind is not None:
        columns["key"] = as_arrow(key_kind, keys)
    columns["row"] = pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(rows).reshape(-1)), rows.shape[1])
    pq.write_table(pa.table(columns), file, row_group_size=max(1, GROUP_BYTES // (rows.shape[1] * rows.itemsize)))


def is_possible() -> bool:
    """Whether the package is there that writes Parquet."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        return False
    return True


def to_parquet(folder: Path, advance: Callable[[int, int], object] = lambda done, total: None) -> dict[str, Any]:
    """Rewrites the shards of a folder of results as Parquet, each of them whole; then the manifest; then the other files go.

    Where it was killed, the same call goes on to the same files. A folder that is Parquet is left as it is.

    Args:
        advance: is told how many rows are done, of how many.

    Returns:
        What the folder has now: rows, files, bytes, and whether anything was to do.

    Raises:
        NotFoundError: no results; CorruptError: a file that is not as it was written; NoSpaceError: the disk is too small.
        BusyError: another process writes to the folder.
    """
    read_manifest(folder)  # lock() would make a folder that is not there
    held = lock(folder)
    try:
        manifest = read_manifest(folder)
        was = manifest["file_format"]
        if was != "parquet":
            _require_room(folder, manifest)
            manifest = _rewrite(folder, manifest, Files(sync=True), advance)
        for shard in manifest["shards"]:
            for suffix in _NPY:
                (folder / f"{_stem(folder, shard['files'], 'table', '.parquet')}{suffix}").unlink(missing_ok=True)
    finally:
        (folder / LOCK).unlink(missing_ok=True)
        os.close(held)
    files = [shard["files"]["table"] for shard in manifest["shards"]]
    rows = sum(shard["rows"] for shard in manifest["shards"])
    return {"folder": str(folder), "rows": rows, "files": len(files), "bytes": sum(file["bytes"] for file in files), "rewritten": was != "parquet"}


def _rewrite(folder: Path, manifest: dict[str, Any], files: Files, advance: Callable[[int, int], object]) -> dict[str, Any]:
    """Gives the new manifest, which is in its place."""
    kinds = {(output["name"], node["name"]): node.get("keys") for output in manifest["outputs"] for node in output["node_types"]}
    shards, done, total = [], 0, sum(shard["rows"] for shard in manifest["shards"])
    for shard in manifest["shards"]:
        kind = kinds.get((shard["output"], shard["node_type"]))
        arrays = {name: _load(folder / file["path"], file) for name, file in shard["files"].items()}
        rows, ids = (_of(folder, arrays, name, shard["rows"]) for name in ("rows", "ids"))
        keys = {name: array for name, array in arrays.items() if name.startswith("key")}
        path = f"{_stem(folder, shard['files'], 'rows', '.npy')}.parquet"
        facts = files.write(folder / path, lambda file: write_table(file, rows, ids, kind, keys))  # noqa: B023
        shards.append({**shard, "files": {"table": {"path": path, **facts}}})
        done += shard["rows"]
        advance(done, total)
    made = {**manifest, "file_format": "parquet", "shards": shards}
    files.json(folder / MANIFEST, made)
    return made


def _stem(folder: Path, files: dict[str, Any], kind: str, suffix: str) -> str:
    path = str(files[kind]["path"]) if kind in files else ""
    if not path.endswith(suffix):
        raise CorruptError(f"{folder / MANIFEST} is damaged: a shard has no {suffix} file of its {kind}")
    return path[: -len(suffix)]


def _load(path: Path, facts: dict[str, Any]) -> Array:
    require_whole(path, facts, sums=True, remedy=_REMEDY)
    try:
        return np.load(path, mmap_mode="r")
    except ValueError as error:
        raise CorruptError(f"{path} is damaged ({error}); {_REMEDY}") from None


def _of(folder: Path, arrays: dict[str, Array], name: str, rows: int) -> Array:
    array = arrays.get(name)
    if array is None or len(array) != rows or array.ndim != (2 if name == "rows" else 1):
        raise CorruptError(f"{folder}: a shard has not {rows} {name}; {_REMEDY}")
    return array


def _require_room(folder: Path, manifest: dict[str, Any]) -> None:
    """Both kinds of files are there until the last is rewritten; Parquet takes no more than NumPy's."""
    needed = 0
    for shard in manifest["shards"]:
        if not (folder / f"{_stem(folder, shard['files'], 'rows', '.npy')}.parquet").exists():
            needed += sum(file["bytes"] for file in shard["files"].values())
    if needed > (free := free_bytes(folder)):
        raise NoSpaceError(f"{folder}: Parquet takes up to {needed / 1e6:,.1f} MB beside the files that are there, and {free / 1e6:,.1f} MB are free; make room")
