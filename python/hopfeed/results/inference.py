"""Runs stages one behind the other: one thread makes the next block, this one computes, another writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hopfeed.errors import InvalidError
from hopfeed.results import plan
from hopfeed.results.convolutions import Block, Convolution, Reduced, Reducing
from hopfeed.results.graph import Graph
from hopfeed.results.reductions import reduced
from hopfeed.results.rows import Rows
from hopfeed.results.slices import Slices
from hopfeed.results.stages import Relation, Task, Value
from hopfeed.results.tables import Tables


@dataclass
class Prepared:
    """A block's inputs: its own rows of earlier values, and what each relation is computed from."""

    rows: plan.Rows
    own: dict[Value, torch.Tensor]
    relations: list[Block | Reduced] = field(default_factory=list)


class Inference:
    """Computes blocks of rows.

    Args:
        inputs: by value, the rows that there are.
        tables: of the run; None where none is run, and blocks alone are made.
        device: where the layers are.
    """

    def __init__(self, graph: Graph, inputs: dict[Value, Rows], tables: Tables | None, device: torch.device, dtype: torch.dtype, check_finite: bool) -> None:
        self._tables = tables
        self.graph, self.inputs, self._device, self._dtype, self._check_finite = graph, inputs, device, dtype, check_finite
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
        folder: Path,
    ) -> None:
        """Computes these shards of a task; ``write`` is called for each, in another thread, with the outputs of its blocks.

        Args:
            folder: for what does not fit into the memory.
        """
        assert self._tables is not None
        for relation in task.relations:
            relation.convolution.prepare(self.graph, relation.edge_type, self._tables)
        slices = self._slices(task, shards, price, folder)
        try:
            self._run(task, shards, price, slices, write, advance)
        finally:
            for of in slices.values():
                of.close()

    def _slices(self, task: Task, shards: list[plan.Shard], price: plan.Costs, folder: Path) -> dict[int, Slices]:
        """By the number of a relation whose sources' rows do not fit."""
        slices, blocks = {}, [block for shard in shards for block in shard.blocks]
        for at, relation in enumerate(task.relations):
            rows = self.inputs[relation.source]
            columns = price.columns(rows.num_here, rows.width, rows.numbers.itemsize) if isinstance(relation.convolution, Reducing) else 0
            if columns and blocks:
                slices[at] = Slices(self.graph, relation, rows, blocks, columns, price.edge_limit(at), folder)
        return slices

    def _run(
        self,
        task: Task,
        shards: list[plan.Shard],
        price: plan.Costs,
        slices: Mapping[int, Slices],
        write: Callable[[Task, plan.Shard, list[list[torch.Tensor]]], object],
        advance: Callable[[int], object],
    ) -> None:
        written: Future[object] | None = None
        coming = self._blocks(task, shards, price, slices)
        for shard in shards:
            made: list[list[torch.Tensor]] = []
            for _ in shard.blocks:
                block = next(coming)
                made.append(self.compute(task, block))
                advance(block.rows.end - block.rows.begin)
            if written is not None:
                written.result()
            written = self._writer.submit(write, task, shard, made)
        if written is not None:
            written.result()

    def _blocks(self, task: Task, shards: list[plan.Shard], price: plan.Costs, slices: Mapping[int, Slices]) -> Iterator[Prepared]:
        """One ahead."""
        held: Future[Prepared] | None = None
        for rows in (rows for shard in shards for rows in shard.blocks):
            after = self._ahead.submit(self.prepare, task, rows, price, slices)
            if held is not None:
                yield held.result()
            held = after
        if held is not None:
            yield held.result()

    def prepare(self, task: Task, rows: plan.Rows, price: plan.Costs, slices: Mapping[int, Slices]) -> Prepared:
        """The inputs of a block."""
        first = self.graph.partition_offsets(task.node_type)[rows.part] + rows.begin
        count = rows.end - rows.begin
        prepared = Prepared(rows, {value: self.inputs[value].run(first, count) for value in task.rows})
        for at, relation in enumerate(task.relations):
            bounds = self.graph.offsets(relation.edge_type, rows.part, rows.begin, rows.end)
            if isinstance(relation.convolution, Reducing):
                if at in slices:
                    neighbours = slices[at].of(rows)
                else:
                    neighbours = reduced(self.graph, relation, self.inputs[relation.source], rows.part, rows.begin, bounds, price.edge_limit(at))
                prepared.relations.append(Reduced(neighbours.to(self._dtype), self.inputs[relation.own].run(first, count), first))
            else:
                prepared.relations.append(self.block(relation, rows.part, first, bounds))
        return prepared

    def block(self, relation: Relation, part: int, first: int, bounds: np.ndarray[Any, Any]) -> Block:
        """The edges that ``bounds`` give of a partition, with their sources' rows; ``first`` is the first row's dataset id."""
        count = len(bounds) - 1
        own_first = relation.edge_type[0] == relation.edge_type[2]
        sources, edges = self.graph.block(relation.edge_type, part, bounds, first if own_first else -1)
        x = self.inputs[relation.source][sources]
        own = x[:count] if own_first and relation.own == relation.source else self.inputs[relation.own].run(first, count)
        edge = {
            argument: self.graph.edge_rows(relation.edge_type, attribute, part, int(bounds[0]), int(bounds[-1]), self._dtype)
            for argument, attribute in relation.convolution.edge.items()
        }
        return Block(x, own, edges, edge)

    def compute(self, task: Task, prepared: Prepared) -> list[torch.Tensor]:
        """A block's outputs, on the CPU."""
        count = prepared.rows.end - prepared.rows.begin
        outs = []
        for relation, given in zip(task.relations, prepared.relations):
            given = given.to(self._device)
            outs.append(require_rows(_called(relation.convolution, given), count, relation.convolution.title))
        own = {value: rows.to(self._device) for value, rows in prepared.own.items()}
        made = [require_rows(out, count, task.layer).cpu() for out in task.finish(outs, own)]
        if self._check_finite:
            self._require_finite(task, prepared.rows, made)
        return made

    def _require_finite(self, task: Task, rows: plan.Rows, made: list[torch.Tensor]) -> None:
        for out in made:
            bad = ~torch.isfinite(out).all(1)
            if bad.any():
                at = rows.begin + int(bad.int().argmax())
                node = int(self.graph.original_ids(task.node_type, rows.part, at, at + 1)[0])
                raise InvalidError(f"{task.layer} gives NaN or infinity for node {node} of '{task.node_type}'; look at its features and neighbours")


