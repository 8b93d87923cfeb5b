"""Arrays in another system's files, read by blocks of rows and never whole: .npy, .pt, Parquet, and pairs of ids in CSV. An
array has a number or a list of numbers in each row; float16 and bfloat16 become float32."""

from __future__ import annotations

import ast
import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from hopfeed.errors import CorruptError, InvalidError, NotFoundError
from hopfeed.tables import sql
from hopfeed.tables.arrays import Array
from hopfeed.tables.doors import tensor
from hopfeed.tables.engine import errors_as_lines

if TYPE_CHECKING:
    from hopfeed.tables.engine import Engine

_BFLOAT16 = "bfloat16"


@dataclass(frozen=True)
class Lying:
    """An array of .npy or .pt.

    Attributes:
        element: NumPy's type as it lies, or ``bfloat16``.
        columns: of two dimensions: its columns lie whole, one behind the other (Fortran's order).
    """

    path: Path
    begin: int
    element: str
    shape: tuple[int, ...]
    columns: bool

    @property
    def rows(self) -> int:
        return self.shape[0]

    @property
    def width(self) -> int:
        """Numbers of a row; 0: one number, no list."""
        return self.shape[1] if len(self.shape) == 2 else 0

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of what is read."""
        if self.element == _BFLOAT16:
            return np.dtype(np.float32)
        found = np.dtype(self.element).newbyteorder("=")
        return np.dtype(np.float32) if found == np.float16 else found

    def turned(self) -> Lying:
        """Its columns as rows."""
        return replace(self, shape=self.shape[::-1], columns=not self.columns)

    def blocks(self, engine: Engine, count: int) -> Iterator[Array]:
        with open(self.path, "rb") as file:
            for begin in range(0, self.rows, count):
                yield self._read(file, begin, min(begin + count, self.rows))

    def _read(self, file: Any, begin: int, end: int) -> Array:
        raw = np.dtype("<u2" if self.element == _BFLOAT16 else self.element)
        wide = max(self.width, 1)
        if self.columns and self.width:
            parts = [self._numbers(file, raw, column * self.rows + begin, end - begin) for column in range(wide)]
            values = np.stack(parts, axis=1) if parts else np.zeros((end - begin, 0), raw)
        else:
            values = self._numbers(file, raw, begin * wide, (end - begin) * wide)
        if self.element == _BFLOAT16:
            values = (values.astype(np.uint32) << 16).view(np.float32)
        return values.astype(self.dtype, copy=False).reshape((end - begin, self.width) if self.width else (end - begin,))

    def _numbers(self, file: Any, raw: np.dtype[Any], first: int, count: int) -> Array:
        file.seek(self.begin + first * raw.itemsize)
        found = np.fromfile(file, raw, count)
        if len(found) < count:
            raise CorruptError(f"{self.path} is truncated; write it again")
        return found


@dataclass(frozen=True)
class InParquet:
    """A Parquet file: a column of numbers or of lists, or several columns of numbers side by side."""

    path: Path
    rows: int
    width: int
    dtype: np.dtype[Any]

    def blocks(self, engine: Engine, count: int) -> Iterator[Array]:
        import pyarrow.parquet as parquet

        with errors_as_lines(str(self.path)), parquet.ParquetFile(self.path) as file:
            for batch in file.iter_batches(batch_size=count):
                yield _of_batch(batch, self)


@dataclass(frozen=True)
class Pairs:
    """Pairs of ids in CSV, without a header."""

    path: Path
    delimiter: str
    rows: None = None
    width: int = 2
    dtype: np.dtype[Any] = np.dtype(np.int64)

    @property
    def relation(self) -> str:
        options = f"delim = {sql.text(self.delimiter)}, header = false, quote = '\"', escape = '\"', comment = '', skip = 0, strict_mode = true, hive_partitioning = false"
        read = f"read_csv({sql.paths([str(self.path)])}, {options}, auto_detect = false, columns = {{'src': 'VARCHAR', 'dst': 'VARCHAR'}})"
        return f"(SELECT {sql.whole_number('src')} AS src, {sql.whole_number('dst')} AS dst FROM {read})"

    def counted(self, engine: Engine) -> int:
        return int(engine.one(f"SELECT count(*) FROM {self.relation}", of=str(self.path))[0])

    def blocks(self, engine: Engine, count: int) -> Iterator[Array]:
        begin = 0
        for batch in engine.batches(f"SELECT src, dst FROM {self.relation}", of=str(self.path)):
            for name in ("src", "dst"):
                if batch.column(name).null_count:
                    row = begin + int(np.flatnonzero(~np.asarray(batch.column(name).is_valid()))[0])
                    raise InvalidError(f"{self.path}: edge {row} (from 0) has no {'source' if name == 'src' else 'destination'}")
            yield np.stack([batch.column(0).to_numpy(), batch.column(1).to_numpy()], axis=1)
            begin += len(batch)


Piece = Union[Lying, InParquet, Pairs]


def numpy_array(path: Path) -> Lying:
    """Of a .npy; its header is read.

    Raises:
        NotFoundError, InvalidError, CorruptError: there is none, it is no array of numbers, or it is truncated.
    """
    form = np.lib.format
    try:
        with open(path, "rb") as file:
            version = form.read_magic(file)
            if version not in ((1, 0), (2, 0)):
                raise ValueError("its version is another")
            shape, columns, dtype = (form.read_array_header_1_0 if version == (1, 0) else form.read_array_header_2_0)(file)
            begin = file.tell()
    except FileNotFoundError:
        raise NotFoundError(f"{path} is not there") from None
    except (ValueError, EOFError):
        raise CorruptError(f"{path} is no array of NumPy; write it again with numpy.save") from None
    if not all(type(size) is int and size >= 0 for size in shape):
        raise CorruptError(f"{path} has the shape {shape}, which no array has; write it again with numpy.save")
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise InvalidError(f"{path} holds elements of type {dtype}; arrays are of numbers of at most 8 bytes, or bools")
    found = Lying(path, begin, dtype.str, tuple(shape), columns)
    return _checked(found, path.stat().st_size - begin, dtype.itemsize)


def torch_array(path: Path) -> Lying:
    """Of a .pt that holds one tensor; only what describes it is read."""
    place = tensor.place(path)
    told = place.tensor
    element = _BFLOAT16 if told.element == _BFLOAT16 else np.dtype(told.element).newbyteorder(">" if place.big_endian else "<").str
    size = 2 if element == _BFLOAT16 else np.dtype(element).itemsize
    columns = not _lies(told.shape, told.strides)
    if columns and not _lies(told.shape[::-1], told.strides[::-1]):
        raise InvalidError(f"{path} holds a part of a larger tensor; save x.contiguous()")
    if element == _BFLOAT16 and place.big_endian:
        raise InvalidError(f"{path} holds bfloat16 in big-endian order; save x.float()")
    found = Lying(path, place.begin + told.first * size, element, told.shape, columns)
    return _checked(found, min(place.begin + place.bytes, path.stat().st_size) - found.begin, size)


def _lies(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether rows lie one behind the other."""
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size > 1 and stride != step:
            return False
        step *= size
    return True


