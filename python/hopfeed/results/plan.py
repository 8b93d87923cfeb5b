"""Which rows are computed together, within the memory, and which go into one file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hopfeed.errors import NoSpaceError
from hopfeed.results.convolutions import Reducing
from hopfeed.results.graph import Graph
from hopfeed.results.stages import Relation, Task

SHARD_BYTES = 32 << 20  # of rows, about, in one file
BLOCK_BYTES = 128 << 20  # that a block takes at most where its rows can be parted; larger ones are no faster
_ROWS_AT_ONCE = 1 << 20  # whose offsets are looked at


@dataclass(frozen=True)
class Rows:
    """Consecutive rows of a partition."""

    part: int
    begin: int
    end: int


@dataclass(frozen=True)
class Shard:
    """What lies in one file: blocks one behind the other."""

    part: int
    number: int
    blocks: tuple[Rows, ...]

    @property
    def begin(self) -> int:
        return self.blocks[0].begin

    @property
    def end(self) -> int:
        return self.blocks[-1].end

    @property
    def name(self) -> str:
        return f"part-{self.part:04d}-{self.number:05d}"


@dataclass
class Costs:
    """Bytes that a task's blocks take: for each row, and for each edge of each of its relations."""

    row: int
    edges: list[int]
    limit: int

    def edge_limit(self, relation: int) -> int:
        """The most edges of one relation in a block."""
        return max(1, (self.limit - self.row) // self.edges[relation])

    def columns(self, rows: int, width: int, item: int) -> int:
        """How many columns of so many rows of numbers are held at a time; 0: all rows fit, or not even one column does."""
        held = 2 * self.limit // max(1, rows * item)
        return held if held < width else 0


def costs(widths: list[tuple[int, int]], own: int, memory: int) -> Costs:
    """Of a task whose relations have these widths of sources and of what they give; ``own`` is that of all rows read and made.

    A convolution holds an edge's source row and its message, and a copy at worst; a source's row and what becomes of it; and
    beside the block that is computed the next one is made.
    """
    edges = [4 * (2 * source + 3 * max(source, out)) + 64 for source, out in widths]
    return Costs(4 * 3 * own + 64, edges, memory // 2)


def blocks(graph: Graph, task: Task, price: Costs) -> Iterator[Rows]:
    """A task's blocks in the order of its rows.

    Raises:
        NoSpaceError: a row has more edges than fit, and its layer cannot take them in pieces.
    """
    offsets = graph.partition_offsets(task.node_type)
    for part in graph.parts:
        rows = offsets[part + 1] - offsets[part]
        for first in range(0, rows, _ROWS_AT_ONCE):
            count = min(_ROWS_AT_ONCE, rows - first)
            total = np.arange(count + 1) * price.row
            for relation, edge in zip(task.relations, price.edges):
                bounds = graph.offsets(relation.edge_type, part, first, first + count)
                if isinstance(relation.convolution, Reducing):
                    continue
                _require_fits(graph, task, relation, part, first, np.diff(bounds), price, edge)
                total += (bounds - bounds[0]) * edge
            begin = 0
            while begin < count:
                end = max(begin + 1, int(np.searchsorted(total, total[begin] + min(price.limit, BLOCK_BYTES), "right")) - 1)
                yield Rows(part, first + begin, first + end)
                begin = end


def _require_fits(graph: Graph, task: Task, relation: Relation, part: int, first: int, degrees: np.ndarray, price: Costs, edge: int) -> None:
    most = int(degrees.argmax()) if len(degrees) else 0
    if not len(degrees) or int(degrees[most]) * edge + price.row <= price.limit:
        return
    node = int(graph.original_ids(task.node_type, part, first + most, first + most + 1)[0])
    needed = -(-2 * (int(degrees[most]) * edge + price.row) // (1 << 20))
    title, kind = relation.convolution.title, relation.edge_type
    raise NoSpaceError(
        f"node {node} of '{task.node_type}' has {int(degrees[most]):,} in-edges of {kind}, which {title} must have at once; "
        f"give memory='{needed}M' at least (it is {2 * price.limit >> 20}M)"
    )


def shards(of: Iterator[Rows], row_bytes: int) -> list[Shard]:
    """Files for these blocks; none has rows of two partitions."""
    made: list[Shard] = []
    held: list[Rows] = []

    def close() -> None:
        if held:
            number = made[-1].number + 1 if made and made[-1].part == held[0].part else 0
            made.append(Shard(held[0].part, number, tuple(held)))
            held.clear()

    for block in of:
        if held and (block.part != held[0].part or (held[-1].end - held[0].begin) * row_bytes >= SHARD_BYTES):
            close()
        held.append(block)
    close()
    return made
