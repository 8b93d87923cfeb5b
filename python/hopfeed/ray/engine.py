"""The cluster of an import on Ray: Ray Data's operators, and a task of Ray for each item, range and group.

Rows are frames of Ray Data's blocks. Before rows are exchanged (joined, summed, sorted) they are made, so that their size is known:
it decides into how many partitions they go. What dies with a node is made again: single blocks by Ray, where it can, or else all that
a frame is made of. Ranges and groups whose tasks have ended then stay as they were told.
"""

from __future__ import annotations

import inspect
import logging
import math
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from hopfeed.errors import InvalidError, PeerDiedError
from hopfeed.ray.calls import RETRIES, NodeLost, called, gathered, materialized, nodes, packed, shipped, unpacked
from hopfeed.ray.errors import as_ours, one_line, require_ray
from hopfeed.ray.sorting import Values, borders_of, ends, like, pieces_of, taken

if TYPE_CHECKING:
    import pyarrow as pa

    from hopfeed.tables.cluster.engine import Item, Read, Result, Take

_PARTITION_BYTES, _LEAST_PARTITION_BYTES = 64 << 20, 1 << 20
_BLOCKS_OF_A_STORE = 16  # that fit into the object store of a node
_SHARDS_WITHIN = 300.0  # seconds that some of a partition's rows may take to come: those of a node that died may never do
Borders = Callable[[Sequence[tuple[Values, Values]]], list[Values]]
_HOW = {"inner": "inner", "left": "left_outer"}


@dataclass
class Frame:
    """Rows on the cluster.

    Attributes:
        schema: names, order and types of the columns.
        make: gives a dataset of Ray Data with these rows.
        sources: frames that they are made of.
        kept: whether ``made`` is to stay.
        made: the rows, in blocks that are there.
        there: nodes that lived when ``made`` was made.
    """

    schema: pa.Schema
    make: Callable[[], Any]
    sources: Sequence[Frame] = ()
    kept: bool = False
    made: Any = None
    there: frozenset[str] = frozenset()

    def stands_on(self) -> set[str]:
        """Nodes that may have rows which it is made of."""
        return set(self.there).union(*(source.stands_on() for source in self.sources))

    def forget(self) -> None:
        """Has the rows made anew from the beginning, where they are needed."""
        self.made, self.there = None, frozenset()
        for source in self.sources:
            source.forget()