def _checked(found: Lying, has: int, size: int) -> Lying:
    if len(found.shape) not in (1, 2):
        raise InvalidError(f"{found.path} has the shape {list(found.shape)}; a row has one number or a list of them: reshape it to [rows] or [rows, numbers]")
    needs = int(np.prod([size, *found.shape], dtype=object))
    if has < needs:
        raise CorruptError(f"{found.path} is truncated: it has {max(has, 0):,} bytes of numbers, and {needs:,} make {list(found.shape)}; write it again")
    return found


def parquet_array(path: Path) -> InParquet:
    """Of a Parquet file; its footer is read, and a row where that does not tell how long lists are."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    if not path.exists():
        raise NotFoundError(f"{path} is not there")
    with errors_as_lines(str(path)), parquet.ParquetFile(path) as file:
        schema, rows = file.schema_arrow, file.metadata.num_rows
        if len(schema) == 0:
            raise InvalidError(f"{path} has no column")
        kinds = [field.type for field in schema]
        is_list = [pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind) for kind in kinds]
        if any(is_list) and len(kinds) > 1:
            raise InvalidError(f"{path} has a column of lists beside others; it is one column of lists, or columns of numbers")
        elements = [kind.value_type if lists else kind for kind, lists in zip(kinds, is_list)]
        for field, element in zip(schema, elements):
            if not (pa.types.is_integer(element) or pa.types.is_floating(element) or pa.types.is_boolean(element)):
                raise InvalidError(f"{path}: column '{field.name}' is {field.type}; only numbers, and lists of them, can be stored")
        own = [np.dtype(element.to_pandas_dtype()) for element in elements]
        dtype = np.result_type(*own)
        if dtype.kind == "f" and any(kind.kind in "iu" and kind.itemsize == 8 for kind in own):
            raise InvalidError(f"{path} has columns of {' and '.join(sorted(set(map(str, own))))} side by side; make them one type")
        width = len(kinds) if len(kinds) > 1 else 1 if _is_matrix(schema.metadata) else 0
        if is_list[0]:
            first = next(file.iter_batches(batch_size=1), None) if rows else None
            width = kinds[0].list_size if pa.types.is_fixed_size_list(kinds[0]) else len(first.column(0)[0]) if first is not None and first.column(0)[0].is_valid else 0
            if rows and not width:
                raise InvalidError(f"{path}: column '{schema[0].name}' begins with an empty list")
    return InParquet(path, rows, width, np.dtype(np.float32) if dtype == np.float16 else dtype)


def _is_matrix(metadata: Any) -> bool:
    """Whether a file of one column says that its array has two dimensions, as DistDGL's tools write it."""
    try:
        return len(ast.literal_eval((metadata or {})[b"shape"].decode())) == 2
    except (KeyError, ValueError, TypeError, SyntaxError):
        return False


