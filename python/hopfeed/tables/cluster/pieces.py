"""What a task reads of a table: some of its files, through DuckDB, as an import on one machine reads all of them."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hopfeed.errors import InvalidError
from hopfeed.folders import TemporaryFolder
from hopfeed.tables import sql
from hopfeed.tables.engine import LEAST_MEMORY, Engine, errors_as_lines
from hopfeed.tables.plan import SQL_KINDS, EdgePlan, NodePlan
from hopfeed.tables.sources import Source, StoreFiles

if TYPE_CHECKING:
    import pyarrow as pa

TASK_MEMORY = 1 << 30  # bytes that DuckDB may take in a task
_BATCH = 8 << 20  # bytes of rows that are handled together
_LEAST, _MOST = 16 << 20, 512 << 20  # bytes of files that a task reads
_PARQUET = re.compile(r"read_parquet\((\[.*\]), union_by_name = true, hive_partitioning = (true|false)\)", re.DOTALL)


@dataclass(frozen=True)
class Piece:
    """A part of a table. Those of a table are its rows, each once, in the table's order.

    Attributes:
        number: of the piece, from 0 on.
        relation: what stands behind FROM.
        store: files of an object store, which Arrow reads under the relation's name; None: DuckDB reads them.
        left_out: a Parquet file with the numbers (``row``) of rows that are not imported; empty: all are.
        without: files with keys (``key``) whose rows are elsewhere.
        planned: the relation has the columns that the plan's has, not the table's.
        files: what DuckDB reads, and how many bytes each has on the driver.
        memory: bytes that DuckDB may take for it.
    """

    number: int
    relation: str
    store: StoreFiles | None = None
    left_out: str = ""
    without: tuple[str, ...] = ()
    planned: bool = False
    files: tuple[tuple[str, int], ...] = ()
    memory: int = TASK_MEMORY


def pieces(source: Source, engine: Engine, slots: int, memory: int = TASK_MEMORY) -> list[Piece]:
    """A table as pieces, for so many tasks at a time, of so many bytes of memory each."""
    most = min(max(sum(size for _, size, _ in source.files) // (3 * slots), _LEAST), _MOST)
    if source.stores:
        stored = (part for store in source.stores for part in store.parts(most))
        return [Piece(i, source.relation, part, memory=memory) for i, part in enumerate(stored)]
    found = _parquet_pieces(source, engine, most) if _PARQUET.fullmatch(source.relation) else [(one, None) for one in source.pieces(engine, most)]
    sizes = {_absolute(path): size for path, size, _ in source.files}
    return [Piece(i, _of_driver(relation, source), files=_sizes(sizes, files), memory=memory) for i, (relation, files) in enumerate(found)]


def _sizes(sizes: dict[str, int], files: Sequence[str] | None) -> tuple[tuple[str, int], ...]:
    return tuple((path, sizes[path]) for path in (sizes if files is None else map(_absolute, files)))


def _parquet_pieces(source: Source, engine: Engine, most: int) -> list[tuple[str, list[str] | None]]:
    """Files, or ranges of the rows of a large one. Where files have other columns than the table, each is brought to the table's."""
    match = _PARQUET.fullmatch(source.relation)
    assert match is not None
    hive = f"union_by_name = true, hive_partitioning = {match[2]}"
    groups = source.groups(most)
    alike = len(groups) < 2 or all(engine.types(f"read_parquet({sql.paths(group)}, {hive})") == source.columns for group in groups)
    if not alike:
        groups = [[path] for path, _, _ in source.files]
        hive += ", hive_types_autocast = false" if match[2] == "true" else ""
    found = list[tuple[str, list[str] | None]]()
    for group in groups:
        columns = "*" if alike else _brought(source, engine.types(f"read_parquet({sql.paths(group)}, {hive})"))
        for numbered, such in _row_ranges(source, engine, group, most):
            read = f"read_parquet({sql.paths(group)}, {hive}{numbered})"
            given = "* EXCLUDE (file_row_number)" if numbered and alike else columns
            found.append((f"(SELECT {given} FROM {read}{such})", group))
    return found


