"""Rows in an order, as Parquet files in the import's folder: a range of them in each, in order. A row's number is what the files
before it have, and its place in its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_GROUP = 16 << 20  # bytes, about, of a row group
_ROWS = 1 << 16


@dataclass(frozen=True)
class Part:
    """A file of rows.

    Attributes:
        first: number of its first row.
        facts: what the task that wrote it has told.
    """

    path: str
    first: int
    rows: int
    facts: dict[str, Any]

    def batches(self, columns: Sequence[str] | None = None, begin: int = 0, end: int | None = None) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Its rows from number ``begin`` up to ``end``, with the number of the first of each batch."""
        at = self.first
        with pq.ParquetFile(self.path, memory_map=True) as file:
            wanted = range(file.metadata.num_row_groups)
            for group in wanted:
                rows = file.metadata.row_group(group).num_rows
                if at + rows > begin and (end is None or at < end):
                    inner = at
                    for batch in file.iter_batches(_ROWS, row_groups=[group], columns=columns):
                        low, high = max(begin - inner, 0), len(batch) if end is None else min(end - inner, len(batch))
                        if low < high:
                            yield inner + low, batch.slice(low, high - low)
                        inner += len(batch)
                at += rows


def written(folder: Path, number: int, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> dict[str, Any]:
    """Writes a range of rows; the facts of its part. Each try of a task has a file of its own, and the one counts that is told."""
    path, rows, held, size = own_path(folder, f"part-{number:05d}"), 0, list[pa.RecordBatch](), 0
    with pq.ParquetWriter(path, schema, compression="lz4", use_dictionary=False, write_statistics=False) as writer:
        for batch in batches:
            rows += len(batch)
            held.append(batch)
            size += batch.nbytes
            if size >= _GROUP:
                writer.write_table(pa.Table.from_batches(held, schema))
                held, size = [], 0
        if held:
            writer.write_table(pa.Table.from_batches(held, schema))
    return {"path": path.name, "rows": rows}


def own_path(folder: Path, name: str) -> Path:
    """A path that no other try of a task has, nor a late one of a run that was killed."""
    return folder / f"{name}-{uuid.uuid4().hex}.parquet"


def parts_of(folder: Path, facts: Sequence[dict[str, Any]]) -> list[Part]:
    """The files of a stage, from what the tasks that wrote them have told, in order."""
    found, first = list[Part](), 0
    for one in facts:
        if one["rows"]:
            found.append(Part(str(folder / one["path"]), first, one["rows"], one))
        first += one["rows"]
    return found


def stream(parts: Sequence[Part], columns: Sequence[str] | None = None, begin: int = 0, end: int | None = None) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Rows of several parts, one behind the other, from number ``begin`` up to ``end``."""
    for part in parts:
        if part.first + part.rows > begin and (end is None or part.first < end):
            yield from part.batches(columns, begin, end)
