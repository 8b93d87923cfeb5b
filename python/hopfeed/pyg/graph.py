"""What a loader samples from: a graph that PyG has in memory, a dataset folder, or servers. One face for all three."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch_geometric.data import Data, HeteroData

from hopfeed import _core, conversion
from hopfeed.batch import EdgeType, NodeType
from hopfeed.dataset import Dataset
from hopfeed.errors import Error, InvalidError, UnsupportedError
from hopfeed.tool import PathLike


class Graph:
    """Types, sizes and attributes by number, as batches number them. ``None`` is the key of the types of a ``Data``.

    Attributes:
        options: those of the stream that say where batches come from.
        node_names, edge_names: hopfeed's names, by number.
        node_keys, edge_keys: PyG's, by number.
        ends: numbers of the node types of source and destination, by number of the edge type.
        node_attrs, edge_attrs: names of the attributes that hopfeed has, by number.
        node_splits, edge_splits: names and lengths of the splits, by number.
        fingerprint: of a graph in memory, with all its attributes; else None.
        typed: whether batches are ``HeteroData``.
        planned: what of a graph in memory went into the folder.
    """

    def __init__(self, options: dict[str, Any], meta: dict[str, Any]) -> None:
        nodes, edges = meta["node_types"], meta["edge_types"]
        self.options = options
        self.typed = len(nodes) > 1 or len(edges) > 1
        self.node_names = [node["name"] for node in nodes]
        self.edge_names = [f"{edge['src']}__{edge['rel']}__{edge['dst']}" for edge in edges]
        self.node_keys: list[NodeType | None] = self.node_names if self.typed else [None]  # type: ignore[assignment]
        self.edge_keys: list[EdgeType | None] = [(edge["src"], edge["rel"], edge["dst"]) for edge in edges] if self.typed else [None]
        self.ends = [(self.node_names.index(edge["src"]), self.node_names.index(edge["dst"])) for edge in edges]
        self.node_attrs = [[attr["name"] for attr in node["attrs"]] for node in nodes]
        self.edge_attrs = [[attr["name"] for attr in edge["attrs"]] for edge in edges]
        self.node_splits: list[dict[str, int]] = [node.get("splits", {}) for node in nodes]
        self.edge_splits: list[dict[str, int]] = [edge.get("splits", {}) for edge in edges]
        self._counts = [int(node["count"]) for node in nodes]
        self.fingerprint: str | None = None
        self._converted: conversion.Converted | None = None
        self.planned: conversion.Plan | None = None

    @classmethod
    def of_folder(cls, folder: PathLike) -> Graph:
        """A dataset folder."""
        return cls({"dataset": os.fspath(folder)}, Dataset(folder).meta)

    @classmethod
    def of_servers(cls, options: dict[str, Any]) -> Graph:
        """What servers have; ``options`` are those of a stream."""
        return cls(options, _core.served_meta(options))

    @classmethod
    def of_data(cls, data: Data | HeteroData, planned: conversion.Plan, converted: conversion.Converted) -> Graph:
        """A graph in memory, made a folder."""
        graph = cls.of_folder(converted.folder)
        graph.typed = isinstance(data, HeteroData)
        graph.node_keys, graph.edge_keys = list(planned.node_names), list(planned.edge_names)
        graph.fingerprint = converted.fingerprint
        graph._converted = converted  # until nobody samples from it
        graph.node_splits = [{name: int(mask.sum()) for name, mask in _masks(planned, key).items()} for key in graph.node_keys]
        graph.planned = planned  # not the folder's own: it may have been made of another graph of the same content
        return graph

    def without_rows(self, planned: conversion.Plan) -> Graph:
        """The same where hopfeed has no attributes but those that draws go by, whatever the folder holds."""
        self.node_attrs, self.edge_attrs = (
            [[name for name in names if name in planned.drawn_by] for names in by_type] for by_type in (self.node_attrs, self.edge_attrs)
        )
        return self

    def num_nodes(self, number: int) -> int:
        """Of a node type."""
        return self._counts[number]

    def split(self, number: int, name: str) -> dict[str, Any]:
        """The nodes of a type's split: a dataset's by its name, so that a state is the same from a folder and from servers."""
        if self.planned is not None:
            return {"seeds": _masks(self.planned, self.node_keys[number])[name].nonzero().view(-1).numpy()}
        return {"split": name}

    def with_ids(self, start: Mapping[str, Any]) -> dict[str, Any]:
        """With ``seeds`` in place of a ``split`` whose nodes are known here; unchanged where they lie on other machines."""
        if "split" not in start or "servers" in self.options:
            return dict(start)
        try:
            seeds = Dataset(self.options["dataset"]).split(start["split"], start["node_type"])
        except Error:  # each machine has a range of the ids
            return dict(start)
        return {name: value for name, value in start.items() if name != "split"} | {"seeds": np.asarray(seeds)}

    def clusters(self, number: int, attribute: Any) -> dict[str, Any]:
        """The first node of each cluster of a type as ``seeds``, as the library has them that is given none; nothing where it must
        find them itself, since they lie on other machines, or must say what is wrong with the attribute."""
        if "servers" in self.options:
            return {}
        try:
            numbers = Dataset(self.options["dataset"]).attr(attribute, self.node_names[number])[:]
        except (Error, OSError):
            return {}
        return {"seeds": np.unique(numbers, return_index=True)[1]} if numbers.ndim == 1 else {}

    def num_seeds(self, start: dict[str, Any]) -> int:
        """Of the options that say which they are."""
        if "split" in start:
            return self.node_splits[self.node_names.index(start["node_type"])][start["split"]]
        if "link_split" in start:
            return self.edge_splits[self.edge_names.index(start["edge_type"])][start["link_split"]]
        if "seed_mask" in start:
            return int(start["seed_mask"].sum())
        if "seeds" not in start and "links" not in start:
            raise UnsupportedError("the clusters are not counted here; leave out what has an entry for each of them, or give input_nodes=, a node of each")
        return len(start["seeds"] if "seeds" in start else start["links"])

    def edge_index(self, number: int) -> np.ndarray[Any, Any]:
        """All edges of a type, int64 [2, E]."""
        if self.planned is not None:
            return self.planned.edges[self.edge_keys[number]].numpy()
        if "servers" in self.options:
            raise UnsupportedError("edge_label_index is missing, and servers do not send all edges; give the links")
        dataset = Dataset(self.options["dataset"])
        return dataset.edge_index(dataset.edge_types[number])


def _masks(planned: conversion.Plan, key: NodeType | None) -> dict[str, Any]:
    """The masks of a node type, by the splits that they become in a folder."""
    attrs = planned.node_attrs[key]
    found = {split: attrs[mask] for mask, split in conversion._SPLITS.items() if mask in attrs}
    return {split: mask for split, mask in found.items() if str(mask.dtype) == "torch.bool" and mask.dim() == 1}


def refuse_lists(data: Data | HeteroData) -> None:
    """Raises ``InvalidError`` for a list with an entry for each node or edge: batches have rows of tensors and arrays alone."""
    for store in [*data.node_stores, *data.edge_stores]:
        for name, value in store.items():
            if isinstance(value, (list, tuple)) and (store.is_node_attr(name) or store.is_edge_attr(name)):
                where = name if store._key is None else f"{name} of {store._key!r}"
                raise InvalidError(f"{where} is a {type(value).__name__} of {len(value)}, an entry for each node or edge; give a tensor, or leave it out")


def open_graph(
    data: Any,
    servers: Any,
    remote: dict[str, Any],
    *,
    weight: str | None,
    time_attr: str | None,
    extra: dict[Any, Any],
    rows: bool,
    cache_dir: PathLike | None,
    cache_limit: int,
    progress: bool | None,
) -> Graph:
    """The graph of a loader's first arguments. ``remote``: the other options of servers; ``rows``: whether a folder that is made
    of a graph is to hold the attributes that batches carry, or Python reads them from the graph."""
    if servers is not None:
        if isinstance(data, (Data, HeteroData)):
            raise InvalidError("data and servers are given; servers have datasets of their own: give data=None, or a dataset's name")
        servers = servers.split(",") if isinstance(servers, str) else list(servers)
        named = {} if data is None else {"dataset": os.fspath(data)}
        return Graph.of_servers({"servers": servers, **named, **remote})
    if isinstance(data, (str, os.PathLike)):
        return Graph.of_folder(data)
    if isinstance(data, (Data, HeteroData)):
        refuse_lists(data)
        planned = conversion.plan(data, weight=weight, time_attr=time_attr, extra=extra, gradients=True)
        graph = Graph.of_data(data, planned, conversion.convert(planned, cache_dir, rows=rows, cache_limit=cache_limit, progress=progress))
        return graph if rows else graph.without_rows(planned)
    if isinstance(data, (tuple, list)):
        raise UnsupportedError("data is a pair of stores; give a Data or HeteroData, a hopfeed folder (hopfeed.import_numpy), or servers=")
    raise InvalidError(f"data is {type(data).__name__}; give a Data or HeteroData, the path of a hopfeed folder, or servers=")
