"""A cut without the whole graph in memory: Linear Deterministic Greedy of Stanton and Kliot ("Streaming Graph Partitioning
for Large Distributed Graphs", KDD 2012), restreamed as Nishimura and Ugander do (KDD 2013).

Nodes come in an order by a hash of their number. Each goes where most of its neighbours are, the less the fuller that
partition is; those that have not come in this round are where the last one left them. Nodes are taken some at a time, by
their number and not by what a batch holds, so that the cut is the same for any memory and threads. Nodes of all types are
numbered through; the neighbours of a node are those of either direction."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hopfeed.tables import sql
from hopfeed.tables.arrays import Array, blocks, created
from hopfeed.tables.job import Job

ROUNDS = 12
_STARTS, _TRIALS = 4, 3  # beginnings that are tried side by side, and for how many rounds: they differ much in where they lead
_ROUND_GAIN = 0.002  # of the edges: a round that saves fewer is the last
_SLACK = 1.03  # of a partition's share of nodes, and of training nodes
_BLOCKS = 2048  # of nodes that are placed together
_SCORES = 8 << 20  # numbers, of 8 bytes, that a block of nodes has for all partitions
_ORDER = "order.parquet"


class Places:
    """Which partition each node is in, and how full partitions are.

    Args:
        order: nodes in the order that they come in.
        train: which nodes are training nodes, by node.
        start: of several, which deal out nodes that have no neighbour yet in other ways.
    """

    def __init__(self, parts: int, order: Array, train: Array, start: int = 0) -> None:
        self._parts, self._order, self._train, self._start = parts, order, train, start
        self.part = np.full(len(order), -1, np.int16)
        self._most = np.array([len(order), max(int(train.sum()), 1)]) / parts * _SLACK + 1
        self.begin_round()

    def begin_round(self) -> None:
        self._sizes = np.zeros((2, self._parts), np.int64)  # of nodes, of training nodes

    def place(self, begin: int, end: int, of: Array, neighbours: Array) -> int:
        """Places the nodes [begin, end) of the order. ``of``: whose neighbour each of ``neighbours`` is, from ``begin`` on.

        Returns:
            Neighbours that are elsewhere.
        """
        nodes, parts = self._order[begin:end], self._parts
        where = self.part[neighbours].astype(np.int64)
        known = where >= 0
        near = np.bincount(of[known] * parts + where[known], minlength=len(nodes) * parts).reshape(len(nodes), parts)
        trains = self._train[nodes]
        full = np.where(trains[:, None], (self._sizes / self._most[:, None]).max(0), self._sizes[0] / self._most[0])
        score = near * (1 - full) - full * 1e-9  # without a neighbour: where there is most room
        chosen = self._chosen(score, trains, nodes)
        self.part[nodes] = chosen
        self._sizes[0] += np.bincount(chosen, minlength=parts)
        self._sizes[1] += np.bincount(chosen[trains], minlength=parts)
        return int(len(neighbours) - near[np.arange(len(nodes)), chosen].sum())

    def _chosen(self, score: Array, trains: Array, nodes: Array) -> Array:
        """The best partition of each that has room: of those that want one the best stay, the others choose again."""
        chosen = np.full(len(score), -1, np.int64)
        alone = score.max(1) <= 0
        chosen[alone] = self._dealt(trains[alone], nodes[alone])
        room = np.floor(self._most[:, None] - self._sizes) - np.array([np.bincount(chosen[one], minlength=self._parts) for one in (alone, alone & trains)])
        while (left := np.flatnonzero(chosen < 0)).size:
            closed = np.where(trains[left, None], (room <= 0).any(0), room[0] <= 0)
            wanted = np.where(closed, -np.inf, score[left])
            best = wanted.argmax(1)
            by_gain = np.lexsort((left, -wanted[np.arange(len(left)), best]))
            for part in range(self._parts):
                ask = left[by_gain[best[by_gain] == part]]
                fits = (np.arange(1, len(ask) + 1) <= room[0, part]) & (~trains[ask] | (np.cumsum(trains[ask]) <= room[1, part]))
                if not fits.any() and len(ask):
                    fits[:1] = (room <= 0).any(0).all()  # nowhere is room: slack is spent
                took = ask[fits]
                chosen[took] = part
                room[:, part] -= len(took), trains[took].sum()
        return chosen

    def _dealt(self, trains: Array, nodes: Array) -> Array:
        """Nodes without neighbours fill up what is emptiest."""
        out = np.empty(len(trains), np.int64)
        for kind in (False, True):
            sizes, several = self._sizes[int(kind)], np.flatnonzero(trains == kind)
            several = several[np.argsort(_mixed(nodes[several].astype(np.uint64), self._start), kind="stable")]
            level = (sizes.sum() + len(several)) / self._parts
            room = np.maximum(np.ceil(level - sizes), 0).astype(np.int64)
            dealt = np.repeat(np.argsort(sizes, kind="stable"), room[np.argsort(sizes, kind="stable")])
            out[several] = np.resize(dealt, len(several)) if len(dealt) else np.arange(len(several)) % self._parts
        return out


def assigned(job: Job, number: int) -> Path:
    """The partition of each node of a type, int32 by original id: the stage cuts all types together."""
    return job.work.stage("ldg", "cutting the graph (LDG)", lambda folder: _cut(job, folder)) / f"partition-{number}.npy"


def _cut(job: Job, folder: Path) -> dict[str, Any]:
    begins = np.concatenate([[0], np.cumsum(job.counts)])
    total = int(begins[-1])
    order = _ordered(job, folder, total)
    train = _training(job, begins)
    tried = [Places(job.options.parts, order, train, start) for start in range(_STARTS)]
    path = _neighbours(job, folder, begins)
    block, cuts = max(1, min(total // _BLOCKS, _SCORES // job.options.parts)), list[int]()
    while len(cuts) < ROUNDS:
        elsewhere = [0] * len(tried)
        for places in tried:
            places.begin_round()
        for step in _steps(job, path, total, block):
            for i, places in enumerate(tried):
                elsewhere[i] += places.place(*step)
        cuts.append(min(elsewhere))
        if len(cuts) == _TRIALS:
            tried = [tried[elsewhere.index(cuts[-1])]]
        elif len(cuts) > _TRIALS and cuts[-2] - cuts[-1] <= _ROUND_GAIN * cuts[0]:
            break
    places = tried[0]
    for i, (begin, end) in enumerate(zip(begins, begins[1:])):
        out = created(folder / f"partition-{i}.npy", np.int32, int(end - begin))
        out[:] = places.part[begin:end]
    path.unlink()
    (folder / _ORDER).with_suffix(".npy").unlink()
    return {"rounds": len(cuts)}


def _ordered(job: Job, folder: Path, total: int) -> Array:
    """Nodes by a hash of their number, sorted by the engine; also as the file that ``_neighbours`` joins."""

    def batches() -> Iterator[pa.RecordBatch]:
        for at in blocks(total):
            nodes = np.arange(at.start, at.stop)
            yield pa.RecordBatch.from_arrays([pa.array(nodes), pa.array(_mixed(nodes.astype(np.uint64), job.options.seed))], names=["node", "mixed"])

    schema = pa.schema([("node", pa.int64()), ("mixed", pa.uint64())])
    job.engine.register("mixed_nodes", pa.RecordBatchReader.from_batches(schema, batches()))
    job.engine.write("SELECT node FROM mixed_nodes ORDER BY mixed", folder / _ORDER, ordered=True)
    job.engine.unregister("mixed_nodes")
    order, begin = created((folder / _ORDER).with_suffix(".npy"), np.uint32 if total <= 1 << 32 else np.int64, total), 0
    for (nodes,) in job.engine.numbers(f"SELECT node FROM {sql.parquet(folder / _ORDER)}"):
        order[begin : begin + len(nodes)] = nodes
        begin += len(nodes)
    return order


def _mixed(numbers: Array, seed: int) -> Array:
    """A bijection of 64-bit numbers: the finaliser of splitmix64 (Steele, Lea and Flood, 2014)."""
    with np.errstate(over="ignore"):
        numbers = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
        numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def _training(job: Job, begins: Array) -> Array:
    train = np.zeros(int(begins[-1]), bool)
    for i, stage in job.splits.items():
        if "train" in stage.facts["counts"]:
            train[begins[i] + np.load(stage / "train.npy")] = True
    return train


def _neighbours(job: Job, folder: Path, begins: Array) -> Path:
    """Pairs ``place, neighbour`` of both directions of all edges, by the place of a node in the order."""
    queries = []
    for number, plan in enumerate(job.plan.edges):
        if plan.source is None:
            continue  # the same pairs
        source, target = (int(begins[end]) for end in job.plan.ends(plan))
        ids = job.ids_table(number)
        queries += [f"SELECT src + {source} AS node, dst + {target} AS neighbour FROM {ids}", f"SELECT dst + {target}, src + {source} FROM {ids}"]
    path = folder / "neighbours.parquet"
    pairs = f"SELECT * FROM ({' UNION ALL '.join(queries)}) WHERE node <> neighbour" if queries else "SELECT 0 AS node, 0 AS neighbour WHERE false"
    order = sql.parquet(folder / _ORDER, numbered=True)
    # By both: DuckDB's sort does not spill what is equal in what it is sorted by.
    job.engine.write(
        f"SELECT o.file_row_number AS place, n.neighbour FROM ({pairs}) AS n JOIN {order} AS o ON o.node = n.node ORDER BY place, neighbour", path, ordered=True
    )
    (folder / _ORDER).unlink()
    return path


def _steps(job: Job, path: Path, total: int, block: int) -> Iterator[tuple[int, int, Array, Array]]:
    """What ``Places.place`` takes, block by block through all nodes."""
    begin, held = 0, [np.zeros(0, np.int64), np.zeros(0, np.int64)]
    for given in job.engine.numbers(f"SELECT place, neighbour FROM {sql.parquet(path)}"):
        held = [np.concatenate(pair) for pair in zip(held, given)] if len(held[0]) else list(given)
        done = 0
        while len(held[0]) and begin + block <= held[0][-1]:  # the last place may go on
            end = int(np.searchsorted(held[0], begin + block))
            yield begin, begin + block, held[0][done:end] - begin, held[1][done:end]
            begin, done = begin + block, end
        held = [one[done:] for one in held]
    while begin < total:
        end = min(begin + block, total)
        upto = int(np.searchsorted(held[0], end))
        yield begin, end, held[0][:upto] - begin, held[1][:upto]
        begin, held = end, [one[upto:] for one in held]
