"""One run: what is whole already, what is computed, what goes away again."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hopfeed.errors import InvalidError, NoSpaceError
from hopfeed.results import plan
from hopfeed.results.convolutions import Reducing
from hopfeed.results.folder import LOCK, MANIFEST, WORK, Files, free_bytes, read_json, require_whole
from hopfeed.results.graph import Graph
from hopfeed.results.inference import Inference
from hopfeed.results.manifest import is_manifest
from hopfeed.results.output import Output
from hopfeed.results.rows import Rows
from hopfeed.results.signature import difference, is_signature
from hopfeed.results.stages import EdgeType, Model, Task, Value
from hopfeed.results.tables import Span, Table, Tables

_RUN, _WHOLE = "run.json", "whole.json"
ROWS = "rows"  # in a work folder: the rows between layers
_REMEDY = "give overwrite=True, which begins anew"


@dataclass
class Given:
    """Rows that a value has: how wide, of which type they are stored, and of how many nodes here."""

    width: int
    dtype: torch.dtype
    count: int

    @property
    def row_bytes(self) -> int:
        return self.width * self.dtype.itemsize

    @property
    def bytes(self) -> int:
        return self.count * self.row_bytes

    @property
    def stored(self) -> np.dtype[Any]:
        """NumPy's type of them."""
        return np.dtype(str(self.dtype).removeprefix("torch."))


