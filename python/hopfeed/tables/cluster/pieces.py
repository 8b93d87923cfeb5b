"""What a task reads of a table: some of its files, through DuckDB, as an import on one machine reads all of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hopfeed.folders import TemporaryFolder
from hopfeed.tables import sql
from hopfeed.tables.engine import Engine
from hopfeed.tables.plan import SQL_KINDS, EdgePlan, NodePlan
from hopfeed.tables.sources import Source, StoreFiles

if TYPE_CHECKING:
    import pyarrow as pa

TASK_MEMORY = 1 << 30  # bytes that DuckDB may take in a task
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
    """

    number: int
    relation: str
    store: StoreFiles | None = None
    left_out: str = ""
    without: tuple[str, ...] = ()
    planned: bool = False


def pieces(source: Source, engine: Engine, slots: int) -> list[Piece]:
    """A table as pieces, for so many tasks at a time."""
    most = min(max(sum(size for _, size, _ in source.files) // (3 * slots), _LEAST), _MOST)
    if source.stores:
        return _of_stores(source, most)
    parts = list[str]()
    for relation in source.pieces(engine, most):
        parts += _by_rows(relation, most, engine)
    return [Piece(i, _absolute(relation, source)) for i, relation in enumerate(parts)]


def _of_stores(source: Source, most: int) -> list[Piece]:
    found = list[Piece]()
    for group in source.groups(most):
        for store in source.stores:
            if here := tuple(path for path in group if path in set(store.paths)):
                found.append(Piece(len(found), source.relation, replace(store, paths=here)))
    return found


def _by_rows(relation: str, most: int, engine: Engine) -> list[str]:
    """A large file of Parquet as ranges of its rows."""
    match = _PARQUET.fullmatch(relation)
    if match is None:
        return [relation]
    size = engine.one(f"SELECT sum(total_compressed_size) FROM parquet_metadata({match[1]})")[0] or 0
    if size <= 2 * most:
        return [relation]
    rows = engine.one(f"SELECT count(*) FROM {relation}")[0]
    count = min(-(-size // most), max(rows, 1))
    ends = [rows * i // count for i in range(count + 1)]
    numbered = f"read_parquet({match[1]}, union_by_name = true, hive_partitioning = {match[2]}, file_row_number = true)"
    return [f"(SELECT * EXCLUDE (file_row_number) FROM {numbered} WHERE file_row_number >= {begin} AND file_row_number < {end})" for begin, end in zip(ends, ends[1:])]


def _absolute(relation: str, source: Source) -> str:
    """Workers have another working folder than the driver."""
    for path, _, _ in source.files:
        if not os.path.isabs(path):
            relation = relation.replace(sql.paths([path])[1:-1], sql.paths([os.path.abspath(path)])[1:-1])
    return relation


def leaving_out(given: Sequence[Piece], paths: Sequence[Path | None]) -> list[Piece]:
    """The pieces without these rows of each."""
    return [replace(piece, left_out=str(path) if path else "") for piece, path in zip(given, paths)]


@contextmanager
def task_engine(piece: Piece | None = None) -> Iterator[Engine]:
    """DuckDB, as a task has it: one thread, and a spill folder on the worker's own disk."""
    with TemporaryFolder() as scratch:
        engine = Engine(TASK_MEMORY, 1, scratch / "spill")
        try:
            if piece is not None and piece.store is not None:
                engine.register(piece.relation, _opened(piece.store))
            yield engine
        finally:
            engine.close()


def _opened(store: StoreFiles) -> Any:
    import pyarrow.dataset as arrow_dataset
    import pyarrow.fs as arrow_fs

    files, _ = arrow_fs.FileSystem.from_uri(store.uri)
    return arrow_dataset.dataset(list(store.paths), filesystem=files, format=store.format, partitioning="hive")


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


def batches(engine: Engine, query: str, of: str) -> Iterator[pa.RecordBatch]:
    """What a query gives, in batches that have rows."""
    for batch in engine.batches(query, of=of):
        if len(batch):
            yield batch
