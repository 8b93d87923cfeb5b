"""Tables for what an engine promises, and the same operators in plain Python, where each is a line that is plainly right."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

Row = tuple[Any, ...]
LEAST, MOST = -(2**63), 2**63 - 1
HOT = "h\u00f6t"  # of a third of all rows
ENDS = ["", "\0", "a\0", "a", "\u00e9", "\u20ac", "\uffff", "\U0001f600", "\U0010ffff", "zz"]  # UTF-16 has another order

FACTS = pa.schema([("key", pa.string()), ("number", pa.int64()), ("group", pa.int64()), ("bytes", pa.binary())])
NAMES = pa.schema([("key", pa.string()), ("id", pa.int64()), ("label", pa.string())])
ITEMS, ROWS_OF_AN_ITEM = 10, 10_000
EMPTY_GROUP, LARGE_GROUP, GROUPS = 3, 5, 9


def key(number: int) -> str:
    """One of 12,000 keys."""
    return ENDS[number] if number < len(ENDS) else f"{chr(0xE0 + number % 40)}{number}{chr(0x1F600) * (number % 3)}"


def facts_of(item: int) -> list[Row]:
    """Rows of an item, the same ones each time."""
    rng = random.Random(item)
    rows: list[Row] = []
    for _ in range(ROWS_OF_AN_ITEM if item != 4 else 0):
        number = rng.choice([LEAST, MOST, 0, -1, rng.randrange(LEAST, MOST + 1)])
        group = LARGE_GROUP if rng.random() < 0.5 else rng.choice([g for g in range(GROUPS) if g != EMPTY_GROUP])
        rows.append((HOT if rng.random() < 0.33 else key(rng.randrange(12_000)), number, group, rng.randbytes(rng.randrange(4))))
    return rows


def names_of(item: int) -> list[Row]:
    """A row for each even key, in two items."""
    return [(key(number), number, f"\u00fc{number % 7}") for number in range(2 * item, 12_000, 4)]


def batches(rows: Sequence[Row], schema: pa.Schema, size: int = 3_000) -> Iterator[pa.RecordBatch]:
    for begin in range(0, len(rows), size):
        columns = list(zip(*rows[begin : begin + size]))
        yield pa.record_batch([pa.array(column, field.type) for column, field in zip(columns, schema)], schema=schema)


def read_facts(item: int) -> Iterator[pa.RecordBatch]:
    return batches(facts_of(item), FACTS)


def read_names(item: int) -> Iterator[pa.RecordBatch]:
    return batches(names_of(item), NAMES)


def facts() -> list[Row]:
    return [row for item in range(ITEMS) for row in facts_of(item)]


def names() -> list[Row]:
    return [row for item in range(2) for row in names_of(item)]


def told(number: int, given: Iterator[pa.RecordBatch]) -> tuple[int, str, list[Row]]:
    """A ``take``: its number, the types of the columns it saw, and its rows."""
    types, rows = "", []
    for batch in given:
        assert isinstance(batch, pa.RecordBatch)
        types = ", ".join(f"{field.name} {field.type}" for field in batch.schema)
        rows += list(zip(*(column.to_pylist() for column in batch.columns)))
    return number, types, rows


def types_of(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def by_bytes(value: Any) -> Any:
    """What orders a value: texts have the order of their UTF-8."""
    return value.encode() if isinstance(value, str) else value


def in_order(rows: Sequence[Row], columns: Sequence[int]) -> list[Row]:
    return sorted(rows, key=lambda row: tuple(by_bytes(row[column]) for column in columns))


def as_bag(rows: Sequence[Row]) -> list[Row]:
    """Rows in an order that does not depend on theirs; None comes first."""
    return sorted(rows, key=lambda row: tuple((value is not None, by_bytes(value)) if value is not None else (False, 0) for value in row))


def joined(left: Sequence[Row], right: Sequence[Row], how: str) -> list[Row]:
    """By the first column of both."""
    partners = {row[0]: row[1:] for row in right}
    width = len(right[0]) - 1 if right else 0
    return [row + partners.get(row[0], (None,) * width) for row in left if how == "left" or row[0] in partners]


def summed(rows: Sequence[Row], by: Sequence[int], columns: Sequence[int]) -> list[Row]:
    sums: dict[Row, list[int]] = defaultdict(lambda: [0] * len(columns))
    for row in rows:
        at = sums[tuple(row[column] for column in by)]
        for place, column in enumerate(columns):
            at[place] += row[column]
    return [values + tuple(at) for values, at in sums.items()]
