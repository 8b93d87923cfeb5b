"""One run: what is whole already, what is computed, what goes away again."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hopfeed.errors import CorruptError, InvalidError, NoSpaceError
from hopfeed.results import plan
from hopfeed.results.folder import LOCK, MANIFEST, WORK, Files, free_bytes, read_json, require_whole
from hopfeed.results.graph import Graph
from hopfeed.results.inference import Inference
from hopfeed.results.manifest import is_manifest
from hopfeed.results.output import Output
from hopfeed.results.rows import Rows
from hopfeed.results.signature import difference, is_signature
from hopfeed.results.stages import Model, Task, Value

_RUN, _WHOLE = "run.json", "whole.json"
_REMEDY = "give overwrite=True, which begins anew"


@dataclass
class Given:
    """Rows that a value has: how wide, of which type they are stored, and of how many nodes."""

    width: int
    dtype: torch.dtype
    count: int

    @property
    def bytes(self) -> int:
        return self.count * self.width * self.dtype.itemsize


class Run:
    """The work folder of a run, and what of it is done.

    Args:
        made: by value that stages make.
        outputs: by node type, where results go.
        signature: what decides the bytes.
    """

    def __init__(
        self, model: Model, graph: Graph, work: Path, out: Path, files: Files, made: dict[Value, Given], outputs: dict[str, Output], dtype: torch.dtype
    ) -> None:
        self._out = out
        self._model, self._graph, self._work, self._files, self._made, self._dtype = model, graph, work, files, made, dtype
        self._outputs = {model.results[name]: output for name, output in outputs.items()}
        self.plans: list[list[tuple[Task, list[plan.Shard], plan.Costs]]] = []

    def prepare(self, widths: Mapping[Value, int], memory: int) -> None:
        """Which blocks there are.

        Raises:
            NoSpaceError: a node has more edges than one may hold.
        """
        for stage in self._model.stages:
            planned = []
            for task in stage:
                out = sum(widths[value] for value in task.outputs)
                own = out + sum(widths[value] for value in task.rows) + sum(widths[relation.own] for relation in task.relations)
                price = plan.costs([(widths[relation.source], max(out, widths[relation.source])) for relation in task.relations], own, memory)
                blocks = plan.blocks(self._graph, task, price)
                planned.append((task, plan.shards(blocks, 4 * out), price))
            self.plans.append(planned)

    def rows(self) -> int:
        """That all stages compute."""
        return sum(shard.end - shard.begin for stage in self.plans for _, shards, _ in stage for shard in shards)

    def require_disk(self, widths: Mapping[Value, int]) -> None:
        """Raises ``NoSpaceError`` unless what it writes will fit; what an earlier process wrote of it counts as written."""
        peak, alive = 0, 0
        for at, stage in enumerate(self._model.stages):
            made = sum(self._made[value].bytes for task in stage for value in task.outputs if self._model.last_use(value) > at)
            peak = max(peak, alive + made)
            alive += made - sum(given.bytes for value, given in self._made.items() if self._model.last_use(value) == at)
        results = sum(output.rows * output.row_bytes(widths[value]) for value, output in self._outputs.items())
        at_work, at_out = max(0, peak - _bytes_in(self._work)), max(0, results - _bytes_in(self._out, but=self._work))
        one = _device(self._work) == _device(self._out)
        for folder, needed in [(self._out, at_work + at_out)] if one else [(self._work, at_work), (self._out, at_out)]:
            if needed > (free := free_bytes(folder)):
                raise NoSpaceError(f"{folder}: the run writes {_size(needed)}, and {_size(free)} are free; make room, or give another folder (out=, work=)")

    def compute(self, inputs: dict[Value, Rows], inference: Inference, advance: Callable[[int], object]) -> list[dict[str, Any]]:
        """Runs what is not done. Gives the manifest's list of shards."""
        inference.inputs = dict(inputs)
        first = next((at for at in range(len(self.plans)) if not (self._stage(at) / _WHOLE).exists()), len(self.plans))
        for at, stage in enumerate(self.plans):
            for value in sorted({value for task, _, _ in stage for value in task.outputs}, key=str):
                if at < first and self._model.last_use(value) >= first:
                    self._require_shards(at, value)
            for task, shards, price in stage:
                whole = [shard for shard in shards if at < first or self._is_whole(at, task, shard)]
                advance(sum(shard.end - shard.begin for shard in whole))
                if at >= first:
                    missing = [shard for shard in shards if shard not in set(whole)]
                    inference.run(task, missing, price, lambda task, shard, blocks, at=at: self._write(at, task, shard, blocks), advance)  # type: ignore[misc]
            if at >= first:
                self._files.json(self._stage(at) / _WHOLE, {})
            self._open(at, inference)
        return self._shards()

    def _stage(self, at: int) -> Path:
        folder = self._work / f"stage-{at}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _marker(self, at: int, task: Task, shard: plan.Shard) -> Path:
        folder = self._stage(at) / task.node_type
        folder.mkdir(exist_ok=True)
        return folder / f"{shard.name}.json"

    def _value_path(self, value: Value, shard: plan.Shard) -> Path:
        return self._work / "rows" / value.name / value.node_type / f"{shard.name}.npy"

    def _write(self, at: int, task: Task, shard: plan.Shard, blocks: list[list[torch.Tensor]]) -> None:
        """All files of a shard, and last of all the word that they are whole."""
        facts: dict[str, Any] = {"rows": {}, "result": None}
        for value, outs in zip(task.outputs, zip(*blocks)):
            parts = [out.to(self._made[value].dtype).numpy() for out in outs]
            if self._model.last_use(value) > at:
                path = self._value_path(value, shard)
                path.parent.mkdir(parents=True, exist_ok=True)
                facts["rows"][value.name] = self._files.array(path, parts)
            if value in self._outputs:
                ids = self._graph.original_ids(task.node_type, shard.part, shard.begin, shard.end)
                facts["result"] = self._outputs[value].write(shard.name, parts, ids)
        self._files.json(self._marker(at, task, shard), facts)

    def _is_whole(self, at: int, task: Task, shard: plan.Shard) -> bool:
        """Whether an earlier process has written all files of a shard, which are read once more."""
        facts = read_json(self._marker(at, task, shard))
        if facts is None:
            return False
        for name, file in facts["rows"].items():
            require_whole(self._value_path(Value(task.node_type, name), shard), file, sums=True, remedy=_REMEDY)
        for file in (facts["result"] or {"files": {}})["files"].values():
            require_whole(self._out / file["path"], file, sums=True, remedy=_REMEDY)
        return True

    def _require_shards(self, at: int, value: Value) -> None:
        for task, shards, _ in self.plans[at]:
            for shard in shards if value in task.outputs else ():
                facts = read_json(self._marker(at, task, shard))
                if facts is None:
                    raise CorruptError(f"{self._marker(at, task, shard)} is gone or damaged; {_REMEDY}")
                require_whole(self._value_path(value, shard), facts["rows"][value.name], sums=True, remedy=_REMEDY)

    def _open(self, at: int, inference: Inference) -> None:
        """Makes what a stage has made the next ones' input, and removes what nobody reads any more."""
        for task, shards, _ in self.plans[at]:
            for value in task.outputs:
                if self._model.last_use(value) > at:
                    given = self._made[value]
                    meta = {"name": value.name, "element_type": str(given.dtype).removeprefix("torch."), "shape": [given.width]}
                    # of a stage that is behind, files may be gone: then nobody reads them
                    paths = [self._value_path(value, shard) for shard in shards]
                    if all(path.exists() for path in paths):
                        inference.inputs[value] = Rows([np.load(path, mmap_mode="r") for path in paths], meta, self._dtype)
        for value in [value for value in self._made if self._model.last_use(value) <= at]:
            inference.inputs.pop(value, None)
            shutil.rmtree(self._work / "rows" / value.name / value.node_type, ignore_errors=True)

    def _shards(self) -> list[dict[str, Any]]:
        found = []
        for at, stage in enumerate(self.plans):
            for task, shards, _ in stage:
                if not set(task.outputs) & set(self._outputs):
                    continue
                for shard in shards:
                    facts = read_json(self._marker(at, task, shard))
                    found.append({"node_type": task.node_type, "partition": shard.part, **facts["result"]})
        return found


