"""Rows that tests of engines sort, join and sum: made by tasks from numbers, and again by the test, which compares in plain Python."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

SCHEMA = pa.schema([("group", pa.int64()), ("key", pa.string()), ("number", pa.int64()), ("bytes", pa.binary())])
Row = tuple[int, str, int, bytes]

# In the order of their UTF-8 bytes U+FFFD is before U+1F600; as UTF-16, which Java's strings are, behind it.
WORDS = ["", "a", "A", "a ", "ab", "a\0", "z", "\x7f", "é", "e\u0301", "ü", "ß", "中", "\uffee", "\ufffd", "\U0001f600", "\U0010ffff"]
EXTREMES = [-(1 << 63), -(1 << 63) + 1, -1, 0, 1, (1 << 63) - 2, (1 << 63) - 1]
MANY = [(seed, 20_000, 5) for seed in range(5)]  # items: 100,000 rows
FEW = [(seed, 300, 3) for seed in range(4)]


def rows_of(item: tuple[int, int, int]) -> list[Row]:
    """The rows of an item: (seed, count, groups)."""
    seed, count, groups = item
    rng = random.Random(seed)
    made = []
    for i in range(count):
        key = rng.choice(WORDS) + (rng.choice(WORDS) if rng.random() < 0.8 else "") + (str(rng.randrange(1000)) if rng.random() < 0.7 else "")
        number = rng.choice(EXTREMES) if rng.random() < 0.2 else rng.randrange(-(1 << 63), 1 << 63)
        made.append((rng.randrange(groups), key, number, seed.to_bytes(2, "big") + i.to_bytes(4, "big")))
    return made


def read(item: tuple[int, int, int]) -> Iterator[pa.RecordBatch]:
    """The same as batches, of which one has no rows."""
    made = rows_of(item)
    yield batch_of([])
    for first in range(0, len(made), 3000):
        yield batch_of(made[first : first + 3000])


def batch_of(rows: list[Any], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    """Rows as a batch."""
    return pa.record_batch([pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)], schema=schema)


def rows_in(batches: Iterator[pa.RecordBatch], schema: pa.Schema = SCHEMA) -> list[Any]:
    """The rows that a task was given; its columns have to be those of ``schema``."""
    found = []
    for batch in batches:
        assert batch.schema.names == schema.names and batch.schema.types == schema.types, batch.schema
        found += zip(*(column.to_pylist() for column in batch.columns))
    return found


def all_rows(items: list[tuple[int, int, int]]) -> list[Row]:
    """The rows of all items."""
    return [row for item in items for row in rows_of(item)]


def take_rows() -> Callable[[int, Iterator[pa.RecordBatch]], tuple[int, list[Row]]]:
    """What gives the number of a range or group, and its rows."""
    return lambda number, batches: (number, rows_in(batches))


def by_bytes(row: Row) -> tuple[bytes, int, bytes]:
    """The order of (key, number, bytes)."""
    return row[1].encode(), row[2], row[3]


def first_time(folder: str, name: str) -> bool:
    """Whether no try of a task has been here; it is noted."""
    try:
        os.close(os.open(Path(folder) / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        return True
    except FileExistsError:
        return False


def note(folder: str, name: str) -> None:
    """Leaves a line, of which any number of processes can leave some."""
    with open(Path(folder) / name, "a") as file:
        file.write("x\n")


def kill_executor() -> None:
    """Kills the executor that runs this task: the Java process above Python's."""
    pid = os.getpid()
    while b"java" not in Path(f"/proc/{pid}/comm").read_bytes():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        assert pid > 1
    os.kill(pid, signal.SIGKILL)
