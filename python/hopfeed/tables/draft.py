"""The draft of a dataset: its meta.json as far as it is known before the first shard (docs/formats.md)."""

from __future__ import annotations

import json
from typing import Any

from hopfeed.tables.job import Job

SHARDED_FROM = 100_000_000  # nodes of a type, where nothing else is asked for
_INT32 = 1 << 31  # ids up to here are int32


def make_draft(job: Job) -> str:
    """JSON text, the same for every shard."""
    plan, options = job.plan, job.options
    assert job.degrees is not None
    return json.dumps(
        {
            "format": "hopfeed-dataset",
            "version": 8,
            "name": plan.name,
            "made_by": "",
            "class_names": _class_names(job),
            "partitions": options.parts,
            **({"ids": "sharded"} if sharded_ids(job) else {}),
            "cut": {
                "method": "none" if options.parts == 1 else options.assign if options.assign in ("hash", "ldg", "metis") else "file",
                "fanouts": [15, 10, 5],
                "batch_size": 1024,
                "edges_cut": 0,
                "seed": f"{options.seed:016x}",
                "policy": "degree",
            },
            "node_types": [_node_type(job, i) for i in range(len(plan.nodes))],
            "edge_types": [_edge_type(job, i) for i in range(len(plan.edges))],
        }
    )


def sharded_ids(job: Job) -> bool:
    """Whether each partition has a range of the ids alone (``Options.ids``)."""
    if job.options.ids == "auto":
        return job.options.parts > 1 and max(job.counts) >= SHARDED_FROM
    return job.options.ids == "sharded"


def _class_names(job: Job) -> list[str]:
    return list(job.checks[0].facts["classes"]) if 0 in job.checks else []


def _node_type(job: Job, number: int) -> dict[str, Any]:
    plan, count = job.plan.nodes[number], job.counts[number]
    node = {
        "name": plan.nodes.name,
        "count": count,
        "partition_offsets": job.order[number].facts["offsets"],
        "new_id_type": _id_type(count),
        "num_classes": job.checks[number].facts["num_classes"] if number in job.checks else 0,
        "splits": job.splits[number].facts["counts"] if number in job.splits else {},
        "attrs": [stored.meta() for stored in plan.stored],
    }
    return node | ({"keys": plan.key_kind} if job.options.keys else {})


def _edge_type(job: Job, number: int) -> dict[str, Any]:
    plan = job.plan.edges[number]
    assert job.degrees is not None
    source, _ = job.plan.ends(plan)
    count = job.degrees.facts["edges"][number]
    edge: dict[str, Any] = {
        "src": plan.edges.src,
        "rel": plan.edges.rel,
        "dst": plan.edges.dst,
        "count": count,
        "partition_edges": job.partition_edges(number),
        "index_type": _id_type(job.counts[source]),
        "has_edge_ids": job.options.edge_ids,
        "edge_id_type": _id_type(count),
        "attrs": [stored.meta() for stored in plan.stored],
        "weights": [stored.name for stored in plan.stored if stored.attr.role == "weight"],
        "times": list(plan.edges.times),
    }
    if job.options.by_id:
        edge["has_by_id"] = True
    if plan.edges.links:
        edge["splits"] = {links.name: links.rows for links in plan.edges.links}
    if plan.edges.rev_of is not None:
        edge["rev_of"] = job.plan.edges[plan.edges.rev_of].edges.full_name
    return edge


def _id_type(count: int) -> str:
    return "int32" if count <= _INT32 else "int64"
