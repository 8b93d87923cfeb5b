"""Batches of hopfeed as ``Data`` and ``HeteroData``, field by field as PyG's loaders leave them."""

from __future__ import annotations

import copy
from collections.abc import Container
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from hopfeed import _core
from hopfeed.errors import InvalidError
from hopfeed.pyg.graph import Graph, refuse_lists
from hopfeed.pyg.repeated_seeds import row_for_each_draw
from hopfeed.pyg.written import EDGE as _EDGE
from hopfeed.pyg.written import NODE as _NODE
from hopfeed.pyg.written import Inputs, Place

_LISTS = {"num_sampled_nodes", "num_sampled_edges"}
_IDS = {"n_id": _NODE, "e_id": _EDGE}
_BATCH: Place = (0, 0)  # of the batch as a whole


class Assembly:
    """Makes PyG's objects of batches. ``data`` is what a loader shows as ``loader.data``: attributes that were deleted
    there are left out, those that were added, replaced or written to are read from there by n_id and e_id. Of a name that
    the graph has and the batch has too, PyG's loader decides: what it writes itself is the batch's, all else the graph's.

    Args:
        draws: attributes that draws go by, and the arguments that name them. They may not change, no more than edges.
        fixed: arguments that may not change, where they are tensors.
        asked: ``attrs`` and ``edge_attrs``, names of the attributes that batches have, whoever reads them; None: all.
    """

    def __init__(
        self,
        graph: Graph,
        data: Data | HeteroData | None,
        inputs: Inputs,
        *,
        draws: dict[str, str],
        fixed: dict[str, Any],
        asked: dict[str, Any],
        edge_ids: bool,
        edges_known: bool,
    ) -> None:
        self._graph, self._data, self.inputs, self._draws = graph, data, inputs, draws
        self._written = inputs.writes(graph)
        given = {name: value[-1] if isinstance(value, (tuple, list)) and value else value for name, value in fixed.items()}  # (type, tensor)
        # Of a mask its nodes were taken, as PyG takes them.
        self._fixed = {name: (value, _version(value)) for name, value in given.items() if getattr(value, "dtype", None) != torch.bool}
        self._edge_ids, self._edges_known = edge_ids and edges_known, edges_known
        stores = [] if data is None else self._stores(data)
        known = {_NODE: set[str]().union(*graph.node_attrs), _EDGE: set[str]().union(*graph.edge_attrs)}
        if data is not None:  # whoever reads them
            known = {kind: {name for (of, _), store in stores if of == kind for name in self._rows_of(store, kind)} for kind in known}
        self._asked = {kind: _names(argument, asked[argument], known[kind]) for kind, argument in ((_NODE, "attrs"), (_EDGE, "edge_attrs"))}
        self._original = {place: {name: (value, _version(value)) for name, value in store.items()} for place, store in stores}
        self.refresh()

    def _stores(self, data: Data | HeteroData) -> list[tuple[tuple[int, int], Any]]:
        """((kind, number), store) of all types."""
        nodes = [((_NODE, i), data._store if key is None else data._node_store_dict[key]) for i, key in enumerate(self._graph.node_keys)]
        edges = [((_EDGE, i), data._store if key is None else data._edge_store_dict[key]) for i, key in enumerate(self._graph.edge_keys)]
        return nodes + edges

    def refresh(self) -> bool:
        """Looks at ``data`` again. Whether the stream has to be opened anew, since other attributes are wanted."""
        for name, (tensor, version) in self._fixed.items():
            if _version(tensor) != version:
                raise InvalidError(f"{name} was written to since the loader was made, which goes by what it was; make a new loader")
        before = getattr(self, "options", None)
        self._python: list[tuple[int, int, str, Any, int]] = []  # kind, number, name, rows, dimension
        self._sizes: list[int] = []  # node types whose num_nodes batches have
        wanted: dict[int, set[str]] = {_NODE: set(), _EDGE: set()}
        self._dropped: set[tuple[int, int, str]] = set()
        if self._data is None:
            for kind, attrs in ((_NODE, self._graph.node_attrs), (_EDGE, self._graph.edge_attrs)):
                wanted[kind] = {name for names in attrs for name in names if name in self._asked[kind]}
            self._sizes = list(range(len(self._graph.node_keys)))
            self._template: Data | HeteroData = self._empty()
        else:
            self._look_at_data(wanted)
        if not self._edges_known:
            wanted[_EDGE].clear()
            self._python = [entry for entry in self._python if entry[0] != _EDGE]
        if not self.inputs.timed:
            self._dropped.add((*self.inputs.place, "seed_time"))
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
            if kind == _NODE and ("num_nodes" in store or "x" not in store or "x" not in self._asked[_NODE]):
                self._sizes.append(number)
            for name, value in store.items():
                changed = self._changed((kind, number), name, value)
                if name == "edge_index":
                    if kind == _EDGE and changed:
                        raise InvalidError(f"loader.data.edge_index was {changed}; make a new loader for another graph")
                elif name == "num_nodes" or (kind, number, name) in self._written:
                    continue
                elif self._is_rows(store, kind, name, value):
                    if changed and name in stored and name in self._draws:
                        raise InvalidError(f"loader.data.{name} was {changed}, and {self._draws[name]} draws by what it was; make a new loader")
                    if name not in self._asked[kind]:
                        continue
                    if name in stored and not changed and self._same_type(kind, number, name, value):
                        wanted[kind].add(name)
                    else:
                        self._python.append((kind, number, name, value, store._parent().__cat_dim__(name, value, store)))
                elif not (self._graph.typed is False and self._is_rows(store, _EDGE if kind == _NODE else _NODE, name, value)):
                    graph_level.setdefault((kind, number), {})[name] = value
            present = set(store.keys())
            self._dropped |= {(kind, number, name) for name in stored if name not in present}
        held = {(kind, number, name) for kind, number, name, *_ in self._python}
        held |= {(*_BATCH, name) for name in self._data._global_store.keys()} if self._graph.typed else set()
        held |= {(*place, name) for place, values in graph_level.items() for name in values}
        if not self._graph.typed:  # one store of nodes and edges
            held = {(kind, 0, name) for _, _, name in held for kind in (_BATCH[0], _NODE, _EDGE)}
        self._dropped |= held
        for place, values in graph_level.items():
            dict(self._stores(self._template))[place]._mapping.update(values)
        if self._graph.typed:
            self._template._global_store._mapping.update(self._data._global_store.items())

    def _changed(self, place: Place, name: str, value: Any) -> str:
        """How an attribute is another than the one that was converted; empty: it is not."""
        original, version = self._original[place].get(name, (None, None))
        return "replaced" if value is not original else "written to" if _version(value) != version else ""

    def _same_type(self, kind: int, number: int, name: str, value: Any) -> bool:
        """Times and weights may have been stored as another type; and rows that hopfeed has bring no gradient."""
        if value.requires_grad:
            return False
        plan = self._graph.planned
        if plan is None:
            return True
        attrs = plan.node_attrs[self._graph.node_keys[number]] if kind == _NODE else plan.edge_attrs[self._graph.edge_keys[number]]
        stored = attrs.get(name)
        return stored is not None and stored.dtype == value.dtype and stored.shape == value.shape

    def _rows_of(self, store: Any, kind: int) -> list[str]:
        """Names of the attributes of nodes, or of edges."""
        return [name for name, value in store.items() if name != "edge_index" and self._is_rows(store, kind, name, value)]

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
        stores[_BATCH] = (out._global_store if self._graph.typed else out._store)._mapping
        ids = self._put(batch, stores)
        for number in self._sizes:
            if (_NODE, number) in ids:
                stores[_NODE, number]["num_nodes"] = ids[_NODE, number].numel()
        for kind, number, name, value, dim in self._python:
            if (kind, number) in ids:
                stores[kind, number][name] = _rows(value, ids[kind, number], dim)
        return out

    def _put(self, batch: _core.Batch, stores: dict[Place, dict[str, Any]]) -> dict[Place, Tensor]:
        """Puts the batch's fields where PyG has them. Returns n_id and e_id, which the graph may have by other values."""
        dropped, ids = self._dropped, {}
        arrays = batch.arrays(True)
        if self.inputs.place[0] == _NODE:
            arrays = row_for_each_draw(arrays, self._graph, self.inputs.path)
        for kind, number, name, array in arrays:
            if _IDS.get(name) == kind:
                ids[kind, number] = array
                if kind == _EDGE and not self._edge_ids:
                    continue
            value = array.tolist() if name in _LISTS else int(array) if name == "batch_size" else array
            for place in self.inputs.places(self._graph, kind, number, name):
                if (*place, name) not in dropped:
                    stores[place][name] = value
        return ids

    def input_fields(self, out: Data | HeteroData) -> dict[str, Any]:
        """Of a batch: the store that input_id lies in."""
        return dict(self._stores(out))[self.inputs.place]._mapping


class _All:
    """The names of all attributes, also of those that are added later."""

    def __contains__(self, name: str) -> bool:
        return True


def _names(argument: str, given: Any, known: set[str]) -> Container[str]:
    """Those of ``attrs`` or ``edge_attrs``; all where it is None.

    Raises:
        InvalidError: no list of names, or one that no type has.
    """
    if given is None:
        return _All()
    if not isinstance(given, (list, tuple)) or not all(isinstance(name, str) for name in given):
        raise InvalidError(f"{argument} is {given!r}; give a list of names")
    for name in given:
        if name not in known:
            raise InvalidError(f"{argument} names {name!r}; there are {sorted(known)}")
    return set(given)


def _version(value: Any) -> int | None:
    """Of a tensor, which counts what is written into it; None where nothing counts (inference tensors, NumPy)."""
    return value._version if isinstance(value, Tensor) and not value.is_inference() else None


def _rows(value: Any, index: Tensor, dim: int) -> Any:
    if isinstance(value, Tensor):
        return torch.index_select(value, dim, index.to(value.device))
    if hasattr(value, "take"):
        return torch.from_numpy(value.take(index.numpy(), axis=dim))
    return value[index]
