"""Any nodes of the graph by original id, wherever they lie: their rows, splits, degrees, and the dataset's own ids.

Rows come in batches of no hops: a stream over the wanted nodes as seeds, opened for the call. So a folder, peers and servers give the
same rows, by one way, and with the types that batches have. What all machines of a folder have is read from it: ids and splits.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import torch

import hopfeed.torch
from hopfeed import _core
from hopfeed.batch import Batch, EdgeType
from hopfeed.dataset import Dataset, _checked
from hopfeed.distributed.place import Place
from hopfeed.errors import InvalidError, NotFoundError

_BATCH_BYTES = 1 << 26  # of rows, about
_IDS = 1 << 20  # asked for at a time
_EXPANDED = 4096  # nodes whose in-edges are counted at a time

Array = np.ndarray[Any, Any]


class Nodes:
    """Args:
        place: where the graph is.
        name: of the dataset, or its fingerprint; None: the one that is there.

    Raises:
        InvalidError: the folder has another dataset. NotFoundError: the servers have none of that name.
    """

    def __init__(self, place: Place, name: str | None) -> None:
        self.place, self._stream = place, place.stream(name)
        self._dataset: Dataset | None = None
        if place.servers:
            self.meta: dict[str, Any] = _core.served_meta(self._stream)
        else:
            self._dataset = Dataset(self._stream["dataset"])
            self.meta = self._dataset.meta
            if name not in (None, self._dataset.name, self._dataset.fingerprint):
                raise InvalidError(f"{place.data} has the dataset '{self._dataset.name}', and not '{name}'; give its name, or none")
        self._dataset_ids: dict[str, Array] = {}

    @property
    def options(self) -> dict[str, Any]:
        """Those of a stream of this graph, which say where it is."""
        return dict(self._stream)

    @cached_property
    def known_by(self) -> dict[str, str]:
        """The fingerprint of the graph, and a hash of its cut: the same at all ranks that train on it."""
        cut = [[node["partition_offsets"] for node in self.meta["node_types"]], [edge["partition_edges"] for edge in self.meta["edge_types"]]]
        return {"fingerprint": self.meta["fingerprint"], "the cut": hashlib.sha256(json.dumps(cut).encode()).hexdigest()[:16]}

    @cached_property
    def node_types(self) -> list[str]:
        return [node["name"] for node in self.meta["node_types"]]

    @property
    def relations(self) -> list[str]:
        """Of the edge types: the middle one of their three names."""
        return [relation for _, relation, _ in self.edge_types]

    @cached_property
    def edge_types(self) -> list[EdgeType]:
        return [(edge["src"], edge["rel"], edge["dst"]) for edge in self.meta["edge_types"]]

    def node_meta(self, node_type: str | None) -> dict[str, Any]:
        """Of a node type; None: of the only one. Raises ``NotFoundError`` naming what there is."""
        if node_type is None:
            return _only(self.meta["node_types"], "node", self.node_types)
        found = [node for node in self.meta["node_types"] if node["name"] == node_type]
        if not found:
            raise NotFoundError(f"there is no node type '{node_type}'; there are {self.node_types}")
        return found[0]

    def edge_meta(self, edge_type: EdgeType | str | None) -> dict[str, Any]:
        """Of an edge type, by its three names, by all in one or by the relation alone; None: of the only one."""
        edges = self.meta["edge_types"]
        if edge_type is None:
            return _only(edges, "edge", self.edge_types)
        found = [edge for edge, names in zip(edges, self.edge_types) if edge_type in (names, "__".join(names), names[1])]
        if len(found) != 1:
            raise NotFoundError(f"{'no' if not found else 'more than one'} edge type is {edge_type!r}; there are {self.edge_types}")
        return found[0]

    def edge_key(self, edge_type: EdgeType | str | None) -> EdgeType:
        """Its three names."""
        edge = self.edge_meta(edge_type)
        return edge["src"], edge["rel"], edge["dst"]

    def rows(self, node_type: str | None, attr: str, ids: Any) -> torch.Tensor:
        """[n, ...] rows of an attribute, in the order of ``ids``, repeats allowed.

        Raises:
            NotFoundError: no such attribute. InvalidError: an id that is no node.
        """
        node = self.node_meta(node_type)
        meta = next((one for one in node["attrs"] if one["name"] == attr), None)
        if meta is None:
            raise NotFoundError(f"node type '{node['name']}' has no attribute '{attr}'; it has {[one['name'] for one in node['attrs']]}")
        wanted, places = np.unique(self.ids(node_type, ids), return_inverse=True)
        batch_size = min(max(_BATCH_BYTES // max(meta["stride_bytes"], 1), 1), 1 << 16)
        rows, end = torch.empty(0), 0
        for batch in self._batches(node["name"], wanted if len(wanted) else np.zeros(1, np.int64), batch_size, attrs=[attr]):
            part = batch[node["name"]][attr]
            if end == 0:
                rows = torch.empty((len(wanted), *part.shape[1:]), dtype=part.dtype)
            rows[end : end + len(part)] = part[: len(rows)]
            end += len(part)
        return rows[torch.from_numpy(places)]

    def dataset_ids(self, node_type: str | None, ids: Any) -> Array:
        """int64 [n] the dataset's own ids of these nodes: by partition, as :class:`hopfeed.torch.DistEmbedding` takes them."""
        name, wanted = self.node_meta(node_type)["name"], self.ids(node_type, ids)
        if self._dataset is not None and self._dataset._has_all_ids:
            return self._dataset._new_ids(name)[wanted].astype(np.int64)
        if name in self._dataset_ids:
            return self._dataset_ids[name][wanted]
        found, places = np.unique(wanted, return_inverse=True)
        return self._asked_dataset_ids(name, found)[places]

    def all_dataset_ids(self, node_type: str | None) -> Array:
        """The same of all nodes of the type. Of servers, or where ids are sharded, they are asked once, and kept: 8 bytes a node."""
        node = self.node_meta(node_type)
        if self._dataset is not None and self._dataset._has_all_ids:
            return self._dataset._new_ids(node["name"])
        if node["name"] not in self._dataset_ids:
            self._dataset_ids[node["name"]] = self._asked_dataset_ids(node["name"], np.arange(node["count"]))
        return self._dataset_ids[node["name"]]

    def partitions(self, node_type: str | None, ids: Any) -> Array:
        """int64 [n] which partition has each of these nodes."""
        return self._partitions_of(node_type, self.dataset_ids(node_type, ids))

    def of_partition(self, node_type: str | None, partition: int) -> Array:
        """int64 the nodes of a partition, by rising id."""
        return np.flatnonzero(self._partitions_of(node_type, self.all_dataset_ids(node_type)) == partition)

    def split(self, node_type: str | None, name: str) -> Array:
        """int64 [S] the nodes of a split. Raises ``NotFoundError`` naming what there is."""
        node = self.node_meta(node_type)
        if name not in node["splits"]:
            raise NotFoundError(f"node type '{node['name']}' has no split '{name}'; it has {list(node['splits'])}")
        if self._dataset is not None and self._dataset._has_all_ids:
            return np.asarray(self._dataset.split(name, node["name"]), np.int64)
        parts = [np.empty(0, np.int64)]
        for batch in self._open(node_type=node["name"], split=name, batch_size=1 << 16, attrs=[], fanouts=[]):
            parts.append(batch[node["name"]].n_id.clone().numpy())
        return np.concatenate(parts)

    def link_split(self, edge_type: EdgeType | str | None, name: str) -> tuple[Array, Array | None]:
        """int64 [2, P] the pairs of a split of links, and int64 [P] their labels where it has some.

        Raises:
            NotFoundError: naming what there is.
        """
        key, splits = self.edge_key(edge_type), list(self.edge_meta(edge_type).get("splits", {}))
        if name not in splits:
            raise NotFoundError(f"edge type {key} has no split '{name}'; it has {splits} (hopfeed-partition split-links makes them)")
        pairs, labels = [np.empty((2, 0), np.int64)], []
        for batch in self._open(edge_type=key, link_split=name, exclude="none", batch_size=1 << 16, attrs=[], fanouts=[]):
            ends = batch[key].edge_label_index
            pairs.append(torch.stack([batch[node].n_id[local] for node, local in zip((key[0], key[2]), ends)]).numpy())
            if "edge_label" in batch[key]:
                labels.append(batch[key].edge_label.to(torch.int64, copy=True).numpy())
        return np.concatenate(pairs, axis=1), np.concatenate(labels) if labels else None

    def in_degrees(self, edge_type: EdgeType | str | None, ids: Any) -> torch.Tensor:
        """int64 [n] edges of the type into each of these nodes."""
        key = self.edge_key(edge_type)
        wanted, places = np.unique(self.ids(key[2], ids), return_inverse=True)
        counts = [np.empty(0, np.int64)]
        if len(wanted):
            for batch in self._batches(key[2], wanted, _EXPANDED, attrs=[], fanouts=[0], edge_fanouts={key: [-1]}):
                counts.append(batch[key].edge_index[1].bincount(minlength=batch[key[2]].batch_size).numpy())
        return torch.from_numpy(np.concatenate(counts)[places])

    def ids(self, node_type: str | None, given: Any) -> Array:
        """``given`` as int64 [n]: ids, a mask of all nodes, or a slice of them. Raises ``InvalidError`` for what are no nodes."""
        count = int(self.node_meta(node_type)["count"])
        if isinstance(given, slice):
            return np.arange(*given.indices(count))
        array = _checked(given.detach().cpu() if isinstance(given, torch.Tensor) else given, count)
        if array.ndim != 1:
            raise InvalidError(f"ids are {list(array.shape)}; give a list of them, of one dimension")
        return np.ascontiguousarray(array, np.int64)

    def _partitions_of(self, node_type: str | None, dataset_ids: Array) -> Array:
        offsets = np.asarray(self.node_meta(node_type)["partition_offsets"])
        return np.searchsorted(offsets, dataset_ids, side="right") - 1

    def _asked_dataset_ids(self, node_type: str, ids: Array) -> Array:
        parts = [np.empty(0, np.int64)]
        for begin in range(0, len(ids), _IDS):
            options = {"attrs": [], "dataset_ids": True}
            parts += [batch[node_type].dataset_id.clone().numpy() for batch in self._batches(node_type, ids[begin : begin + _IDS], 1 << 16, **options)]
        return np.concatenate(parts)

    def _batches(self, node_type: str, ids: Array, batch_size: int, **options: Any) -> Iterator[Batch]:
        """Of distinct nodes, in their order."""
        return self._open(node_type=node_type, seeds=ids, batch_size=batch_size, **({"fanouts": []} | options))

    def _open(self, **options: Any) -> Iterator[Batch]:
        if not self.place.servers:
            options["num_workers"] = 0
        with hopfeed.torch.Loader(**self._stream, **options, shuffle=False) as loader:
            yield from loader


def nodes_of(place: Place, name: str | None = None) -> Nodes:
    """Those of the graph that was opened last, or of the one of this name, which that is from now on. Raises as :class:`Nodes`."""
    nodes: Nodes | None = place.nodes
    if nodes is None or name not in (None, nodes.meta["name"], nodes.meta["fingerprint"]):
        place.nodes = nodes = Nodes(place, name)
    if name is not None:
        place.graph_name = name
    return nodes


def _only(metas: list[dict[str, Any]], kind: str, names: list[Any]) -> dict[str, Any]:
    if len(metas) != 1:
        raise InvalidError(f"the graph has several {kind} types; name one of {names}")
    return metas[0]
