"""The parts of a dataset, each in a folder of its own: which there are, and the call that makes each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hopfeed import _core
from hopfeed.tables import links, streams
from hopfeed.tables.arrays import opened
from hopfeed.tables.convert import Converted
from hopfeed.tables.draft import sharded_ids
from hopfeed.tables.job import Job


_OF_EDGES = ("bounds", "link_pairs", "link_labels")  # kinds of columns


@dataclass(frozen=True)
class Shard:
    """A part, and what makes it: ``make(draft, folder)``."""

    name: str
    title: str
    make: Callable[[str, str], None]


def shards(job: Job) -> list[Shard]:
    """All parts: columns, then nodes, then edges; then ids of partitions, which are made of these."""
    found = list[Shard]()
    for i, plan in enumerate(job.plan.nodes):
        for column in _node_columns(job, i):
            found.append(column)
        for part in range(job.options.parts):
            found.append(Shard(f"nodes-{i}-{part}", f"{plan.where}: writing partition {part}", _nodes(job, i, part)))
    for i, edges in enumerate(job.plan.edges):
        for time in edges.edges.times:
            found.append(_column(job, "bounds", i, time, lambda i=i, time=time: streams.column("bounds", streams.time_bounds(job, i)[time])))
        for kind, name, numbers in links.arrays(job, i):
            found.append(_column(job, kind, i, name, lambda kind=kind, numbers=numbers: streams.column(kind, numbers())))
        for part in range(job.options.parts):
            found.append(Shard(f"edges-{i}-{part}", f"{edges.where}: writing partition {part}", _edges(job, i, part)))
    if sharded_ids(job):
        found += [Shard(f"ids-{part}", f"writing ids of partition {part}", _ids(found[:], part)) for part in range(job.options.parts)]
    return found


def _ids(made: list[Shard], part: int) -> Callable[[str, str], None]:
    """Of the shards beside it."""

    def make(draft: str, folder: str) -> None:
        _core.write_id_shard(draft, part, [str(Path(folder).parent / name) for name in id_sources([one.name for one in made], part)], folder)

    return make


def id_sources(names: list[str], part: int) -> list[str]:
    """Of these shards those that the ids of a partition are made of."""
    kinds = ("new_ids-", "original_ids-", "split-", "link_pairs-", "link_labels-")
    return [name for name in names if name.startswith(kinds) or (name.startswith("edges-") and name.endswith(f"-{part}"))]


def _node_columns(job: Job, number: int) -> list[Shard]:
    order = job.order[number]
    found = [_column(job, "new_ids", number, "", lambda: streams.column("new_ids", opened(order / "new_ids.npy")))]
    if job.options.parts > 1:
        found.append(_column(job, "original_ids", number, "", lambda: streams.column("original_ids", opened(order / "original_ids.npy"))))
    if job.options.keys:
        found.append(_column(job, "keys", number, "", lambda: streams.keys(job, number)))
    if number in job.splits:
        for name in job.splits[number].facts["counts"]:
            path = job.splits[number] / f"{name}.npy"
            found.append(_column(job, "split", number, name, lambda path=path: streams.column("split", np.load(path))))
    return found


def _column(job: Job, kind: str, number: int, name: str, stream: Callable[[], Any]) -> Shard:
    title = f"{(job.plan.edges if kind in _OF_EDGES else job.plan.nodes)[number].where}: writing {kind.replace('_', ' ')}{f' of {name!r}' if name else ''}"
    return Shard("-".join(filter(None, (kind, str(number), name))), title, lambda draft, folder: _core.write_column(stream(), draft, kind, number, name, folder))


def _nodes(job: Job, number: int, partition: int) -> Callable[[str, str], None]:
    def make(draft: str, folder: str) -> None:
        rows = streams.node_rows(job, number, partition)
        raising(rows, lambda: _core.write_node_shard(rows, draft, number, partition, folder))

    return make


def _edges(job: Job, number: int, partition: int) -> Callable[[str, str], None]:
    def make(draft: str, folder: str) -> None:
        bounds, (original, first) = streams.time_bounds(job, number), streams.first_edge_ids(job, number, partition)
        rows = streams.edge_rows(job, number, partition)
        memory = job.engine.row_memory
        raising(rows, lambda: _core.write_edge_shard(rows, draft, number, partition, folder, original, first, bounds, memory))

    return make


def raising(rows: Converted, write: Callable[[], None]) -> None:
    """Raises what the rows failed by, not what the writer has heard of it."""
    try:
        write()
    except Exception:
        if rows.error is not None:
            raise rows.error from None
        raise


def write(job: Job, draft: str, folder: Path) -> list[str]:
    """Makes the parts that are not there; gives the folders of all."""
    folder.mkdir(exist_ok=True)
    found = list[str]()
    for shard in shards(job):
        path = folder / shard.name
        if not (path / "shard.json").exists():
            job.say(shard.title)
            shard.make(draft, str(path))
        found.append(str(path))
    return found
