"""The attributes of a row as bytes: as they are stored, one behind the other. A cluster moves them as one column, and no type
of its own is part of a dataset; edges are in the order of these bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from hopfeed.tables import convert
from hopfeed.tables.arrays import Array
from hopfeed.tables.bounds import row_bytes
from hopfeed.tables.stored import Stored


def width(stored: Sequence[Stored]) -> int:
    """Bytes of a row."""
    return sum(np.dtype(one.element).itemsize * max(one.width, 1) for one in stored)


def given_width(stored: Sequence[Stored]) -> int:
    """Bytes of a row's columns as DuckDB has them, at most."""
    return 8 * sum(max(one.width, len(one.inputs)) for one in stored)


def packed(stored: Sequence[Stored], batch: pa.RecordBatch, classes: Sequence[str]) -> pa.Array:
    """The attributes of a batch of a few MB (:func:`hopfeed.tables.cluster.pieces.batches`), which has their columns; binary."""
    rows = len(batch)
    parts = [np.zeros((rows, 0), np.uint8)]
    for one in stored:
        values = convert.rows(one, [batch.column(name) for name in one.inputs], classes)
        flat = (values.flatten() if one.width else values).to_numpy(zero_copy_only=False)
        parts.append(row_bytes(flat, rows))
    whole = np.ascontiguousarray(np.concatenate(parts, axis=1))
    offsets = np.arange(rows + 1, dtype=np.int32) * whole.shape[1]
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(whole)])


def default(stored: Sequence[Stored], schema: pa.Schema, classes: Sequence[str]) -> bytes:
    """The row of a node that no table has. ``schema``: of the columns."""
    nulls = pa.RecordBatch.from_arrays([pa.nulls(1, field.type) for field in schema], schema=schema)
    found: bytes = packed(stored, nulls, classes)[0].as_py()
    return found


def bytes_of(column: pa.Array, wide: int, missing: bytes = b"") -> Array:
    """Packed rows as uint8 [rows, wide]; those that are null are ``missing``."""
    if column.null_count:
        column = column.fill_null(missing)
    offsets = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, column.offset * 4)
    data = column.buffers()[2]
    if wide == 0 or data is None:
        return np.zeros((len(column), wide), np.uint8)
    return np.frombuffer(data, np.uint8, len(column) * wide, int(offsets[0])).reshape(len(column), wide)


def unpacked(stored: Sequence[Stored], rows: Array) -> list[pa.Array]:
    """The attributes again, of :func:`convert.arrow_type`."""
    found, begin = list[pa.Array](), 0
    for one in stored:
        values = elements(one, rows, begin)
        found.append(pa.FixedSizeListArray.from_arrays(pa.array(values), one.width) if one.width else pa.array(values))
        begin += width([one])
    return found


def elements(one: Stored, rows: Array, begin: int) -> Array:
    """An attribute's elements, one row behind the other; it begins at that byte of a row."""
    dtype = np.dtype(one.element)
    return np.ascontiguousarray(rows[:, begin : begin + width([one])]).view(dtype).reshape(-1)
