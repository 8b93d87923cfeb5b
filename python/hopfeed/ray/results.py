"""What exact inference wrote (docs/results.md), as a dataset of Ray Data."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hopfeed.errors import CorruptError
from hopfeed.ray.calls import packed, shipped, unpacked
from hopfeed.ray.errors import one_line, require_ray
from hopfeed.results.folder import require_whole
from hopfeed.results.keys import as_arrow
from hopfeed.results.read import Results, _load

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_BYTES = 16 << 20
_REMEDY = "restore it, or compute the results anew"


def read_results(folder: str | os.PathLike[str], output: str | None = None, node_type: str | None = None) -> Any:
    """A ``ray.data.Dataset`` over results, a read task a shard. Rows are in no order.

    Columns: ``id``, the original id; ``key``, what the node is called by, where the dataset has keys (UUIDs as texts); ``row``, a
    list of numbers.

    Args:
        folder: which all nodes see, of either format.
        output: its name; the first without.
        node_type: whose rows; the first without.

    Raises:
        InvalidError: Ray is not installed.
        NotFoundError: no results, no such output or type; CorruptError: a file that has not the size with which it was written.
    """
    ray = require_ray("ray.data", "pyarrow")
    results = Results(Path(folder).absolute(), node_type, output, False)
    shards = [shard for shard in results.manifest["shards"] if (shard["output"], shard["node_type"]) == (results.name, results.node_type) and shard["rows"]]
    with one_line():
        if not shards:
            return ray.data.from_arrow(_schema(results).empty_table())
        dataset = ray.data.from_items([{"shard": packed(shard)} for shard in shards], override_num_blocks=len(shards))
        read = partial(_read_shards, results.folder, _schema(results), results.key_kind, results.shape[1])
        return dataset.map_batches(shipped(read), batch_size=None, batch_format="pyarrow")


def _schema(results: Results) -> pa.Schema:
    import pyarrow as pa

    keys = {None: [], "int64": [("key", pa.int64())]}.get(results.key_kind, [("key", pa.string())])
    return pa.schema([("id", pa.int64()), *keys, ("row", pa.list_(pa.from_numpy_dtype(results.dtype)))])


def _read_shards(folder: Path, schema: pa.Schema, key_kind: str | None, width: int, shards: pa.Table) -> Iterator[pa.Table]:
    """On a worker: the rows of the shards of a block, in parts that fit into memory."""
    for text in shards["shard"].to_pylist():
        shard = unpacked(text)
        for file in shard["files"].values():
            require_whole(folder / file["path"], file, sums=False, remedy=_REMEDY)
        paths = {kind: folder / file["path"] for kind, file in shard["files"].items()}
        item = schema.field("row").type.value_type.bit_width // 8
        at_once = max(1, _BATCH_BYTES // max(1, width * item))
        rows = 0
        for table in _tables(paths, key_kind, at_once):
            if table["row"].type.list_size != width:
                raise CorruptError(f"{folder}: a shard has rows of width {table['row'].type.list_size}, not {width}; {_REMEDY}")
            rows += table.num_rows
            yield table.select(schema.names).cast(schema)
        if rows != shard["rows"]:
            raise CorruptError(f"{folder}: a shard has {rows} rows, and the manifest says {shard['rows']}; {_REMEDY}")


def _tables(paths: dict[str, Path], key_kind: str | None, at_once: int) -> Iterator[pa.Table]:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    if "table" in paths:
        with pq.ParquetFile(paths["table"]) as file:
            yield from (pa.Table.from_batches([batch]) for batch in file.iter_batches(at_once))
        return
    rows, ids = _load(paths["rows"]), _load(paths["ids"])
    keys = as_arrow(key_kind, {kind: _load(paths[kind]) for kind in paths if kind.startswith("key")}) if key_kind is not None else None
    for begin in range(0, len(rows), at_once):
        part = np.ascontiguousarray(rows[begin : begin + at_once])
        columns = {"id": pa.array(np.asarray(ids[begin : begin + at_once]))}
        if keys is not None:
            columns["key"] = keys.slice(begin, at_once)
        yield pa.table(columns | {"row": pa.FixedSizeListArray.from_arrays(pa.array(part.reshape(-1)), part.shape[1])})
