"""Nodes by original id, with what their edges come to; and the order of a dataset: which partition each is in, and there by falling
number of edges that leave it, ties by original id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopfeed.tables.arrays import opened
from hopfeed.tables.cluster import assign
from hopfeed.tables.cluster.edges import count_columns, counted, edge_counts
from hopfeed.tables.cluster.job import ClusterJob, hashes_of, key_type
from hopfeed.tables.cluster.lookups import blocks, nodes_by_id
from hopfeed.tables.cluster.parts import Part, parts_of, stream, written
from hopfeed.tables.limits import require_rows_fit
from hopfeed.tables.plan import NodePlan, Plan
from hopfeed.tables.sources import Source
from hopfeed.tables.work import Stage


def make_counted(job: ClusterJob, number: int, name: str) -> Stage:
    """The stage of a node type's edges: ``parts`` have ``key`` and the counts of :func:`count_columns` by original id. Facts: ``sums``
    of each count."""
    plan, columns = job.plan.nodes[number], count_columns(job.plan, number)

    def make(folder: Path) -> dict[str, Any]:
        frame, counts = nodes_by_id(job, number, "key", "id", "block"), counted(job, number)
        if counts is not None:
            frame = job.cluster.join(frame, counts, "key", "left")

        def take(part: int, given: Iterator[pa.RecordBatch]) -> dict[str, Any]:
            return _counted(folder, part, plan, columns, given)

        parts = job.groups(frame, "block", len(blocks(job, number)), ["id"], take)
        return {"parts": parts, "sums": {column: sum(one["sums"][column] for one in parts) for column in columns}}

    return job.work.stage(f"{name}-{number}", f"{plan.where}: counting the edges of each node", make)


def _counted(folder: Path, part: int, plan: NodePlan, columns: Sequence[str], given: Iterator[pa.RecordBatch]) -> dict[str, Any]:
    schema = pa.schema([("key", key_type(plan)), *((name, pa.int64()) for name in columns)])
    sums = dict.fromkeys(columns, 0)

    def made() -> Iterator[pa.RecordBatch]:
        for batch in given:
            counts = [batch.column(name).fill_null(0) for name in columns]
            for name, values in zip(columns, counts):
                sums[name] += int(pc.sum(values).as_py() or 0)
            yield pa.RecordBatch.from_arrays([batch.column("key"), *counts], schema=schema)

    return written(folder, part, schema, made()) | {"sums": sums}


def make_order(job: ClusterJob, number: int, counts: Stage, assigned: Source | None) -> None:
    """Adds the stage of a node type's order: ``parts`` in the order of dataset ids, with ``id`` (original), ``key``, ``degree``, and
    ``first_E`` of each edge type that ends there: the id of the first edge that ends at the node. Facts: ``offsets`` of the partitions,
    ``edges`` of each type that end in each."""
    plan, parts = job.plan.nodes[number], job.options.parts
    ends = [i for i, one in enumerate(job.plan.edges) if job.plan.ends(one)[1] == number]
    cut = assign.of_nodes(job, number, assigned)
    by_id, by_hash = cut if isinstance(cut, Path) else None, parts if cut is None else 1

    def make(folder: Path) -> dict[str, Any]:
        schema = _ordered_schema(plan, ends)
        frame = job.rows(_with_bases(job, number, counts, ends), _read(job.plan, number, ends, by_hash, job.options.seed, by_id, schema), schema)
        if assigned is not None:
            frame = job.cluster.join(frame, cut, "key")

        def take(part: int, given: Iterator[pa.RecordBatch]) -> dict[str, Any]:
            return _ordered(folder, part, plan, ends, parts, given)

        told = job.ranges(frame, ["given" if assigned is not None else "part", "falling", "id"], [], take)
        of_part = np.sum([one["of_part"] for one in told], axis=0, dtype=np.int64) if told else np.zeros(parts, np.int64)
        edges = {str(end): [sum(one["edges"][str(end)][p] for one in told) for p in range(parts)] for end in ends}
        offsets = [0, *np.cumsum(of_part).tolist()]
        require_rows_fit(plan.where, offsets)
        return {"parts": told, "offsets": offsets, "edges": edges}

    job.order.append(job.work.stage(f"order-{number}", f"{plan.where}: ordering nodes", make))


def _ordered_schema(plan: NodePlan, ends: Sequence[int]) -> pa.Schema:
    numbers = ["part", "falling", "id", *(f"{kind}_{end}" for end in ends for kind in ("in", "first"))]
    return pa.schema([("key", key_type(plan)), *((name, pa.int64()) for name in numbers)])


def _with_bases(job: ClusterJob, number: int, counts: Stage, ends: Sequence[int]) -> list[tuple[Part, dict[int, int]]]:
    """The parts, and of each edge type how many edges end at nodes before them."""
    found, before = list[tuple[Part, dict[int, int]]](), dict.fromkeys(ends, 0)
    for part in parts_of(counts.folder, counts.facts["parts"]):
        found.append((part, dict(before)))
        for end in ends:
            before[end] += edge_counts(job.plan, end, part.facts["sums"])[1] or 0
    return found


def _read(plan: Plan, number: int, ends: Sequence[int], parts: int, seed: int, by_id: Path | None, schema: pa.Schema) -> Any:
    """What reads nodes with their edges. ``parts``: into so many they go by the hash of their keys, unless ``by_id`` has their partitions."""
    leave = [i for i, one in enumerate(plan.edges) if plan.ends(one)[0] == number]
    nodes = plan.nodes[number]

    def read(item: tuple[Part, dict[int, int]]) -> Iterator[pa.RecordBatch]:
        part, before = item[0], dict(item[1])
        cut_of = opened(by_id) if by_id is not None else None
        for first, batch in part.batches():
            values = {name: batch.column(name).to_numpy() for name in batch.schema.names[1:]}
            ids = np.arange(first, first + len(batch))
            degree = sum((edge_counts(plan, one, values)[0] for one in leave), np.zeros(len(batch), np.int64))
            if cut_of is not None:
                where = cut_of[ids].astype(np.int64)
            elif parts > 1:
                where = (hashes_of(nodes, batch.column("key"), seed) % np.uint64(parts)).astype(np.int64)
            else:
                where = np.zeros(len(batch), np.int64)
            columns = [where, -degree, ids]
            for end in ends:
                ending = edge_counts(plan, end, values)[1]
                columns += [ending, before[end] + np.cumsum(ending) - ending]
                before[end] += int(ending.sum())
            yield pa.RecordBatch.from_arrays([batch.column("key"), *map(pa.array, columns)], schema=schema)

    return read


def _ordered(folder: Path, number: int, plan: NodePlan, ends: Sequence[int], parts: int, given: Iterator[pa.RecordBatch]) -> dict[str, Any]:
    schema = order_schema(plan, ends)
    of_part, edges = np.zeros(parts, np.int64), {str(end): np.zeros(parts, np.int64) for end in ends}

    def made() -> Iterator[pa.RecordBatch]:
        for batch in given:
            where = batch.column("given" if "given" in batch.schema.names else "part").to_numpy()
            of_part[:] += np.bincount(where, minlength=parts)
            for end in ends:
                np.add.at(edges[str(end)], where, batch.column(f"in_{end}").to_numpy())
            degree = pa.array(-batch.column("falling").to_numpy())
            yield pa.RecordBatch.from_arrays([batch.column("id"), batch.column("key"), degree, *(batch.column(f"first_{end}") for end in ends)], schema=schema)

    return written(folder, number, schema, made()) | {"of_part": of_part.tolist(), "edges": {end: sums.tolist() for end, sums in edges.items()}}


def order_schema(plan: NodePlan, ends: Sequence[int]) -> pa.Schema:
    """Of the parts of an order."""
    return pa.schema([("id", pa.int64()), ("key", key_type(plan)), ("degree", pa.int64()), *((f"first_{end}", pa.int64()) for end in ends)])


def of_partition(parts: Sequence[Part], offsets: Sequence[int], partition: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a partition, in the order of dataset ids."""
    for _, batch in stream(parts, columns, offsets[partition], offsets[partition + 1]):
        yield batch
