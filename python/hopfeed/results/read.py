"""Reads results by the ids that users know."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from hopfeed.errors import CorruptError, InvalidError, NotFoundError
from hopfeed.results.folder import require_whole
from hopfeed.results.keys import as_objects
from hopfeed.results.manifest import read_manifest

Array = np.ndarray[Any, Any]
_REMEDY = "restore it, or compute the results anew"


def read_results(folder: str | os.PathLike[str], node_type: str | None = None, *, name: str | None = None, verify: bool = False) -> Results:
    """Results that ``infer`` has written.

    Args:
        node_type: whose; the first without.
        name: of the output; the first without.
        verify: reads every file and compares checksums.

    Raises:
        NotFoundError: no results, or no such type; CorruptError: a file that is not as it was written.
    """
    return Results(Path(folder), node_type, name, verify)


class Results:
    """Rows of one node type, by original id: ``results[ids]`` reads these rows alone.

    Attributes:
        folder: of the results.
        manifest: what ``manifest.json`` says.
        node_type: whose rows these are.
        shape: of all rows.
        dtype: of NumPy.
    """

    def __init__(self, folder: Path, node_type: str | None, name: str | None, verify: bool) -> None:
        self.folder, self.manifest = folder, read_manifest(folder)
        outputs = {output["name"]: output for output in self.manifest["outputs"]}
        self.name = next(iter(outputs), "") if name is None else name
        if self.name not in outputs:
            raise NotFoundError(f"{folder} has no output '{self.name}'; it has {list(outputs)}")
        types = {node["name"]: node for node in outputs[self.name]["node_types"]}
        self.node_types: list[str] = list(types)
        self.node_type = next(iter(types), "") if node_type is None else node_type
        if self.node_type not in types:
            raise NotFoundError(f"{folder} has no results of '{self.node_type}'; it has those of {self.node_types}")
        meta = types[self.node_type]
        self.key_kind: str | None = meta.get("keys")
        self.shape, self.dtype = (int(meta["rows"]), int(meta["width"])), np.dtype(self.manifest["dtype"])
        shards = [shard for shard in self.manifest["shards"] if shard["output"] == self.name]
        for shard in shards:
            for file in shard["files"].values():
                require_whole(folder / file["path"], file, sums=verify, remedy=_REMEDY)
        self._shards = [shard for shard in shards if shard["node_type"] == self.node_type]
        if sum(shard["rows"] for shard in self._shards) != self.shape[0]:
            raise CorruptError(f"{folder}: the shards of '{self.node_type}' have not {self.shape[0]} rows; {_REMEDY}")

    def of(self, node_type: str) -> Results:
        """Those of another type."""
        return Results(self.folder, node_type, self.name, False)

    def __len__(self) -> int:
        return self.shape[0]

    @cached_property
    def ids(self) -> Array:
        """Original ids that there are rows of, rising."""
        ids: Array = self._stored_ids[self._order]
        return ids

    @cached_property
    def keys(self) -> Array:
        """What these nodes are called by, in the order of ``ids``: int64, or objects (str, uuid.UUID).

        Raises:
            NotFoundError: the dataset has none.
        """
        if self.key_kind is None:
            raise NotFoundError(f"the nodes of '{self.node_type}' have no keys; an import of tables keeps them")
        parts = [self._keys(at) for at in range(len(self._shards))]
        stored = np.concatenate(parts) if parts else np.empty(0, object)
        return np.asarray(stored[self._order])

    def __getitem__(self, ids: Any) -> Array:
        """Rows of original ids, in their order.

        Raises:
            NotFoundError: naming one that there is no row of; InvalidError: no whole numbers.
        """
        if isinstance(ids, slice):
            ids = self.ids[ids]
        wanted = np.asarray(ids)
        if wanted.dtype.kind not in "iu" and wanted.size:
            raise InvalidError(f"ids are {wanted.dtype.name}; give whole numbers, the nodes' ids")
        flat = wanted.reshape(-1).astype(np.int64)
        at = np.searchsorted(self.ids, flat)
        there = at < len(self.ids)
        there[there] = self.ids[at[there]] == flat[there]
        if not there.all():
            raise NotFoundError(f"there is no row of node {flat[~there][0]} of '{self.node_type}'; there are {self.shape[0]:,} rows")
        return self._rows(self._order[at]).reshape(*wanted.shape, self.shape[1])

    def array(self) -> Array:
        """All rows, in the order of ``ids``: where all nodes were written, row i is node i's."""
        return self._rows(self._order)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        rows = self.array()
        return rows if dtype is None else rows.astype(dtype, copy=False)

    def _rows(self, places: Array) -> Array:
        """By their place in the shards, one behind the other."""
        out = np.empty((len(places), self.shape[1]), self.dtype)
        shard = np.searchsorted(self._starts, places, side="right") - 1
        for at in np.unique(shard):
            here = np.flatnonzero(shard == at)
            out[here] = self._stored(int(at))[places[here] - self._starts[at]]
        return out

    @cached_property
    def _starts(self) -> Array:
        return np.cumsum([0, *(shard["rows"] for shard in self._shards)])

    @cached_property
    def _stored_ids(self) -> Array:
        parts = [self._load(at, "ids") for at in range(len(self._shards))]
        ids = np.concatenate(parts) if parts else np.empty(0, np.int64)
        if ids.shape != (self.shape[0],) or ids.dtype != np.int64:
            raise CorruptError(f"{self.folder}: the ids of '{self.node_type}' are not {self.shape[0]} whole numbers; {_REMEDY}")
        return ids

    @cached_property
    def _order(self) -> Array:
        return np.argsort(self._stored_ids, kind="stable")

    @cached_property
    def _loaded(self) -> dict[tuple[int, str], Array]:
        return {}

    def _stored(self, at: int) -> Array:
        """A shard's rows, mapped; of Parquet they are kept in memory."""
        rows = self._load(at, "rows")
        if rows.shape != (self._shards[at]["rows"], self.shape[1]) or rows.dtype != self.dtype:
            raise CorruptError(f"{self.folder}: a shard of '{self.node_type}' has {list(rows.shape)} of {rows.dtype}; {_REMEDY}")
        return rows

    def _load(self, at: int, kind: str) -> Array:
        if (at, kind) not in self._loaded:
            files = self._shards[at]["files"]
            if "table" in files:
                self._read_table(at, self.folder / files["table"]["path"])
            else:
                self._loaded[at, kind] = _load(self.folder / files[kind]["path"])
        return self._loaded[at, kind]

    def _read_table(self, at: int, path: Path) -> None:
        try:
            import pyarrow.parquet as pq
        except ImportError:
            raise InvalidError("results in Parquet need the package pyarrow: pip install 'hopfeed[tables]'") from None
        table = pq.read_table(path).combine_chunks()
        self._loaded[at, "ids"] = table["id"].to_numpy()
        rows = table["row"].combine_chunks()
        rows = rows.chunk(0) if hasattr(rows, "chunk") else rows
        self._loaded[at, "rows"] = rows.flatten().to_numpy(zero_copy_only=False).reshape(-1, self.shape[1])

    def _keys(self, at: int) -> Array:
        files = self._shards[at]["files"]
        if "table" not in files:
            return as_objects(str(self.key_kind), {kind: _load(self.folder / files[kind]["path"]) for kind in files if kind.startswith("key")})
        import uuid

        import pyarrow.parquet as pq

        column = pq.read_table(self.folder / files["table"]["path"], columns=["key"])["key"]
        if self.key_kind == "int64":
            return np.asarray(column.to_numpy())
        out = np.empty(len(column), object)
        out[:] = [uuid.UUID(key) for key in column.to_pylist()] if self.key_kind == "uuid" else column.to_pylist()
        return out

    def __repr__(self) -> str:
        return f"Results({self.folder}: {self.shape[0]} rows of width {self.shape[1]} of '{self.node_type}', {self.dtype})"


def _load(path: Path) -> Array:
    try:
        return np.load(path, mmap_mode="r")
    except ValueError as error:
        raise CorruptError(f"{path} is damaged ({error}); {_REMEDY}") from None