def _of_batch(batch: Any, array: InParquet) -> Array:
    import pyarrow.compute as pc

    columns = []
    for name, column in zip(batch.schema.names, batch.columns):
        if column.null_count:
            raise InvalidError(f"{array.path}: column '{name}' has a row without a value; give it one")
        if hasattr(column, "flatten") and hasattr(column.type, "value_type"):
            wrong = pc.any(pc.not_equal(pc.list_value_length(column), array.width)).as_py()
            column = column.flatten()
            if wrong or column.null_count:
                raise InvalidError(f"{array.path}: column '{name}' has a list that is not of {array.width} numbers, as the first is")
        columns.append(column.to_numpy(zero_copy_only=False).astype(array.dtype, copy=False))
    values = columns[0] if len(columns) == 1 else np.stack(columns, axis=1)
    return values.reshape((len(batch), array.width)) if array.width else values


def csv_pairs(path: Path, delimiter: str) -> Pairs:
    """Of a CSV file of two columns; its first line is read."""
    try:
        with open(path, encoding="utf-8", errors="replace", newline="") as lines:
            first = next(csv.reader(lines, delimiter=delimiter), None)
    except FileNotFoundError:
        raise NotFoundError(f"{path} is not there") from None
    first = [one for one in first if one.strip() or delimiter != " "] if first else first
    if first and len(first) != 2:
        told = f"has {len(first)} column{'' if len(first) == 1 else 's'} where '{delimiter}' is between columns"
        raise InvalidError(f"{path} {told}; an edge is a source and a destination, without an index")
    if first and not all(_is_id(one) for one in first):
        raise InvalidError(f"{path} begins with {delimiter.join(first)[:60]!r}, and ids are whole numbers; it has no header")
    return Pairs(path, delimiter)


def _is_id(text: str) -> bool:
    return text.strip().removeprefix("-").isdecimal()
