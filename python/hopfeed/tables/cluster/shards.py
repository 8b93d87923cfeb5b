"""The parts of a dataset, each written by a task of its own (:mod:`hopfeed.tables.shards` has their names). A shard that is there is
whole, and stays: a task that is tried again, or twice at a time, changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hopfeed import _core
from hopfeed.errors import NoSpaceError
from hopfeed.tables import convert
from hopfeed.tables.arrays import Array, opened
from hopfeed.tables.bounds import Sampler, bounds
from hopfeed.tables.cluster import packed
from hopfeed.tables.cluster.edges import edge_rows
from hopfeed.tables.cluster.engine import Frame
from hopfeed.tables.cluster.job import ClusterJob, key_type, keys_in, keys_out
from hopfeed.tables.cluster.keys import node_pieces
from hopfeed.tables.cluster.lookups import blocks, looked_up, source_times
from hopfeed.tables.cluster.order import of_partition
from hopfeed.tables.cluster.parts import Part, stream, written
from hopfeed.tables.cluster.pieces import Piece, batches, relation_of, task_engine
from hopfeed.tables.convert import Converted
from hopfeed.tables.draft import sharded_ids
from hopfeed.tables.shards import id_sources, raising
from hopfeed.tables.streams import column

def is_there(folder: Path, name: str) -> bool:
    """Whether a shard is whole."""
    return (folder / name / "shard.json").exists()


def write(job: ClusterJob, draft: str, folder: Path) -> list[str]:
    """Makes the parts that are not there; gives the folders of all."""
    folder.mkdir(exist_ok=True)
    names = list[str]()
    for number in range(len(job.plan.nodes)):
        names += _node_columns(job, draft, folder, number)
        names += _nodes(job, draft, folder, number)
    for number in range(len(job.plan.edges)):
        names += _edges(job, draft, folder, number)
    if sharded_ids(job):
        names += _ids(job, draft, folder, names)
    return [str(folder / name) for name in names]


def _ids(job: ClusterJob, draft: str, folder: Path, made: Sequence[str]) -> list[str]:
    """The ids of each partition, of the shards that are there."""
    sources = {part: id_sources(list(made), part) for part in range(job.options.parts)}
    missing = [part for part in sources if not is_there(folder, f"ids-{part}")]
    if missing:
        job.say(f"writing ids of {len(missing)} partitions")

    def task(part: int) -> None:
        _core.write_id_shard(draft, part, [str(folder / name) for name in sources[part]], str(folder / f"ids-{part}"))

    job.tasks(missing, task)
    return [f"ids-{part}" for part in sources]


# --- Arrays that belong to no partition -----------------------------------------------------------------------------------

@dataclass(frozen=True)
class _Column:
    """An array, and the stream that it is written from."""

    kind: str
    number: int
    name: str
    stream: Callable[[], pa.RecordBatchReader]

    @property
    def shard(self) -> str:
        return "-".join(filter(None, (self.kind, str(self.number), self.name)))


def _write_columns(job: ClusterJob, draft: str, folder: Path, columns: Sequence[_Column]) -> list[str]:
    def task(one: _Column) -> None:
        _core.write_column(one.stream(), draft, one.kind, one.number, one.name, str(folder / one.shard))

    job.tasks([one for one in columns if not is_there(folder, one.shard)], task)
    return [one.shard for one in columns]


def _node_columns(job: ClusterJob, draft: str, folder: Path, number: int) -> list[str]:
    plan = job.plan.nodes[number]
    columns = list[_Column]()
    if not is_there(folder, f"new_ids-{number}"):
        job.say(f"{plan.where}: writing ids")
    by_id = _make_new_ids(job, number)
    columns.append(_Column("new_ids", number, "", lambda: _numbers("new_ids", by_id, "new")))
    order = job.parts(job.order[number])
    if job.options.parts > 1:
        columns.append(_Column("original_ids", number, "", lambda: _numbers("original_ids", order, "id")))
    if job.options.keys:
        keys = job.parts(job.keys[number])
        columns.append(_Column("keys", number, "", lambda: _keys(plan, keys)))
    if number in job.splits:
        for name in job.splits[number].facts["counts"]:
            path = job.splits[number] / f"{name}.npy"
            columns.append(_Column("split", number, name, lambda path=path: column("split", opened(path))))
    return _write_columns(job, draft, folder, columns)


def _make_new_ids(job: ClusterJob, number: int) -> list[Part]:
    """Dataset ids by original id."""
    plan = job.plan.nodes[number]

    def make(folder: Path) -> dict[str, Any]:
        schema, firsts = pa.schema([("id", pa.int64()), ("new", pa.int64()), ("block", pa.int64())]), blocks(job, number)

        def read(part: Part) -> Iterator[pa.RecordBatch]:
            for first, batch in part.batches(["id"]):
                block = np.searchsorted(firsts, batch.column(0).to_numpy(), side="right") - 1
                yield pa.RecordBatch.from_arrays([batch.column(0), pa.array(np.arange(first, first + len(batch))), pa.array(block)], schema=schema)

        def take(part: int, given: Iterator[pa.RecordBatch]) -> dict[str, Any]:
            return written(folder, part, pa.schema([("new", pa.int64())]), (batch.select(["new"]) for batch in given))

        return {"parts": job.groups(job.rows(job.parts(job.order[number]), read, schema), "block", len(firsts), ["id"], take)}

    return job.parts(job.work.stage(f"new-{number}", f"{plan.where}: ids of the dataset", make))


def _numbers(kind: str, parts: Sequence[Part], name: str) -> pa.RecordBatchReader:
    made = (pa.RecordBatch.from_arrays([batch.column(0)], names=[kind]) for _, batch in stream(parts, [name]))
    return pa.RecordBatchReader.from_batches(pa.schema([(kind, pa.int64())]), made)


def _keys(plan: Any, parts: Sequence[Part]) -> pa.RecordBatchReader:
    kind = {"int64": pa.int64(), "string": pa.string(), "uuid": pa.binary(16)}[plan.key_kind]
    made = (pa.RecordBatch.from_arrays([keys_in(plan, batch.column(0))], names=["keys"]) for _, batch in stream(parts, ["key"]))
    return pa.RecordBatchReader.from_batches(pa.schema([("keys", kind)]), made)


# --- Nodes ----------------------------------------------------------------------------------------------------------------

def _nodes(job: ClusterJob, draft: str, folder: Path, number: int) -> list[str]:
    plan, offsets, parts = job.plan.nodes[number], job.order[number].facts["offsets"], job.parts(job.order[number])
    names = [f"nodes-{number}-{part}" for part in range(job.options.parts)]
    missing = [part for part, name in enumerate(names) if not is_there(folder, name)]
    if not missing:
        return names
    job.say(f"{plan.where}: writing {len(missing)} partitions")
    stored = plan.stored
    schema = pa.schema([("original_id", pa.int64()), ("hotness", pa.float64()), *((one.name, convert.arrow_type(one)) for one in stored)])

    def write_one(part: int, rows: Iterator[pa.RecordBatch], made: Callable[[pa.RecordBatch], list[pa.Array]]) -> None:
        if not is_there(folder, f"nodes-{number}-{part}"):
            converted = Converted(schema, rows, made)
            raising(converted, lambda: _core.write_node_shard(converted, draft, number, part, str(folder / f"nodes-{number}-{part}")))

    def known(batch: pa.RecordBatch) -> list[pa.Array]:
        return [batch.column("id"), pa.array(batch.column("degree").to_numpy().astype(np.float64))]

    if not stored:
        job.tasks(missing, lambda part: write_one(part, of_partition(parts, offsets, part, ["id", "degree"]), known))
        return names
    wide, filled = packed.width(stored), _default(job, number)

    def with_attributes(batch: pa.RecordBatch) -> list[pa.Array]:
        return known(batch) + packed.unpacked(stored, packed.bytes_of(batch.column("row"), wide, filled))

    how = "left" if job.keys[number].facts["added"] else "inner"
    places = looked_up(job, number, "key", {"id": "id", "degree": "degree", "new": "new", "part": "part"})
    frame = job.cluster.select(job.cluster.join(places, _node_rows(job, number), "key", how), ["part", "new", "id", "degree", "row"])

    def take(part: int, rows: Iterator[pa.RecordBatch]) -> None:
        write_one(part, rows, with_attributes)

    job.groups(frame, "part", job.options.parts, ["new"], take)
    return names


def _node_rows(job: ClusterJob, number: int) -> Frame:
    """``key`` and ``row``, the bytes of the attributes, of each row of a node table."""
    plan, classes = job.plan.nodes[number], job.checks[number].facts["classes"]
    schema = pa.schema([("key", key_type(plan)), ("row", pa.binary())])

    def read(piece: Piece) -> Iterator[pa.RecordBatch]:
        with task_engine(piece) as engine:
            for batch in batches(engine, f"SELECT key{plan.columns.passed()} FROM {relation_of(plan, piece)}", plan.where, 64 + packed.given_width(plan.stored)):
                yield pa.RecordBatch.from_arrays([keys_out(plan, batch.column("key")), packed.packed(plan.stored, batch, classes)], schema=schema)

    return job.rows(node_pieces(job, number), read, schema)


def _default(job: ClusterJob, number: int) -> bytes:
    """The attributes of a node that has no row."""
    plan = job.plan.nodes[number]
    found = job.engine.stream(f"SELECT * EXCLUDE (key) FROM {plan.relation} LIMIT 0")
    return packed.default(plan.stored, found.schema, job.checks[number].facts["classes"])


# --- Edges ----------------------------------------------------------------------------------------------------------------

def _edges(job: ClusterJob, draft: str, folder: Path, number: int) -> list[str]:
    plan = job.plan.edges[number]
    names = [f"edges-{number}-{part}" for part in range(job.options.parts)]
    columns = [f"bounds-{number}-{time}" for time in plan.edges.times]
    missing = [name for name in (*columns, *names) if not is_there(folder, name)]
    if not missing:
        return columns + names
    job.say(f"{plan.where}: joining and sorting edges")
    frame = _placed(job, number)
    if not plan.edges.times:
        _write_edges(job, draft, folder, number, frame, {})
        return columns + names
    frame = job.cluster.kept(frame)
    try:
        of_all = _bounds(job, number, frame)
        _write_columns(job, draft, folder, [_Column("bounds", number, time, partial(_bounds_of, of_all[time])) for time in plan.edges.times])
        _write_edges(job, draft, folder, number, frame, of_all)
    finally:
        job.cluster.let_go(frame)
    return columns + names


def _bounds_of(values: Array) -> pa.RecordBatchReader:
    return column("bounds", values)


def _placed(job: ClusterJob, number: int) -> Frame:
    """The edges of a type with ``src`` (original id), ``src_new``, ``dst_new`` and ``part``; with ``row`` where they have attributes, times
    that are the sources' as ``time_N``, and, where there are times, ``first``, the id of the first edge that ends at the destination."""
    plan = job.plan.edges[number]
    source, target = job.plan.ends(plan)
    row = ["row"] if plan.stored else []
    sources = looked_up(job, source, "sk", {"id": "src", "new": "src_new"})
    if of_sources := job.plan.source_times(plan):
        sources = job.cluster.join(sources, source_times(job, source, "sk", of_sources), "sk", "left")
    carried = [*row, *(f"time_{i}" for i in range(len(of_sources)))]
    joined = job.cluster.join(job.cluster.select(edge_rows(job, number), ["sk", "dk", *row]), sources, "sk")
    wanted = {"new": "dst_new", "part": "part"}
    if plan.edges.times:
        wanted[f"first_{number}"] = "first"
    joined = job.cluster.join(job.cluster.select(joined, ["dk", "src", "src_new", *carried]), looked_up(job, target, "dk", wanted), "dk")
    return job.cluster.select(joined, ["src", "src_new", *carried, *wanted.values()])


