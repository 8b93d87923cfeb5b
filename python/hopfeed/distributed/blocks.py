"""A batch as DGL has it: a block for each hop, bipartite, over the batch's memory; and pairs of links."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

import hopfeed.batch
from hopfeed.batch import Batch, EdgeType, NodeType

ID = "_ID"  # dgl.NID and dgl.EID
Fields = Mapping[Any, Mapping[str, torch.Tensor]]


class MiniBatch(tuple[Any, ...]):
    """Unpacks as DGL's: ``(input_nodes, output_nodes, blocks)``, of links ``(input_nodes, pos_graph[, neg_graph], blocks)``.

    Attributes:
        batch: the :class:`hopfeed.Batch` that all of it lies in: ``batch.batch.digest()``.
    """

    batch: Batch

    def __new__(cls, parts: tuple[Any, ...], batch: Batch) -> MiniBatch:
        self = super().__new__(cls, parts)
        self.batch = batch
        return self


class Block:
    """One hop: edges from sources to destinations. Sources begin with the destinations.

    PyG's layers take it as ``conv((x, x[: block.num_dst_nodes()]), block.edge_index, size=block.size)``. Where the graph has several
    types, ``edge_index``, ``size`` and the values of ``srcdata``, ``dstdata`` and ``edata`` are dicts by type.

    Attributes:
        srcdata, dstdata: attributes of the nodes by name, and their original ids as ``"_ID"``.
        edata: attributes of the edges by name, and as ``"_ID"`` their original positions, where the loader has ``edge_ids=True``.
    """

    def __init__(self, edges: Mapping[EdgeType, torch.Tensor], src: Fields, num_dst: Mapping[NodeType, int], rows: Fields, typed: bool) -> None:
        self._edges, self._src, self._num_dst, self._rows, self._typed = edges, src, num_dst, rows, typed

    @property
    def edge_index(self) -> Any:
        """int64 [2, E]: local source, local destination."""
        return self._of_types(self._edges)

    @property
    def size(self) -> Any:
        """(sources, destinations)."""
        return self._of_types({edge: (self.num_src_nodes(edge[0]), self._num_dst[edge[2]]) for edge in self._edges})

    @property
    def srcdata(self) -> dict[str, Any]:
        return self._by_name(self._src)

    @property
    def dstdata(self) -> dict[str, Any]:
        return self._by_name({key: {name: rows[: self._num_dst[key]] for name, rows in fields.items()} for key, fields in self._src.items()})

    @property
    def edata(self) -> dict[str, Any]:
        return self._by_name(self._rows)

    @property
    def srctypes(self) -> list[NodeType]:
        return list(self._src)

    @property
    def canonical_etypes(self) -> list[EdgeType]:
        return list(self._edges)

    def num_src_nodes(self, ntype: NodeType | None = None) -> int:
        """Of a type; of all together without a name."""
        return sum(len(fields[ID]) for key, fields in self._src.items() if ntype in (None, key))

    def num_dst_nodes(self, ntype: NodeType | None = None) -> int:
        """Of a type; of all together without a name."""
        return sum(count for key, count in self._num_dst.items() if ntype in (None, key))

    def num_edges(self, etype: EdgeType | None = None) -> int:
        """Of a type; of all together without a name."""
        return sum(index.shape[1] for key, index in self._edges.items() if etype in (None, key))

    def to(self, device: Any, non_blocking: bool = False) -> Block:
        """A copy on a device, rows too."""

        def move(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.to(device, non_blocking=non_blocking)

        return Block(_map(self._edges, move), _map_all(self._src, move), self._num_dst, _map_all(self._rows, move), self._typed)

    def to_dgl(self) -> Any:
        """A ``dgl.DGLBlock`` of it, with all data; needs dgl."""
        ids = {key: fields[ID] for key, fields in self._src.items()}
        e_ids = {key: fields[ID] for key, fields in self._rows.items() if ID in fields}
        block = hopfeed.batch.Block(ids, dict(self._num_dst), dict(self._edges), e_ids).to_dgl()
        for key, fields in self._src.items():
            for name, rows in fields.items():
                block.srcnodes[key].data[name] = rows
                block.dstnodes[key].data[name] = rows[: self._num_dst[key]]
        for edge, fields in self._rows.items():
            for name, rows in fields.items():
                block.edges[edge].data[name] = rows
        return block

    def _of_types(self, values: Mapping[EdgeType, Any]) -> Any:
        return dict(values) if self._typed else next(iter(values.values()))

    def _by_name(self, fields: Fields) -> dict[str, Any]:
        names = dict.fromkeys(name for of_type in fields.values() for name in of_type)
        if not self._typed:
            return dict(next(iter(fields.values())))
        return {name: {key: of_type[name] for key, of_type in fields.items() if name in of_type} for name in names}

    def __repr__(self) -> str:
        return f"Block({self.num_src_nodes()} sources, {self.num_dst_nodes()} destinations, {self.num_edges()} edges)"


@dataclass(frozen=True)
class Pairs:
    """Links of a batch, or negatives: what DGL calls ``pos_graph`` and ``neg_graph``.

    Attributes:
        index: int64 [2, P] local source and destination, among the destinations of the last block.
        edge_type: theirs.
    """

    index: torch.Tensor
    edge_type: EdgeType

    def edges(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Sources and destinations."""
        return self.index[0], self.index[1]

    def num_edges(self) -> int:
        return int(self.index.shape[1])