def _brought(source: Source, types: dict[str, str]) -> str:
    """The columns of a table, from a file that has others."""
    return ", ".join(f"{f'CAST({sql.name(name)} AS {kind})' if name in types else f'NULL::{kind}'} AS {sql.name(name)}" for name, kind in source.columns.items())


def _row_ranges(source: Source, engine: Engine, group: Sequence[str], most: int) -> list[tuple[str, str]]:
    """Options and conditions by which a file is read in ranges of about so many bytes; one without either where it is small."""
    size = sum(size for path, size, _ in source.files if path in set(group))
    if len(group) > 1 or size <= 2 * most or "file_row_number" in source.columns:
        return [("", "")]
    rows = engine.one(f"SELECT sum(num_rows) FROM parquet_file_metadata({sql.paths(group)})")[0]
    count = max(min(-(-size // most), rows), 1)
    ends = [rows * i // count for i in range(count + 1)]
    return [(", file_row_number = true", f" WHERE file_row_number >= {begin} AND file_row_number < {end}") for begin, end in zip(ends, ends[1:])]


def _absolute(path: str) -> str:
    """Workers have another working folder. A ``..`` behind a link stays what it is."""
    return path if os.path.isabs(path) else os.path.join(os.getcwd(), path)


def _of_driver(relation: str, source: Source) -> str:
    for path, _, _ in source.files:
        if not os.path.isabs(path):
            relation = relation.replace(sql.paths([path])[1:-1], sql.paths([_absolute(path)])[1:-1])
    return relation


def leaving_out(given: Sequence[Piece], paths: Sequence[Path | None]) -> list[Piece]:
    """The pieces without these rows of each."""
    return [replace(piece, left_out=str(path) if path else "") for piece, path in zip(given, paths, strict=True)]


@contextmanager
def task_engine(piece: Piece) -> Iterator[Engine]:
    """DuckDB, as a task has it: one thread, and a spill folder on the worker's own disk.

    Raises:
        InvalidError: this machine does not have the files that the driver has.
    """
    for path, size in piece.files:
        has = os.stat(path).st_size if os.path.exists(path) else None
        if has != size:
            told = "does not see it" if has is None else f"sees one of {has:,} bytes"
            raise InvalidError(f"{path} has {size:,} bytes for the driver, and the worker on {socket.gethostname()} {told}; all of them have to see the same tables")
    with TemporaryFolder() as scratch:
        engine = Engine(max(piece.memory, LEAST_MEMORY), 1, scratch / "spill")
        try:
            if piece.store is not None:
                engine.register(piece.relation, piece.store.opened())
            yield engine
        finally:
            engine.close()


def relation_of(plan: NodePlan | EdgePlan, piece: Piece) -> str:
    """The rows of a piece as the plan's relation has them, without those that are left out."""
    if piece.left_out:
        return f"(SELECT * EXCLUDE (row) FROM {numbered_relation(plan, piece)} WHERE row NOT IN (SELECT row FROM {sql.parquet(piece.left_out)}))"
    found = _planned(plan, piece)
    if piece.without:
        assert isinstance(plan, NodePlan)
        found = f"(SELECT * FROM {found} ANTI JOIN {keys_in_files(plan, piece.without)} USING (key))"
    return found


def keys_in_files(plan: NodePlan, files: Sequence[str]) -> str:
    """Keys that a cluster has written, as the plan's relation has them."""
    return f"(SELECT key::{SQL_KINDS[plan.key_kind]} AS key FROM {sql.parquets(files)})"


def _planned(plan: NodePlan | EdgePlan, piece: Piece) -> str:
    assert plan.source is not None
    return piece.relation if piece.planned else plan.relation.replace(plan.source.relation, piece.relation)


def numbered_relation(plan: NodePlan | EdgePlan, piece: Piece) -> str:
    """All rows of a piece, with their numbers there as ``row``."""
    return f"(SELECT *, row_number() OVER () - 1 AS row FROM {_planned(plan, piece)})"


def batches(engine: Engine, query: str, of: str, row_bytes: int = 64) -> Iterator[pa.RecordBatch]:
    """What a query gives, in batches that have rows, and of wide rows not too many. ``row_bytes``: of a row, about."""
    with errors_as_lines(of):
        for batch in engine.stream(query, of=of, rows=max(1, _BATCH // max(row_bytes, 1))):
            if len(batch):
                yield batch
