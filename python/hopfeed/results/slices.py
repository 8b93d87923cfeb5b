"""What the neighbours of all rows reduce to where the rows that they are made of do not fit into the memory: for some of their
columns after the others, each time these columns of all sources in memory, and kept in a file that has no name.

Rows that are read where they lie, a row for each edge, would come from the disk again and again. No edge is cut off, so that
sums are the same."""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from hopfeed.results.folder import errors_as_lines
from hopfeed.results.graph import Graph
from hopfeed.results.plan import Rows as Range
from hopfeed.results.reductions import reduced
from hopfeed.results.rows import Rows
from hopfeed.results.stages import Relation


class Slices:
    """Reduces these blocks' neighbours.

    Args:
        rows: of the sources.
        blocks: rows of which partition; others are not asked for.
        columns: that are held at a time.
        limit: edges of a piece, where a layer takes them piece by piece.
        folder: where the file lies.

    Raises:
        NoSpaceError: the disk is full.
    """

    def __init__(self, graph: Graph, relation: Relation, rows: Rows, blocks: Sequence[Range], columns: int, limit: int, folder: Path) -> None:
        self._dtype, self._width, self._columns, self._first = rows.numbers, rows.width, columns, {}
        self._count = 0
        for block in blocks:
            self._first[block] = self._count
            self._count += block.end - block.begin
        ctypes.CDLL(None).malloc_trim(0)  # what earlier blocks have left there would stand beside the columns
        with errors_as_lines(folder / "slices"):
            self._file = tempfile.TemporaryFile(dir=folder)
            for begin in range(0, rows.width, columns):
                held = rows.columns(begin, min(begin + columns, rows.width))
                for block in blocks:
                    bounds = graph.offsets(relation.edge_type, block.part, block.begin, block.end)
                    self._file.write(reduced(graph, relation, held, block.part, block.begin, bounds, limit).numpy().data)
                del held  # before the next are
            self._file.flush()

    def close(self) -> None:
        self._file.close()

    def of(self, block: Range) -> torch.Tensor:
        """[rows of the block, width]."""
        made = torch.empty(block.end - block.begin, self._width, dtype=self._dtype)
        for begin in range(0, self._width, self._columns):
            slice_of = made[:, begin : begin + self._columns]
            at = (self._count * begin + self._first[block] * slice_of.shape[1]) * self._dtype.itemsize
            raw = os.pread(self._file.fileno(), slice_of.numel() * self._dtype.itemsize, at)
            slice_of.numpy()[:] = np.frombuffer(raw, slice_of.numpy().dtype).reshape(slice_of.shape)
        return made
