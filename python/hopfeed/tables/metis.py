"""METIS's cut of an import, where the whole graph fits: hopfeed-partition cuts the graph without its attributes, in processes of its
own, and so as it cuts the same graph after an import."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from hopfeed.dataset import Dataset
from hopfeed.errors import Error, NoSpaceError
from hopfeed.tables.arrays import created
from hopfeed.tables.job import Job
from hopfeed.tool import import_numpy, partition

_EDGE_BYTES, _NODE_BYTES = 160, 100  # of METIS, both directions of an edge


def assigned(job: Job, number: int) -> Path:
    """The partition of each node of a type, int32 by original id: the stage cuts all types together."""
    return job.work.stage("metis", "cutting the graph (METIS)", lambda folder: _cut(job, folder)) / f"partition-{number}.npy"


def _cut(job: Job, folder: Path) -> dict[str, Any]:
    assert job.degrees is not None
    if sum(job.degrees.facts["edges"]) == 0:  # nothing to cut
        for number, count in enumerate(job.counts):
            np.save(folder / f"partition-{number}.npy", (np.arange(count) % job.options.parts).astype(np.int32))
        return {}
    wanted = sum(job.degrees.facts["edges"]) * _EDGE_BYTES + sum(job.counts) * _NODE_BYTES
    if wanted > job.engine.memory_left:
        raise NoSpaceError(
            f"--assign metis: METIS may take {wanted >> 20:,} MB for all edges, and --memory leaves {job.engine.memory_left >> 20:,} MB;"
            " give more, or --assign ldg"
        )
    scratch = folder / "graph"
    scratch.mkdir()
    import_numpy(scratch / "whole", hetero=_bare_graph(job, scratch), threads=job.engine.threads, progress=False)
    try:
        partition(scratch / "whole", scratch / "cut", parts=job.options.parts, method="metis", seed=job.options.seed, metis_degree=0, progress=False)
    except Error as error:
        raise type(error)(f"--assign metis: {str(error).replace('--method random', '--assign hash')}") from None
    cut = Dataset(scratch / "cut")
    for number, (name, count) in enumerate(zip(cut.node_types, job.counts)):
        np.save(folder / f"partition-{number}.npy", cut.partition_of(np.arange(count), name).astype(np.int32))
    shutil.rmtree(scratch)
    return {}


def _bare_graph(job: Job, folder: Path) -> Path:
    """Nodes, training nodes and edges as ``import numpy`` takes them; its description."""
    graph: dict[str, Any] = {"name": "graph", "nodes": [], "edges": []}
    for number, (plan, count) in enumerate(zip(job.plan.nodes, job.counts)):
        train = job.splits.get(number)
        splits = {"train": str(train / "train.npy")} if train is not None and "train" in train.facts["counts"] else {}
        graph["nodes"].append({"name": plan.nodes.name, "count": count, "splits": splits})
    assert job.degrees is not None
    for number, edges in enumerate(job.plan.edges):
        index = created(folder / f"index-{number}.npy", np.int64, (2, job.degrees.facts["edges"][number]))
        begin = 0
        for source, target in job.engine.numbers(f"SELECT src, dst FROM ({job.edge_query(number)}) ORDER BY dst, src", of=edges.where):
            index[0, begin : begin + len(source)], index[1, begin : begin + len(source)] = source, target
            begin += len(source)
        graph["edges"].append({"src": edges.edges.src, "rel": edges.edges.rel, "dst": edges.edges.dst, "index": f"index-{number}.npy"})
    (folder / "graph.json").write_text(json.dumps(graph))
    return folder / "graph.json"
