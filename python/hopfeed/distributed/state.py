"""Rows that training writes or learns, by DGL's names: over the servers that own the partitions, by original id.

``hopfeed.DistTensor`` and ``hopfeed.torch.DistEmbedding`` are what stands behind; they take the dataset's own ids.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

import hopfeed.state
from hopfeed.dist_embedding import DistEmbedding as Rows
from hopfeed.distributed.nodes import nodes_of
from hopfeed.distributed.place import here, rank_and_world
from hopfeed.errors import BusyError, InvalidError, UnsupportedError

# Seconds after which owners know that the processes of a run are gone, which was begun again meanwhile.
_LEFT_WITHIN = 8


class DistTensor:
    """A row for each node of a type, that any trainer reads and writes at any time: ``t[ids]``, ``t[ids] = rows``, ``t.add(ids, rows)``.

    Args:
        shape: (nodes of the type, width), or (nodes of the type,).
        dtype: torch's or its name: float32, float16, bfloat16 or int64.
        name: of the table, the same at all trainers. Whoever opens it by that name gets that one.
        init_func: DGL's; refused: rows begin as zeros.
        part_policy: DGL's; refused: ``ntype`` says which nodes.
        ntype: they are of this type; by default the one that has so many nodes.
        run: whose checkpoints it has, where it is to have any.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: Any = "float32",
        name: str | None = None,
        init_func: Any = None,
        part_policy: Any = None,
        *,
        ntype: str | None = None,
        run: int | None = None,
    ) -> None:
        _refuse("DistTensor", init_func, part_policy, "rows begin as zeros: write them, t[ids] = rows")
        if not isinstance(shape, (tuple, list, torch.Size)) or len(shape) not in (1, 2):
            raise InvalidError(f"shape is {shape!r}; give (nodes, width) or (nodes,)")
        self._ids = _Ids(shape[0], ntype)
        self.shape, self.dtype = tuple(shape), dtype if isinstance(dtype, torch.dtype) else getattr(torch, str(dtype), dtype)
        width = shape[1] if len(shape) == 2 else 1
        self.table = hopfeed.DistTensor(
            here().connected_owners(), _named("DistTensor", name), self._ids.node_type, width, str(dtype).removeprefix("torch."), run=run
        )
        """The table itself, by dataset ids: ``save``, ``restore``, ``keep``."""
        self.name = self.table.name

    def __getitem__(self, ids: Any) -> torch.Tensor:
        rows: torch.Tensor = self.table.pull(torch.from_numpy(self._ids(ids)))
        return rows if len(self.shape) == 2 else rows.squeeze(1)

    def __setitem__(self, ids: Any, rows: Any) -> None:
        self.table.push(self._ids(ids), self._as_rows(rows))

    def add(self, ids: Any, rows: Any) -> None:
        """Adds rows to those that are there, both where an id is there twice."""
        self.table.add(self._ids(ids), self._as_rows(rows))

    def __len__(self) -> int:
        return int(self.shape[0])

    def __repr__(self) -> str:
        return f"DistTensor('{self.name}', '{self._ids.node_type}', shape={self.shape}, dtype={self.dtype})"

    def _as_rows(self, rows: Any) -> torch.Tensor:
        tensor = torch.as_tensor(rows)
        return tensor if len(self.shape) == 2 else tensor.reshape(-1, 1)


