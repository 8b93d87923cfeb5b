"""A batch: its fields under PyG's names, by node type and edge type, as views of the memory that they lie in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np

from hopfeed import _core
from hopfeed.dataset import Keys
from hopfeed.errors import InvalidError

NodeType = str
EdgeType = tuple[str, str, str]
StoreKey = Union[NodeType, EdgeType, None]

_NODE, _EDGE = 1, 2  # kinds of stores in _core.Batch.arrays


class Store(dict[str, Any]):
    """The fields of one node type, edge type or of the batch as a whole: ``store["x"]`` or ``store.x``."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no field '{name}'; there are {', '.join(self) or 'none'}") from None


class Batch:
    """A batch as :class:`hopfeed.Loader` gives it.

    ``batch["paper"]`` are the fields of a node type, ``batch["paper", "cites", "paper"]`` those of an edge type and
    ``batch[None]`` those of the batch as a whole (``walks``). Where the graph has one type of each, fields are
    attributes of the batch too: ``batch.x``. docs/batch.md has the fields; the ones that there always are:

    ==================  ==========  ==================================================================
    n_id                int64 [n]   ids of the nodes, the seeds first
    edge_index          int64 [2,E] local source and destination of each edge, hop by hop
    num_sampled_nodes   int64 [h+1] new nodes of each hop
    num_sampled_edges   int64 [h]   edges of each hop
    input_id            int64 [B]   positions of the seeds in the list that was given
    batch_size          int         distinct seeds (of nodes)
    ==================  ==========  ==================================================================

    Arrays are views of the slot that the batch lies in. The slot is used again when the last of them is gone, so keep
    a ``.copy()`` of what you want to have for long.
    """

    __slots__ = ("_batch", "_keys", "_stores", "_typed")

    def __init__(self, batch: _core.Batch, names: _Names, torch: bool, keys: Mapping[NodeType, Keys] | None = None) -> None:
        self._batch, self._keys = batch, keys or {}
        self._typed = len(names.node_types) > 1 or len(names.edge_types) > 1
        self._stores: dict[StoreKey, Store] = {key: Store() for key in (*names.node_types, *names.edge_types, None)}
        for store, number, name, array in batch.arrays(torch):
            self._stores[names.key(store, number)][name] = int(array) if name == "batch_size" else array

    @property
    def key(self) -> tuple[int, int, int]:
        """(epoch, first, count): the seeds at positions [first, first + count) of that epoch's list."""
        return self._batch.key

    @property
    def keys(self) -> Any:
        """What the tables that were imported call the nodes of ``n_id``: int64, or an array of texts or UUIDs; of a graph with
        several types a dict from each node type that has keys.

        Raises:
            InvalidError: the loader was not asked for keys.
        """
        if not self._keys:
            raise InvalidError("this loader gives no keys; make it with keys=True")
        several = {name: keys[np.asarray(self._stores[name]["n_id"])] for name, keys in self._keys.items()}
        return several if self._typed else next(iter(several.values()))

    def digest(self) -> int:
        """XXH3-64 of all bytes: equal for equal spec and key, on any machine."""
        return self._batch.digest()

    @property
    def is_copy(self) -> bool:
        """Whether it was copied out of its slot, since too many batches were held."""
        return self._batch.is_copy

    @property
    def stores(self) -> dict[StoreKey, Store]:
        """All fields, by node type, edge type and ``None``."""
        return self._stores

    def __getitem__(self, key: StoreKey) -> Store:
        try:
            return self._stores[key]
        except KeyError:
            raise InvalidError(f"the graph has no type {key!r}; it has {list(self._stores)[:-1]}") from None

    def __getattr__(self, name: str) -> Any:
        found = [store for store in self._stores.values() if name in store]
        if len(found) == 1 or (found and not self._typed):
            return found[0][name]
        keys = [key for key, store in self._stores.items() if name in store]
        if keys:
            raise AttributeError(f"several types have a field '{name}': {keys}; take batch[TYPE].{name}")
        raise AttributeError(f"no type has a field '{name}'")

    def __iter__(self) -> Iterator[tuple[StoreKey, Store]]:
        return iter(self._stores.items())

    def __repr__(self) -> str:
        fields = ", ".join(
            f"{name if not self._typed else f'{key}.{name}'}={array if isinstance(array, int) else list(array.shape)}"
            for key, store in self._stores.items()
            for name, array in store.items()
        )
        return f"Batch(key={self.key}, {fields})"

    def to_blocks(self) -> list[Block]:
        """A block (message flow graph) per hop, the input's first, over the arrays of this batch: nothing is copied.

        Raises:
            InvalidError: the batch is not told hop by hop (an induced or bidirectional subgraph), or has no hops.
        """
        nodes = {key: store for key, store in self._stores.items() if isinstance(key, str)}
        edges = {key: store for key, store in self._stores.items() if isinstance(key, tuple)}
        hops = {len(store["num_sampled_nodes"]) - 1 for store in nodes.values() if "num_sampled_nodes" in store}
        if len(hops) != 1 or hops == {0} or any("num_sampled_edges" not in store for store in edges.values()):
            raise InvalidError("the batch has no hops (fanouts is empty), or is not told hop by hop (subgraph induced or bidirectional); it has no blocks")
        (depth,) = hops
        return [_block(nodes, edges, hop) for hop in reversed(range(depth))]


