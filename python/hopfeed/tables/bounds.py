"""Bounds of the times of an edge type (docs/formats.md): a sample of its edges, evenly spread over their order, cut into
classes of about equal size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hopfeed.tables.arrays import Array

MAX_BOUNDS = 65_535
_SAMPLES = 4 * (MAX_BOUNDS + 1)


def bounds(sample: Array) -> Array:
    """The bounds of a sample, in order."""
    ordered = np.sort(sample)
    if len(ordered) <= MAX_BOUNDS:
        return ordered
    return ordered[np.arange(1, MAX_BOUNDS + 1) * len(ordered) // (MAX_BOUNDS + 1)]


class Sampler:
    """Every step-th edge in the order of edges: (destination, source, bytes of the attributes).

    Edges come by (dataset id of the destination, source); those of one pair in any order.

    Args:
        first_of: from dataset ids of destinations to the ids of their first in-edges.
    """

    def __init__(self, edges: int, first_of: Any) -> None:
        self._step, self._first_of = max(1, edges // _SAMPLES), first_of
        self._row, self._begin, self._seen = -1, 0, 0  # the row that the last batch ended in, and where it began
        self._rest: list[Array] | None = None
        self._taken: list[Array] = []

    def add(self, dst: Array, src: Array, times: Array, attributes: Sequence[Array]) -> None:
        """The next edges; ``attributes``: as they are stored, the bytes of each edge in a row."""
        given = [dst, src, times, *attributes]
        if self._rest is not None:
            given = [np.concatenate(pair) for pair in zip(self._rest, given)]
        changes = np.flatnonzero((np.diff(given[0]) != 0) | (np.diff(given[1]) != 0))
        whole = int(changes[-1]) + 1 if len(changes) else 0  # the last pair may go on
        self._rest = [one[whole:].copy() for one in given]
        self._take([one[:whole] for one in given])

    def finish(self) -> Array:
        """The sample."""
        if self._rest is not None:
            self._take(self._rest)
        return np.concatenate([np.zeros(0, np.int64), *self._taken])

    def _take(self, given: list[Array]) -> None:
        dst, src, times = given[:3]
        if len(dst) == 0:
            return
        starts = np.flatnonzero(np.concatenate([[True], np.diff(dst) != 0]))
        begins = self._seen + starts
        if int(dst[0]) == self._row:
            begins[0] = self._begin
        row_of = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(dst))))
        places = self._first_of(dst[starts])[row_of] + self._seen + np.arange(len(dst)) - begins[row_of]
        chosen = np.flatnonzero(places % self._step == 0)
        self._taken.append(_in_order(chosen, dst, src, times, given[3:]))
        self._row, self._begin = int(dst[-1]), int(begins[-1])
        self._seen += len(dst)


def _in_order(chosen: Array, dst: Array, src: Array, times: Array, attributes: Sequence[Array]) -> Array:
    """Times of the edges at these places, were those of each pair in the order of their attributes' bytes."""
    taken = times[chosen]
    new = np.concatenate([[True], (np.diff(dst) != 0) | (np.diff(src) != 0)])
    groups, ends = np.flatnonzero(new), np.append(np.flatnonzero(new)[1:], len(dst))
    of = np.searchsorted(groups, chosen, side="right") - 1
    last, order = -1, chosen
    for i in np.flatnonzero(ends[of] - groups[of] > 1):
        group = int(of[i])
        if group != last:
            last, order = group, _by_bytes(groups[group], ends[group], attributes)
        taken[i] = times[order[chosen[i] - groups[group]]]
    return taken


def _by_bytes(begin: int, end: int, attributes: Sequence[Array]) -> Any:
    if not attributes:
        return np.arange(begin, end)
    rows = np.concatenate([np.ascontiguousarray(one[begin:end]) for one in attributes], axis=1)
    return begin + np.asarray(sorted(range(end - begin), key=lambda i: rows[i].tobytes()))


def row_bytes(values: Array, rows: int) -> Array:
    """An array's rows as bytes, uint8 [rows, ...]."""
    return np.ascontiguousarray(values).view(np.uint8).reshape(rows, -1)