class RayCluster:
    """:class:`~hopfeed.tables.cluster.engine.Cluster` over Ray Data and Ray's tasks.

    ``read`` should give the rows of an item in the same order each time: where they fill several blocks, and a node dies with one of
    them, they are read again for that one.

    Args:
        address: of a cluster of Ray; without, the one that the process is connected to, ``RAY_ADDRESS``, or one on this machine.
        progress: whether Ray Data shows bars and tells what it does. ``RAY_DATA_DISABLE_PROGRESS_BARS=0`` asks for them too.

    Raises:
        InvalidError: Ray is not installed.
    """

    name = "Ray"

    def __init__(self, address: str | None = None, *, progress: bool = False) -> None:
        self._ray = ray = require_ray("ray.data", "pyarrow", "polars")
        with one_line():
            if not ray.is_initialized():
                ray.init(address, log_to_driver=False, logging_level=logging.WARNING)
            nodes = [node for node in ray.nodes() if node["Alive"]]
        self._progress = progress or os.environ.get("RAY_DATA_DISABLE_PROGRESS_BARS") == "0"
        self.slots: int = max(1, int(sum(node["Resources"].get("CPU", 0) for node in nodes)))
        self._context = self._context_for(min((int(node["Resources"].get("object_store_memory", 0)) for node in nodes), default=0))

    def _context_for(self, store: int) -> Any:
        """How Ray Data is to work, where the smallest object store of a node has this many bytes."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of Ray about its own fields
            context = self._ray.data.DataContext.get_current().copy()
        context.enable_progress_bars = context.enable_operator_progress_bars = self._progress
        context.raise_original_map_exception = True
        context.hash_shuffle_reduce_get_timeout_s = min(context.hash_shuffle_reduce_get_timeout_s, _SHARDS_WITHIN)
        if store:
            block = max(_LEAST_PARTITION_BYTES, store // _BLOCKS_OF_A_STORE)
            context.target_max_block_size = min(context.target_max_block_size or block, block)
            context.shuffle_input_batch_bytes = min(context.shuffle_input_batch_bytes, 2 * block)
        self._partition_bytes = min(_PARTITION_BYTES, context.target_max_block_size // 2)
        return context

    # ---- tasks

    def tasks(self, items: Sequence[Item], task: Callable[[Item], Result]) -> list[Result]:
        """One task for each item; what they give comes back in the order of the items."""
        with one_line():
            remote = self._remote(partial(called, task), scheduling_strategy="SPREAD")
            return gathered([partial(remote.remote, packed(item)) for item in items], self.slots)

    def _remote(self, function: Callable[..., Any], **options: Any) -> Any:
        return self._ray.remote(shipped(function)).options(num_cpus=1, max_retries=RETRIES, retry_exceptions=False, **options)

    # ---- frames

    def rows(self, items: Sequence[Any], read: Read, schema: pa.Schema) -> Frame:
        """A table of the rows that ``read`` gives for each item; one task an item, whenever the rows are needed."""

        def make() -> Any:
            if not items:
                return self._none(schema)
            dataset = self._ray.data.from_items([{"item": packed(item)} for item in items], override_num_blocks=len(items))
            return self._mapped(dataset, partial(_read_items, read, schema))

        return Frame(schema, make)

    def union(self, frames: Sequence[Frame]) -> Frame:
        """The rows of all; they have the same columns."""
        schema = frames[0].schema

        def make() -> Any:
            first, *others = (self._of(frame) if frame.schema == schema else self._mapped(self._of(frame), partial(like, schema=schema)) for frame in frames)
            return first.union(*others) if others else first

        return Frame(schema, make, frames)

    def select(self, frame: Frame, columns: Sequence[str]) -> Frame:
        """The same rows with these columns alone."""
        import pyarrow as pa

        schema = pa.schema([frame.schema.field(name) for name in columns])
        return Frame(schema, lambda: self._mapped(self._of(frame), partial(like, schema=schema)), [frame])

    def join(self, left: Frame, right: Frame, on: str, how: str = "inner") -> Frame:
        """``inner`` or ``left``; the columns of ``left``, and those of ``right`` without ``on``."""
        import pyarrow as pa

        if how not in _HOW:
            raise InvalidError(f"a join is inner or left, not '{how}'")
        schema = pa.schema([*left.schema, *(field for field in right.schema if field.name != on)])

        def make() -> Any:
            rows, others = self._made(left), self._made(right)
            if not rows.count() or (how == "inner" and not others.count()):
                return self._none(schema)
            if others.count():
                parts = self._partitions(rows.size_bytes() + others.size_bytes())
                rows = rows.join(others, join_type=_HOW[how], num_partitions=parts, on=(on,))
            return self._mapped(rows, partial(like, schema=schema))

        return Frame(schema, make, [left, right])

    def sums(self, frame: Frame, by: Sequence[str], columns: Sequence[str]) -> Frame:
        """A row for each set of values of ``by``, with the sums of these int64 columns."""
        import pyarrow as pa
        from ray.data.aggregate import Count, Sum

        schema = pa.schema([frame.schema.field(name) for name in (*by, *columns)])

        def make() -> Any:
            rows = self._made(frame)
            if not rows.count():
                return self._none(schema)
            wanted = [Sum(name, alias_name=name) for name in columns] or [Count(alias_name="rows of it")]
            grouped = rows.groupby(list(by), num_partitions=self._partitions(rows.size_bytes()))
            return self._mapped(grouped.aggregate(*wanted), partial(like, schema=schema))

        return Frame(schema, make, [frame])

    def kept(self, frame: Frame) -> Frame:
        """The same table, whose rows are made once and lie in Ray's object store, or on its disks."""
        kept = Frame(frame.schema, lambda: self._of(frame), [frame], kept=True)
        self._tried(kept, lambda: self._made(kept))
        return kept

    def let_go(self, frame: Frame) -> None:
        """Ends what :meth:`kept` began: where the frame is used again, its rows are made again."""
        frame.kept, frame.made, frame.there = False, None, frozenset()

    # ---- sorted

    def ranges(self, frame: Frame, by: Sequence[str], within: Sequence[str], take: Take) -> list[Any]:
        """Sorts all rows; a task for each range of them. Rows whose ``by`` is equal are in one range, also where they are many:
        a task fetches its rows block by block. A frame without rows is one range without rows."""
        return self._taken(frame, by, within, take, borders_of)

    def groups(self, frame: Frame, by: str, count: int, within: Sequence[str], take: Take) -> list[Any]:
        """A task for each number from 0 to ``count - 1``, which fetches its rows block by block."""
        return self._taken(frame, [by], within, take, lambda _: [(number,) for number in range(count)], begin=(-1,))

    def _taken(self, frame: Frame, by: Sequence[str], within: Sequence[str], take: Take, borders_of_all: Borders, begin: Values | None = None) -> list[Any]:
        """A task for the rows up to each border. Borders stay the same where a node died and rows are sorted again."""
        borders: list[Values] = []
        results: dict[int, Any] = {}

        def attempt() -> list[Any]:
            there = nodes()
            blocks, told = self._sorted(frame, by, within)
            borders[:] = borders or borders_of_all(told)
            remote = self._remote(partial(taken, take, frame.schema, list(by), there))
            wanted = [at for at in range(max(1, len(borders)) if begin is None else len(borders)) if at not in results]
            pieces = [pieces_of(told, borders[at - 1] if at else begin, borders[at]) if borders else [] for at in wanted]
            calls = [partial(remote.remote, at, [blocks[piece.block] for piece in some], packed(some)) for at, some in zip(wanted, pieces)]
            try:
                results.update(zip(wanted, gathered(calls, self.slots, there)))
            except NodeLost as lost:
                results.update((wanted[place], result) for place, result in lost.results.items())
                raise
            return [results[at] for at in sorted(results)]

        return self._tried(frame, attempt)

    def _sorted(self, frame: Frame, by: Sequence[str], within: Sequence[str]) -> tuple[list[Any], list[tuple[Values, Values]]]:
        """Blocks of all rows in this order, and the first and last values of ``by`` in each."""
        there = nodes() | frame.stands_on()
        dataset = self._made(frame)
        if not dataset.count():
            return [], []
        wanted, has = self._partitions(dataset.size_bytes()), dataset.num_blocks()
        if not wanted <= has <= 4 * wanted:  # Ray sorts into as many partitions as there are blocks
            dataset = dataset.repartition(wanted)
        dataset = materialized(dataset.sort(list(dict.fromkeys((*by, *within)))), there)
        blocks = [ref for bundle in dataset.iter_internal_ref_bundles() for ref, rows in _blocks_of(bundle) if rows]
        remote = self._remote(partial(ends, list(by), there))
        return blocks, gathered([partial(remote.remote, [block]) for block in blocks], self.slots, there)

    # ---- datasets

    @contextmanager
    def _working(self) -> Iterator[None]:
        """Ray Data works as this cluster wants it, and what it raises is ours."""
        with one_line(), self._ray.data.DataContext.current(self._context), _quiet(not self._progress):
            yield

    def _tried(self, frame: Frame, attempt: Callable[[], Any]) -> Any:
        """What ``attempt`` gives. Where a node dies meanwhile, all that ``frame`` is made of is made anew: blocks that came of an
        exchange of rows Ray does not make again, and who wants one waits."""
        with self._working():
            while True:
                there = nodes() | frame.stands_on()
                try:
                    return attempt()
                except NodeLost:
                    pass
                except Exception as error:
                    if not isinstance(as_ours(error), PeerDiedError) or there <= nodes():
                        raise
                frame.forget()

    def _of(self, frame: Frame) -> Any:
        """A dataset with the rows of a frame."""
        return self._made(frame) if frame.kept else frame.make()

    def _made(self, frame: Frame) -> Any:
        """The same, in blocks that are there."""
        if frame.made is not None:
            return frame.made
        there = nodes()
        made = materialized(frame.make(), there | frame.stands_on())
        if frame.kept:
            frame.made, frame.there = made, frozenset(there)
        return made

    def _none(self, schema: pa.Schema) -> Any:
        return self._ray.data.from_arrow(schema.empty_table())

    def _mapped(self, dataset: Any, function: Callable[[pa.Table], Any]) -> Any:
        # Ray Data tries its tasks again without end. That it can be told otherwise is to go with Ray 2.64, as a warning says.
        limited = {"max_retries": RETRIES} if "ray_remote_args" in inspect.signature(dataset.map_batches).parameters else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return dataset.map_batches(shipped(function), batch_size=None, batch_format="pyarrow", zero_copy_batch=True, num_cpus=1, **limited)

    def _partitions(self, size: int) -> int:
        """Into how many parts rows of ``size`` bytes go: a share of a worker's memory each, and one a slot where that pays."""
        return max(1, math.ceil(size / self._partition_bytes), min(2 * self.slots, math.ceil(size / _LEAST_PARTITION_BYTES)))


def _read_items(read: Read, schema: pa.Schema, items: pa.Table) -> Iterator[pa.Table]:
    """On a worker: the rows of the items of a block."""
    import pyarrow as pa

    for text in items["item"].to_pylist():
        for batch in read(unpacked(text)):
            if batch.num_rows:
                yield like(pa.Table.from_batches([batch]), schema)


def _blocks_of(bundle: Any) -> list[tuple[Any, int]]:
    return [(ref, metadata.num_rows or 0) for ref, metadata in zip(bundle.block_refs, bundle.metadata)]


_hushing = threading.Lock()
_hushed = 0


def _silent(record: logging.LogRecord) -> bool:
    return not _hushed


@contextmanager
def _quiet(wanted: bool) -> Iterator[None]:
    """Keeps what Ray Data tells from the terminal; its own log file in the session's folder has it."""
    global _hushed
    with _hushing:
        for handler in logging.getLogger("ray.data").handlers:
            if isinstance(handler, logging.StreamHandler) and _silent not in handler.filters:
                handler.addFilter(_silent)
        _hushed += wanted
    try:
        yield
    finally:
        with _hushing:
            _hushed -= wanted
