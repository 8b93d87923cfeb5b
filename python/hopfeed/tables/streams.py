"""The streams that shards are made of: rows in the order of a dataset, their columns as they are stored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hopfeed.tables import convert, sql
from hopfeed.tables.arrays import Array, blocks, created, opened
from hopfeed.tables.bounds import Sampler, bounds, row_bytes
from hopfeed.tables.convert import Converted
from hopfeed.tables.edges import make_sorted
from hopfeed.tables.job import Job
from hopfeed.tables.keys import storage
from hopfeed.tables.stored import Stored


def node_rows(job: Job, number: int, partition: int) -> Converted:
    """The nodes of a partition: ``original_id``, ``hotness``, and the attributes."""
    plan = job.plan.nodes[number]
    classes = job.checks[number].facts["classes"] if number in job.checks else []
    begin, end = job.order[number].facts["offsets"][partition : partition + 2]
    schema = pa.schema([("original_id", pa.int64()), ("hotness", pa.float64()), *((one.name, convert.arrow_type(one)) for one in plan.stored)])

    def made(batch: pa.RecordBatch) -> list[pa.Array]:
        degree = batch.column("degree").to_numpy().astype(np.float64)
        own = [convert.rows(one, [batch.column(name) for name in one.inputs], classes) for one in plan.stored]
        return [batch.column("id"), pa.array(degree), *own]

    return Converted(schema, job.engine.batches(_node_query(job, number, begin, end), of=plan.where), made)


def _node_query(job: Job, number: int, begin: int, end: int) -> str:
    """Of the partition [begin, end); with several partitions rows are sorted once for all."""
    plan, order = job.plan.nodes[number], job.order_table(number)
    if not plan.stored:
        return f"SELECT id, degree FROM {order} WHERE file_row_number >= {begin} AND file_row_number < {end} ORDER BY file_row_number"
    inputs = list(dict.fromkeys(name for one in plan.stored for name in one.inputs))
    columns = "".join(f", {name}" for name in inputs)
    join = "LEFT JOIN" if job.keys[number].facts["added"] else "JOIN"
    keyed = f"SELECT k.key, o.id, o.degree, o.file_row_number AS new_id FROM {job.key_table(number)} AS k JOIN {order} AS o ON o.id = k.file_row_number"
    whole = f"SELECT o.id, o.degree, o.new_id{columns} FROM ({keyed}) AS o {join} {job.node_rows(number)} AS r ON r.key = o.key ORDER BY o.new_id"
    if job.options.parts == 1:
        return whole

    def make(folder: Path) -> dict[str, Any]:
        row_bytes = 8 * sum(max(one.width, 1) for one in plan.stored)
        job.engine.write(whole, folder / "rows.parquet", ordered=True, of=plan.where, row_bytes=row_bytes)
        return {}

    rows = job.work.stage(f"rows-{number}", f"{plan.where}: sorting rows", make) / "rows.parquet"
    return f"SELECT * FROM {sql.parquet(rows)} WHERE new_id >= {begin} AND new_id < {end}"


def edge_rows(job: Job, number: int, partition: int) -> Converted:
    """The edges that end in a partition: ``row``, ``src``, ``src_new``, the attributes, and times of the sources."""
    plan = job.plan.edges[number]
    source, target = job.plan.ends(plan)
    begin, end = job.order[target].facts["offsets"][partition : partition + 2]
    new_ids = opened(job.order[source] / "new_ids.npy")
    of_sources = {name: source_times(job, source, name) for name in job.plan.source_times(plan)}
    fields = [(one.name, convert.arrow_type(one)) for one in plan.stored] + [(name, pa.int64()) for name in of_sources]
    schema = pa.schema([("row", pa.int64()), ("src", pa.int64()), ("src_new", pa.int64()), *fields])

    def made(batch: pa.RecordBatch) -> list[pa.Array]:
        src = batch.column("src").to_numpy()
        own = [convert.rows(one, [batch.column(name) for name in one.inputs], []) for one in plan.stored]
        times = [pa.array(times[src]) for times in of_sources.values()]
        return [pa.array(batch.column("dst_new").to_numpy() - begin), batch.column("src"), pa.array(new_ids[src]), *own, *times]

    edges = sql.parquet(make_sorted(job, number))
    return Converted(schema, job.engine.batches(f"SELECT * FROM {edges} WHERE dst_new >= {begin} AND dst_new < {end}", of=plan.where), made)


def first_edge_ids(job: Job, number: int, partition: int) -> tuple[Array, Array | None]:
    """Of a partition's nodes in dataset order: original ids, and the id of the first edge that ends at each."""
    assert job.degrees is not None
    _, target = job.plan.ends(job.plan.edges[number])
    begin, end = job.order[target].facts["offsets"][partition : partition + 2]
    original = np.array(opened(job.order[target] / "original_ids.npy")[begin:end])
    if not job.options.edge_ids:
        return original, None
    return original, opened(job.degrees / f"first-{number}.npy")[original]


