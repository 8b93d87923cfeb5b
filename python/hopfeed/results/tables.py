"""Tables of rows that a run makes, and reads: shards in its folder, which a server beside it gives to other machines, and what these
have of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hopfeed import _core
from hopfeed.errors import CorruptError, NoSpaceError
from hopfeed.results.graph import Graph
from hopfeed.results.rows import Rows, matrix
from hopfeed.results.stages import EdgeType

Array = np.ndarray[Any, Any]
Table = tuple[str, str]  # its name, and the node type
Span = tuple[int, int, int]  # of a shard: partition, first row there, rows


class Tables:
    """A run's folder, whose lock is held until it is closed.

    Args:
        folder: hopfeed-server --results serves it where the graph lies on several machines.
        run: 32 hex digits, of what decides the rows.
        about: what people may want to know of the run.
        anew: forgets what an earlier process of the run has left.

    Raises:
        BusyError: another run computes there, or other machines have yet to fetch what one has left them; InvalidError: it has files that no run has made.
    """

    def __init__(self, graph: Graph, folder: Path, run: str, about: Mapping[str, Any], sync: bool, anew: bool) -> None:
        def taken() -> _core.RunFolder:
            return _core.RunFolder(str(folder), run, json.dumps(dict(about)), sync)

        if graph.machines and graph.others:
            graph.machines.wait_until_fetched(str(folder), run)
        self._graph, self._folder, self._not_noted = graph, taken(), set[Table]()
        if anew and not self._folder.is_new:
            self._folder.close([], [])
            self._folder = taken()

    @staticmethod
    def are_of(folder: Path, run: str) -> bool:
        """Whether the folder is the run's now."""
        return bool(_core.folder_has_run(str(folder), run))

    @property
    def is_new(self) -> bool:
        """Whether nothing of an earlier process of the run was there."""
        return bool(self._folder.is_new)

    def write(self, table: Table, part: int, first: int, rows: Array) -> None:
        """A shard, whole or not at all.

        Raises:
            NoSpaceError: the disk is full.
        """
        try:
            self._folder.write(table, part, first, np.ascontiguousarray(rows))
        except NoSpaceError:
            path = self._folder.path(table, part, first)
            raise NoSpaceError(f"{path}: the disk is full; make room and make the same call again, which goes on with what is whole") from None

    def has(self, table: Table, part: int, first: int) -> bool:
        """Whether a shard is there."""
        return Path(self._folder.path(table, part, first)).exists()

    def require_whole(self, table: Table, span: Span, row_bytes: int, remedy: str) -> None:
        """Raises ``CorruptError`` naming a shard that is not as it was written. It is read once."""
        part, first, count = span
        path = self._folder.path(table, part, first)
        if not Path(path).exists():
            raise CorruptError(f"{path} is gone; {remedy}")
        try:
            self._folder.check(table, part, first, count, row_bytes)
        except CorruptError as error:
            raise CorruptError(f"{str(error).split(';')[0]}; {remedy}") from None

    def open(self, table: Table, spans: Sequence[Span], meta: Mapping[str, Any], stored: np.dtype[Any], dtype: torch.dtype) -> Rows | None:
        """A table's rows that are here, as tensors of ``dtype``; None where shards are gone."""
        paths = [Path(self._folder.path(table, part, first)) for part, first, _ in spans]
        if not all(path.exists() for path in paths):
            return None
        width = int(np.prod(meta["shape"], dtype=np.int64))
        arrays = [_mapped(path, stored, (count, width)) for path, (_, _, count) in zip(paths, spans)]
        offsets = self._graph.partition_offsets(table[1])
        return Rows.of_parts(arrays, [offsets[part] + first for part, first, _ in spans], offsets[-1], meta, dtype)

    def own(self, node_type: str, parts: Sequence[Array]) -> Rows:
        """Rows of float32 of this machine's partitions, in memory."""
        offsets = self._graph.partition_offsets(node_type)
        meta = {"name": "own", "element_type": "float32", "shape": [parts[0].shape[1] if parts else 1]}
        return Rows.of_parts(parts, [offsets[part] for part in self._graph.parts], offsets[-1], meta, torch.float32)

    def shared(self, table: Table, edge_type: EdgeType, parts: Sequence[Array]) -> Rows:
        """The same, with those of the nodes elsewhere that edges of a type come from."""
        rows = self.own(table[1], parts)
        if self._graph.others:
            for part, array in zip(self._graph.parts, parts):
                if not self.has(table, part, 0):
                    self.write(table, part, 0, array)
            self.fetch(table, [edge_type], rows)
        return rows

    def fetch(self, table: Table, edge_types: Sequence[EdgeType], rows: Rows) -> None:
        """Brings the rows elsewhere that edges of these types come from; of layers those that other machines compute, which are
        waited for."""
        if not self._graph.others or rows.fetched is not None or rows.are_all:
            return
        boundary = self._graph.boundary(table[1], edge_types)
        if rows.attribute is not None:
            rows.fetched = self._machines.fetch_attribute(self._folder, table, boundary, rows.attribute)
        else:
            rows.fetched = self._machines.fetch_layer(self._folder, table, boundary, rows.row_bytes)
            if not self._machines.note_fetched(self._folder, table, False):
                self._not_noted.add(table)

    def drop_fetched(self, table: Table) -> None:
        """Removes the rows of other machines."""
        self._folder.remove_fetched(table)

    def drop(self, table: Table, shared: bool) -> None:
        """Removes this machine's rows, unless others have yet to fetch some."""
        if not (shared and self._wanted(table)):
            self._folder.remove(table)

    def close(self, shared: Sequence[Table]) -> bool:
        """Ends the run. Tables that are ``shared`` stay until others have fetched them: whether any do. Who could not be told
        that this machine has them is told now, and waited for."""
        if self._graph.others:
            for table in shared:
                self._machines.note_fetched(self._folder, table, table in self._not_noted)
        return bool(self._folder.close([table for table in shared if self._wanted(table)], self._graph.others))

    def let_go(self) -> None:
        """The run may go on later."""
        self._folder.let_go()

    @property
    def _machines(self) -> _core.Machines:
        assert self._graph.machines is not None
        return self._graph.machines

    def _wanted(self, table: Table) -> bool:
        return any(not self._folder.fetched(table, part) for part in self._graph.others)


def _mapped(path: Path, stored: np.dtype[Any], shape: tuple[int, int]) -> Array:
    if 0 in shape:
        return np.empty(shape, stored)
    return matrix(np.memmap(path, stored, "r", shape=shape))