def agree(folder: Path, shown: Path, signature: Mapping[str, Any], files: Files) -> None:
    """Keeps what an equal run has left in a work folder.

    Raises:
        InvalidError: another run has left something.
    """
    before = run_in(folder)
    if before and before != signature:
        raise InvalidError(f"{shown} has the work of another run: {difference(before, signature)}; make the same call, or give overwrite=True")
    folder.mkdir(parents=True, exist_ok=True)
    if not before:
        files.json(folder / _RUN, dict(signature))


def remove_work(folder: Path) -> None:
    """What a run has left in its work folder, and the folder where nothing else is in it. Another folder is left alone."""
    if not run_in(folder):
        return
    for inner in list(folder.iterdir()):
        if inner.name == "rows" or re.fullmatch(r"stage-\d+", inner.name):
            shutil.rmtree(inner)
    (folder / _RUN).unlink(missing_ok=True)  # last: until then it says whose the others are
    if not any(inner.name != LOCK for inner in folder.iterdir()):
        shutil.rmtree(folder)


def run_in(folder: Path) -> Mapping[str, Any]:
    """What the run that has left its work here says of itself; nothing where none has."""
    found = read_json(folder / _RUN)
    return found if is_signature(found) else {}


def require_work(work: Path, shown: str) -> None:
    """Raises ``InvalidError`` where a folder is neither new nor empty, and no run's work.

    Args:
        shown: how errors begin, as ``work='w'``.
    """
    if work.exists() and not work.is_dir():
        raise InvalidError(f"{shown} is no folder")
    try:
        # a run that was killed at its very begin leaves its lock, and a file that is not yet renamed
        others = sorted(set(os.listdir(work)) - {LOCK, f".{_RUN}.new"})
    except (FileNotFoundError, NotADirectoryError):
        return  # making it says what is wrong
    if others and not run_in(work):
        raise InvalidError(f"{shown} has {others[0]!r}, which no inference has made; give a new folder")


def require_ours(out: Path) -> None:
    """Raises ``InvalidError`` where ``out`` is something else than a folder for results."""
    if out.exists() and not out.is_dir():
        raise InvalidError(f"out={str(out)!r} is no folder")
    if out.is_dir() and any(inner.name != LOCK for inner in out.iterdir()) and not (out / MANIFEST).exists() and not (out / WORK).exists():
        raise InvalidError(f"out={str(out)!r} has files that are no results; give a new folder")
    if (out / MANIFEST).exists() and not is_manifest(read_json(out / MANIFEST)):
        raise InvalidError(f"out={str(out)!r} has a {MANIFEST} that is not of results, or damaged; give a new folder")
    require_work(out / WORK, f"{WORK} in out={str(out)!r}")


def _bytes_in(folder: Path, but: Path | None = None) -> int:
    return sum(
        os.lstat(os.path.join(inner, name)).st_size
        for inner, _, names in os.walk(folder)
        if but is None or not Path(inner).is_relative_to(but)
        for name in names
    )


def _device(folder: Path) -> int:
    while not folder.exists():
        folder = folder.parent
    return folder.stat().st_dev


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
