"""Edges: how many each node has, those with an end that is no node, and the rows that shards are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hopfeed.errors import InvalidError
from hopfeed.tables import sql
from hopfeed.tables.cluster import checks
from hopfeed.tables.cluster.engine import Frame
from hopfeed.tables.cluster.job import ClusterJob, key_shown, key_type, keys_out
from hopfeed.tables.cluster.packed import given_width, packed
from hopfeed.tables.cluster.parts import Part, own_path
from hopfeed.tables.cluster.pieces import Piece, batches, leaving_out, numbered_relation, relation_of, task_engine
from hopfeed.tables.edges import dangling_kinds, dangling_line
from hopfeed.tables.plan import EdgePlan, NodePlan, Plan

_BOTH = "sk IS NOT NULL AND dk IS NOT NULL"


@dataclass(frozen=True)
class Direction:
    """Which rows an edge type has.

    Attributes:
        table: number of the edge type that has the table.
        flipped: its edges are those of the table, the other way round.
    """

    table: int
    flipped: bool


def direction(plan: Plan, number: int) -> Direction:
    """Of an edge type."""
    flipped = False
    while plan.edges[number].source is None:
        rev_of = plan.edges[number].edges.rev_of
        assert rev_of is not None
        number, flipped = rev_of, not flipped
    return Direction(number, flipped)


def tables(plan: Plan) -> list[int]:
    """Numbers of the edge types that have a table."""
    return [i for i, one in enumerate(plan.edges) if one.source is not None]


def edge_pieces(job: ClusterJob, number: int) -> list[Piece]:
    """The rows of an edge type's table whose ends are nodes, but for those without a key."""
    source = job.plan.edges[number].source
    assert source is not None
    given = job.pieces_of(source)
    return leaving_out(given, job.left_out[number]) if number in job.left_out else given


# --- How many edges each node has ---------------------------------------------------------------------------------------

def count_columns(plan: Plan, node_type: int) -> list[str]:
    """For each table with ends of that type: ``s_E`` rows that it is the source of, ``d_E`` the destination, ``l_E`` both."""
    found = list[str]()
    for number in tables(plan):
        source, target = plan.ends(plan.edges[number])
        found += [f"s_{number}"] if source == node_type else []
        found += [f"d_{number}"] if target == node_type else []
        found += [f"l_{number}"] if source == node_type and plan.edges[number].edges.undirected else []
    return found


def edge_counts(plan: Plan, number: int, values: dict[str, Any]) -> tuple[Any, Any]:
    """Of an edge type, from the columns of its ends: how many edges leave each source, and how many end at each destination;
    None of those whose columns are not there."""
    of = direction(plan, number)
    s, d, loops = (values.get(f"{kind}_{of.table}") for kind in "sdl")
    if plan.edges[of.table].edges.undirected:
        both = None if s is None or d is None or loops is None else s + d - loops
        return both, both
    return (d, s) if of.flipped else (s, d)


def counted(job: ClusterJob, node_type: int) -> Frame | None:
    """``key`` and :func:`count_columns` of each key that an edge has; None where there are no edges."""
    plan, columns = job.plan.nodes[node_type], count_columns(job.plan, node_type)
    schema = pa.schema([("key", key_type(plan)), *((name, pa.int64()) for name in columns)])
    numbers = dict.fromkeys(int(column[2:]) for column in columns)
    items = [(number, piece) for number in numbers for piece in edge_pieces(job, number)]
    return job.cluster.sums(job.rows(items, _counts_of(job.plan, plan, schema), schema), ["key"], columns) if items else None


def _counts_of(plan: Plan, nodes: NodePlan, schema: pa.Schema) -> Any:
    def read(item: tuple[int, Piece]) -> Iterator[pa.RecordBatch]:
        number, piece = item
        edges = plan.edges[number]
        assert edges.source is not None
        with task_engine(piece) as engine:
            for batch in batches(engine, _count_query(schema.names[1:], number, relation_of(edges, piece)), f"{edges.where}: {edges.source.title}"):
                yield pa.RecordBatch.from_arrays([keys_out(nodes, batch.column(0)), *batch.columns[1:]], schema=schema)

    return read


def _count_query(columns: Sequence[str], number: int, relation: str) -> str:
    """Of each key of a piece, how many rows have it at each end."""
    parts = list[str]()
    for column in columns:
        if int(column[2:]) == number:
            key, loops = ("dk" if column[0] == "d" else "sk"), (" AND sk = dk" if column[0] == "l" else "")
            counts = ", ".join(f"{'count(*)' if name == column else '0'} AS {name}" for name in columns)
            parts.append(f"SELECT {key} AS key, {counts} FROM {relation} WHERE {_BOTH}{loops} GROUP BY {key}")
    sums = ", ".join(f"sum({name})::BIGINT AS {name}" for name in columns)
    return f"SELECT key, {sums} FROM ({' UNION ALL '.join(parts)}) GROUP BY key"