class Run:
    """What of a run is done, and what is to be done.

    Args:
        work: the folder of what is known of it.
        layers: that of the rows between.
        made: by value that stages make.
        outputs: by node type, where results go.

    Attributes:
        graph: whose rows.
        dtype: that layers compute with.
    """

    def __init__(
        self, model: Model, graph: Graph, work: Path, layers: Path, out: Path, files: Files, made: dict[Value, Given], outputs: dict[str, Output], dtype: torch.dtype
    ) -> None:
        self._model, self.graph, self._work, self._layers, self._out = model, graph, work, layers, out
        self._files, self._made, self.dtype = files, made, dtype
        self._outputs = {model.results[name]: output for name, output in outputs.items()}
        self._relations = [relation for stage in model.stages for task in stage for relation in task.relations]
        self._tables = _names_of(model)
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
                blocks = plan.blocks(self.graph, task, price)
                planned.append((task, plan.shards(blocks, 4 * out), price))
            self.plans.append(planned)

    def rows(self) -> int:
        """That all stages compute."""
        return sum(shard.end - shard.begin for stage in self.plans for _, shards, _ in stage for shard in shards)

    def require_disk(self, inputs: Mapping[Value, Rows]) -> None:
        """Raises ``NoSpaceError`` unless what it writes will fit; what an earlier process wrote of it counts as written."""
        peak, alive = 0, self._degrees_bytes()
        for at, stage in enumerate(self._model.stages):
            made = sum(self._made[value].bytes for task in stage for value in task.outputs if self._model.last_use(value) > at)
            read = {relation.source for task in stage for relation in task.relations}
            fetched = sum(self._fetched_bytes(value, inputs) for value in read)
            sliced = max((self._sliced(task, price, inputs) for task, _, price in self.plans[at]), default=0)
            peak = max(peak, alive + made + fetched + sliced)
            alive += made - sum(given.bytes for value, given in self._made.items() if self._model.last_use(value) == at and not self._stays(value))
        results = sum(output.rows * output.row_bytes(self._made[value].width) for value, output in self._outputs.items())
        at_work, at_out = max(0, peak - bytes_in(self._layers)), max(0, results - bytes_in(self._out, but=self._work))
        one = _device(self._layers) == _device(self._out)
        for folder, needed in [(self._out, at_work + at_out)] if one else [(self._layers, at_work), (self._out, at_out)]:
            if needed > (free := free_bytes(folder)):
                raise NoSpaceError(f"{folder}: the run writes {_size(needed)}, and {_size(free)} are free; make room, or give another folder (out=, work=, results=)")

    def _stays(self, value: Value) -> bool:
        """Whether other machines may have yet to fetch its rows when nobody reads them here any more."""
        return bool(self.graph.others and self._edge_types(value))

    def _degrees_bytes(self) -> int:
        """That tables of convolutions take over machines: a number for each node, and for each of the boundary."""
        if not self.graph.others:
            return 0
        tables = {table: relation.edge_type for relation in self._relations for table in relation.convolution.shared(relation.edge_type)}
        return sum(4 * (self.graph.num_rows(table[1]) + len(self.graph.boundary(table[1], [edge]))) for table, edge in tables.items())

    def _here(self, value: Value, inputs: Mapping[Value, Rows]) -> int:
        """Rows of a value that this machine reads."""
        if value in inputs and inputs[value].are_all:
            return self.graph.dataset.num_nodes(value.node_type)
        fetched = len(self.graph.boundary(value.node_type, self._edge_types(value))) if self.graph.others else 0
        return self.graph.num_rows(value.node_type) + fetched

    def _fetched_bytes(self, value: Value, inputs: Mapping[Value, Rows]) -> int:
        """That rows of other machines take."""
        rows = inputs.get(value)
        if not self.graph.others or (rows is not None and rows.are_all):
            return 0
        each = self._made[value].row_bytes if rows is None else rows.row_bytes
        return len(self.graph.boundary(value.node_type, self._edge_types(value))) * each

    def _sliced(self, task: Task, price: plan.Costs, inputs: Mapping[Value, Rows]) -> int:
        """Bytes that a task takes beside the work folder's files, for what does not fit into the memory."""
        bytes_of = 0
        for relation in task.relations:
            value, item = relation.source, 8 if self.dtype == torch.float64 else 4
            width = (inputs.get(value) or self._made[value]).width
            if isinstance(relation.convolution, Reducing) and price.columns(self._here(value, inputs), width, item):
                bytes_of += self.graph.num_rows(task.node_type) * width * item
        return bytes_of

    @contextmanager
    def tables(self, run: str, about: Mapping[str, Any], sync: bool, anew: bool) -> Iterator[Tables]:
        """The rows between layers, whose folder is locked."""
        tables = Tables(self.graph, self._layers, run, {key: about[key] for key in ("dataset", "fingerprint", "torch", "processor")}, sync, anew)
        try:
            yield tables
        finally:
            tables.let_go()

    def forget(self) -> None:
        """Forgets what was done, since the rows between layers are gone."""
        for stage in _stages(self._work):
            shutil.rmtree(stage)

    def compute(self, inputs: dict[Value, Rows], inference: Inference, tables: Tables, advance: Callable[[int], object]) -> list[dict[str, Any]]:
        """Runs what is not done. Gives the manifest's list of shards."""
        inference.inputs = dict(inputs)
        first = next((at for at in range(len(self.plans)) if not (self._stage(at) / _WHOLE).exists()), len(self.plans))
        for at, stage in enumerate(self.plans):
            for value in sorted({value for task, _, _ in stage for value in task.outputs}, key=str):
                if at < first and self._model.last_use(value) >= first:
                    self._require_shards(at, value, tables)
            for task, shards, price in stage:
                whole = [shard for shard in shards if at < first or self._is_whole(at, task, shard, tables)]
                advance(sum(shard.end - shard.begin for shard in whole))
                if at >= first:
                    missing = [shard for shard in shards if shard not in set(whole)]
                    for relation in task.relations:
                        value = relation.source
                        tables.fetch(self._tables[value], self._edge_types(value), inference.inputs[value])
                    inference.run(task, missing, price, lambda task, shard, blocks, at=at: self._write(at, task, shard, blocks, tables), advance, self._layers)  # type: ignore[misc]
            if at >= first:
                self._files.json(self._stage(at) / _WHOLE, {})
            self._open(at, inference, tables)
        return self._shards()

    def shared(self) -> list[Table]:
        """Tables of which other machines read rows."""
        layers = [self._tables[value] for value in self._made if self._edge_types(value)]
        return layers + sorted({table for relation in self._relations for table in relation.convolution.shared(relation.edge_type)})

    def _edge_types(self, value: Value) -> list[EdgeType]:
        """Over which its rows are read."""
        return [relation.edge_type for relation in self._relations if relation.source == value]

    def _stage(self, at: int) -> Path:
        folder = self._work / f"stage-{at}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _marker(self, at: int, task: Task, shard: plan.Shard) -> Path:
        folder = self._stage(at) / task.node_type
        folder.mkdir(exist_ok=True)
        return folder / f"{shard.name}.json"

    def _write(self, at: int, task: Task, shard: plan.Shard, blocks: list[list[torch.Tensor]], tables: Tables) -> None:
        """All files of a shard, and last of all the word that they are whole."""
        result = None
        for value, outs in zip(task.outputs, zip(*blocks)):
            parts = [out.to(self._made[value].dtype).numpy() for out in outs]
            if self._model.last_use(value) > at:
                tables.write(self._tables[value], shard.part, shard.begin, parts[0] if len(parts) == 1 else np.concatenate(parts))
            if value in self._outputs:
                ids = self.graph.original_ids(task.node_type, shard.part, shard.begin, shard.end)
                result = self._outputs[value].write(shard.name, parts, ids)
        self._files.json(self._marker(at, task, shard), {"result": result})

    def _is_whole(self, at: int, task: Task, shard: plan.Shard, tables: Tables) -> bool:
        """Whether an earlier process has written all files of a shard, which are read once more."""
        facts = read_json(self._marker(at, task, shard))
        if facts is None:
            return False
        for value in task.outputs:
            if self._model.last_use(value) > at:
                self._require_rows(value, shard, tables)
        for file in (facts["result"] or {"files": {}})["files"].values():
            require_whole(self._out / file["path"], file, sums=True, remedy=_REMEDY)
        return True

    def _require_shards(self, at: int, value: Value, tables: Tables) -> None:
        for task, shards, _ in self.plans[at]:
            for shard in shards if value in task.outputs else ():
                self._require_rows(value, shard, tables)

    def _require_rows(self, value: Value, shard: plan.Shard, tables: Tables) -> None:
        tables.require_whole(self._tables[value], _span(shard), self._made[value].row_bytes, _REMEDY)

    def _open(self, at: int, inference: Inference, tables: Tables) -> None:
        """Makes what a stage has made the next ones' input, and removes what nobody reads any more."""
        for task, shards, _ in self.plans[at]:
            for value in task.outputs:
                if self._model.last_use(value) > at:
                    given = self._made[value]
                    meta = {"name": value.name, "element_type": str(given.dtype).removeprefix("torch."), "shape": [given.width]}
                    rows = tables.open(self._tables[value], [_span(shard) for shard in shards], meta, given.stored, self.dtype)
                    if rows is not None:  # of a stage that is behind, files may be gone: then nobody reads them
                        inference.inputs[value] = rows
        for value, table in self._tables.items():
            if self._model.last_use(value) <= at:
                inference.inputs.pop(value, None)
                tables.drop_fetched(table)
                if value in self._made:
                    tables.drop(table, bool(self._edge_types(value)))

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


def _names_of(model: Model) -> dict[Value, Table]:
    """What the tables of all values are called in files, on all machines the same."""
    names = {value: (f"x.{number}", value.node_type) for number, value in enumerate(model.inputs())}
    for at, stage in enumerate(model.stages):
        for task in stage:
            for number, value in enumerate(task.outputs):
                names[value] = (f"h{at + 1}.{number}", value.node_type)
    return names


def _span(shard: plan.Shard) -> Span:
    return shard.part, shard.begin, shard.end - shard.begin


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
    for inner in (*_stages(folder), folder / ROWS):
        shutil.rmtree(inner, ignore_errors=True)
    (folder / _RUN).unlink(missing_ok=True)  # last: until then it says whose the others are
    if not any(inner.name != LOCK for inner in folder.iterdir()):
        shutil.rmtree(folder)


def _stages(folder: Path) -> list[Path]:
    return [inner for inner in folder.glob("stage-*") if re.fullmatch(r"stage-\d+", inner.name)]


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


def bytes_in(folder: Path, but: Path | None = None) -> int:
    """That its files take."""
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
