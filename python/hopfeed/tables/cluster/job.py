"""An import on a cluster, as its stages share it."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopfeed import _core
from hopfeed.errors import InvalidError
from hopfeed.tables import sql
from hopfeed.tables.arrays import Array
from hopfeed.tables.cluster.engine import Cluster, Frame, Take
from hopfeed.tables.cluster.parts import Part, parts_of
from hopfeed.tables.cluster.pieces import Piece, pieces
from hopfeed.tables.job import Job
from hopfeed.tables.keys import storage
from hopfeed.tables.plan import NodePlan
from hopfeed.tables.sources import Source


@dataclass
class ClusterJob(Job):
    """Facts of stages are those that an import on one machine has, and ``parts`` beside: rows in an order (:mod:`.parts`).

    Attributes:
        mark: a file of this run in the import's folder, by which a worker sees that it has the same folder.
        memory: bytes that DuckDB may take in a task.
        left_out: of an edge type, the files of rows that are dropped, one for each piece.
        edge_ids: of an edge type with a table, its rows as ``src``, ``dst`` by original ids, where LDG wants them.
    """

    cluster: Cluster = field(kw_only=True)
    mark: Path = field(kw_only=True)
    memory: int = field(kw_only=True)
    left_out: dict[int, list[Path | None]] = field(default_factory=dict)
    edge_ids: dict[int, Any] = field(default_factory=dict)
    _pieces: dict[str, list[Piece]] = field(default_factory=dict)

    def pieces_of(self, source: Source) -> list[Piece]:
        """A table as pieces; the same each time."""
        key = source.relation
        if key not in self._pieces:
            # Stages of a run that was killed name pieces by their numbers: whatever workers there are now, they stay as they were.
            slots = self.work.stage("cut", "looking at the cluster", lambda _: {"slots": self.cluster.slots}).facts["slots"]
            self._pieces[key] = pieces(source, self.engine, slots, self.memory)
        return self._pieces[key]

    def parts(self, stage: Any) -> list[Part]:
        return parts_of(stage.folder, stage.facts["parts"])

    def ids_table(self, number: int) -> str:
        return sql.parquets(self.edge_ids[number] / part["path"] for part in self.edge_ids[number].facts["parts"])

    def partition_edges(self, number: int) -> list[int]:
        _, target = self.plan.ends(self.plan.edges[number])
        found: list[int] = self.order[target].facts["edges"][str(number)]
        return found

    def tasks(self, items: Sequence[Any], task: Callable[[Any], Any]) -> list[Any]:
        """One task for each item, on workers that have the import's folder."""
        return self.cluster.tasks(items, seeing(self.mark, task)) if items else []

    def rows(self, items: Sequence[Any], read: Callable[[Any], Iterator[pa.RecordBatch]], schema: pa.Schema) -> Frame:
        """A table, made on workers that have the import's folder."""
        return self.cluster.rows(items, seeing(self.mark, read), schema)

    def ranges(self, frame: Frame, by: Sequence[str], within: Sequence[str], take: Take) -> list[Any]:
        """See :class:`Cluster`; on workers that have the import's folder."""
        return self.cluster.ranges(frame, by, within, seeing(self.mark, take))

    def groups(self, frame: Frame, by: str, count: int, within: Sequence[str], take: Take) -> list[Any]:
        """See :class:`Cluster`; on workers that have the import's folder."""
        return self.cluster.groups(frame, by, count, within, seeing(self.mark, take))


def seeing(mark: Path, task: Callable[..., Any]) -> Callable[..., Any]:
    """The task; a worker that has another folder says so before it does any harm."""

    def checked(*given: Any) -> Any:
        if not mark.exists():
            raise InvalidError(f"the worker on {socket.gethostname()} does not see {mark.parent}; give folders that all workers have at the same path")
        return task(*given)

    return checked


def key_type(plan: NodePlan) -> pa.DataType:
    """Keys on a cluster: numbers, or texts in whose order they are; a UUID is its 32 digits."""
    return pa.int64() if plan.key_kind == "int64" else pa.string()


def keys_out(plan: NodePlan, column: pa.Array) -> pa.Array:
    """DuckDB's keys as a cluster has them."""
    column = storage(column)
    if plan.key_kind == "uuid":
        texts = np.frombuffer(column.buffers()[1], np.uint8, len(column) * 16, column.offset * 16).tobytes().hex() if len(column) else ""
        return pa.array([texts[at : at + 32] for at in range(0, len(texts), 32)], pa.string())
    return column.cast(key_type(plan))


def keys_in(plan: NodePlan, column: pa.Array) -> pa.Array:
    """A cluster's keys as a dataset has them: numbers, texts, or 16 bytes each."""
    if plan.key_kind == "uuid":
        return pa.array([bytes.fromhex(text) for text in column.to_pylist()], pa.binary(16))
    return column


def key_shown(plan: NodePlan, key: Any) -> Any:
    """A cluster's key, as a line shows it."""
    return uuid.UUID(hex=key) if plan.key_kind == "uuid" and key is not None else key


def hashes_of(plan: NodePlan, column: pa.Array, seed: int) -> Array:
    """XXH3-64 of each of a cluster's keys, uint64."""
    hashed: Array = _core.hash_keys(pa.record_batch([keys_in(plan, column)], ["key"]), seed)
    return hashed


def runs(keys: pa.Array, last: pa.Array | None) -> Array:
    """Of keys in order, which are the first of theirs; ``last`` is the one before them."""
    if len(keys) == 0:
        return np.zeros(0, bool)
    head = np.ones(1, bool) if last is None else ~np.asarray(pc.equal(keys[:1], last))
    return np.concatenate([head, ~np.asarray(pc.equal(keys[1:], keys[:-1]))])