def _times_of(batch: pa.RecordBatch, number: int) -> Array:
    """A time of the sources; nodes without a row have none."""
    values: Array = batch.column(f"time_{number}").fill_null(0).to_numpy()
    return values


def _bounds(job: ClusterJob, number: int, frame: Frame) -> dict[str, Array]:
    plan, edges = job.plan.edges[number], job.degrees.facts["edges"][number] if job.degrees is not None else 0
    stored, wide, of_sources = plan.stored, packed.width(plan.stored), job.plan.source_times(plan)

    def take(_: int, rows: Iterator[pa.RecordBatch]) -> dict[str, list[int]]:
        firsts = dict[int, int]()
        samplers = {name: Sampler(edges, lambda dst: np.asarray([firsts[one] for one in dst.tolist()], np.int64)) for name in plan.edges.times}
        for batch in rows:
            if len(batch) == 0:
                continue
            dst, src = batch.column("dst_new").to_numpy(), batch.column("src").to_numpy()
            row = packed.bytes_of(batch.column("row"), wide) if stored else np.zeros((len(batch), 0), np.uint8)
            new = np.flatnonzero(np.diff(dst, prepend=-1))
            last = max(firsts, default=-1)  # rows of its last pair may still be held back
            held = {last: firsts[last]} if firsts else {}
            firsts.clear()
            firsts.update(held | dict(zip(dst[new].tolist(), batch.column("first").to_numpy()[new].tolist())))
            begin = 0
            own = dict[str, Array]()
            for one in stored:
                own[one.name] = packed.elements(one, row, begin)
                begin += packed.width([one])
            for name, sampler in samplers.items():
                sampler.add(dst, src, _times_of(batch, of_sources.index(name)) if name in of_sources else own[name], [row])
        return {name: sampler.finish().tolist() for name, sampler in samplers.items()}

    job.say(f"{plan.where}: bounds of times")
    told = job.groups(frame, "part", job.options.parts, ["dst_new", "src"], take)
    return {name: bounds(np.concatenate([np.asarray(one[name], np.int64) for one in told])) for name in plan.edges.times}


