"""Rows of all nodes of a type, by dataset id, wherever they lie: a dataset's attribute, an array, or the shards of a layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from hopfeed import _core
from hopfeed.stored_rows import row_bytes, values_of

Array = np.ndarray[Any, Any]
_BYTES_AT_ONCE = 8 << 20


class Rows:
    """Arrays one behind the other, of which rows are copied as they are asked for.

    Args:
        arrays: matrices whose rows are equally far apart, in the order of dataset ids.
        meta: element type and shape of a row, as ``meta.json`` has them.
        dtype: see below.

    Attributes:
        dtype: of the tensors that are given.
        width: of a row.
        row_bytes: of a row without what pads it.
        attribute: of the dataset, whose rows these are.
        are_all: whether no rows lie with other machines.
        fetched: of these, those that were brought here.
    """

    def __init__(self, arrays: Sequence[Array], meta: Mapping[str, Any], dtype: torch.dtype) -> None:
        starts = np.cumsum([0, *map(len, arrays)], dtype=np.int64)
        self._lay(arrays, starts[:-1].tolist(), int(starts[-1]), meta, dtype)

    @classmethod
    def of_parts(
        cls, arrays: Sequence[Array], firsts: Sequence[int], count: int, meta: Mapping[str, Any], dtype: torch.dtype, attribute: str | None = None
    ) -> Rows:
        """Arrays between which others are missing; ``firsts`` are their rising first ids, of ``count``."""
        made = cls.__new__(cls)
        made._lay(arrays, firsts, count, meta, dtype)
        made.attribute = attribute
        return made

    def _lay(self, arrays: Sequence[Array], firsts: Sequence[int], count: int, meta: Mapping[str, Any], dtype: torch.dtype) -> None:
        self._arrays: list[Array] = []  # kept: addresses point into them
        starts, addresses = [0], []
        for array, first in zip(map(matrix, arrays), firsts):
            if len(array) == 0:
                continue
            if first > starts[-1]:  # rows in between lie elsewhere
                starts.append(first)
                addresses.append(0)
            self._arrays.append(array)
            starts.append(first + len(array))
            addresses.append(array.ctypes.data)
        if count > starts[-1]:
            starts.append(count)
            addresses.append(0)
        self._starts, self._addresses = np.array(starts, np.int64), np.array(addresses, np.uint64)
        self._stride = self._arrays[0].strides[0] if self._arrays else 0
        self._meta, self.dtype, self.row_bytes = meta, dtype, row_bytes(meta)
        self.width = int(np.prod(meta["shape"], dtype=np.int64))
        self.attribute: str | None = None
        self.are_all = 0 not in addresses
        self.fetched: _core.Fetched | None = None

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, ids: torch.Tensor) -> torch.Tensor:
        """Rows of dataset ids, [len(ids), width]."""
        raw = np.empty((len(ids), self.row_bytes), np.uint8)
        if len(ids):
            _core.gather_rows(ids.numpy(), self._starts, self._addresses, self._stride, self.fetched, raw)
        return tensor_of(raw, self._meta, self.dtype)

    def run(self, first: int, count: int) -> torch.Tensor:
        """Consecutive rows."""
        return self[torch.arange(first, first + count)]

    @property
    def numbers(self) -> torch.dtype:
        """Which numbers they are reduced to."""
        return torch.float64 if self.dtype == torch.float64 else torch.float32

    @property
    def num_here(self) -> int:
        """How many are on this machine."""
        return sum(map(len, self._arrays)) + (0 if self.fetched is None else len(self.fetched))

    def columns(self, begin: int, end: int) -> Rows:
        """Some columns of all rows that are here, as numbers, in memory."""
        meta = {"name": self._meta["name"], "element_type": str(self.numbers).removeprefix("torch."), "shape": [end - begin]}
        arrays = [self._columns(len(array), lambda at, count, first=first: self.run(first + at, count), begin, end) for first, array in self._pieces()]  # type: ignore[misc]
        made = Rows.of_parts(arrays, [first for first, _ in self._pieces()], len(self), meta, self.numbers)
        if self.fetched is not None:
            fetched = self.fetched
            held = self._columns(len(fetched), lambda at, count: tensor_of(fetched.rows(at, count), self._meta, self.dtype), begin, end)
            made.fetched = fetched.of_columns(held)
        return made

    def _columns(self, rows: int, read: Callable[[int, int], torch.Tensor], begin: int, end: int) -> Array:
        held, at_once = np.empty((rows, end - begin), str(self.numbers).removeprefix("torch.")), max(1, _BYTES_AT_ONCE // max(1, self.row_bytes))
        for at in range(0, rows, at_once):
            count = min(at_once, rows - at)
            held[at : at + count] = read(at, count)[:, begin:end]
        return held

    def _pieces(self) -> list[tuple[int, Array]]:
        """Arrays with their first ids."""
        return list(zip(self._starts[:-1][self._addresses != 0].tolist(), self._arrays))

    @property
    def are_numbers(self) -> bool:
        """Whether they are stored as the tensors that are given, so that ``reduce`` reads them where they lie."""
        return self.dtype in (torch.float32, torch.float64) and self._meta["element_type"] == str(self.dtype).removeprefix("torch.")

    def reduce(self, sources: Array, bounds: Array, weights: torch.Tensor | None, kind: str, out: torch.Tensor, path: str) -> None:
        """Adds the rows of each row's sources to what ``out`` has of it, or takes the larger or smaller: kind is sum, max or min.

        Args:
            sources: ids as they are stored.
            bounds: which of them each row has, [rows + 1].
            weights: of these.
            path: what errors call the sources.
        """
        _core.reduce_rows(
            bounds, sources, None if weights is None else weights.numpy(), self._starts, self._addresses, self._stride, self.fetched, kind,
            out.numpy(), torch.get_num_threads(), path,
        )  # fmt: skip


def matrix(array: Array) -> Array:
    """Rows of any shape as those of a matrix."""
    return array.reshape(len(array), int(np.prod(array.shape[1:], dtype=np.int64)))


def tensor_of(raw: Array, meta: Mapping[str, Any], dtype: torch.dtype) -> torch.Tensor:
    """Bytes of rows as numbers, [rows, elements]; rows with a scale as their values."""
    return torch.from_numpy(values_of(raw, meta)).to(dtype)
