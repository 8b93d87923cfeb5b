"""Nodes by their keys, to be joined with: what an end of an edge, or a row of a node table, is in the dataset."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from hopfeed.tables import convert
from hopfeed.tables.arrays import Array
from hopfeed.tables.cluster.engine import Frame
from hopfeed.tables.cluster.job import ClusterJob, key_type, keys_out
from hopfeed.tables.cluster.keys import node_pieces
from hopfeed.tables.cluster.parts import Part
from hopfeed.tables.cluster.pieces import Piece, batches, relation_of, task_engine


def nodes_by_id(job: ClusterJob, number: int, key: str, name: str, block: str = "") -> Frame:
    """The keys of a node type as ``key``, original ids as ``name``, and, where it has a name, the :func:`blocks` that they are in."""
    schema = pa.schema([(key, key_type(job.plan.nodes[number])), (name, pa.int64()), *([(block, pa.int64())] if block else [])])

    def read(item: tuple[int, Part]) -> Iterator[pa.RecordBatch]:
        number, part = item
        for first, batch in part.batches(["key"]):
            made = [batch.column(0), pa.array(np.arange(first, first + len(batch))), pa.array(np.full(len(batch), number))]
            yield pa.RecordBatch.from_arrays(made[: len(schema)], schema=schema)

    return job.rows(list(enumerate(job.parts(job.keys[number]))), read, schema)


def blocks(job: ClusterJob, number: int) -> Array:
    """Where blocks of original ids begin: as many and as large as the cluster has made the ranges of keys. What is wanted in the order
    of ids is told into these, and needs no sample of itself."""
    return np.asarray([part.first for part in job.parts(job.keys[number])], np.int64)


def by_original_ids(job: ClusterJob, number: int, edges: Frame) -> Frame:
    """Edges with ``src`` and ``dst`` beside their keys."""
    source, target = job.plan.ends(job.plan.edges[number])
    edges = job.cluster.select(edges, ["sk", "dk"])
    edges = job.cluster.select(job.cluster.join(edges, nodes_by_id(job, source, "sk", "src"), "sk"), ["dk", "src"])
    return job.cluster.select(job.cluster.join(edges, nodes_by_id(job, target, "dk", "dst"), "dk"), ["src", "dst"])


def looked_up(job: ClusterJob, number: int, key: str, columns: dict[str, str]) -> Frame:
    """The nodes of a type, to be joined with: the key as ``key``, and others by their new names: of ``id`` (original), ``new`` (dataset id),
    ``part``, ``degree`` and ``first_E``."""
    plan, offsets = job.plan.nodes[number], np.asarray(job.order[number].facts["offsets"])
    schema = pa.schema([(key, key_type(plan)), *((name, pa.int64()) for name in columns.values())])
    wanted = ["key", *(name for name in columns if name not in ("new", "part"))]

    def read(part: Part) -> Iterator[pa.RecordBatch]:
        for first, batch in part.batches(wanted):
            new = np.arange(first, first + len(batch))
            made = {"new": lambda new=new: pa.array(new), "part": lambda new=new: pa.array(np.searchsorted(offsets, new, side="right") - 1)}
            yield pa.RecordBatch.from_arrays([batch.column("key"), *(made[name]() if name in made else batch.column(name) for name in columns)], schema=schema)

    return job.rows(job.parts(job.order[number]), read, schema)


def source_times(job: ClusterJob, number: int, key: str, names: list[str]) -> Frame:
    """Times of the nodes of a type that have a row: ``key``, and ``time_0``, ``time_1``, ... in the order of ``names``."""
    plan = job.plan.nodes[number]
    stored = [time for name in names if (time := plan.time(name)) is not None]
    schema = pa.schema([(key, key_type(plan)), *((f"time_{i}", pa.int64()) for i in range(len(stored)))])
    columns = ", ".join(dict.fromkeys(one.inputs[0] for one in stored))

    def read(piece: Piece) -> Iterator[pa.RecordBatch]:
        with task_engine(piece) as engine:
            for batch in batches(engine, f"SELECT key, {columns} FROM {relation_of(plan, piece)}", plan.where):
                times = [convert.rows(one, [batch.column(one.inputs[0])], []) for one in stored]
                yield pa.RecordBatch.from_arrays([keys_out(plan, batch.column(0)), *times], schema=schema)

    return job.rows(node_pieces(job, number), read, schema)