class DistEmbedding(torch.nn.Module):
    """A learned row for each node of a type, at the servers that own the partitions, with the optimizer's state beside it.

    It learns by the optimizer of :mod:`hopfeed.distributed.optim` that it is given to, once, before its first use::

        emb = DistEmbedding(g.num_nodes("paper"), 64, "papers")
        rows = optim.SparseAdam([emb], lr=0.01)
        for input_nodes, seeds, blocks in loader:
            loss(model(blocks, emb(input_nodes))).backward()
            rows.step()                                       # at every rank, once in each step

    The step's gradient is the mean over the ranks. ``emb.eval()`` reads without learning, as ``emb.weight[ids]`` does.

    Args:
        num_embeddings: nodes of the type. embedding_dim: numbers of a row.
        name: of the table, the same at all ranks.
        init_func: DGL's; refused: first values are random, of ``seed`` and the node, of length 1 in the mean.
        part_policy: DGL's; refused: ``ntype`` says which nodes.
        ntype: they are of this type; by default the one that has so many nodes.
        seed: of first values.
        dataset_ids: it is called with dataset ids: ``blocks[0].srcdata["dataset_id"]`` of loaders with ``dataset_ids=True``. Where
            servers sample, original ids are translated by a table of 8 bytes a node, which the first lookup fetches; this does without.
        options: ``restore``, ``run``, ``attempt``, ``timeout`` of ``hopfeed.torch.DistEmbedding``.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        name: str | None = None,
        init_func: Any = None,
        part_policy: Any = None,
        *,
        ntype: str | None = None,
        seed: int = 0,
        dataset_ids: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        _refuse("DistEmbedding", init_func, part_policy, "first values are random, of seed= and the node")
        self._ids, self._dataset_ids = _Ids(num_embeddings, ntype), dataset_ids
        self.name, self.num_embeddings, self.embedding_dim = _named("DistEmbedding", name), num_embeddings, embedding_dim
        self._options = {"seed": seed, **options}
        self._rows: Rows | None = None

    def learn_by(self, optimizer: Mapping[str, Any]) -> None:
        """Opens the table with an optimizer's options; :mod:`hopfeed.distributed.optim` calls it. A run that was begun again waits until
        the one before is over."""
        if self._rows is not None:
            raise InvalidError(f"'{self.name}' is learned by {self._rows.optimizer} already; give an embedding to one optimizer")
        rank, world_size = rank_and_world()
        options = {"rank": rank, "world_size": world_size, **optimizer, **self._options}
        until = time.monotonic() + (_LEFT_WITHIN if here().restart else 0)
        while self._rows is None:
            try:
                self._rows = Rows(here().connected_owners(), self.name, self._ids.node_type, self.embedding_dim, **options)
            except BusyError:  # another run learns it
                if time.monotonic() >= until:
                    raise
                time.sleep(0.5)
        self._rows.train(self.training)

    @property
    def rows(self) -> Rows:
        """The table itself, by dataset ids: ``save``, ``go_back``, ``keep``, ``look``."""
        if self._rows is None:
            raise InvalidError(f"'{self.name}' has no optimizer, which decides what lies at the owners; first make optim.SparseAdam([emb], lr=...)")
        return self._rows

    def forward(self, ids: Any, device: Any = None) -> torch.Tensor:
        """float32 [n, embedding_dim] rows of these nodes, whose gradient the next step takes."""
        rows: torch.Tensor = self.rows(self.translated(ids))
        return rows if device is None else rows.to(device)

    @property
    def weight(self) -> Weight:
        """``emb.weight[ids]``: the same without a gradient."""
        return Weight(self)

    def translated(self, ids: Any) -> torch.Tensor:
        """The dataset's own ids of these nodes."""
        if self._dataset_ids:
            return torch.as_tensor(ids)
        own = torch.from_numpy(self._ids(ids))
        return own.to(ids.device) if isinstance(ids, torch.Tensor) else own

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, '{self.name}'"


class Weight:
    """What an embedding has learned: ``weight[ids]`` are rows. They are learned, and not set."""

    def __init__(self, emb: DistEmbedding) -> None:
        self._emb, self.name, self.shape, self.dtype = emb, emb.name, (emb.num_embeddings, emb.embedding_dim), torch.float32

    def __getitem__(self, ids: Any) -> torch.Tensor:
        return self._emb.rows.pull(self._emb.translated(ids))

    def __len__(self) -> int:
        return int(self.shape[0])

    def __repr__(self) -> str:
        return f"Weight('{self.name}', shape={self.shape})"


class _Ids:
    """Original ids of a node type to dataset ids."""

    def __init__(self, count: Any, node_type: str | None) -> None:
        self._nodes = nodes_of(here())
        metas = self._nodes.meta["node_types"]
        found = [node["name"] for node in metas if node["count"] == count and node_type in (None, node["name"])]
        if len(found) != 1:
            sizes = ", ".join(f"{node['name']} has {node['count']}" for node in metas)
            what = "several node types have" if found else f"node type '{node_type}' has not" if node_type else "no node type has"
            raise InvalidError(f"{what} {count} nodes ({sizes}); {'name it with ntype=' if found else 'give g.num_nodes(ntype)'}")
        self.node_type = found[0]

    def __call__(self, ids: Any) -> np.ndarray[Any, Any]:
        wanted = self._nodes.ids(self.node_type, ids)
        return np.ascontiguousarray(self._nodes.all_dataset_ids(self.node_type)[wanted], np.int64)


def _named(kind: str, name: str | None) -> str:
    if name is None:
        raise InvalidError(f"name of {kind} is missing; give one, the same at all trainers: it is by the name that they find each other's table")
    return name


def _refuse(kind: str, init_func: Any, part_policy: Any, instead: str) -> None:
    if init_func is not None:
        raise UnsupportedError(f"init_func of {kind} is given, and rows lie at servers, where no function of yours runs; {instead}")
    if part_policy is not None:
        raise UnsupportedError(f"part_policy of {kind} is given; rows lie with their nodes: give ntype= in its place")