# --- Edges with an end that is no node ----------------------------------------------------------------------------------

def make_checked(job: ClusterJob, number: int, sums: Sequence[dict[str, int]]) -> bool:
    """Adds the stage of an edge table's checks; its facts are those of an import on one machine. ``sums``: of each node type, the sums of
    its :func:`count_columns` over all nodes. Gives whether rows are dropped."""
    plan = job.plan.edges[number]
    source, target = job.plan.ends(plan)
    assert plan.source is not None
    at_nodes = sums[source][f"s_{number}"], sums[target][f"d_{number}"]

    def make(folder: Path) -> dict[str, Any]:
        given = job.pieces_of(plan.source) if plan.source is not None else []
        wanted = [check for one in plan.stored for check in one.checks(job.options.nulls == "0")]
        found = checks.look(job, plan, given, ["sk", "dk"], wanted, there=_BOTH)
        nulls = _null_keys(job, plan, given)
        dropped = list[list[Any]]()
        if nulls[0]:
            dropped.append(_tell(job, plan, given, "null keys", nulls[0], nulls[1], f"NOT ({_BOTH})"))
        if at_nodes != (found.sums[0], found.sums[0]):
            rows, first, files = _find_dangling(job, number, folder)
            left = [folder / name if name else None for name in files]
            dropped.append(_tell(job, plan, leaving_out(given, left), "dangling", rows, first, ""))
            given = leaving_out(given, left)
            found = checks.look(job, plan, given, ["sk", "dk"], wanted, there=_BOTH)
        else:
            files = []
        own = f"sk AS {sql.name(plan.edges.src_key)}, dk AS {sql.name(plan.edges.dst_key)}"
        facts = checks.told_of(job, plan, given, found, own, there=_BOTH)
        return facts | {"dropped": dropped, "left_out": files}

    stage = job.work.stage(f"ids-{number}", f"{plan.where}: checking {plan.source.title}", make)
    job.ids[number] = stage
    for kind, rows, line in stage.facts["dropped"]:
        job.told.note(plan.where, kind, rows, line)
    if stage.facts["left_out"]:
        job.left_out[number] = [stage / name if name else None for name in stage.facts["left_out"]]
    return number in job.left_out


def _null_keys(job: ClusterJob, plan: EdgePlan, given: Sequence[Piece]) -> tuple[int, tuple[Any, ...]]:
    """Rows without a key at an end, and the first of them."""

    def read(piece: Piece) -> list[Any]:
        with task_engine(piece) as engine:
            of = f"FROM {relation_of(plan, piece)} WHERE NOT ({_BOTH})"
            rows = engine.one(f"SELECT count(*) {of}")[0]
            return [rows, engine.one(f"SELECT sk, dk {of} ORDER BY sk NULLS FIRST, dk NULLS FIRST LIMIT 1") if rows else None]

    told = job.tasks(given, read)
    firsts = [tuple(first) for _, first in told if first is not None]
    return sum(rows for rows, _ in told), checks.least(firsts, nulls_first=True) if firsts else ()


def _tell(job: ClusterJob, plan: EdgePlan, given: Sequence[Piece], kind: str, rows: int, first: tuple[Any, ...], such: str) -> list[Any]:
    """What becomes of rows that no two nodes have: kind, rows, line. ``such``: a condition of theirs; empty: those that are left out."""
    assert plan.source is not None
    what = dangling_kinds(job.plan, plan)[kind]
    names = f"sk AS {sql.name(plan.edges.src_key)}, dk AS {sql.name(plan.edges.dst_key)}{plan.columns.shown()}"

    def query(piece: Piece) -> str:
        if such:
            return f"SELECT {names} FROM {relation_of(plan, piece)} WHERE {such}"
        left = f"row IN (SELECT row FROM {sql.parquet(piece.left_out)})" if piece.left_out else "false"
        return f"SELECT {names} FROM {numbered_relation(plan, piece)} WHERE {left}"

    checks.reject(job, kind, plan, given, query)
    line, remedy = dangling_line(plan, kind, rows, first, what)
    if job.options.dangling != "drop":
        raise InvalidError(f"{line}; {remedy}")
    return [kind, rows, f"{line}; dropped"]


