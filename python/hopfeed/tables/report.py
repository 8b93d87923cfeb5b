"""What an import tells: as JSON, and as lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hopfeed.tables.dirt import counted
from hopfeed.tables.job import Job
from hopfeed.tables.plan import Columns, EdgePlan, NodePlan
from hopfeed.tables.stored import Stored

_SIZES = {"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "int32": 4, "uint32": 4, "float32": 4, "int64": 8, "float64": 8}


def report(job: Job, folder: Path, fingerprint: str, shards: list[str], seconds: float) -> dict[str, Any]:
    """Of an import that is whole."""
    assert job.degrees is not None
    parts = [json.loads((Path(shard) / "shard.json").read_text()) for shard in shards]
    nonfinite = dict[str, int]()
    for part in parts:
        for name, count in part.get("nonfinite", {}).items():
            nonfinite[name] = nonfinite.get(name, 0) + int(count)
    for name, count in nonfinite.items():
        if count:
            job.told.note(name, "nonfinite", count, f"{name}: {counted(count, 'value')} {'is' if count == 1 else 'are'} NaN or infinite; training on them gives NaN")
    for plan, stage in [*((job.plan.nodes[i], stage) for i, stage in job.checks.items()), *((job.plan.edges[i], stage) for i, stage in job.ids.items())]:
        for kind, rows, line in stage.facts["warnings"]:
            job.told.note(plan.where, kind, rows, line)
    node_types = {plan.nodes.name: _of_nodes(job, i) for i, plan in enumerate(job.plan.nodes)}
    edge_types = {plan.edges.full_name: _of_edges(job, i) for i, plan in enumerate(job.plan.edges)}
    return {
        "folder": str(folder),
        "fingerprint": fingerprint,
        "partitions": job.options.parts,
        "edges_cut": sum(int(part.get("edges_cut", 0)) for part in parts),
        "node_types": node_types,
        "edge_types": edge_types,
        "dirt": job.told.counts,
        "nonfinite": nonfinite,
        "memory_bytes": job.engine.memory,
        "seconds": round(seconds, 3),
    }


def _of_nodes(job: Job, number: int) -> dict[str, Any]:
    plan = job.plan.nodes[number]
    told: dict[str, Any] = {"nodes": job.counts[number], "keys": plan.key_kind, "added": job.keys[number].facts["added"]}
    if number in job.checks:
        told |= {"rows": job.checks[number].facts["rows"], "classes": job.checks[number].facts["num_classes"]}
        told["coverage"] = _coverage(plan.stored, plan.columns, job.checks[number].facts)
    if number in job.splits:
        told["splits"] = job.splits[number].facts["counts"]
    told["partition_offsets"] = job.order[number].facts["offsets"]
    return told


def _of_edges(job: Job, number: int) -> dict[str, Any]:
    plan = job.plan.edges[number]
    assert job.degrees is not None
    told: dict[str, Any] = {"edges": job.degrees.facts["edges"][number]}
    if plan.edges.links:
        told["splits"] = {links.name: links.rows for links in plan.edges.links}
    if number in job.ids:
        facts = job.ids[number].facts
        told |= {"rows": facts["rows"] + sum(rows for _, rows, _ in facts["dropped"]), "dropped": sum(rows for _, rows, _ in facts["dropped"])}
        told["coverage"] = _coverage(plan.stored, plan.columns, facts)
    return told


def _coverage(stored: tuple[Stored, ...], columns: Columns, facts: dict[str, Any]) -> dict[str, float]:
    """Of each attribute the share of rows that have a value (of several columns, the least)."""
    rows = max(facts["rows"], 1)
    by_input = dict(zip(columns.inputs, facts["values"]))
    return {one.name: min(by_input[name] for name in one.inputs) / rows for one in stored}


def understood(job: Job) -> dict[str, Any]:
    """Of a dry run: types, rows, and about how much disk the import takes."""
    nodes, edges, disk, work = {}, {}, 0, 0
    for plan in job.plan.nodes:
        rows = _rows(job, plan)
        nodes[plan.nodes.name] = {"table": plan.source.title if plan.source else None, "rows": rows, "keys": plan.key_kind, "attributes": _attributes(plan.stored)}
        own = (rows or 0) * (16 + 8 + 8 + (24 if job.options.keys else 0) + sum(map(_row_bytes, plan.stored)))
        disk, work = disk + own, work + own + (rows or 0) * 40
    for one in job.plan.edges:
        of = one if one.source else job.plan.edges[one.edges.rev_of or 0]
        rows = (_rows(job, of) or 0) * (2 if one.edges.undirected else 1)
        edges[one.edges.full_name] = {"table": one.source.title if one.source else None, "rows": rows, "attributes": _attributes(one.stored), "times": list(one.edges.times)}
        stored = sum(map(_row_bytes, one.stored))
        each = 4 + (4 if job.options.edge_ids else 0) + stored + 18 * len(one.edges.times) + 16 * sum(attr.attr.role == "weight" for attr in one.stored)
        disk, work = disk + rows * each, work + rows * (2 * (16 + stored) + each)
    return {"node_types": nodes, "edge_types": edges, "disk_bytes": disk, "work_bytes": work, "memory_bytes": job.engine.memory}


def _rows(job: Job, plan: NodePlan | EdgePlan) -> int | None:
    if plan.source is None:
        return None
    if plan.source.made is not None:
        return plan.source.made.rows(job.engine)
    return int(job.engine.one(f"SELECT count(*) FROM {plan.source.relation}", of=f"{plan.where}: {plan.source.title}")[0])


def _row_bytes(stored: Stored) -> int:
    return _SIZES[stored.element] * max(stored.width, 1)


def _attributes(stored: tuple[Stored, ...]) -> dict[str, str]:
    return {one.name: f"{one.element}{f' [{one.width}]' if one.width else ''} of {', '.join(f'{name} ({kind})' for name, kind in list(zip(one.attr.columns, one.types))[:8])}" for one in stored}


def lines(told: dict[str, Any]) -> list[str]:
    """A dry run's report for people."""
    found = []
    for name, node in told["node_types"].items():
        rows = "the ends of edges" if node["rows"] is None else f"{counted(node['rows'])} of {node['table']}"
        found.append(f"node type '{name}': {rows}, keys {node['keys']}")
        found += [f"    {attr}: {kind}" for attr, kind in node["attributes"].items()]
    for name, edge in told["edge_types"].items():
        found.append(f"edge type '{name}': {counted(edge['rows'], 'edge')}{' of ' + edge['table'] if edge['table'] else ', the other way round'}")
        found += [f"    {attr}: {kind}" for attr, kind in edge["attributes"].items()]
    found.append(f"about {told['disk_bytes'] / 1e9:.2f} GB of disk for the dataset, and up to {told['work_bytes'] / 1e9:.2f} GB more while it is made")
    found.append(f"up to {told['memory_bytes'] / 1e9:.2f} GB of memory (--memory)")
    return found
