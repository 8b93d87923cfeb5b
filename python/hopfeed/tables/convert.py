"""Our reader: what a column holds, to the elements that a dataset has. Each rule is here once, so that no engine's casts
are part of a dataset: times become whole numbers in UTC, rounded down; a NaN is one pattern of bits; -0 stays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopfeed.errors import InvalidError
from hopfeed.tables.stored import _PER_SECOND, Stored

Array = np.ndarray[Any, Any]
_DAY = 86_400
_BITS = {"float32": (np.uint32, 0x7FC00000), "float64": (np.uint64, 0x7FF8000000000000)}


def times(column: pa.Array, unit: str) -> Array:
    """int64 in that unit since 1970, rounded down; whole numbers stay as they are, no value is 0."""
    kind = column.type
    if pa.types.is_date32(kind):
        return _numbers(column.cast(pa.int32()), np.dtype(np.int64)) * (_DAY * _PER_SECOND[unit])
    if not pa.types.is_timestamp(kind):
        return _numbers(column, np.dtype(np.int64))
    values, has, wanted = _numbers(column.cast(pa.int64()), np.dtype(np.int64)), _PER_SECOND[kind.unit], _PER_SECOND[unit]
    return values // (has // wanted) if has >= wanted else values * (wanted // has)


def labels(column: pa.Array, classes: Sequence[str]) -> Array:
    """int64 class numbers; -1 where there is none."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return np.asarray(pc.fill_null(pc.index_in(column, value_set=pa.array(classes, column.type)), -1), np.int64)
    values = _numbers(column, np.dtype(np.float64 if pa.types.is_floating(column.type) else np.int64))
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), -1, values).astype(np.int64)
    there = np.asarray(column.is_valid())
    return np.where(there, np.maximum(values, -1), -1)


def rows(stored: Stored, columns: Sequence[pa.Array], classes: Sequence[str]) -> pa.Array:
    """The rows of an attribute, as they are stored."""
    if stored.attr.role == "time":
        return pa.array(times(columns[0], stored.attr.unit))
    if stored.attr.role == "label":
        return pa.array(labels(columns[0], classes))
    dtype = np.dtype(stored.element)
    if stored.is_list:
        elements = _list_elements(columns[0], dtype, stored.width)
    elif stored.width:
        elements = np.stack([_numbers(column, dtype) for column in columns], axis=1).reshape(-1)
    else:
        elements = _numbers(columns[0], dtype)
    values = pa.array(_one_nan(elements))
    return pa.FixedSizeListArray.from_arrays(values, stored.width) if stored.width else values


def arrow_type(stored: Stored) -> pa.DataType:
    """The type of :func:`rows`."""
    element = pa.from_numpy_dtype(np.dtype(stored.element))
    return pa.list_(element, stored.width) if stored.width else element


def _plain(column: pa.Array) -> pa.Array:
    """Without a type of DuckDB's own around it."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    return column


def _numbers(column: pa.Array, dtype: np.dtype[Any]) -> Array:
    """No value is 0."""
    column = _plain(column)
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(0, column.type) if not pa.types.is_boolean(column.type) else False)
    values = np.asarray(column.to_numpy(zero_copy_only=False))
    with np.errstate(over="ignore"):  # what float32 does not hold is infinite, as in import numpy
        return values.astype(dtype, copy=False)


def _list_elements(column: pa.Array, dtype: np.dtype[Any], width: int) -> Array:
    values = _numbers(column.flatten(), dtype)  # of the lists that are there
    missing = column.null_count
    if len(values) != (len(column) - missing) * width:
        raise InvalidError(f"a list is not of {width} numbers; the tables have changed while they were read")
    if not missing:
        return values
    out = np.zeros((len(column), width), dtype)
    out[np.asarray(column.is_valid())] = values.reshape(-1, width)
    return out.reshape(-1)


def _one_nan(values: Array) -> Array:
    if values.dtype.kind != "f" or not (is_nan := np.isnan(values)).any():
        return values
    words, pattern = _BITS[values.dtype.name]
    values = values.copy()
    values.view(words)[is_nan] = pattern
    return values


class Converted:
    """A stream of converted batches, for who takes Arrow's C streams.

    Attributes:
        error: what was raised while batches were made; whoever reads the stream has only its words.
    """

    def __init__(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], convert: Callable[[pa.RecordBatch], Sequence[pa.Array]]) -> None:
        self.schema, self.error = schema, None
        self._reader = pa.RecordBatchReader.from_batches(schema, self._made(batches, convert))

    def _made(self, batches: Iterable[pa.RecordBatch], convert: Callable[[pa.RecordBatch], Sequence[pa.Array]]) -> Iterator[pa.RecordBatch]:
        try:
            for batch in batches:
                if len(batch):
                    yield pa.RecordBatch.from_arrays(list(convert(batch)), schema=self.schema)
        except BaseException as error:
            self.error = error
            raise

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._reader.__arrow_c_stream__(requested_schema)
