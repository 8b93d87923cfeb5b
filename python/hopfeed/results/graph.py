"""A dataset's arrays as inference reads them: rows of in-edges in the dataset's order, checked where they are read."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from hopfeed import _core
from hopfeed.dataset import Dataset
from hopfeed.errors import CorruptError, NotFoundError
from hopfeed.results.rows import matrix, tensor_of
from hopfeed.results.stages import EdgeType

Array = np.ndarray[Any, Any]
_EDGES_AT_ONCE = 1 << 22


class Graph:
    """One dataset folder with all its partitions.

    Raises:
        NotFoundError: partitions that are not in the folder.
    """

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        missing = [part for part in range(dataset.num_partitions) if not (dataset.folder / f"part-{part:04d}").is_dir()]
        if missing:
            raise NotFoundError(f"{dataset.folder} has no partition {missing[0]}; infer reads the whole graph in one folder")
        self._makers: dict[str, _core.BlockMaker] = {}

    @property
    def num_partitions(self) -> int:
        return self.dataset.num_partitions

    def partition_offsets(self, node_type: str) -> list[int]:
        """[P + 1] of dataset ids."""
        return [int(at) for at in self.dataset._node(node_type)["partition_offsets"]]

    def offsets(self, edge_type: EdgeType, part: int, begin: int, end: int) -> Array:
        """Where the in-edges of a partition's rows begin, and the last ends: int64 [end - begin + 1]."""
        return np.ascontiguousarray(self._rows(edge_type, part)["offset"][begin : end + 1])

    def block(self, edge_type: EdgeType, part: int, offsets: Array, first: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Sources' dataset ids and the block's edges; ``first`` is -1 where rows' own nodes are no sources."""
        indices, path = self.indices(edge_type, part)
        sources, edges = self._maker(edge_type[0]).block(offsets, indices, first, path)
        return torch.from_numpy(sources), torch.from_numpy(edges)

    def sources(self, edge_type: EdgeType, part: int, begin: int, end: int) -> torch.Tensor:
        """Dataset ids that edges of a partition begin at."""
        indices, path = self.indices(edge_type, part)
        ids = torch.from_numpy(np.array(indices[begin:end])).long()
        if len(ids) and not (0 <= int(ids.min()) and int(ids.max()) < self.dataset.num_nodes(edge_type[0])):
            raise CorruptError(f"{path}: neighbours that are no nodes; run hopfeed-partition verify")
        return ids

    def indices(self, edge_type: EdgeType, part: int) -> tuple[Array, str]:
        """The sources of a partition's edges, as they are stored and unchecked, and what errors call them."""
        name = self._file(edge_type, "indices")
        return self.dataset._part(part, name), str(self.dataset.folder / f"part-{part:04d}" / name)

    def edge_rows(self, edge_type: EdgeType, attribute: str, part: int, begin: int, end: int, dtype: torch.dtype) -> torch.Tensor:
        """An attribute of a partition's edges, as numbers."""
        meta = next(attr for attr in self.dataset._edge(edge_type)["attrs"] if attr["name"] == attribute)
        stored = self.dataset._part(part, self._file(edge_type, f"attrs/{attribute}"))[begin:end]
        rows = tensor_of(np.array(matrix(stored), order="C").view(np.uint8), meta, dtype)
        return rows.flatten() if not meta["shape"] or list(meta["shape"]) == [1] else rows

    def original_ids(self, node_type: str, part: int, begin: int, end: int) -> Array:
        """Of a partition's rows, int64."""
        for edge_type in self.dataset.edge_types:
            if edge_type[2] == node_type:
                return np.ascontiguousarray(self._rows(edge_type, part)["original_id"][begin:end])
        return np.ascontiguousarray(self.dataset._part(part, f"nodes/{node_type}/original_ids.npy")[begin:end])

    def degrees(self, edge_type: EdgeType, weight: str | None, loop: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Sums of the weights of all nodes' in-edges, where each has one loop if ``loop`` is not 0, and that loop's weight:
        its own where it has one, else ``loop``. Both float64, by dataset id."""
        offsets = self.partition_offsets(edge_type[2])
        sums, loops = np.zeros(offsets[-1]), np.full(offsets[-1], loop)
        for part in range(self.num_partitions):
            for begin, end in self._runs(edge_type, part, offsets[part + 1] - offsets[part]):
                bounds = self.offsets(edge_type, part, begin, end)
                rows = np.repeat(np.arange(begin, end), np.diff(bounds))
                sources = self.dataset._part(part, self._file(edge_type, "indices"))[bounds[0] : bounds[-1]]
                weights = np.ones(len(rows))
                if weight is not None:
                    weights = self.edge_rows(edge_type, weight, part, int(bounds[0]), int(bounds[-1]), torch.float64).numpy().reshape(len(rows))
                if loop:
                    is_loop = sources == rows + offsets[part]
                    if weight is not None:
                        loops[rows[is_loop] + offsets[part]] = weights[is_loop]
                    rows, weights = rows[~is_loop], weights[~is_loop]
                sums[offsets[part] + begin : offsets[part] + end] = np.bincount(rows - begin, weights, end - begin)
        if loop:
            sums += loops
        return torch.from_numpy(sums), torch.from_numpy(loops)

    def _runs(self, edge_type: EdgeType, part: int, rows: int) -> list[tuple[int, int]]:
        """Rows that have about so many edges, a row at least."""
        runs, begin = [], 0
        while begin < rows:
            end = min(rows, begin + _EDGES_AT_ONCE)
            bounds = self.offsets(edge_type, part, begin, end)
            end = begin + max(1, int(np.searchsorted(bounds, bounds[0] + _EDGES_AT_ONCE, "right")) - 1)
            runs.append((begin, end))
            begin = end
        return runs

    def _rows(self, edge_type: EdgeType, part: int) -> Array:
        return self.dataset._part(part, self._file(edge_type, "rows"))

    def _maker(self, node_type: str) -> _core.BlockMaker:
        if node_type not in self._makers:
            self._makers[node_type] = _core.BlockMaker(self.dataset.num_nodes(node_type))
        return self._makers[node_type]

    @staticmethod
    def _file(edge_type: EdgeType, name: str) -> str:
        return f"edges/{'__'.join(edge_type)}/{name}.npy"
