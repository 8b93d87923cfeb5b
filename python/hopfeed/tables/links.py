"""Splits of links that come with a graph: pairs of ids and their labels, in the order in which they came."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hopfeed.tables.arrays import opened
from hopfeed.tables.job import Job
from hopfeed.tables.made import LABELS, PAIRS, MadeLinks


def make_links(job: Job, number: int) -> None:
    """Adds the stages of an edge type's splits of links."""
    for links in job.plan.edges[number].edges.links:
        _stage(job, number, links)


def arrays(job: Job, number: int) -> Iterator[tuple[str, str, Any]]:
    """What a dataset has of them: kind of the column, name of the split, and the numbers."""
    for links in job.plan.edges[number].edges.links:
        folder = _stage(job, number, links)
        yield "link_pairs", links.name, lambda folder=folder: opened(folder / PAIRS)
        if links.labelled:
            yield "link_labels", links.name, lambda folder=folder: opened(folder / LABELS)


def _stage(job: Job, number: int, links: MadeLinks) -> Path:
    def make(folder: Path) -> dict[str, Any]:
        links.write(job.engine, folder)
        return {}

    return job.work.stage(f"links-{number}-{links.name}", f"{job.plan.edges[number].where}: reading links of {links.name!r}", make).folder
