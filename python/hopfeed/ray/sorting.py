"""Sorted rows, as Ray's blocks of them tell where ranges and groups begin.

Ray sorts by all columns and cuts the rows into blocks, also between rows that are equal. A range or a group is told as pieces of
blocks, which its task fetches one behind the other: neither has to fit into memory, and no row is moved again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hopfeed.ray.calls import unpacked

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
        equal: rows of these values alone; None: all.
        behind: the rows behind those of these values, which are the block's first.
    """

    block: int
    equal: Values | None = None
    behind: Values | None = None


def ends(table: pa.Table, by: Sequence[str]) -> tuple[Values, Values]:
    """On a worker: the values of a block's first row, and of its last."""
    first, last = table.slice(0, 1), table.slice(table.num_rows - 1)
    return tuple(first[name][0].as_py() for name in by), tuple(last[name][0].as_py() for name in by)


def ranges_of(blocks: Sequence[tuple[Values, Values]]) -> list[list[Piece]]:
    """Ranges of sorted blocks, of which the first and last values are told: a range for each, but for those that go on with
    what the last one began. Rows that are equal are in one range, the first that has them."""
    ranges: list[list[Piece]] = []
    before: Values | None = None
    for at, (first, last) in enumerate(blocks):
        if first == before:
            ranges[-1].append(Piece(at, equal=first))
        if last != before:
            ranges.append([Piece(at, behind=before if first == before else None)])
        before = last
    return ranges


def groups_of(blocks: Sequence[tuple[Values, Values]], count: int) -> list[list[Piece]]:
    """The groups 0, 1, ... of blocks that are sorted by their number, with none for those without rows."""
    groups: list[list[Piece]] = [[] for _ in range(count)]
    for at, ((first,), (last,)) in enumerate(blocks):
        for number in range(max(first, 0), min(last + 1, count)):
            groups[number].append(Piece(at, equal=(number,)))
    return groups


def taken(take: Take, schema: pa.Schema, by: Sequence[str], number: int, refs: list[Any], pieces: bytes) -> Any:
    """On a worker: calls ``take`` with the rows of these (packed) pieces; ``refs`` are their blocks."""
    return take(number, _batches(schema, by, refs, unpacked(pieces)))


def _batches(schema: pa.Schema, by: Sequence[str], refs: list[Any], pieces: list[Piece]) -> Iterator[pa.RecordBatch]:
    import ray

    for at, piece in enumerate(pieces):
        if at + 1 < len(refs):  # comes meanwhile
            ray.wait(refs[at + 1 : at + 2], timeout=0, fetch_local=True)
        rows = like(_rows(ray.get(refs[at]), by, piece), schema)
        yield from (batch for batch in rows.to_batches(max_chunksize=_BATCH_ROWS) if batch.num_rows)


def _rows(table: pa.Table, by: Sequence[str], piece: Piece) -> pa.Table:
    values = piece.behind if piece.equal is None else piece.equal
    if values is None:
        return table
    import pyarrow as pa
    import pyarrow.compute as pc

    same: Any = None
    for name, value in zip(by, values):
        here = pc.equal(table[name], pa.scalar(value, table.schema.field(name).type))
        same = here if same is None else pc.and_(same, here)
    begin, many = pc.index(same, True).as_py(), pc.sum(same).as_py() or 0
    if piece.equal is None:
        return table.slice(begin + many)
    return table.slice(begin, many) if many else table.slice(0, 0)


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