def blocks_of(batch: Batch, meta: Mapping[str, Any]) -> list[Block]:
    """A block for each hop, the input's first. Nothing is copied."""
    typed = len(meta["node_types"]) > 1 or len(meta["edge_types"]) > 1
    node_attrs = {node["name"]: [attr["name"] for attr in node["attrs"]] for node in meta["node_types"]}
    edge_attrs = {(edge["src"], edge["rel"], edge["dst"]): [attr["name"] for attr in edge["attrs"]] for edge in meta["edge_types"]}
    blocks = []
    for hop in batch.to_blocks():
        src, rows = {}, {}
        for key, ids in hop.src_ids.items():
            store = batch[key]
            src[key] = {ID: ids} | {name: store[name][: len(ids)] for name in ("dataset_id", *node_attrs[key]) if name in store}
        for edge, index in hop.edges.items():
            store = batch[edge]
            rows[edge] = {name: store[name][: index.shape[1]] for name in edge_attrs[edge] if name in store}
            if edge in hop.edge_ids:
                rows[edge][ID] = hop.edge_ids[edge]
        blocks.append(Block(hop.edges, src, hop.num_dst, rows, typed))
    return blocks


def pairs_of_batch(batch: Batch, edge_type: EdgeType) -> tuple[Pairs, Pairs | None]:
    """A batch's links, and its negatives where it has some."""
    store = batch[edge_type]
    if "src_index" in store:
        source, destination, drawn = store.src_index, store.dst_pos_index, store.dst_neg_index
        drawn = drawn.reshape(len(source), -1)
        negative = torch.stack([source.repeat_interleave(drawn.shape[1]), drawn.reshape(-1)])
        return Pairs(torch.stack([source, destination]), edge_type), Pairs(negative, edge_type)
    count = len(store.input_id)
    index = store.edge_label_index
    return Pairs(index[:, :count], edge_type), Pairs(index[:, count:], edge_type) if index.shape[1] > count else None


def _map(values: Mapping[Any, torch.Tensor], move: Callable[[torch.Tensor], torch.Tensor]) -> dict[Any, torch.Tensor]:
    return {key: move(value) for key, value in values.items()}


def _map_all(fields: Fields, move: Callable[[torch.Tensor], torch.Tensor]) -> dict[Any, dict[str, torch.Tensor]]:
    return {key: _map(of_type, move) for key, of_type in fields.items()}
