"""Doors from other systems' folders: each translates what it finds into a description and the tables that an import of tables
takes, so that ids, the cut, memory, resuming, complaints and reports come from there (docs/importing.md)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Union

from hopfeed.errors import InvalidError
from hopfeed.tables.engine import require_packages
from hopfeed.tables.importing import import_tables

PathLike = Union[str, "os.PathLike[str]"]


def import_graphbolt(
    folder: PathLike,
    source: PathLike,
    *,
    task: str | None = None,
    features: str | None = None,
    label: str | None = None,
    weight: str | None = None,
    time: str | None = None,
    rename: Mapping[str, str] | None = None,
    dangling: str = "error",
    **options: Any,
) -> dict[str, Any]:
    """Makes a dataset of the folder of a GraphBolt ``OnDiskDataset``.

    Args:
        folder: of the dataset to make.
        source: of the OnDiskDataset: where ``metadata.yaml`` is.
        task: whose sets are splits and labels; without, those of the only one; ``none``: of no task.
        features, label: arrays of nodes that become ``x`` and ``y``; without, by their usual names; ``none``: no array.
        weight, time: arrays of edges that batches can be drawn by, and that rows are ordered by.
        rename: names in the folder -> names in the dataset, of types, relations and arrays.
        dangling: edges with an end that is no node: ``error`` or ``drop``.
        options: as of :func:`hopfeed.import_tables`; the dataset has the folder's ids, and keeps no keys.

    Returns:
        The report.

    Raises:
        NotFoundError, InvalidError, CorruptError: what is wrong with a file, in one line; and others of hopfeed's errors.
    """
    require_packages()
    from hopfeed.tables.doors.graphbolt import described
    from hopfeed.tables.doors.types import Wishes

    wishes = Wishes(features, label, weight, time, rename or {}, _drops(dangling))
    return _imported(folder, described(Path(source), task, wishes), dangling, options, "hopfeed.import_graphbolt")


def import_chunked(
    folder: PathLike,
    metadata: PathLike,
    *,
    features: str | None = None,
    label: str | None = None,
    weight: str | None = None,
    time: str | None = None,
    rename: Mapping[str, str] | None = None,
    dangling: str = "error",
    **options: Any,
) -> dict[str, Any]:
    """Makes a dataset of a chunked graph of DistDGL.

    Args:
        folder: of the dataset to make.
        metadata: its ``metadata.json``, or the folder of that.

    The other arguments, the report and what is raised are as of :func:`import_graphbolt`.
    """
    require_packages()
    from hopfeed.tables.doors.chunked import described
    from hopfeed.tables.doors.types import Wishes

    path = Path(metadata)
    wishes = Wishes(features, label, weight, time, rename or {}, _drops(dangling))
    return _imported(folder, described(path / "metadata.json" if path.is_dir() else path, wishes), dangling, options, "hopfeed.import_chunked")


def import_snap(
    folder: PathLike,
    files: PathLike | Sequence[PathLike],
    *,
    columns: Sequence[str] = ("src", "dst"),
    comment: str = "#",
    undirected: bool = False,
    node: str = "node",
    rel: str = "to",
    name: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Makes a dataset of edge lists as SNAP has them; ids in them are the dataset's keys.

    Args:
        folder: of the dataset to make.
        files: text of one edge a line, also with ``.gz``.
        columns: names: ``src`` and ``dst``, ``weight`` (batches can be drawn by it), ``time`` (rows are ordered by it), others,
            and ``-`` for a column that is left out.
        comment: what lines begin with that are left out.
        undirected: each line is an edge both ways.
        node, rel: names of the node type and of the relation.
        name: of the dataset; without, that of the first file.
        options: as of :func:`hopfeed.import_tables`.

    Returns:
        The report.

    Raises:
        NotFoundError, InvalidError, CorruptError: what is wrong with a file, in one line; and others of hopfeed's errors.
    """
    require_packages()
    from hopfeed.tables.doors.snap import described

    several = [files] if isinstance(files, (str, os.PathLike)) else files
    told = described([Path(one) for one in several], columns, comment, undirected, node, rel, name)
    return import_tables(folder, told, **{"made_by": "hopfeed.import_snap", **options})


def _drops(dangling: str) -> bool:
    if dangling not in ("error", "drop"):
        raise InvalidError(f"--dangling is {dangling!r}; it may be: error, drop")
    return dangling == "drop"


def _imported(folder: PathLike, described: Any, dangling: str, options: Mapping[str, Any], made_by: str) -> dict[str, Any]:
    """Keys are the numbers of the nodes, which nobody has to keep."""
    return import_tables(folder, described, **{"made_by": made_by, "keys": False, **options, "dangling": dangling})


DOORS: dict[str, Callable[..., dict[str, Any]]] = {"graphbolt": import_graphbolt, "chunked": import_chunked, "snap": import_snap}