def _called(convolution: Convolution, given: Block | Reduced) -> torch.Tensor:
    if isinstance(given, Block):
        return convolution(given)
    assert isinstance(convolution, Reducing)
    return convolution.finish(given)


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
        title, own = relation.convolution.title, torch.zeros(count, widths[relation.own], dtype=dtype, device=device)
        given: Block | Reduced
        if isinstance(relation.convolution, Reducing):
            for argument, attribute in relation.convolution.edge.items():
                if wide := edge_widths(relation, attribute):
                    raise InvalidError(f"{argument}={attribute!r} has {wide} numbers for each edge, and {title} takes one")
            given = Reduced(torch.zeros(count, widths[relation.source], dtype=dtype, device=device), own)
        else:
            edge = {
                argument: torch.zeros((count, wide) if (wide := edge_widths(relation, attribute)) else count, dtype=dtype)
                for argument, attribute in relation.convolution.edge.items()
            }
            x = torch.zeros(count + 1, widths[relation.source], dtype=dtype)
            given = Block(x, own, torch.arange(count).expand(2, -1).clone(), edge).to(device)
        try:
            out = _called(relation.convolution, given)
        except Exception as error:
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            shown = f"rows of width {widths[relation.source]}" + (f" and {own.shape[1]}" if own.shape[1] != widths[relation.source] else "")
            called = ", ".join([relation.convolution.arguments, *relation.convolution.edge])
            raise InvalidError(f"{title} cannot be called on ({called}) with {shown}: {first}") from error
        outs.append(require_rows(out, count, title))
    own_rows = {value: torch.zeros(count, widths[value], dtype=dtype, device=device) for value in task.rows}
    return [require_rows(out, count, task.layer) for out in task.finish(outs, own_rows)]


def require_initialised(modules: list[torch.nn.Module]) -> None:
    """Raises ``InvalidError`` where a module waits for its first batch."""
    for module in modules:
        for name, parameter in module.named_parameters():
            if isinstance(parameter, torch.nn.parameter.UninitializedParameter):
                raise InvalidError(f"{type(module).__name__} has parameters without values ({name}); load or train it first")


