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
from hopfeed.tables.plan import key_expression, key_kind
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
        return {"offsets": _write_ids(job, path, folder, len(degree))}

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
        kind = key_kind(assigned.columns["key"], "key", "--assign")
        if kind != plan.key_kind and len(job.plan.nodes) == 1:
            raise InvalidError(f"--assign: the keys of {assigned.title} are {kind}, and those of {plan.where} are {plan.key_kind}; make them one")
        of_type = f" WHERE type = {sql.text(plan.nodes.name)}" if "type" in assigned.columns else ""
        key = key_expression("key", kind) if kind == plan.key_kind else f"TRY_CAST(key AS {_SQL_KINDS[plan.key_kind]})"
        table = f"(SELECT {key} AS key, TRY_CAST(partition AS BIGINT) AS partition FROM {assigned.relation}{of_type})"
        _check_assigned(job, number, assigned, table)
        out, begin = created(folder / "partition.npy", np.int32, job.counts[number]), 0
        joined = f"SELECT f.partition FROM {job.key_table(number)} AS k JOIN {table} AS f ON k.key = f.key ORDER BY k.file_row_number"
        for (found,) in job.engine.numbers(joined):
            out[begin : begin + len(found)] = found
            begin += len(found)
        return {}

    assert parts >= 1
    return job.work.stage(f"assigned-{number}", f"{plan.where}: reading partitions of {assigned.title}", make) / "partition.npy"


_SQL_KINDS = {"int64": "BIGINT", "string": "VARCHAR", "uuid": "UUID"}


def _check_assigned(job: Job, number: int, assigned: Source, table: str) -> None:
    plan, parts = job.plan.nodes[number], job.options.parts
    where = f"--assign: {assigned.title}"
    outside = job.engine.one(f"SELECT count(*), min(key) FROM {table} WHERE partition IS NULL OR partition < 0 OR partition >= {parts}")
    if outside[0]:
        raise InvalidError(f"{where}: {counted(outside[0])} {'has' if outside[0] == 1 else 'have'} a partition that is not from 0 to {parts - 1}; the first is of {shown(outside[1])}; --parts says how many there are")
    twice = job.engine.one(f"SELECT count(*), min(key) FROM (SELECT key FROM {table} WHERE key IS NOT NULL GROUP BY key HAVING count(*) > 1)")
    if twice[0]:
        raise InvalidError(f"{where}: {counted(twice[0], 'key')} come several times; the first is {shown(twice[1])}; leave one row of each")
    missing = job.engine.one(f"SELECT count(*), min(key) FROM (SELECT k.key FROM {job.key_table(number)} AS k ANTI JOIN {table} AS f ON k.key = f.key)")
    if missing[0]:
        raise InvalidError(f"{where}: {counted(missing[0], 'node')} of {plan.where} {'has' if missing[0] == 1 else 'have'} no partition; the first is {shown(missing[1])}; add a row for each")
