"""Edges by the ids of their ends: each text is joined once, and all that follows is of whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hopfeed.errors import InvalidError
from hopfeed.tables import sql
from hopfeed.tables.arrays import created
from hopfeed.tables.dirt import check_rows, counted, shown
from hopfeed.tables.job import Job
from hopfeed.tables.plan import EdgePlan, Plan


def make_ids(job: Job, number: int) -> None:
    """Adds the stage of an edge type that has a table: ``ids-N.parquet``. Facts: those of ``check_rows``, ``dropped``."""
    plan = job.plan.edges[number]
    if plan.source is None:
        return

    def make(folder: Path) -> dict[str, Any]:
        assert plan.source is not None
        source, target = (job.key_table(end) for end in job.plan.ends(plan))
        of, paths = f"{plan.where}: {plan.source.title}", list[Path]()
        for piece in plan.source.pieces(job.engine, job.engine.piece):
            paths.append(folder / f"ids-{len(paths)}.parquet")
            relation = plan.relation.replace(plan.source.relation, piece)
            job.engine.write(_by_ids(job, plan, relation, source, target), paths[-1], ordered=False, of=of)
        ids = sql.parquets(paths)
        has, made = (job.engine.one(f"SELECT count(*) FROM {one}", of=of)[0] for one in (plan.source.relation, ids))
        dropped = _dangling(job, plan, source, target) if made < has else []
        keyed = f"SELECT s.key AS sk, d.key AS dk, i.* FROM {ids} AS i JOIN {source} AS s ON i.src = s.file_row_number JOIN {target} AS d ON i.dst = d.file_row_number"
        checks = [check for one in plan.stored for check in one.checks(job.options.nulls == "0")]
        own = f"sk AS {sql.name(plan.edges.src_key)}, dk AS {sql.name(plan.edges.dst_key)}"
        facts = check_rows(job, ids, ["sk", "dk"], checks, plan.columns, plan.where, plan.source.title, own, f"({keyed})")
        return facts | {"dropped": dropped}

    stage = job.work.stage(f"ids-{number}", f"{plan.where}: joining keys of {plan.source.title}", make)
    job.ids[number] = stage
    for kind, rows, line in stage.facts["dropped"]:
        job.told.note(plan.where, kind, rows, line)


def _by_ids(job: Job, plan: EdgePlan, relation: str, source: str, target: str) -> str:
    """Query of the edges of a table whose ends are nodes. Of nodes that are called by their numbers nothing is looked up."""
    ends = [(job.plan.nodes[end].nodes.numbered, job.counts[end]) for end in job.plan.ends(plan)]
    if all(numbered for numbered, _ in ends):
        there = " AND ".join(f"e.{column} BETWEEN 0 AND {count - 1}" for column, (_, count) in zip(("sk", "dk"), ends))
        return f"SELECT e.sk AS src, e.dk AS dst{plan.columns.passed('e.')} FROM {relation} AS e WHERE {there}"
    joined = f"{relation} AS e JOIN {source} AS s ON e.sk = s.key JOIN {target} AS d ON e.dk = d.key"
    return f"SELECT s.file_row_number AS src, d.file_row_number AS dst{plan.columns.passed('e.')} FROM {joined}"


def _dangling(job: Job, plan: EdgePlan, source: str, target: str) -> list[list[Any]]:
    """What became of the edges that no two nodes have: kind, rows, line."""
    assert plan.source is not None
    joined = f"{plan.relation} AS e LEFT JOIN {source} AS s ON e.sk = s.key LEFT JOIN {target} AS d ON e.dk = d.key"
    told = list[list[Any]]()
    names = f"e.sk AS {sql.name(plan.edges.src_key)}, e.dk AS {sql.name(plan.edges.dst_key)}{plan.columns.shown()}"
    conditions = ("e.sk IS NULL OR e.dk IS NULL", "e.sk IS NOT NULL AND e.dk IS NOT NULL AND (s.key IS NULL OR d.key IS NULL)")
    for (kind, what), condition in zip(dangling_kinds(job.plan, plan).items(), conditions):
        of = f"FROM {joined} WHERE {condition}"
        rows = job.engine.one(f"SELECT count(*) {of}")[0]
        if not rows:
            continue
        first = job.engine.one(f"SELECT e.sk, e.dk {of} ORDER BY e.sk NULLS FIRST, e.dk NULLS FIRST LIMIT 1")
        line, remedy = dangling_line(plan, kind, rows, first, what)
        job.rejected.keep(kind, plan.source.title, f"SELECT {names} {of}")
        if job.options.dangling != "drop":
            raise InvalidError(f"{line}; {remedy}")
        told.append([kind, rows, f"{line}; dropped"])
    return told


def dangling_kinds(plan: Plan, edges: EdgePlan) -> dict[str, str]:
    """Kinds of rows that no two nodes have, and what such rows have."""
    source, target = (plan.nodes[end] for end in plan.ends(edges))
    ends = source.where if source is target else f"{source.where} or no {target.where}"
    return {"null keys": f"no key in '{edges.edges.src_key}' or '{edges.edges.dst_key}'", "dangling": f"an end that is no {ends}"}


def dangling_line(edges: EdgePlan, kind: str, rows: int, first: Sequence[Any], what: str) -> tuple[str, str]:
    """What is told of such rows, and what to do."""
    assert edges.source is not None
    line = f"{edges.where}: {counted(rows)} of {edges.source.title} {'has' if rows == 1 else 'have'} {what}; the first is {' -> '.join(map(shown, first))}"
    return line, "add the nodes, or --dangling drop, or --dangling add" if kind == "dangling" else "give them one, or --dangling drop"


def make_degrees(job: Job) -> None:
    """Adds the stage of degrees: ``out-I.npy``, edges that leave each node of type I over all edge types, and
    ``first-E.npy``, the id of each node's first in-edge of type E. Facts: ``edges`` of each type."""

    def make(folder: Path) -> dict[str, Any]:
        leave = [created(folder / f"out-{i}.npy", np.int64, count) for i, count in enumerate(job.counts)]
        edges = []
        for number, plan in enumerate(job.plan.edges):
            source, target = job.plan.ends(plan)
            ends = created(folder / f"first-{number}.npy", np.int64, job.counts[target])
            for src, dst in job.engine.numbers(f"SELECT src, dst FROM ({job.edge_query(number)})", of=plan.where):
                np.add.at(leave[source], src, 1)
                np.add.at(ends, dst, 1)
            edges.append(int(_begins(ends)))
        return {"edges": edges}

    job.degrees = job.work.stage("degrees", "counting the edges of each node", make)


def _begins(counts: np.ndarray[Any, Any]) -> int:
    """Makes of each number the sum of those before it; gives the sum of all."""
    begin = 0
    for first in range(0, len(counts), 1 << 20):
        block = counts[first : first + (1 << 20)]
        sums = np.cumsum(block)
        total = int(sums[-1])
        block[:] = begin + sums - block
        begin += total
    return begin


def make_sorted(job: Job, number: int) -> Path:
    """The stage of an edge type in the order of a dataset: ``sorted.parquet``: ``dst_new``, ``src``, and its columns, by
    (dataset id of the destination, original id of the source)."""
    plan = job.plan.edges[number]

    def make(folder: Path) -> dict[str, Any]:
        order = job.order_table(job.plan.ends(plan)[1])
        query = f"SELECT o.file_row_number AS dst_new, e.src{plan.columns.passed('e.')} FROM ({job.edge_query(number)}) AS e JOIN {order} AS o ON o.id = e.dst ORDER BY dst_new, src"
        job.engine.write(query, folder / "sorted.parquet", ordered=True, of=plan.where)
        return {}

    return job.work.stage(f"sorted-{number}", f"{plan.where}: sorting edges", make) / "sorted.parquet"
