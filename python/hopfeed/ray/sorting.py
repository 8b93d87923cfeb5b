"""Sorted rows, as Ray's blocks of them tell where ranges and groups begin.

Ray sorts by all columns and cuts the rows into blocks, also between rows that are equal. A range or a group is told as pieces of
blocks, which its task fetches one behind the other: neither has to fit into memory, and no row is moved again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hopfeed.ray.calls import fetched, unpacked

if TYPE_CHECKING:
    import pyarrow as pa

    from hopfeed.tables.cluster.engine import Take

_BATCH_ROWS = 65_536
Values = tuple[Any, ...]


@dataclass(frozen=True)
class Piece:
    """Rows of a sorted block.

    Attributes:
        block: its number.
        behind: rows of greater values alone; None: all.
        until: rows of these and lesser values alone; None: all.
    """

    block: int
    behind: Values | None = None
    until: Values | None = None


def ends(by: Sequence[str], there: set[str], refs: list[Any]) -> tuple[Values, Values]:
    """On a worker: the values of a block's first row, and of its last. Nodes of ``there`` have the block."""
    table = fetched(refs[0], there)
    row = _rows_of(table, by)
    return row(0), row(table.num_rows - 1)


def borders_of(blocks: Sequence[tuple[Values, Values]]) -> list[Values]:
    """The last values of each range, of blocks whose first and last values are told: a range for each block, but for those that
    have nothing but what an earlier one ends with. Rows that are equal are in one range."""
    return list(dict.fromkeys(last for _, last in blocks))


def pieces_of(blocks: Sequence[tuple[Values, Values]], behind: Values | None, until: Values) -> list[Piece]:
    """The rows of values behind ``behind``, up to ``until``."""
    return [Piece(at, behind, until) for at, (first, last) in enumerate(blocks) if first <= until and (behind is None or last > behind)]


def taken(take: Take, schema: pa.Schema, by: Sequence[str], there: set[str], number: int, refs: list[Any], pieces: bytes) -> Any:
    """On a worker: calls ``take`` with the rows of these (packed) pieces; ``refs`` are their blocks,
    which nodes of ``there`` have."""
    return take(number, _batches(schema, by, there, refs, unpacked(pieces)))


def _batches(schema: pa.Schema, by: Sequence[str], there: set[str], refs: list[Any], pieces: list[Piece]) -> Iterator[pa.RecordBatch]:
    import ray

    for at, piece in enumerate(pieces):
        if at + 1 < len(refs):  # comes meanwhile
            ray.wait(refs[at + 1 : at + 2], timeout=0, fetch_local=True)
        rows = like(_rows(fetched(refs[at], there), by, piece), schema)
        yield from (batch for batch in rows.to_batches(max_chunksize=_BATCH_ROWS) if batch.num_rows)


def _rows(table: pa.Table, by: Sequence[str], piece: Piece) -> pa.Table:
    places, row = range(table.num_rows), _rows_of(table, by)
    begin = 0 if piece.behind is None else bisect_right(places, piece.behind, key=row)
    end = table.num_rows if piece.until is None else bisect_right(places, piece.until, key=row)
    return table.slice(begin, end - begin)


def _rows_of(table: pa.Table, by: Sequence[str]) -> Callable[[int], Values]:
    """The values of a row. Python orders texts by their code points, which is the order of their UTF-8."""
    columns = [table[name] for name in by]
    return lambda at: tuple(column[at].as_py() for column in columns)


def like(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """These columns in this order and of these types. Ray's operators may change all three, and leave out columns of null."""
    import pyarrow as pa

    columns = []
    for field in schema:
        at = table.schema.get_field_index(field.name)
        if at < 0:
            columns.append(pa.nulls(table.num_rows, field.type))
        else:
            column = table.column(at)
            columns.append(column if column.type == field.type else column.cast(field.type))
    return pa.Table.from_arrays(columns, schema=schema)
