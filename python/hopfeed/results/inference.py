"""Runs stages one behind the other: one thread makes the next block, this one computes, another writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from hopfeed.errors import InvalidError
from hopfeed.results import plan
from hopfeed.results.convolutions import Block
from hopfeed.results.graph import Graph
from hopfeed.results.rows import Rows
from hopfeed.results.stages import Relation, Task, Value



@dataclass
class Prepared:
    """A block's inputs: of each relation one block, or the pieces of its row's edges."""

    rows: plan.Rows
    own: dict[Value, torch.Tensor]
    relations: list[Block | list[tuple[int, int]]] = field(default_factory=list)


class Inference:
    """Computes blocks of rows.

    Args:
        inputs: by value, the rows that there are.
        device: where the layers are.
        room: bytes that rows may take in memory, beside blocks.
    """

    def __init__(self, graph: Graph, inputs: dict[Value, Rows], device: torch.device, dtype: torch.dtype, check_finite: bool, room: int) -> None:
        self.graph, self.inputs, self._device, self._dtype, self._check_finite = graph, inputs, device, dtype, check_finite
        self._room = room
        self._ahead = ThreadPoolExecutor(1, "hopfeed-blocks")
        self._writer = ThreadPoolExecutor(1, "hopfeed-writer")

    def close(self) -> None:
        self._ahead.shutdown(cancel_futures=True)
        self._writer.shutdown(cancel_futures=True)

    def run(
        self,
        task: Task,
        shards: list[plan.Shard],
        price: plan.Costs,
        write: Callable[[Task, plan.Shard, list[list[torch.Tensor]]], object],
        advance: Callable[[int], object],
    ) -> None:
        """Computes these shards of a task; ``write`` is called for each, in another thread, with the outputs of its blocks."""
        for relation in task.relations:
            relation.convolution.prepare(self.graph, relation.edge_type)
        self._hold(task)
        written: Future[object] | None = None
        coming = self._blocks(task, shards, price)
        for shard in shards:
            made: list[list[torch.Tensor]] = []
            for _ in shard.blocks:
                block = next(coming)
                made.append(self.compute(task, block, price))
                advance(block.rows.end - block.rows.begin)
            if written is not None:
                written.result()
            written = self._writer.submit(write, task, shard, made)
        if written is not None:
            written.result()

    def _hold(self, task: Task) -> None:
        """Takes sources' rows into memory where that spares their copies, block by block, and they are few enough."""
        sources = dict.fromkeys(relation.source for relation in task.relations if relation.convolution.looks_up)
        if self._device.type == "cpu" and sum(len(self.inputs[value]) * self.inputs[value].width * self._dtype.itemsize for value in sources) <= self._room:
            for value in sources:
                self.inputs[value].hold()

    def _blocks(self, task: Task, shards: list[plan.Shard], price: plan.Costs) -> Iterator[Prepared]:
        """One ahead."""
        held: Future[Prepared] | None = None
        for rows in (rows for shard in shards for rows in shard.blocks):
            after = self._ahead.submit(self.prepare, task, rows, price)
            if held is not None:
                yield held.result()
            held = after
        if held is not None:
            yield held.result()

    def prepare(self, task: Task, rows: plan.Rows, price: plan.Costs) -> Prepared:
        """The inputs of a block."""
        first = self.graph.partition_offsets(task.node_type)[rows.part] + rows.begin
        count = rows.end - rows.begin
        prepared = Prepared(rows, {value: self.inputs[value].run(first, count) for value in task.rows})
        for at, relation in enumerate(task.relations):
            bounds = self.graph.offsets(relation.edge_type, rows.part, rows.begin, rows.end)
            limit = price.edge_limit(at)
            if count == 1 and relation.convolution.reduce is not None and bounds[-1] - bounds[0] > limit:
                prepared.relations.append([(begin, min(begin + limit, int(bounds[-1]))) for begin in range(int(bounds[0]), int(bounds[-1]), limit)])
            else:
                prepared.relations.append(self._block(relation, rows.part, first, bounds))
        return prepared

    def _block(self, relation: Relation, part: int, first: int, bounds: np.ndarray[Any, Any]) -> Block:
        count = len(bounds) - 1
        own_first = relation.edge_type[0] == relation.edge_type[2]
        sources: torch.Tensor | None = None
        if relation.convolution.looks_up and (held := self.inputs[relation.source].held) is not None:
            x, edges, own_first = held, self.graph.edges(relation.edge_type, part, bounds), False
        else:
            sources, edges = self.graph.block(relation.edge_type, part, bounds, first if own_first else -1)
            x = self.inputs[relation.source][sources]
        own = x[:count] if own_first and relation.own == relation.source else self.inputs[relation.own].run(first, count)
        edge = {
            argument: self.graph.edge_rows(relation.edge_type, attribute, part, int(bounds[0]), int(bounds[-1]), self._dtype)
            for argument, attribute in relation.convolution.edge.items()
        }
        return Block(x, own, edges, edge, sources, first, own_first)

    def compute(self, task: Task, prepared: Prepared, price: plan.Costs) -> list[torch.Tensor]:
        """A block's outputs, on the CPU."""
        count = prepared.rows.end - prepared.rows.begin
        outs = []
        for relation, given in zip(task.relations, prepared.relations):
            out = self._pieces(relation, prepared.rows, given) if isinstance(given, list) else relation.convolution(given.to(self._device))
            outs.append(require_rows(out, count, relation.convolution.title))
        own = {value: rows.to(self._device) for value, rows in prepared.own.items()}
        made = [require_rows(out, count, task.layer).cpu() for out in task.finish(outs, own)]
        if self._check_finite:
            self._require_finite(task, prepared.rows, made)
        return made

    def _pieces(self, relation: Relation, rows: plan.Rows, pieces: list[tuple[int, int]]) -> torch.Tensor:
        """The one row of a node that has more edges than a block, which are reduced piece by piece."""
        first = self.graph.partition_offsets(relation.edge_type[2])[rows.part] + rows.begin
        made = convolution = relation.convolution
        total: torch.Tensor | None = None
        for begin, end in pieces:
            bounds = np.array([begin, end], np.int64)
            made = self._ahead.submit(self._block, relation, rows.part, first, bounds).result().to(self._device)
            messages = convolution.messages(made)
            if not len(messages):
                continue
            if convolution.reduce in ("max", "min"):
                here = getattr(messages, f"a{convolution.reduce}")(0)
                total = here if total is None else getattr(torch, f"{convolution.reduce}imum")(total, here)
            else:
                here = messages.double().sum(0)
                total = here if total is None else total + here
        if total is None:
            total = made.x_source.new_zeros(made.x_source.shape[1])
        if convolution.reduce == "mean":
            total = total / (pieces[-1][1] - pieces[0][0])
        return convolution.finish(total.to(made.x_source.dtype)[None], made)

    def _require_finite(self, task: Task, rows: plan.Rows, made: list[torch.Tensor]) -> None:
        for out in made:
            bad = ~torch.isfinite(out).all(1)
            if bad.any():
                at = rows.begin + int(bad.int().argmax())
                node = int(self.graph.original_ids(task.node_type, rows.part, at, at + 1)[0])
                raise InvalidError(f"{task.layer} gives NaN or infinity for node {node} of '{task.node_type}'; look at its features and neighbours")


