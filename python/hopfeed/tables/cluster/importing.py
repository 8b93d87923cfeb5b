"""An import of tables on a cluster: the stages in their order. The driver keeps what stages have told, and nothing of the size of the
graph; a driver that was killed goes on behind its last whole stage."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Union

from hopfeed import _core
from hopfeed.errors import InvalidError
from hopfeed.folders import TemporaryFolder
from hopfeed.tables import draft
from hopfeed.tables.cluster import assign as cut
from hopfeed.tables.cluster import edges, order, shards, splits
from hopfeed.tables.cluster import keys as node_keys
from hopfeed.tables.cluster.engine import Cluster
from hopfeed.tables.cluster.job import ClusterJob
from hopfeed.tables.description import Description
from hopfeed.tables.dirt import Rejected, Told
from hopfeed.tables.cluster.pieces import TASK_MEMORY
from hopfeed.tables.engine import LEAST_MEMORY, Engine, errors_as_lines, machine_memory, require_packages
from hopfeed.tables.importing import bytes_given, check_nodes, check_options, described_as, signature, told_of_like
from hopfeed.tables.job import Options
from hopfeed.tables.like import as_like, check_like, columns_of
from hopfeed.tables.order import open_assigned
from hopfeed.tables.plan import make_plan
from hopfeed.tables.report import report, understood
from hopfeed.tables.sources import Source, Sources
from hopfeed.tables.work import Work

_MARK = "run-"
_TRIES, _PAUSE = 10, 1.0  # seconds
PathLike = Union[str, "os.PathLike[str]"]


def import_tables(
    cluster: Cluster,
    description: PathLike | Mapping[str, Any] | Description,
    out: PathLike,
    *,
    name: str | None = None,
    parts: int = 1,
    assign: PathLike = "hash",
    seed: int = 0,
    dangling: str = "error",
    duplicates: str = "error",
    nulls: str = "error",
    like: PathLike | None = None,
    keys: bool = True,
    edge_ids: bool = True,
    by_id: bool = False,
    ids: str = "auto",
    task_memory: int | str = TASK_MEMORY,
    work: PathLike | None = None,
    rejected: PathLike | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    say: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """As :func:`hopfeed.import_tables`, on the workers of a cluster; ``out`` and ``work`` are folders that all of them see.

    Args:
        task_memory: bytes (``"4G"``) that DuckDB may take in a task; a quarter of that has to hold the edges that end at one node.
    """
    require_packages()
    target, tell = Path(out).absolute(), say or (lambda _: None)
    options = Options(parts, str(assign), seed, dangling, duplicates, nulls, keys, edge_ids, by_id, ids, Path(rejected).absolute() if rejected else None)
    check_options(options, target, overwrite or dry_run)
    task_bytes = bytes_given(task_memory, "task_memory")
    if task_bytes < LEAST_MEMORY:
        raise InvalidError(f"task_memory is {task_memory!r}; a task needs {LEAST_MEMORY >> 20} MB at least")
    cut.refuse_way(options.assign, options.parts)
    described = described_as(description, name, None, None)
    place = (Path(work).absolute() if work else target.parent) / f".{target.name}.import"
    with errors_as_lines(), TemporaryFolder() as scratch:
        stages = Work(scratch / "work" if dry_run else place, tell)
        engine = Engine(max(machine_memory() // 2, 1 << 30), os.cpu_count() or 1, scratch / "spill")
        try:
            sources = Sources(engine, stages.folder)
            if like is not None:
                described = as_like(described, Path(like))
            plan = make_plan(described, engine, sources)
            mark, rows = stages.folder / f"{_MARK}{uuid.uuid4().hex}", Rejected(engine, options.rejected, stages.rejected)
            job = ClusterJob(options, plan, engine, stages, Told(tell), rows, tell, cluster=cluster, mark=mark, memory=task_bytes)
            if dry_run:
                return understood(job)
            for left in stages.folder.glob(f"{_MARK}*"):  # late tasks of a run that was killed see that they are
                left.unlink()
            mark.touch()
            return _run(job, described, sources, Path(like) if like else None, target, overwrite)
        finally:
            engine.close()
            stages.close()


def _run(job: ClusterJob, description: Description, sources: Sources, like: Path | None, target: Path, overwrite: bool) -> dict[str, Any]:
    began = time.monotonic()
    try:
        assigned = _agreed(job, description, sources, like)
        _global_stages(job, assigned)
        text = draft.make_draft(job)
        if like is not None:
            text = check_like(text, like)
        folders = shards.write(job, text, job.work.folder / "shards")
        sources.check_unchanged()
    finally:
        job.rejected.finish()
    job.say(f"writing {target}")
    target.parent.mkdir(parents=True, exist_ok=True)
    fingerprint = _core.finish_dataset(text, str(target), folders, f"hopfeed.{job.cluster.name.lower()}.import_tables", overwrite, columns_of(description))
    told = report(job, target, fingerprint, folders, time.monotonic() - began)
    _remove(job)
    return told


def _remove(job: ClusterJob) -> None:
    """Removes the stages. A task that is tried twice may still write there, until the engine has ended it."""
    for _ in range(_TRIES):
        try:
            return job.work.remove()
        except OSError:
            time.sleep(_PAUSE)
    job.say(f"{job.work.folder} could not be removed: a task still writes there; remove it by hand")


def _agreed(job: ClusterJob, description: Description, sources: Sources, like: Path | None) -> Source | None:
    """What was made before of the same tables stays."""
    for line in description.notes:
        job.told.note(job.plan.name, "left out", 1, line)
    if any(source is not None and source.made is not None for source in [*(one.source for one in job.plan.nodes), *(one.source for one in job.plan.edges)]):
        raise InvalidError("these tables are made of another system's folder, which a cluster does not read; write them as Parquet")
    assigned = open_assigned(job, sources, job.options.assign)
    job.work.agree(signature(job, description, assigned, told_of_like(like)) | {"on": "a cluster"})
    return assigned


def _global_stages(job: ClusterJob, assigned: Source | None) -> None:
    for i in range(len(job.plan.nodes)):
        node_keys.check_nodes(job, i)
    for i in range(len(job.plan.nodes)):
        node_keys.make_keys(job, i)
    check_nodes(job)
    for i in range(len(job.plan.nodes)):
        splits.make_splits(job, i)
    counts = [order.make_counted(job, i, "counted") for i in range(len(job.plan.nodes))]
    dropped = [edges.make_checked(job, i, [stage.facts["sums"] for stage in counts]) for i in edges.tables(job.plan)]
    if any(dropped):
        counts = [order.make_counted(job, i, "kept") for i in range(len(job.plan.nodes))]
    job.degrees = job.work.stage("degrees", "adding up edges", lambda _: {"edges": [_edges(job, i, counts) for i in range(len(job.plan.edges))]})
    for i in range(len(job.plan.nodes)):
        order.make_order(job, i, counts[i], assigned)


def _edges(job: ClusterJob, number: int, counts: list[Any]) -> int:
    """Edges of a type."""
    _, target = job.plan.ends(job.plan.edges[number])
    return int(edges.edge_counts(job.plan, number, counts[target].facts["sums"])[1] or 0)