def _write_edges(job: ClusterJob, draft: str, folder: Path, number: int, frame: Frame, of_all: dict[str, Array]) -> None:
    plan, (_, target) = job.plan.edges[number], job.plan.ends(job.plan.edges[number])
    stored, wide, of_sources = plan.stored, packed.width(plan.stored), job.plan.source_times(plan)
    memory = job.memory // 4  # that the edges of one node may take while they are written
    order, offsets, edge_ids = job.parts(job.order[target]), job.order[target].facts["offsets"], job.options.edge_ids
    fields = [(one.name, convert.arrow_type(one)) for one in stored] + [(name, pa.int64()) for name in of_sources]
    schema = pa.schema([("row", pa.int64()), ("src", pa.int64()), ("src_new", pa.int64()), *fields])

    def take(part: int, rows: Iterator[pa.RecordBatch]) -> None:
        shard = f"edges-{number}-{part}"
        if is_there(folder, shard):
            return
        original, first = _ends(order, offsets, part, f"first_{number}")

        def made(batch: pa.RecordBatch) -> list[pa.Array]:
            own = packed.unpacked(stored, packed.bytes_of(batch.column("row"), wide)) if stored else []
            times = [pa.array(_times_of(batch, i)) for i in range(len(of_sources))]
            return [pa.array(batch.column("dst_new").to_numpy() - offsets[part]), batch.column("src"), batch.column("src_new"), *own, *times]

        converted = Converted(schema, rows, made)
        bounds_of = dict[str, object](of_all)
        try:
            raising(converted, lambda: _core.write_edge_shard(converted, draft, number, part, str(folder / shard), original, first if edge_ids else None, bounds_of, memory))
        except NoSpaceError as error:
            raise NoSpaceError(str(error).replace("--memory", "task_memory")) from None

    job.say(f"{plan.where}: writing {job.options.parts} partitions")
    job.groups(frame, "part", job.options.parts, ["dst_new", "src"], take)


def _ends(order: Sequence[Part], offsets: Sequence[int], part: int, first: str) -> tuple[Array, Array]:
    """Of a partition's nodes: original ids, and the id of the first edge that ends at each."""
    found = [(batch.column(0).to_numpy(), batch.column(1).to_numpy()) for batch in of_partition(order, offsets, part, ["id", first])]
    empty = np.zeros(0, np.int64)
    return np.concatenate([empty, *(ids for ids, _ in found)]), np.concatenate([empty, *(firsts for _, firsts in found)])
