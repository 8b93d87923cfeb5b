"""Which partition each node is in, where not a hash of the key says so: a table of keys and partitions, or LDG on the driver."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hopfeed.errors import InvalidError
from hopfeed.tables import ldg
from hopfeed.tables.cluster import checks
from hopfeed.tables.cluster.edges import edge_rows, tables
from hopfeed.tables.cluster.engine import Frame
from hopfeed.tables.cluster.job import ClusterJob, key_shown, key_type, keys_out, runs
from hopfeed.tables.cluster.lookups import blocks, by_original_ids, nodes_by_id
from hopfeed.tables.cluster.parts import Part, written
from hopfeed.tables.cluster.pieces import Piece, batches, task_engine
from hopfeed.tables.engine import machine_memory
from hopfeed.tables.order import assigned_table, outside, refuse_missing, refuse_outside, refuse_repeated
from hopfeed.tables.plan import NodePlan
from hopfeed.tables.sources import Source
from hopfeed.tables.work import Stage

_LDG_NODE = 16  # bytes of the driver's memory


def refuse_way(option: str, parts: int) -> None:
    """Raises ``InvalidError`` for a cut that no cluster makes."""
    if option == "metis" and parts > 1:
        raise InvalidError("--assign metis needs the whole graph in one memory; on a cluster take hash, ldg or a table of keys and partitions")


def of_nodes(job: ClusterJob, number: int, assigned: Source | None) -> Frame | Path | None:
    """A table of ``key`` and ``given``, the partition; or a file of partitions by original id; None: the hash of the key."""
    if assigned is not None:
        return _given(job, number, _make_assigned(job, number, assigned))
    if job.options.parts == 1 or job.options.assign != "ldg":
        return None
    nodes = sum(job.counts)
    if nodes * _LDG_NODE > machine_memory() // 2:
        raise InvalidError(f"--assign ldg takes {nodes * _LDG_NODE >> 20:,} MB of the driver's memory for {nodes:,} nodes, which is more than half of it; take hash, or a table of keys and partitions")
    for edges in tables(job.plan):
        _make_ids(job, edges)
    return ldg.assigned(job, number)


def _given(job: ClusterJob, number: int, stage: Stage) -> Frame:
    schema = pa.schema([("key", key_type(job.plan.nodes[number])), ("given", pa.int64())])

    def read(part: Part) -> Iterator[pa.RecordBatch]:
        for _, batch in part.batches():
            yield batch

    return job.rows(job.parts(stage), read, schema)


def _make_assigned(job: ClusterJob, number: int, assigned: Source) -> Stage:
    """The stage of the partitions that a table says: ``parts`` have ``key`` and ``given`` of each node."""
    plan, parts = job.plan.nodes[number], job.options.parts

    def make(folder: Path) -> dict[str, Any]:
        given = job.pieces_of(assigned)
        _refuse_outside(job, plan, assigned, given)
        _refuse_repeated(job, plan, assigned, given)
        frame = job.cluster.join(nodes_by_id(job, number, "key", "id", "block"), _table(job, plan, assigned, given), "key", "left")

        def take(part: int, rows: Iterator[pa.RecordBatch]) -> dict[str, Any]:
            return _taken(folder, part, plan, rows)

        told = job.groups(frame, "block", len(blocks(job, number)), ["id"], take)
        missing = [one for one in told if one["missing"]]
        refuse_missing(assigned, plan, sum(one["missing"] for one in missing), key_shown(plan, missing[0]["first"]) if missing else None)
        return {"parts": told}

    assert parts >= 1
    return job.work.stage(f"assigned-{number}", f"{plan.where}: reading partitions of {assigned.title}", make)


def _table(job: ClusterJob, plan: NodePlan, assigned: Source, given: list[Piece]) -> Frame:
    schema = pa.schema([("key", key_type(plan)), ("given", pa.int64())])
    of = job.plan

    def read(piece: Piece) -> Iterator[pa.RecordBatch]:
        with task_engine(piece) as engine:
            query = f"SELECT key, partition FROM {assigned_table(of, plan, assigned, piece.relation)} WHERE key IS NOT NULL"
            for batch in batches(engine, query, f"--assign: {assigned.title}"):
                yield pa.RecordBatch.from_arrays([keys_out(plan, batch.column(0)), batch.column(1)], schema=schema)

    return job.rows(given, read, schema)


def _refuse_outside(job: ClusterJob, plan: NodePlan, assigned: Source, given: list[Piece]) -> None:
    of, parts = job.plan, job.options.parts
    assigned_table(of, plan, assigned, assigned.relation)  # a type of keys that does not fit is told here

    def look(piece: Piece) -> tuple[Any, ...]:
        with task_engine(piece) as engine:
            return engine.one(f"SELECT count(*), min(key) FROM {assigned_table(of, plan, assigned, piece.relation)} WHERE {outside(parts)}")

    told = job.tasks(given, look)
    firsts = [(first,) for _, first in told if first is not None]
    refuse_outside(assigned, parts, sum(rows for rows, _ in told), checks.least(firsts)[0] if firsts else None)


def _refuse_repeated(job: ClusterJob, plan: NodePlan, assigned: Source, given: list[Piece]) -> None:
    def look(_: int, rows: Iterator[pa.RecordBatch]) -> list[Any]:
        repeated, first, was = 0, None, False
        last: pa.Array | None = None
        for batch in rows:
            if len(batch):
                keys = batch.column("key")
                again = ~runs(keys, last)
                new = again & ~np.concatenate([[was], again[:-1]])
                if first is None and new.any():
                    first = keys[int(np.flatnonzero(new)[0])].as_py()
                repeated, last, was = repeated + int(new.sum()), keys[len(keys) - 1 :], bool(again[-1])
        return [repeated, first]

    told = job.ranges(_table(job, plan, assigned, given), ["key"], [], look)
    refuse_repeated(assigned, sum(keys for keys, _ in told), key_shown(plan, next((first for _, first in told if first is not None), None)))


def _taken(folder: Path, part: int, plan: NodePlan, rows: Iterator[pa.RecordBatch]) -> dict[str, Any]:
    schema, told = pa.schema([("key", key_type(plan)), ("given", pa.int64())]), {"missing": 0, "first": None}

    def made() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            lacks = batch.filter(batch.column("given").is_null())
            if len(lacks) and told["first"] is None:
                told["first"] = lacks.column("key")[0].as_py()
            told["missing"] += len(lacks)
            yield pa.RecordBatch.from_arrays([batch.column("key"), batch.column("given")], schema=schema)

    return written(folder, part, schema, made()) | told


def _make_ids(job: ClusterJob, number: int) -> None:
    """Writes an edge table by original ids beside its checks, where LDG looks for it: ``ids-N.parquet``, in no order."""
    plan = job.plan.edges[number]

    def make(folder: Path) -> dict[str, Any]:
        frame = by_original_ids(job, number, edge_rows(job, number, once=True))

        def take(part: int, rows: Iterator[pa.RecordBatch]) -> dict[str, Any]:
            return written(folder, part, pa.schema([("src", pa.int64()), ("dst", pa.int64())]), rows)

        return {"parts": job.ranges(frame, ["src"], [], take)}

    job.edge_ids[number] = job.work.stage(f"pairs-{number}", f"{plan.where}: edges by ids", make)
