"""A cluster in one process, of Arrow's own operators: what an import asks of one, without Spark or Ray. Rows come back in small
batches and another order, ranges are many, some without rows, and tasks run twice."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from hopfeed.tables.engine import Engine
from hopfeed.tables.job import Job



class Rows:
    """A table of the cluster's."""

    def __init__(self, make: Callable[[], pa.Table]) -> None:
        self._make = make

    def __call__(self) -> pa.Table:
        return self._make()


def movable(task: Callable[..., Any]) -> Callable[..., Any]:
    """The task, which has nothing of the driver's with it: another machine could not have that."""
    held = [task]
    while held:
        one = held.pop()
        assert not isinstance(one, (Rows, LocalCluster, Job, Engine)), f"{task.__qualname__} holds a {type(one).__name__}"
        if callable(one):
            held += [cell.cell_contents for cell in getattr(one, "__closure__", None) or ()]
        elif isinstance(one, dict):
            held += one.values()
        elif isinstance(one, (list, tuple)):
            held += one
    return task


class LocalCluster:
    """See :class:`hopfeed.tables.cluster.engine.Cluster`.

    Args:
        ranges: into how many ranges rows are sorted.
        seed: of the order that rows come in.
        twice: each task runs twice, and the second result counts.
    """

    name, slots = "Local", 3

    def __init__(self, ranges: int = 3, seed: int = 0, twice: bool = False) -> None:
        self._ranges, self._random, self._twice = ranges, random.Random(seed), twice

    def tasks(self, items: Sequence[Any], task: Callable[[Any], Any]) -> list[Any]:
        movable(task)
        if self._twice:
            for item in items:
                task(item)
        return [task(item) for item in items]

    def rows(self, items: Sequence[Any], read: Callable[[Any], Iterator[pa.RecordBatch]], schema: pa.Schema) -> Rows:
        def made() -> pa.Table:
            batches = [batch for item in items for batch in read(item)]
            for batch in batches:
                assert batch.schema.names == schema.names and batch.schema.types == schema.types, (batch.schema, schema)
            return pa.Table.from_batches(batches, schema)

        movable(read)
        return Rows(made)

    def union(self, frames: Sequence[Rows]) -> Rows:
        return Rows(lambda: pa.concat_tables([frame() for frame in frames]))

    def select(self, frame: Rows, columns: Sequence[str]) -> Rows:
        return Rows(lambda: frame().select(list(columns)))

    def join(self, left: Rows, right: Rows, on: str, how: str = "inner") -> Rows:
        def made() -> pa.Table:
            one, other = left(), right()
            assert len(other.column(on).unique()) == len(other), f"{on} is not unique"
            joined = one.join(other, on, join_type="left outer" if how == "left" else "inner")
            return joined.select([*one.schema.names, *(name for name in other.schema.names if name != on)])

        return Rows(made)

    def sums(self, frame: Rows, by: Sequence[str], columns: Sequence[str]) -> Rows:
        def made() -> pa.Table:
            found = frame().group_by(list(by)).aggregate([(name, "sum") for name in columns])
            return found.select([*by, *(f"{name}_sum" for name in columns)]).rename_columns([*by, *columns])

        return Rows(made)

    def kept(self, frame: Rows) -> Rows:
        table = frame()
        return Rows(lambda: table)

    def let_go(self, frame: Rows) -> None:
        pass

    def ranges(self, frame: Rows, by: Sequence[str], within: Sequence[str], take: Any) -> list[Any]:
        table = self._shuffled(frame()).sort_by([(name, "ascending") for name in (*by, *within)])
        for name in (*by, *within):
            assert table.column(name).null_count == 0, name
        rows, cuts = len(table), [0]
        for _ in range(self._ranges - 1):
            at = self._random.randint(cuts[-1], rows)
            while 0 < at < rows and all(table.column(name)[at] == table.column(name)[at - 1] for name in by):
                at += 1
            cuts.append(at)
        cuts.append(rows)
        return self._taken([(i, table.slice(begin, end - begin)) for i, (begin, end) in enumerate(zip(cuts, cuts[1:]))], take)

    def groups(self, frame: Rows, by: str, count: int, within: Sequence[str], take: Any) -> list[Any]:
        table = self._shuffled(frame())
        tables = [table.filter(pa.compute.equal(table.column(by), group)).sort_by([(name, "ascending") for name in within]) for group in range(count)]
        assert sum(map(len, tables)) == len(table)
        return self._taken(list(enumerate(tables)), take)

    def _taken(self, tables: list[tuple[int, pa.Table]], take: Any) -> list[Any]:
        movable(take)
        if self._twice:
            for number, table in tables:
                take(number, iter(table.to_batches(self._random.randint(1, 500))))
        return [take(number, iter(table.to_batches(self._random.randint(1, 500)))) for number, table in tables]

    def _shuffled(self, table: pa.Table) -> pa.Table:
        order = list(range(len(table)))
        self._random.shuffle(order)
        return table.take(pa.array(order, pa.int64())).combine_chunks()
