"""Batches of hopfeed as ``Data`` and ``HeteroData``, field by field as PyG's loaders leave them."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from hopfeed import _core
from hopfeed.errors import InvalidError
from hopfeed.pyg.graph import Graph, refuse_lists

_NODE, _EDGE = 1, 2  # kinds of stores in _core.Batch.arrays
_LISTS = {"num_sampled_nodes", "num_sampled_edges"}
# On the edge type of the links in hopfeed's batches, on the types of their ends in PyG's.
_OF_SOURCE, _OF_DESTINATION = {"src_index"}, {"dst_pos_index", "dst_neg_index"}


class Assembly:
    """Makes PyG's objects of batches. ``data`` is what a loader shows as ``loader.data``: attributes that were deleted
    there are left out, those that were added or replaced are read from there by n_id and e_id.
    """

    def __init__(self, graph: Graph, data: Data | HeteroData | None, *, edge_ids: bool, edges_known: bool) -> None:
        self._graph, self._data = graph, data
        self._edge_ids, self._edges_known = edge_ids and edges_known, edges_known
        self._original = {} if data is None else {key: dict(store.items()) for key, store in self._stores(data)}
        self.refresh()

    def _stores(self, data: Data | HeteroData) -> list[tuple[tuple[int, int], Any]]:
        """((kind, number), store) of all types."""
        nodes = [((_NODE, i), data._store if key is None else data._node_store_dict[key]) for i, key in enumerate(self._graph.node_keys)]
        edges = [((_EDGE, i), data._store if key is None else data._edge_store_dict[key]) for i, key in enumerate(self._graph.edge_keys)]
        return nodes + edges

    def refresh(self) -> bool:
        """Looks at ``data`` again. Whether the stream has to be opened anew, since other attributes are wanted."""
        before = getattr(self, "options", None)
        self._python: list[tuple[int, int, str, Any, int]] = []  # kind, number, name, rows, dimension
        self._sizes: list[int] = []  # node types whose num_nodes batches have
        wanted: dict[int, set[str]] = {_NODE: set(), _EDGE: set()}
        self._dropped: set[tuple[int, int, str]] = set()
        if self._data is None:
            for kind, attrs in ((_NODE, self._graph.node_attrs), (_EDGE, self._graph.edge_attrs)):
                wanted[kind] = {name for names in attrs for name in names}
            self._sizes = list(range(len(self._graph.node_keys)))
            self._template: Data | HeteroData = self._empty()
        else:
            self._look_at_data(wanted)
        if not self._edges_known:
            wanted[_EDGE].clear()
            self._python = [entry for entry in self._python if entry[0] != _EDGE]
        self._needs_e_id = any(kind == _EDGE for kind, *_ in self._python)
        self.options = {
            "attrs": sorted(wanted[_NODE]),
            "edge_attrs": sorted(wanted[_EDGE]),
            "edge_ids": self._edge_ids or self._needs_e_id,
        }
        return before is not None and before != self.options

    def _look_at_data(self, wanted: dict[int, set[str]]) -> None:
        assert self._data is not None
        refuse_lists(self._data)
        self._template = self._empty()
        graph_level: dict[Any, dict[str, Any]] = {}
        for (kind, number), store in self._stores(self._data):
            stored = (self._graph.node_attrs if kind == _NODE else self._graph.edge_attrs)[number]
            original = self._original[kind, number]
            if kind == _NODE and ("num_nodes" in store or "x" not in store):
                self._sizes.append(number)
            for name, value in store.items():
                if name == "edge_index":
                    if kind == _EDGE and value is not original.get(name):
                        raise InvalidError("loader.data.edge_index was replaced; make a new loader for another graph")
                elif name == "num_nodes":
                    continue
                elif self._is_rows(store, kind, name, value):
                    if name in stored and value is original.get(name) and self._same_type(kind, number, name, value):
                        wanted[kind].add(name)
                    else:
                        self._python.append((kind, number, name, value, store._parent().__cat_dim__(name, value, store)))
                elif not (self._graph.typed is False and self._is_rows(store, _EDGE if kind == _NODE else _NODE, name, value)):
                    graph_level.setdefault((kind, number), {})[name] = value
            present = set(store.keys())
            self._dropped |= {(kind, number, name) for name in stored if name not in present}
        python = {(kind, number, name) for kind, number, name, *_ in self._python}
        self._dropped |= python - {entry for entry in python if entry[2] in ("n_id", "e_id")}
        for place, values in graph_level.items():
            dict(self._stores(self._template))[place]._mapping.update(values)
        if self._graph.typed:
            self._template._global_store._mapping.update(self._data._global_store.items())

    def _same_type(self, kind: int, number: int, name: str, value: Any) -> bool:
        """Times and weights may have been stored as another type."""
        plan = self._graph._converted.plan if self._graph._converted else None
        if plan is None:
            return True
        attrs = plan.node_attrs[self._graph.node_keys[number]] if kind == _NODE else plan.edge_attrs[self._graph.edge_keys[number]]
        stored = attrs.get(name)
        return stored is not None and stored.dtype == value.dtype and stored.shape == value.shape

    @staticmethod
    def _is_rows(store: Any, kind: int, name: str, value: Any) -> bool:
        del value
        return bool(store.is_node_attr(name) if kind == _NODE else store.is_edge_attr(name))

    def _empty(self) -> Data | HeteroData:
        if not self._graph.typed:
            data: Data | HeteroData = Data() if self._data is None else copy.copy(self._data)
            data._store._mapping.clear()
            return data
        hetero = HeteroData() if self._data is None else copy.copy(self._data)
        hetero._global_store._mapping.clear()
        for key in self._graph.node_keys:
            hetero[key]._mapping.clear()
        for key in self._graph.edge_keys:
            hetero[key]._mapping.clear()
        return hetero

    def __call__(self, batch: _core.Batch) -> Data | HeteroData:
        out = copy.copy(self._template)
        stores = {place: store._mapping for place, store in self._stores(out)}
        self._put(batch, stores)
        for number in self._sizes:
            fields = stores[_NODE, number]
            if "n_id" in fields:
                fields["num_nodes"] = fields["n_id"].numel()
        if self._python:
            self._gather(stores)
        if not self._edge_ids and self._needs_e_id:
            for (kind, _), fields in stores.items():
                if kind == _EDGE:
                    fields.pop("e_id", None)
        return out

    def _put(self, batch: _core.Batch, stores: dict[tuple[int, int], dict[str, Any]]) -> None:
        dropped, global_fields = self._dropped, None
        for kind, number, name, array in batch.arrays(True):
            if dropped and (kind, number, name) in dropped:
                continue
            if name in _LISTS:
                stores[kind, number][name] = array.tolist()
            elif name == "batch_size":
                stores[kind, number][name] = int(array)
            elif kind == 0:
                global_fields = stores[_NODE, 0] if global_fields is None else global_fields
                global_fields[name] = array
            else:
                stores[self._place(kind, number, name)][name] = array
                if name == "seed_time" and kind == _EDGE and self._graph.typed:  # of triplets: on both ends
                    for end in self._ends(number):
                        stores[_NODE, end][name] = array
                    del stores[kind, number][name]

    def _place(self, kind: int, number: int, name: str) -> tuple[int, int]:
        if kind == _EDGE and self._graph.typed:
            if name in _OF_SOURCE:
                return _NODE, self._ends(number)[0]
            if name in _OF_DESTINATION:
                return _NODE, self._ends(number)[1]
        return kind, number

    def _ends(self, number: int) -> tuple[int, int]:
        key = self._graph.edge_keys[number]
        assert key is not None
        return self._graph.node_keys.index(key[0]), self._graph.node_keys.index(key[2])

    def _gather(self, stores: dict[tuple[int, int], dict[str, Any]]) -> None:
        """Attributes that Python holds: read before any of them takes the place of n_id."""
        ids = {place: fields.get("n_id" if place[0] == _NODE else "e_id") for place, fields in stores.items()}
        for kind, number, name, value, dim in self._python:
            index = ids[kind, number]
            if index is None:
                continue
            if isinstance(value, Tensor):
                stores[kind, number][name] = torch.index_select(value, dim, index.to(value.device))
            elif hasattr(value, "take"):
                stores[kind, number][name] = torch.from_numpy(value.take(index.numpy(), axis=dim))
            else:
                stores[kind, number][name] = value[index]
