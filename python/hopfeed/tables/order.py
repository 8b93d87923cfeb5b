"""The cut and the order of nodes: which partition each is in, and there by falling number of edges that leave it, ties by
original id."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hopfeed.errors import InvalidError
from hopfeed.tables import ldg, metis, sql
from hopfeed.tables.arrays import blocks, created, opened
from hopfeed.tables.description import Table
from hopfeed.tables.dirt import counted, shown
from hopfeed.tables.job import Job
from hopfeed.tables.keys import hashes
from hopfeed.tables.limits import require_rows_fit
from hopfeed.tables.plan import SQL_KINDS, NodePlan, Plan, key_expression, key_kind
from hopfeed.tables.sources import Source, Sources


def make_order(job: Job, number: int, assigned: Source | None) -> None:
    """Adds the stage of a node type's order: ``order.parquet``, ``new_ids.npy``, ``original_ids.npy`` (int64). Facts:
    ``offsets`` of the partitions. ``assigned``: the table that says which partition a key is in."""
    assert job.degrees is not None
    degrees = job.degrees / f"out-{number}.npy"
    partition = _partition_of(job, number, assigned)

    def make(folder: Path) -> dict[str, Any]:
        degree = opened(degrees)

        def batches() -> Iterator[pa.RecordBatch]:
            for at in blocks(len(degree)):
                ids = np.arange(at.start, at.stop)
                parts = partition(at) if partition else np.zeros(len(ids), np.int32)
                yield pa.RecordBatch.from_arrays([pa.array(ids), pa.array(degree[at]), pa.array(parts)], names=["id", "degree", "partition"])

        schema = pa.schema([("id", pa.int64()), ("degree", pa.int64()), ("partition", pa.int32())])
        job.engine.register("node_numbers", pa.RecordBatchReader.from_batches(schema, batches()))
        path = folder / "order.parquet"
        job.engine.write("SELECT * FROM node_numbers ORDER BY partition, degree DESC, id", path, ordered=True)
        job.engine.unregister("node_numbers")
        offsets = _write_ids(job, path, folder, len(degree))
        require_rows_fit(job.plan.nodes[number].where, offsets)
        return {"offsets": offsets}

    job.order.append(job.work.stage(f"order-{number}", f"{job.plan.nodes[number].where}: ordering nodes", make))


def _write_ids(job: Job, path: Path, folder: Path, count: int) -> list[int]:
    """Both directions of the order as arrays; gives where partitions begin."""
    new_ids, original_ids = created(folder / "new_ids.npy", np.int64, count), created(folder / "original_ids.npy", np.int64, count)
    of_part, begin = np.zeros(job.options.parts, np.int64), 0
    for ids, parts in job.engine.numbers(f"SELECT id, partition FROM {sql.parquet(path)}"):
        end = begin + len(ids)
        original_ids[begin:end] = ids
        new_ids[ids] = np.arange(begin, end)
        of_part += np.bincount(parts, minlength=job.options.parts)
        begin = end
    return [0, *np.cumsum(of_part).tolist()]


def _partition_of(job: Job, number: int, assigned: Source | None) -> Any:
    """What gives the partitions of nodes by a slice of original ids; None where there is one partition."""
    parts = job.options.parts
    if assigned is not None:
        path = _assigned(job, number, assigned)
        return lambda at: opened(path)[at]
    if parts == 1:
        return None
    if job.options.assign in ("ldg", "metis"):
        cut = (ldg if job.options.assign == "ldg" else metis).assigned(job, number)
        return lambda at: opened(cut)[at]
    of_key = hashes(job, number)
    return lambda at: (of_key[at] % np.uint64(parts)).astype(np.int32)


def open_assigned(job: Job, sources: Sources, option: str) -> Source | None:
    """The table of ``--assign FILE``: columns ``key`` and ``partition``, and ``type`` where there are several node types.

    Raises:
        InvalidError: it lacks one.
    """
    if option in ("hash", "ldg", "metis"):
        return None
    source = sources.open(Table((option,)), "--assign")
    wanted = ["key", "partition"] + (["type"] if len(job.plan.nodes) > 1 else [])
    for column in wanted:
        source.column(column, "--assign")
    return source


def _assigned(job: Job, number: int, assigned: Source) -> Path:
    plan, parts = job.plan.nodes[number], job.options.parts

    def make(folder: Path) -> dict[str, Any]:
        table = assigned_table(job.plan, plan, assigned, assigned.relation)
        _check_assigned(job, number, assigned, table)
        out, begin = created(folder / "partition.npy", np.int32, job.counts[number]), 0
        joined = f"SELECT f.partition FROM {job.key_table(number)} AS k JOIN {table} AS f ON k.key = f.key ORDER BY k.file_row_number"
        for (found,) in job.engine.numbers(joined):
            out[begin : begin + len(found)] = found
            begin += len(found)
        return {}

    assert parts >= 1
    return job.work.stage(f"assigned-{number}", f"{plan.where}: reading partitions of {assigned.title}", make) / "partition.npy"


def assigned_table(plan: Plan, nodes: NodePlan, assigned: Source, relation: str) -> str:
    """The rows of a node type in a table that says partitions, as ``key, partition``. ``relation``: the table, or a piece of it."""
    kind = key_kind(assigned.columns["key"], "key", "--assign")
    if kind != nodes.key_kind and len(plan.nodes) == 1:
        raise InvalidError(f"--assign: the keys of {assigned.title} are {kind}, and those of {nodes.where} are {nodes.key_kind}; make them one")
    of_type = f" WHERE type = {sql.text(nodes.nodes.name)}" if "type" in assigned.columns else ""
    key = key_expression("key", kind) if kind == nodes.key_kind else f"TRY_CAST(key AS {SQL_KINDS[nodes.key_kind]})"
    return f"(SELECT {key} AS key, TRY_CAST(partition AS BIGINT) AS partition FROM {relation}{of_type})"


def refuse_outside(assigned: Source, parts: int, rows: int, first: Any) -> None:
    """Raises ``InvalidError`` where rows have a partition that there is not."""
    if rows:
        raise InvalidError(f"--assign: {assigned.title}: {counted(rows)} {'has' if rows == 1 else 'have'} a partition that is not from 0 to {parts - 1}; the first is of {shown(first)}; --parts says how many there are")


def refuse_repeated(assigned: Source, keys: int, first: Any) -> None:
    """Raises ``InvalidError`` where keys come several times."""
    if keys:
        raise InvalidError(f"--assign: {assigned.title}: {counted(keys, 'key')} come several times; the first is {shown(first)}; leave one row of each")


def refuse_missing(assigned: Source, nodes: NodePlan, count: int, first: Any) -> None:
    """Raises ``InvalidError`` where nodes have no partition."""
    if count:
        raise InvalidError(f"--assign: {assigned.title}: {counted(count, 'node')} of {nodes.where} {'has' if count == 1 else 'have'} no partition; the first is {shown(first)}; add a row for each")


def outside(parts: int) -> str:
    """A condition of rows whose partition is none."""
    return f"partition IS NULL OR partition < 0 OR partition >= {parts}"


def _check_assigned(job: Job, number: int, assigned: Source, table: str) -> None:
    plan, parts = job.plan.nodes[number], job.options.parts
    refuse_outside(assigned, parts, *job.engine.one(f"SELECT count(*), min(key) FROM {table} WHERE {outside(parts)}"))
    repeated = f"SELECT key FROM {table} WHERE key IS NOT NULL GROUP BY key HAVING count(*) > 1"
    refuse_repeated(assigned, *job.engine.one(f"SELECT count(*), min(key) FROM ({repeated})"))
    missing = f"SELECT k.key FROM {job.key_table(number)} AS k ANTI JOIN {table} AS f ON k.key = f.key"
    refuse_missing(assigned, plan, *job.engine.one(f"SELECT count(*), min(key) FROM ({missing})"))