def source_times(job: Job, node_type: int, name: str) -> Array:
    """A time of each node, int64 by original id; mapped from a stage."""
    plan = job.plan.nodes[node_type]
    stored = plan.time(name)
    assert stored is not None

    def make(folder: Path) -> dict[str, Any]:
        times = created(folder / "times.npy", np.int64, job.counts[node_type])
        query = f"SELECT k.file_row_number AS id, r.{stored.inputs[0]} AS {stored.inputs[0]} FROM {job.node_rows(node_type)} AS r JOIN {job.key_table(node_type)} AS k ON k.key = r.key"
        for batch in job.engine.batches(query, of=plan.where):
            times[batch.column("id").to_numpy()] = np.asarray(convert.rows(stored, [batch.column(1)], []))
        return {}

    return opened(job.work.stage(f"times-{node_type}-{name}", f"{plan.where}: reading '{name}'", make) / "times.npy")


def time_bounds(job: Job, number: int) -> dict[str, Array]:
    """The bounds of each time of an edge type."""
    plan = job.plan.edges[number]
    if not plan.edges.times:
        return {}

    def make(folder: Path) -> dict[str, Any]:
        for name, found in _sampled(job, number).items():
            np.save(folder / f"{name}.npy", found)
        return {}

    stage = job.work.stage(f"bounds-{number}", f"{plan.where}: bounds of times", make)
    return {name: np.load(stage / f"{name}.npy") for name in plan.edges.times}


def _sampled(job: Job, number: int) -> dict[str, Array]:
    plan = job.plan.edges[number]
    source, target = job.plan.ends(plan)
    assert job.degrees is not None
    first, original = opened(job.degrees / f"first-{number}.npy"), opened(job.order[target] / "original_ids.npy")
    of_sources = {name: source_times(job, source, name) for name in job.plan.source_times(plan)}
    samplers = {name: Sampler(job.degrees.facts["edges"][number], lambda dst: first[original[dst]]) for name in plan.edges.times}
    for batch in job.engine.batches(f"SELECT * FROM {sql.parquet(make_sorted(job, number))}", of=plan.where):
        dst, src, rows = batch.column("dst_new").to_numpy(), batch.column("src").to_numpy(), len(batch)
        if rows == 0:
            continue
        own = {one.name: _flat(one, batch) for one in plan.stored}
        stored = [row_bytes(values, rows) for values in own.values()]
        for name, sampler in samplers.items():
            sampler.add(dst, src, of_sources[name][src] if name in of_sources else own[name], stored)
    return {name: bounds(sampler.finish()) for name, sampler in samplers.items()}


def _flat(stored: Stored, batch: pa.RecordBatch) -> Array:
    """An attribute's elements, one row behind the other."""
    rows = convert.rows(stored, [batch.column(name) for name in stored.inputs], [])
    flat: Array = (rows.flatten() if stored.width else rows).to_numpy(zero_copy_only=False)
    return flat


def column(name: str, values: Array) -> pa.RecordBatchReader:
    """A stream of one column of numbers."""
    kind = pa.from_numpy_dtype(values.dtype)
    batches = (pa.RecordBatch.from_arrays([pa.array(values[at])], names=[name]) for at in blocks(len(values)))
    return pa.RecordBatchReader.from_batches(pa.schema([(name, kind)]), batches)


def keys(job: Job, number: int) -> pa.RecordBatchReader:
    """The keys of a node type, by original id: int64, texts, or 16 bytes each."""
    kind = {"int64": pa.int64(), "string": pa.string(), "uuid": pa.binary(16)}[job.plan.nodes[number].key_kind]

    def made() -> Iterator[pa.RecordBatch]:
        for batch in job.engine.batches(f"SELECT key FROM {sql.parquet(job.keys[number] / 'keys.parquet')}"):
            yield pa.RecordBatch.from_arrays([storage(batch.column(0))], names=["keys"])

    return pa.RecordBatchReader.from_batches(pa.schema([("keys", kind)]), made())
