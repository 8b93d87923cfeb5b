"""An import of tables from its description to the dataset: the stages in their order."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Union

from hopfeed import _core
from hopfeed.errors import InvalidError, NoSpaceError
from hopfeed.tables.description import Description, read
from hopfeed.tables.engine import Engine, errors_as_lines, machine_memory, memory_available, require_packages
from hopfeed.tables.limits import require_enough_parts
from hopfeed.tables.made import ROWS

PathLike = Union[str, "os.PathLike[str]"]
Say = Callable[[str], None]

_CHOICES = {"dangling": ("error", "drop", "add"), "duplicates": ("error", "same", "smallest"), "nulls": ("error", "0"),
            "ids": ("replicated", "sharded", "auto")}


def import_tables(
    folder: PathLike,
    description: PathLike | Mapping[str, Any] | Description | None = None,
    *,
    name: str | None = None,
    nodes: list[Mapping[str, Any]] | None = None,
    edges: list[Mapping[str, Any]] | None = None,
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
    memory: int | str | None = None,
    threads: int | None = None,
    work: PathLike | None = None,
    rejected: PathLike | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    made_by: str = "hopfeed.import_tables",
    say: Say | None = None,
) -> dict[str, Any]:
    """Makes a dataset of tables; a killed import goes on when it is called again.

    Args:
        folder: of the dataset.
        description: a JSON or YAML file, or the same as an object; or ``name``, ``nodes`` and ``edges`` of one.
        parts: partitions.
        assign: ``hash`` of the key, ``ldg`` or ``metis`` (by the edges), or a table of columns ``key`` and ``partition`` (and ``type``).
        seed: of hashes: of the cut, and of splits by fractions.
        dangling: edges with an end in no node table: ``error``, ``drop``, or ``add`` the nodes.
        duplicates: several rows of one key: ``error``, ``same`` (they have to be), ``smallest`` (by all columns).
        nulls: missing values of attributes: ``error`` or ``0``.
        like: a dataset of another import, whose attributes and classes these tables have to have.
        keys: keep them in the dataset.
        edge_ids, by_id: as ``hopfeed-partition import`` has them.
        ids: ``replicated``: every machine has those of all nodes; ``sharded``: each partition has a range of them; ``auto``: sharded where a
            type has 100 million nodes and there are several partitions.
        memory: bytes that this process may take (``"8G"``); half of the machine's without.
        work: the folder in which a hidden folder has the stages until the dataset is whole; without, it lies beside the dataset.
        rejected: a file for the rows that were left out, or that the import failed by: a JSON object a line.
        dry_run: only say what was understood, and what it will take.
        say: is told what begins; warnings too.

    Returns:
        The report.

    Raises:
        InvalidError: what is wrong with the description, an option or a row, in one line; and others of hopfeed's errors.
    """
    require_packages()
    from hopfeed.tables.job import Options

    target = Path(folder)
    options = Options(parts, str(assign), seed, dangling, duplicates, nulls, keys, edge_ids, by_id, ids, Path(rejected) if rejected else None)
    check_options(options, target, overwrite or dry_run)
    described = described_as(description, name, nodes, edges)
    place = (Path(work).absolute() if work else target.absolute().parent) / f".{target.absolute().name}.import"
    if threads is not None and threads < 1:
        raise InvalidError(f"--threads is {threads}, expected a number from 1 on")
    limits = (_memory(memory), threads or os.cpu_count() or 1)
    with errors_as_lines(), _opened(described, options, like, place, limits, say or (lambda _: None), dry_run) as importer:
        return importer.understood() if dry_run else importer.run(target, overwrite, made_by)


def infer_description(nodes: Mapping[str, PathLike], edges: Mapping[tuple[str, str, str], PathLike]) -> dict[str, Any]:
    """A first description of tables, to be looked at and changed: what their columns look like.

    Args:
        nodes: node type -> its table.
        edges: (source, relation, destination) -> its table.
    """
    require_packages()
    from hopfeed.folders import TemporaryFolder
    from hopfeed.tables.infer import infer
    from hopfeed.tables.sources import Sources

    with TemporaryFolder() as scratch:
        engine = Engine(max(machine_memory() // 2, 1 << 30), os.cpu_count() or 1, scratch / "spill")
        try:
            return infer(Sources(engine), {one: str(path) for one, path in nodes.items()}, {one: str(path) for one, path in edges.items()})
        finally:
            engine.close()


def _memory(given: int | str | None) -> int:
    """Bytes that the import may take: half of the machine's, if nothing is given."""
    there = machine_memory()
    wanted = min(max(there // 2, 1 << 30), there) if given is None else bytes_given(given, "--memory")
    if wanted > there:
        raise NoSpaceError(f"--memory is {wanted >> 20:,} MB, and this machine, or its memory cgroup, has {there >> 20:,} MB; give less, or import on several machines")
    return wanted


def check_options(options: Any, target: Path, may_be_there: bool) -> None:
    """Raises ``InvalidError`` for an option that has no such value, and for a dataset that is there already."""
    for option, choices in _CHOICES.items():
        value = getattr(options, option)
        if value not in choices:
            raise InvalidError(f"--{option} is {value!r}; it may be: {', '.join(choices)}")
    if not 1 <= options.parts <= 4096:
        raise InvalidError(f"--parts is {options.parts}, expected a number from 1 to 4096")
    if options.ids == "sharded" and options.parts == 1:
        raise InvalidError("--ids sharded gives each partition a range of the ids; give --parts 2 or more, or leave it out")
    if not 0 <= options.seed < 1 << 64:
        raise InvalidError(f"--seed is {options.seed}, expected a number from 0 to {(1 << 64) - 1}")
    if target.exists() and not may_be_there:
        raise InvalidError(f"{target} is there already; --overwrite replaces a dataset")


def bytes_given(given: int | str, option: str) -> int:
    """Bytes, as a number or as ``"8G"``.

    Raises:
        InvalidError: they are neither.
    """
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    text = str(given).strip().upper().removesuffix("B").removesuffix("I")
    scale = {"K": 10, "M": 20, "G": 30, "T": 40}.get(text[-1:], 0)
    try:
        found = int(float(text[:-1] if scale else text) * (1 << scale))
        if found <= 0:
            raise ValueError
        return found
    except (ValueError, OverflowError):
        raise InvalidError(f"{option} is {given!r}; give bytes, or a number with K, M, G or T") from None


def described_as(description: PathLike | Mapping[str, Any] | Description | None, name: str | None, nodes: Any, edges: Any) -> Description:
    """The description, in whichever way it is given."""
    if (description is None) == (nodes is None):
        raise InvalidError("give a description, or nodes= and edges=")
    if description is not None:
        if edges is not None:
            raise InvalidError("the description has the edges; edges= goes with nodes=")
        described = read(description)
        return replace(described, name=name) if name else described
    return read({"name": name or "tables", "nodes": nodes, "edges": edges or []})


@contextmanager
def _opened(description: Description, options: Any, like: PathLike | None, place: Path, limits: tuple[int, int], say: Say, dry_run: bool) -> Iterator[_Importer]:
    from hopfeed.folders import TemporaryFolder
    from hopfeed.tables.dirt import Rejected, Told
    from hopfeed.tables.job import Job
    from hopfeed.tables.like import as_like
    from hopfeed.tables.plan import make_plan
    from hopfeed.tables.sources import Sources
    from hopfeed.tables.work import Work

    with TemporaryFolder() as scratch:
        work = Work(scratch / "work" if dry_run else place, say)
        engine = None
        try:
            engine = Engine(limits[0], limits[1], work.spill)
            sources = Sources(engine, work.folder)
            if like is not None:
                description = as_like(description, Path(like))
            plan = make_plan(description, engine, sources)
            job = Job(options, plan, engine, work, Told(say), Rejected(engine, options.rejected, work.rejected), say)
            yield _Importer(job, description, sources, Path(like) if like else None)
        finally:
            if engine is not None:
                engine.close()
            work.close()


class _Importer:
    """An import that is open."""

    def __init__(self, job: Any, description: Description, sources: Any, like: Path | None) -> None:
        self._job, self._description, self._sources, self._like = job, description, sources, like

    def understood(self) -> dict[str, Any]:
        """What a dry run tells."""
        from hopfeed.tables.report import understood

        return understood(self._job)

    def run(self, target: Path, overwrite: bool, made_by: str) -> dict[str, Any]:
        """All stages, and the dataset."""
        from hopfeed.tables import draft, shards
        from hopfeed.tables.like import check_like, columns_of
        from hopfeed.tables.report import report

        job, began = self._job, time.monotonic()
        job.say(f"the import takes up to {job.engine.memory >> 20:,} MB of memory (--memory); {memory_available() >> 20:,} MB are available")
        try:
            self._global_stages()
            text = draft.make_draft(job)
            if self._like is not None:
                text = check_like(text, self._like)
            job.engine.leave_room(sum(job.counts) * 16 + job.engine.row_memory)
            folders = shards.write(job, text, job.work.folder / "shards")
            self._sources.check_unchanged()
        finally:
            job.rejected.finish()
        job.say(f"writing {target}")
        target.absolute().parent.mkdir(parents=True, exist_ok=True)
        fingerprint = _core.finish_dataset(text, str(target), folders, made_by, overwrite, columns_of(self._description))
        told = report(job, target, fingerprint, folders, time.monotonic() - began)
        job.work.remove()
        return told

    def _global_stages(self) -> None:
        from hopfeed.tables import edges, keys, links, order, splits

        job = self._job
        for line in self._description.notes:
            job.told.note(job.plan.name, "left out", 1, line)
        assigned = order.open_assigned(job, self._sources, job.options.assign)
        job.work.agree(signature(job, self._description, assigned, told_of_like(self._like)))
        self._sources.make(job.work)
        for i in range(len(job.plan.nodes)):
            keys.check_nodes(job, i)
        for i in range(len(job.plan.nodes)):
            keys.make_keys(job, i)
        check_nodes(job)
        job.engine.leave_room(sum(job.counts) * 16)
        for i in range(len(job.plan.nodes)):
            splits.make_splits(job, i)
        for i in range(len(job.plan.edges)):
            edges.make_ids(job, i)
            links.make_links(job, i)
        edges.make_degrees(job)
        for i in range(len(job.plan.nodes)):
            order.make_order(job, i, assigned)
        for i in range(len(job.plan.edges)):
            edges.make_sorted(job, i)
        for number, stage in job.ids.items():  # nothing reads them any more
            for left in stage.folder.glob("ids-*.parquet"):
                left.unlink()
            source = job.plan.edges[number].source
            if source is not None and source.made is not None:
                (job.work.folder / source.stage / ROWS).unlink(missing_ok=True)


def told_of_like(like: Path | None) -> str:
    """By what another import is known."""
    from hopfeed.dataset import Dataset

    if like is None:
        return ""
    other = Dataset(like).meta
    return f"{other['fingerprint']}, {[node.get('num_classes', 0) for node in other['node_types']]} classes"


def check_nodes(job: Any) -> None:
    """Raises ``InvalidError`` where nodes are added that would lack an attribute, and ``UnsupportedError`` where there are too few
    partitions for so many."""
    for plan, stage in zip(job.plan.nodes, job.keys):
        require_enough_parts(plan.where, stage.facts["count"], job.options.parts)
        needs = [one.name for one in plan.stored if one.attr.role != "label"]
        if stage.facts["added"] and needs and job.options.nulls == "error":
            raise InvalidError(f"{plan.where}: --dangling add adds {stage.facts['added']:,} nodes, which have no '{needs[0]}'; --nulls 0 gives them zeros")


def signature(job: Any, description: Description, assigned: Any, like: str) -> dict[str, Any]:
    """Of what an import is made: what stages that are there have to agree with."""
    options, found = job.options, [one.source for one in (*job.plan.nodes, *job.plan.edges) if one.source]
    files = sorted({file for source in [*found, *([assigned] if assigned else [])] for file in source.files})
    told = {key: getattr(options, key) for key in ("parts", "assign", "seed", "dangling", "duplicates", "nulls", "keys", "edge_ids", "by_id", "ids")}
    told |= {"rejected": options.rejected is not None, "like": like}
    described = hashlib.blake2b(repr(description).encode(), digest_size=16).hexdigest()  # which may name secrets of a store
    return {"description": described, **told, "files": [list(file) for file in files]}


def say_on_stderr(line: str) -> None:
    """What the command does with lines."""
    print(line, file=sys.stderr, flush=True)