def _find_dangling(job: ClusterJob, number: int, folder: Path) -> tuple[int, tuple[Any, ...], list[str]]:
    """Rows with an end that is no node: how many, the first, and for each piece the file of their numbers."""
    plan = job.plan.edges[number]
    assert plan.source is not None
    ends = [job.plan.nodes[end] for end in job.plan.ends(plan)]
    given = job.pieces_of(plan.source)
    schema = pa.schema([("sk", key_type(ends[0])), ("dk", key_type(ends[1])), ("piece", pa.int64()), ("row", pa.int64())])

    def read(piece: Piece) -> Iterator[pa.RecordBatch]:
        with task_engine(piece) as engine:
            for batch in batches(engine, f"SELECT sk, dk, row FROM {numbered_relation(plan, piece)} WHERE {_BOTH}", plan.where):
                keys = [keys_out(end, column) for end, column in zip(ends, batch.columns)]
                yield pa.RecordBatch.from_arrays([*keys, pa.array(np.full(len(batch), piece.number)), batch.column(2)], schema=schema)

    frame = job.rows(given, read, schema)
    for column, there, end in zip(("sk", "dk"), ("s_there", "d_there"), job.plan.ends(plan)):
        frame = job.cluster.join(frame, known_keys(job, end, column, there), column, "left")

    def take(piece: int, rows: Iterator[pa.RecordBatch]) -> list[Any]:
        return _left_out(folder, piece, rows)

    told = job.groups(frame, "piece", len(given), ["row"], take)
    firsts = [tuple(first) for _, first, _ in told if first is not None]
    first = tuple(key_shown(end, key) for end, key in zip(ends, checks.least(firsts)))
    return sum(rows for rows, _, _ in told), first, [name for _, _, name in told]


def _left_out(folder: Path, piece: int, given: Iterator[pa.RecordBatch]) -> list[Any]:
    rows, firsts = list[pa.Array](), list[tuple[Any, ...]]()
    for batch in given:
        lacks = pc.or_(batch.column("s_there").is_null(), batch.column("d_there").is_null())
        found = batch.filter(lacks)
        if len(found):
            rows.append(found.column("row"))
            firsts.append(checks.least(list(zip(found.column("sk").to_pylist(), found.column("dk").to_pylist()))))
    if not rows:
        return [0, None, ""]
    whole = pa.concat_arrays(rows)
    path = own_path(folder, f"left-{piece:05d}")
    pq.write_table(pa.table({"row": whole}), path)
    return [len(whole), checks.least(firsts), path.name]


def known_keys(job: ClusterJob, node_type: int, column: str, there: str) -> Frame:
    """The keys of a node type as ``column``, and beside each a 1."""
    schema = pa.schema([(column, key_type(job.plan.nodes[node_type])), (there, pa.int64())])

    def read(part: Part) -> Iterator[pa.RecordBatch]:
        for _, batch in part.batches(["key"]):
            yield pa.RecordBatch.from_arrays([batch.column(0), pa.array(np.ones(len(batch), np.int64))], schema=schema)

    return job.rows(job.parts(job.keys[node_type]), read, schema)


# --- Rows ---------------------------------------------------------------------------------------------------------------

def edge_rows(job: ClusterJob, number: int, *, once: bool = False) -> Frame:
    """``sk``, ``dk`` and ``row``, the bytes of the attributes, of each edge of a type. ``once``: undirected edges come as the table has them."""
    of = direction(job.plan, number)
    plan = job.plan.edges[of.table]
    assert plan.source is not None
    nodes = {name: job.plan.nodes[end] for name, end in zip(("sk", "dk"), job.plan.ends(plan))}
    source, target = ("dk", "sk") if of.flipped else ("sk", "dk")
    schema = pa.schema([("sk", key_type(nodes[source])), ("dk", key_type(nodes[target])), ("row", pa.binary())])
    pairs = [(source, target)]
    if plan.edges.undirected and not once:
        pairs.append((target, source))
    title = f"{plan.where}: {plan.source.title}"

    def read(piece: Piece) -> Iterator[pa.RecordBatch]:
        with task_engine(piece) as engine:
            for batch in batches(engine, f"SELECT sk, dk{plan.columns.passed()} FROM {relation_of(plan, piece)} WHERE {_BOTH}", title, 64 + given_width(plan.stored)):
                row = packed(plan.stored, batch, [])
                keys = {name: keys_out(node, batch.column(name)) for name, node in nodes.items()}
                for i, (one, other) in enumerate(pairs):
                    made = pa.RecordBatch.from_arrays([keys[one], keys[other], row], schema=schema)
                    yield made.filter(pc.not_equal(keys[one], keys[other])) if i else made

    return job.rows(edge_pieces(job, of.table), read, schema)
