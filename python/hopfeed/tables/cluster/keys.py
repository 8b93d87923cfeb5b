"""Keys to ids: the cluster sorts them, and a key's id is its place; and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hopfeed.errors import InvalidError
from hopfeed.tables import sql
from hopfeed.tables.cluster import checks
from hopfeed.tables.cluster.engine import Frame
from hopfeed.tables.cluster.job import ClusterJob, key_shown, key_type, keys_out, runs
from hopfeed.tables.cluster.parts import own_path, written
from hopfeed.tables.cluster.pieces import Piece, batches, keys_in_files, relation_of, task_engine
from hopfeed.tables.keys import node_checks, refused_duplicates, tell_keys
from hopfeed.tables.plan import EdgePlan, NodePlan


def check_nodes(job: ClusterJob, number: int) -> None:
    """Adds the stage of a node type's checks; its facts are those of an import on one machine."""
    plan = job.plan.nodes[number]
    if plan.source is None:
        return
    source = plan.source

    def make(_: Path) -> dict[str, Any]:
        given = job.pieces_of(source)
        found = checks.look(job, plan, given, ["key"], node_checks(plan, job.options.nulls == "0"))
        facts = checks.told_of(job, plan, given, found, f"key AS {sql.name(plan.nodes.key)}")
        return facts | checks.classes_of(job, plan, given)

    job.checks[number] = job.work.stage(f"check-{number}", f"{plan.where}: checking {source.title}", make)


def make_keys(job: ClusterJob, number: int) -> None:
    """Adds the stage of a node type's keys. Facts: those of an import on one machine, and ``parts``: ``key`` in order, once each."""
    plan = job.plan.nodes[number]

    def make(folder: Path) -> dict[str, Any]:
        frame = _all_keys(job, plan)

        def take(part: int, given: Iterator[pa.RecordBatch]) -> dict[str, Any]:
            return _taken(folder, part, plan, given)

        parts = job.ranges(frame, ["key"], ["own"], take)
        twice = sum(one["repeated"] for one in parts)
        if twice:
            _take_duplicates(job, plan, folder, parts, twice)
        count, own = sum(one["rows"] for one in parts), sum(one["own"] for one in parts)
        return {"count": count, "duplicates": twice, "added": count - own if plan.source else 0, "parts": parts}

    stage = job.work.stage(f"keys-{number}", f"{plan.where}: ordering keys", make)
    job.keys.append(stage)
    tell_keys(job, plan, stage.facts)


def _all_keys(job: ClusterJob, plan: NodePlan) -> Frame:
    """Keys of the table (``own`` is 1), and those that edges name where they are nodes."""
    schema = pa.schema([("key", key_type(plan)), ("own", pa.int64())])
    frames = list[Frame]()
    if plan.source is not None:
        frames.append(job.rows(job.pieces_of(plan.source), _keys_of(plan, plan, "key", 1, schema), schema))
    if plan.source is None or job.options.dangling == "add":
        ends = [
            job.rows(job.pieces_of(edges.source), _keys_of(plan, edges, column, 0, schema), schema)
            for edges in job.plan.edges
            for end, column in ((edges.edges.src, "sk"), (edges.edges.dst, "dk"))
            if edges.source is not None and end == plan.nodes.name
        ]
        if ends:
            frames.append(job.cluster.sums(job.cluster.union(ends), ["key"], ["own"]))
    return job.cluster.union(frames)


def _keys_of(plan: NodePlan, of: NodePlan | EdgePlan, column: str, own: int, schema: pa.Schema) -> Any:
    distinct = "" if own else "DISTINCT "

    def read(piece: Piece) -> Iterator[pa.RecordBatch]:
        with task_engine(piece) as engine:
            assert of.source is not None
            query = f"SELECT {distinct}{column} AS key FROM {relation_of(of, piece)} WHERE {column} IS NOT NULL"
            for batch in batches(engine, query, plan.where):
                yield pa.RecordBatch.from_arrays([keys_out(plan, batch.column(0)), pa.array(np.full(len(batch), own))], schema=schema)

    return read