def require_rows(out: Any, count: int, title: str) -> torch.Tensor:
    """Raises ``InvalidError`` unless it is a matrix with a row for each of the block's."""
    if not isinstance(out, torch.Tensor):
        raise InvalidError(f"{title} gives {type(out).__name__}; a layer gives one tensor")
    if out.dim() != 2 or len(out) != count:
        raise InvalidError(f"{title} gives {list(out.shape)} for {count} rows; a layer gives a row for each destination")
    return out


def trial(task: Task, widths: dict[Value, int], device: torch.device, dtype: torch.dtype, edge_widths: Callable[[Relation, str], int]) -> list[torch.Tensor]:
    """What a task gives for two rows of zeros: how wide it is, and whether it can be called at all.

    Raises:
        InvalidError: naming the layer and what it said.
    """
    count, outs = 2, []
    for relation in task.relations:
        edge = {
            argument: torch.zeros((count, wide) if (wide := edge_widths(relation, attribute)) else count, dtype=dtype)
            for argument, attribute in relation.convolution.edge.items()
        }
        x = torch.zeros(count + 1, widths[relation.source], dtype=dtype)
        own = torch.zeros(count, widths[relation.own], dtype=dtype)
        block = Block(x, own, torch.arange(count).expand(2, -1).clone(), edge, own_first=True).to(device)
        title = relation.convolution.title
        try:
            out = relation.convolution(block)
        except Exception as error:
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            given = f"rows of width {x.shape[1]}" + (f" and {own.shape[1]}" if own.shape[1] != x.shape[1] else "")
            raise InvalidError(f"{title} cannot be called on ((x_source, x_own), edge_index{''.join(f', {name}' for name in edge)}) with {given}: {first}") from error
        outs.append(require_rows(out, count, title))
    own_rows = {value: torch.zeros(count, widths[value], dtype=dtype, device=device) for value in task.rows}
    return [require_rows(out, count, task.layer) for out in task.finish(outs, own_rows)]


def require_initialised(modules: list[torch.nn.Module]) -> None:
    """Raises ``InvalidError`` where a module waits for its first batch."""
    for module in modules:
        for name, parameter in module.named_parameters():
            if isinstance(parameter, torch.nn.parameter.UninitializedParameter):
                raise InvalidError(f"{type(module).__name__} has parameters without values ({name}); load or train it first")


