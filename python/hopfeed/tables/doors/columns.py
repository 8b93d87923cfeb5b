"""Columns of another system's folder become a table: each is an array in one file or in several behind each other, and rows of
all go side by side into Parquet, a block at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hopfeed.errors import InvalidError
from hopfeed.tables.arrays import BLOCK, Array
from hopfeed.tables.description import Table
from hopfeed.tables.dirt import counted
from hopfeed.tables.doors.arrays import Lying, Pairs, Piece
from hopfeed.tables.made import ROWS, Made

if TYPE_CHECKING:
    from hopfeed.tables.engine import Engine

_BLOCK_BYTES = 16 << 20  # of all columns together
_KINDS = {
    "bool": "BOOLEAN", "int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT", "uint8": "UTINYINT",
    "uint16": "USMALLINT", "uint32": "UINTEGER", "uint64": "UBIGINT", "float32": "FLOAT", "float64": "DOUBLE",
}  # fmt: skip


@dataclass(frozen=True)
class Expected:
    """How many rows files have to have together, and how many each chunk has where that is said."""

    says: str
    each: tuple[int, ...] = ()
    all: int | None = None


@dataclass(frozen=True)
class Column:
    """An array with a row for each node or edge of a type.

    Attributes:
        name: as the folder has it.
        where: for complaints: the place in the folder's description.
        check: is told each block, with its file and its first row there.
    """

    name: str
    where: str
    pieces: tuple[Piece, ...]
    expected: Expected
    check: Callable[[Path, int, Array], None] | None = None

    def __post_init__(self) -> None:
        self._check_numbers()
        first = self._first
        if isinstance(first, Lying) and first.shape[1:] == (0,):
            raise InvalidError(f"{self.where}: {first.path} has the shape {list(first.shape)}, no number in a row")
        for piece in self.pieces:
            if piece.width != first.width and piece.rows != 0:
                raise InvalidError(f"{self.where}: {piece.path} has {_row(piece)}, and {first.path} has {_row(first)}; make them the same")
        if all(piece.rows is not None for piece in self.pieces):
            self._compare([piece.rows or 0 for piece in self.pieces])

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.result_type(*(piece.dtype for piece in self.pieces))

    def _check_numbers(self) -> None:
        """Whole numbers of 8 bytes are refused beside what only float64 holds with them."""
        wide = next((piece for piece in self.pieces if piece.dtype.kind in "iu" and piece.dtype.itemsize == 8), None)
        if wide is not None and self.dtype.kind == "f":
            other = next(piece for piece in self.pieces if np.result_type(piece.dtype, wide.dtype).kind == "f")
            raise InvalidError(f"{self.where}: {wide.path} has numbers of type {wide.dtype}, and {other.path} of {other.dtype}; make them one type")

    @property
    def _first(self) -> Piece:
        """The first piece that has rows; one that has none says nothing of their width."""
        return next((piece for piece in self.pieces if piece.rows != 0), self.pieces[0])

    @property
    def width(self) -> int:
        return self._first.width

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(piece.path for piece in self.pieces)

    def rows(self, engine: Engine) -> int:
        """How many there are, which of CSV only reading tells."""
        return sum(piece.counted(engine) if isinstance(piece, Pairs) else piece.rows for piece in self.pieces)

    def blocks(self, engine: Engine, count: int) -> Iterator[Array]:
        """All rows, ``count`` at a time.

        Raises:
            InvalidError: a file has another number of rows than it has to have.
        """
        return exact(self._all(engine, count), count)

    def _all(self, engine: Engine, count: int) -> Iterator[Array]:
        most, counts = self.expected.all, [0] * len(self.pieces)
        for i, piece in enumerate(self.pieces):
            for block in piece.blocks(engine, count):
                counts[i] += len(block)
                if most is None or sum(counts) <= most:  # what is too much is counted alone
                    if self.check is not None:
                        self.check(piece.path, counts[i] - len(block), block)
                    yield block.astype(self.dtype, copy=False)
        self._compare(counts)

    def _compare(self, counts: Sequence[int]) -> None:
        """Chunks may be cut otherwise than files; where the sum is wrong, the first file that differs is likely why."""
        expected = self.expected
        if expected.all is None or sum(counts) == expected.all:
            return
        if len(expected.each) == len(counts):
            wrong = next(i for i, pair in enumerate(zip(counts, expected.each)) if pair[0] != pair[1])
            path, has, wanted = self.pieces[wrong].path, counts[wrong], expected.each[wrong]
        else:
            path, has, wanted = self.pieces[0].path, sum(counts), expected.all
        subject = f"{path} has" if len(counts) in (1, len(expected.each)) else f"its {len(counts)} files have"
        raise InvalidError(f"{self.where}: {subject} {counted(has)}, and {expected.says} says {counted(wanted)}; correct one of the two")


def _row(piece: Piece) -> str:
    return f"{piece.width} numbers in a row" if piece.width else "one number in a row"


def exact(found: Iterable[Array], count: int) -> Iterator[Array]:
    """The same rows with ``count`` in each block but the last."""
    kept, has = list[Array](), 0
    for block in found:
        while has + len(block) >= count:
            taken, block = block[: count - has], block[count - has :]
            yield np.concatenate([*kept, taken]) if kept else taken
            kept, has = [], 0
        if len(block):
            kept.append(block)
            has += len(block)
    if kept:
        yield np.concatenate(kept)


@dataclass(frozen=True)
class Field:
    """What a table will have of a row: a column, or several of one number each.

    Attributes:
        of: what it is of, for the signature of the import.
        blocks: ``(engine, folder, count)`` -> blocks of exactly ``count`` rows but the last; the folder is for scratch.
    """

    names: tuple[str, ...]
    dtype: np.dtype[Any]
    width: int
    of: str
    blocks: Callable[[Engine, Path, int], Iterator[Array]]

    @property
    def kind(self) -> str:
        """DuckDB's type of its columns."""
        return _KINDS[self.dtype.name] + ("[]" if self.width and len(self.names) == 1 else "")

    @property
    def row_bytes(self) -> int:
        return self.dtype.itemsize * max(self.width, 1)