@dataclass(frozen=True)
class Block:
    """DGL's view of one hop. Sources begin with the destinations; all are prefixes of the batch's arrays.

    Attributes:
        src_ids: of each node type the ids of the sources, int64 [num_src]; ``srcdata[dgl.NID]``.
        num_dst: of each node type how many of them are destinations.
        edges: of each edge type int64 [2, E]: local source, local destination.
        edge_ids: of each edge type int64 [E]; ``edata[dgl.EID]``. Empty where the loader has no ``edge_ids``,
            and of ``_orig_edge_index``.
    """

    src_ids: dict[NodeType, Any]
    num_dst: dict[NodeType, int]
    edges: dict[EdgeType, Any]
    edge_ids: dict[EdgeType, Any]

    def to_dgl(self) -> Any:
        """A ``dgl.DGLBlock`` of it; needs dgl, and a loader of torch tensors (``hopfeed.torch.Loader``)."""
        import dgl

        block = dgl.create_block(
            {key: (edges[0], edges[1]) for key, edges in self.edges.items()},
            num_src_nodes={key: len(ids) for key, ids in self.src_ids.items()},
            num_dst_nodes=dict(self.num_dst),
        )
        for key, ids in self.src_ids.items():
            block.srcnodes[key].data[dgl.NID] = ids
            block.dstnodes[key].data[dgl.NID] = ids[: self.num_dst[key]]
        for edge, ids in self.edge_ids.items():
            block.edges[edge].data[dgl.EID] = ids
        return block


def _block(nodes: dict[Any, Store], edges: dict[Any, Store], hop: int) -> Block:
    num_src = {key: int(store["num_sampled_nodes"][: hop + 2].sum()) for key, store in nodes.items()}
    num_edges = {key: int(store["num_sampled_edges"][: hop + 1].sum()) for key, store in edges.items()}
    # A batch of both directions has the drawn edges, of which the counts tell, beside its own.
    drawn = {key: store["_orig_edge_index" if "_orig_edge_index" in store else "edge_index"] for key, store in edges.items()}
    return Block(
        src_ids={key: store["n_id"][: num_src[key]] for key, store in nodes.items()},
        num_dst={key: int(store["num_sampled_nodes"][: hop + 1].sum()) for key, store in nodes.items()},
        edges={key: index[:, : num_edges[key]] for key, index in drawn.items()},
        edge_ids={
            key: store["e_id"][: num_edges[key]]
            for key, store in edges.items()
            if "e_id" in store and "_orig_edge_index" not in store
        },
    )


class _Names:
    """Names of the stores, by kind and number."""

    def __init__(self, node_types: Sequence[NodeType], edge_types: Sequence[EdgeType]) -> None:
        self.node_types, self.edge_types = list(node_types), list(edge_types)

    def key(self, store: int, number: int) -> StoreKey:
        if store == _NODE:
            return self.node_types[number]
        return self.edge_types[number] if store == _EDGE else None