def _taken(folder: Path, part: int, plan: NodePlan, given: Iterator[pa.RecordBatch]) -> dict[str, Any]:
    """Writes the keys of a range, each once, and those that several rows of the table have."""
    schema = pa.schema([("key", key_type(plan))])
    # A key of the ends of edges comes before its row of the table, since rows are sorted by `own` too.
    last: pa.Array | None = None
    counts = {"own": 0, "repeated": 0}
    several, in_run = list[pa.Array](), 0  # rows of the table that the key at hand has so far

    def once() -> Iterator[pa.RecordBatch]:
        nonlocal last, in_run
        for batch in given:
            if len(batch) == 0:
                continue
            keys, own = batch.column("key"), batch.column("own").to_numpy() > 0
            first = runs(keys, last)
            run = np.cumsum(first)  # 0: that of the batch before
            rows = np.bincount(run[own], minlength=int(run[-1]) + 1)
            before, rows[0] = in_run, rows[0] + in_run
            counts["own"] += int(np.count_nonzero(rows)) - int(before > 0)
            again = rows > 1
            again[0] &= before < 2
            counts["repeated"] += int(np.count_nonzero(again))
            if again.any():
                starts = np.searchsorted(run, np.flatnonzero(again))
                several.append(keys.take(pa.array(starts)))
            in_run, last = int(rows[-1]), keys[len(keys) - 1 :]
            yield pa.RecordBatch.from_arrays([keys.filter(pa.array(first))], schema=schema)

    facts = written(folder, part, schema, once()) | counts
    if several:
        twice = pa.concat_arrays(several)
        path = own_path(folder, f"twice-{part:05d}")
        facts |= {"twice": path.name, "first": twice[0].as_py()}
        pq.write_table(pa.table({"key": twice}), path)
    return facts


def _take_duplicates(job: ClusterJob, plan: NodePlan, folder: Path, parts: list[dict[str, Any]], keys: int) -> None:
    """Refuses what the option does not let through; else writes one row of each key that several have: ``one.parquet``."""
    assert plan.source is not None
    files = _files(folder, parts)
    first = key_shown(plan, next(one["first"] for one in parts if "first" in one))
    given = job.pieces_of(plan.source)

    def rows_of(piece: Piece) -> str:
        return f"(SELECT * FROM {relation_of(plan, piece)} SEMI JOIN {keys_in_files(plan, files)} USING (key))"

    def gather(piece: Piece) -> str:
        path = own_path(folder, f"rows-{piece.number:05d}")
        with task_engine(piece) as engine:
            engine.write(f"SELECT * FROM {rows_of(piece)}", path, ordered=True, of=plan.where)
        return str(path)

    rows = ""
    if job.options.duplicates != "error":
        rows = sql.parquets(job.tasks(given, gather))
    line = refused_duplicates(job.options, plan, first, keys, job.engine.run, rows)
    shown = f"SELECT key AS {sql.name(plan.nodes.key)}{plan.columns.shown()} FROM"
    if line:
        checks.reject(job, "duplicates", plan, given, lambda piece: f"{shown} {rows_of(piece)}")
        raise InvalidError(line)
    together = [Piece(0, rows, planned=True, memory=job.memory)]
    checks.reject(job, "duplicates", plan, together, lambda piece: f"{shown} ({plan.others_of_each(relation_of(plan, piece))})")
    job.engine.write(plan.one_of_each(rows), folder / "one.parquet", ordered=True, of=plan.where)


def _files(folder: Path, parts: list[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(str(folder / one["twice"]) for one in parts if "twice" in one)


def node_pieces(job: ClusterJob, number: int) -> list[Piece]:
    """The rows of a node type's table, one for each key."""
    plan, stage = job.plan.nodes[number], job.keys[number]
    assert plan.source is not None
    given = job.pieces_of(plan.source)
    if not stage.facts["duplicates"]:
        return given
    files = _files(stage.folder, stage.facts["parts"])
    return [*(replace(piece, without=files) for piece in given), Piece(len(given), sql.parquet(stage / "one.parquet"), planned=True, memory=job.memory)]
