"""Result files of a shard: rows, original ids and keys, as NumPy's files or as one of Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hopfeed.errors import InvalidError
from hopfeed.results.folder import Files
from hopfeed.results.keys import KeyColumn
from hopfeed.results.parquet import write_table

if TYPE_CHECKING:
    from hopfeed.results.graph import Graph

Array = np.ndarray[Any, Any]
FORMATS = ("npy", "parquet")


def require_packages(format: str) -> None:
    """Raises ``InvalidError`` naming the package that is not there."""
    if format == "parquet":
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError:
            raise InvalidError("format='parquet' needs the package pyarrow: pip install 'hopfeed[tables]', or give format='npy'") from None


class Output:
    """Writes the results of one node type.

    Args:
        folder: of the results; files go to ``<name>/<node type>`` in it.
        wanted: a bool for each original id; None: all.

    Attributes:
        rows: that this machine writes.
        chosen: nodes that rows are written of, on all machines.
        key_kind: of the keys that it writes with them; None: this machine has none.
    """

    def __init__(self, graph: Graph, node_type: str, folder: Path, name: str, format: str, dtype: str, wanted: Array | None, files: Files) -> None:
        self._folder, self._below, self._format, self._wanted, self._files = folder, f"{name}/{node_type}", format, wanted, files
        self._dtype = np.dtype(dtype)
        self._keys = KeyColumn(graph.dataset, node_type) if KeyColumn.is_here(graph.dataset, node_type) else None
        offsets = graph.partition_offsets(node_type)
        here = (graph.original_ids(node_type, part, 0, offsets[part + 1] - offsets[part]) for part in graph.parts)
        self.chosen = graph.dataset.num_nodes(node_type) if wanted is None else int(wanted.sum())
        self.rows = graph.num_rows(node_type) if wanted is None else sum(int(wanted[ids].sum()) for ids in here)
        self.key_kind = None if self._keys is None else self._keys.kind

    def row_bytes(self, width: int) -> int:
        """That a row takes on disk."""
        return width * self._dtype.itemsize + 8 + (self._keys.row_bytes() if self._keys else 0)

    def write(self, shard: str, parts: list[Array], ids: Array) -> dict[str, Any]:
        """Gives what the manifest says of the files; ``ids`` are the original ones of the rows, which come in parts."""
        if self._wanted is not None:
            kept = self._wanted[ids]
            parts, ids = [np.concatenate(parts)[kept]], ids[kept]
        (self._folder / self._below).mkdir(parents=True, exist_ok=True)
        parts = [part.astype(self._dtype, copy=False) for part in parts]
        keys = {} if self._keys is None else self._keys.arrays(ids)
        if self._format == "parquet":
            return {"rows": len(ids), "files": {"table": self._parquet(f"{shard}.parquet", np.concatenate(parts), ids, keys)}}
        arrays = {"rows": (f"{shard}.npy", parts), "ids": (f"{shard}.ids.npy", [ids])}
        arrays |= {kind: (f"{shard}.{kind}.npy", [array]) for kind, array in keys.items()}
        made = {kind: self._facts(path, self._files.array(self._folder / self._below / path, of)) for kind, (path, of) in arrays.items()}
        return {"rows": len(ids), "files": made}

    def _facts(self, path: str, facts: dict[str, Any]) -> dict[str, Any]:
        return {"path": f"{self._below}/{path}", **facts}

    def _parquet(self, path: str, rows: Array, ids: Array, keys: dict[str, Array]) -> dict[str, Any]:
        return self._facts(path, self._files.write(self._folder / self._below / path, lambda file: write_table(file, rows, ids, self.key_kind, keys)))
