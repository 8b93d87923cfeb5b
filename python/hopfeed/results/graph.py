"""A dataset's arrays as inference reads them: rows of in-edges in the dataset's order, checked where they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from hopfeed import _core
from hopfeed.dataset import Dataset
from hopfeed.errors import CorruptError, InvalidError, NotFoundError
from hopfeed.results.rows import matrix, tensor_of
from hopfeed.results.stages import EdgeType

Array = np.ndarray[Any, Any]
_EDGES_AT_ONCE = 1 << 22


class Graph:
    """A dataset's partitions that this machine has.

    Args:
        peers: which are here, and who has the others: ``partitions``, ``peers``, ``peer_...``, as loaders take them. Nothing: all
            are here.

    Attributes:
        parts: partitions that are here.
        others: those that are not.
        machines: who has these.

    Raises:
        NotFoundError: partitions that are not in the folder; TimeoutError: no server has a partition.
    """

    def __init__(self, dataset: Dataset, peers: Mapping[str, Any] | None = None) -> None:
        self.dataset, self.machines = dataset, None
        every = range(dataset.num_partitions)
        missing = [part for part in every if not (dataset.folder / f"part-{part:04d}").is_dir()]
        if peers:
            if peers.get("peers") and not missing and not peers.get("partitions"):
                raise InvalidError(f"peers are given, and {dataset.folder} has all partitions; give partitions=, those whose rows this machine computes")
            absent = [part for part in missing if part in (peers.get("partitions") or ())]
            if absent:
                raise NotFoundError(f"partitions has {absent[0]}, and {dataset.folder} has no part-{absent[0]:04d}; give those that are here")
            self.machines = _core.Machines(str(dataset.folder), dict(peers))
        elif missing:
            raise NotFoundError(f"{dataset.folder} has no partition {missing[0]}; give peers=, the servers that have the others, or a folder with all")
        self.parts: list[int] = list(every) if self.machines is None else list(self.machines.partitions)
        self.others = [part for part in every if part not in self.parts]
        self._makers: dict[str, _core.BlockMaker] = {}
        self._boundaries: dict[tuple[str, tuple[EdgeType, ...]], _core.Boundary] = {}

    def boundary(self, node_type: str, edge_types: Sequence[EdgeType]) -> _core.Boundary:
        """Nodes of other partitions that edges of these types, into those here, come from."""
        key = node_type, tuple(sorted(set(edge_types)))
        if key not in self._boundaries:
            assert self.machines is not None
            numbers = [self.dataset.edge_types.index(edge_type) for edge_type in key[1]]
            self._boundaries[key] = self.machines.boundary(self.dataset.node_types.index(node_type), numbers)
        return self._boundaries[key]

    def num_rows(self, node_type: str) -> int:
        """That are here."""
        offsets = self.partition_offsets(node_type)
        return sum(offsets[part + 1] - offsets[part] for part in self.parts)

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

    def degrees(self, edge_type: EdgeType, part: int, weight: str | None, loop: float) -> tuple[Array, Array]:
        """Sums of the weights of the in-edges of a partition's rows, where each has one loop if ``loop`` is not 0, and that loop's
        weight: its own where it has one, else ``loop``. Both float64."""
        first, last = self.partition_offsets(edge_type[2])[part : part + 2]
        sums, loops = np.zeros(last - first), np.full(last - first, loop)
        for begin, end in self._runs(edge_type, part, last - first):
            bounds = self.offsets(edge_type, part, begin, end)
            rows = np.repeat(np.arange(begin, end), np.diff(bounds))
            sources = self.dataset._part(part, self._file(edge_type, "indices"))[bounds[0] : bounds[-1]]
            weights = np.ones(len(rows))
            if weight is not None:
                weights = self.edge_rows(edge_type, weight, part, int(bounds[0]), int(bounds[-1]), torch.float64).numpy().reshape(len(rows))
            if loop:
                is_loop = sources == rows + first
                if weight is not None:
                    loops[rows[is_loop]] = weights[is_loop]
                rows, weights = rows[~is_loop], weights[~is_loop]
            sums[begin:end] = np.bincount(rows - begin, weights, end - begin)
        return sums + loops if loop else sums, loops

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