def field_of(column: Column, *names: str) -> Field:
    """A column as it is."""
    of = f"{column.name}: {', '.join(map(str, column.paths))}"
    return Field(names, column.dtype, column.width, of, lambda engine, _, count: column.blocks(engine, count))


def flat_field(column: Column, name: str) -> Field:
    """A column of one number in each row, which may stand in a list."""
    if column.width > 1:
        raise InvalidError(f"{column.where}: '{column.name}' has {column.width} numbers in a row, where there has to be one")
    of = f"{column.name}: {', '.join(map(str, column.paths))}"
    return Field((name,), column.dtype, 0, of, lambda engine, _, count: (block.reshape(-1) for block in column.blocks(engine, count)))


def numbers_field(name: str, count_of_all: int) -> Field:
    """The numbers of the rows, from 0."""

    def blocks(_: Engine, __: Path, count: int) -> Iterator[Array]:
        for begin in range(0, count_of_all, count):
            yield np.arange(begin, min(begin + count, count_of_all))

    return Field((name,), np.dtype(np.int64), 0, f"0 to {count_of_all}", blocks)


def table(where: str, title: str, fields: Sequence[Field], files: Iterable[Path], rows: Callable[[Engine], int]) -> Table:
    """The table of these fields, which a stage will make."""
    columns = {name: field.kind for field in fields for name in field.names}
    if len({name.lower() for name in columns}) < sum(len(field.names) for field in fields):
        raise InvalidError(f"{where}: names of arrays differ by more than the case of letters; there are: {', '.join(columns)}")
    made = Made(where, title, columns, tuple(field.of for field in fields), rows, lambda engine, folder: _write(engine, folder, fields, where))
    return Table(tuple(sorted({str(path) for path in files})), made=made)


def _write(engine: Engine, folder: Path, fields: Sequence[Field], where: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    schema = pa.schema([(name, _arrow_type(field)) for field in fields for name in field.names])
    count = max(1, min(BLOCK, _BLOCK_BYTES // sum(field.row_bytes for field in fields)))
    streams = [field.blocks(engine, folder, count) for field in fields]
    with parquet.ParquetWriter(folder / ROWS, schema, use_dictionary=False, write_statistics=False) as out:
        while True:
            blocks = [next(stream, None) for stream in streams]
            lengths = {0 if block is None else len(block) for block in blocks}
            if len(lengths) > 1:
                raise InvalidError(f"{where}: its files have changed while they were read; run the same again")
            if lengths == {0}:
                return
            arrays = [array for field, block in zip(fields, blocks) for array in _arrow_arrays(field, block)]
            out.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema), row_group_size=count)


def _arrow_type(field: Field) -> Any:
    import pyarrow as pa

    element = pa.from_numpy_dtype(field.dtype)
    return pa.list_(element, field.width) if field.width and len(field.names) == 1 else element


def _arrow_arrays(field: Field, block: Any) -> list[Any]:
    import pyarrow as pa

    if len(field.names) > 1:
        return [pa.array(np.ascontiguousarray(block[:, i])) for i in range(len(field.names))]
    if field.width:
        return [pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(block).reshape(-1)), field.width)]
    return [pa.array(np.ascontiguousarray(block))]


def titled(files: Sequence[Path], folder: Path) -> str:
    """Files as a line names them."""
    shown = [str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path) for path in files]
    return ", ".join(shown[:3]) + (f" and {len(shown) - 3} more" if len(shown) > 3 else "")
