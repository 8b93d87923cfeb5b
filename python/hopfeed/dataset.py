"""A dataset folder, opened for reading: arrays are mapped when they are first asked for, and nothing is copied."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from hopfeed import _core
from hopfeed.errors import CorruptError, InvalidError, NotFoundError, UnsupportedError
from hopfeed.stored_rows import value_type, values_of

Array = np.ndarray[Any, Any]

_ELSEWHERE = "; push it here (hopfeed-partition push), or read it through the machines that have it (hopfeed.distributed)"


def folder_of(argument: str, given: Any) -> str:
    """The path that an argument gives. Raises ``InvalidError`` naming the argument for what is none, a graph of PyG say."""
    if isinstance(given, (str, os.PathLike)):
        return str(os.fspath(given))
    made = ": hopfeed.from_pyg(data, folder) makes one, and the loaders of hopfeed.pyg take the graph itself"
    of_pyg = type(given).__module__.startswith("torch_geometric.")
    raise InvalidError(f"{argument} is a {type(given).__name__}; give the path of a dataset's folder{made if of_pyg else ''}")


class Dataset:
    """What ``hopfeed-partition`` has made.

    Nodes have original ids, those of the graph that was imported, and users see no others. Rows lie in another order
    (by partition, then by falling hotness); :class:`Rows` hides that.

    A folder may have some of the partitions alone. Rows that are there are given; for others, and for what needs all of them,
    ``UnsupportedError`` names a partition that is not.

    Args:
        folder: the dataset's folder.

    Raises:
        InvalidError: it is no path. NotFoundError: it is no dataset folder; CorruptError: its ``meta.json`` cannot be read.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder_of("folder", folder))
        path = self.folder / "meta.json"
        try:
            self.meta: dict[str, Any] = json.loads(path.read_text())
        except OSError as error:
            raise NotFoundError(f"{self.folder} is no dataset: {error}") from None
        except (ValueError, RecursionError):  # no UTF-8, no JSON, or brackets that nest deep
            raise CorruptError(f"{path} is damaged; restore it, or run hopfeed-partition verify") from None
        if not isinstance(self.meta, dict):
            raise CorruptError(f"{path} is no JSON object; restore it, or run hopfeed-partition verify")

    @property
    def name(self) -> str:
        """As the dataset was called when it was made."""
        return str(self.meta["name"])

    @property
    def fingerprint(self) -> str:
        """Names the imported content, however it was cut: 32 hex digits."""
        return str(self.meta["fingerprint"])

    @property
    def num_partitions(self) -> int:
        """Of the cut."""
        return int(self.meta["partitions"])

    @property
    def node_types(self) -> list[str]:
        """Names of the node types."""
        return [node["name"] for node in self.meta["node_types"]]

    @property
    def edge_types(self) -> list[tuple[str, str, str]]:
        """(source type, relation, destination type) of the edge types."""
        return [(edge["src"], edge["rel"], edge["dst"]) for edge in self.meta["edge_types"]]

    def num_nodes(self, node_type: str | None = None) -> int:
        """Of a node type; of the first without a name."""
        return int(self._node(node_type)["count"])

    def num_edges(self, edge_type: tuple[str, str, str] | None = None) -> int:
        """Of an edge type; of the first without a name."""
        return int(self._edge(edge_type)["count"])

    def num_classes(self, node_type: str | None = None) -> int:
        """Of the labels ``y``; 0 where there are none."""
        return int(self._node(node_type).get("num_classes", 0))

    def attrs(self, node_type: str | None = None) -> list[str]:
        """Names of the attributes of a node type."""
        return [attr["name"] for attr in self._node(node_type)["attrs"]]

    def attr(self, name: str, node_type: str | None = None) -> Rows:
        """Rows of a node attribute. Raises ``NotFoundError`` naming what there is."""
        node = self._node(node_type)
        meta = next((attr for attr in node["attrs"] if attr["name"] == name), None)
        if meta is None:
            raise NotFoundError(f"node type '{node['name']}' has no attribute '{name}'; it has {self.attrs(node['name'])}")
        path = f"nodes/{node['name']}/{name}.npy"
        for part in filter(self._has, range(self.num_partitions)):
            self._part(part, path)  # mapped now: what is truncated later is an error of the row's reader
        offsets = np.asarray(node["partition_offsets"])
        return Rows(meta, int(node["count"]), offsets, lambda ids: self._dataset_ids(node, ids), lambda part: self._part(part, path))

    def splits(self, node_type: str | None = None) -> list[str]:
        """Names of the splits of a node type."""
        return list(self._node(node_type)["splits"])

    def split(self, name: str, node_type: str | None = None) -> Array:
        """Ids of a split, int64 [S]. Raises ``NotFoundError`` naming what there is."""
        node = self._node(node_type)
        if name not in node["splits"]:
            raise NotFoundError(f"node type '{node['name']}' has no split '{name}'; it has {self.splits(node['name'])}")
        path = f"splits/{node['name']}/{name}.npy"
        return self._of_ranges(path)[:, 0] if self._sharded_ids else self._map(path)

    def edge_index(self, edge_type: tuple[str, str, str] | None = None) -> Array:
        """All edges, int64 [2, E]: sources and destinations by original id, in the order that they were imported in.

        Of a dataset without edge ids the order is another. Takes 16 bytes of memory an edge.
        """
        edge = self._edge(edge_type)
        folder = f"edges/{edge['src']}__{edge['rel']}__{edge['dst']}"
        original = np.empty(self.num_nodes(edge["src"]), np.int64)
        original[self._new_ids(edge["src"])] = np.arange(len(original))
        edges = np.empty((2, int(edge["count"])), np.int64)
        begin = 0
        for part in range(self.num_partitions):
            rows, indices = self._part(part, f"{folder}/rows.npy"), self._part(part, f"{folder}/indices.npy")
            end = begin + len(indices)
            at = self._part(part, f"{folder}/edge_ids.npy") if edge["has_edge_ids"] else slice(begin, end)
            edges[0, at] = original[indices]
            edges[1, at] = np.repeat(rows["original_id"][:-1], np.diff(rows["offset"]))
            begin = end
        return edges

    def keys(self, node_type: str | None = None) -> Keys:
        """What a node type's nodes are called by in the tables that it was imported from: ``dataset.keys()[ids]``.

        Raises:
            NotFoundError: the dataset has no keys of them.
        """
        node = self._node(node_type)
        if "keys" not in node:
            raise NotFoundError(f"node type '{node['name']}' has no keys; an import of tables keeps them")
        return Keys(node["name"], node["keys"]["type"], _core.NodeKeys(str(self.folder), node["name"]))

    def ids(self, node_type: str | None, keys: Any) -> Array:
        """The ids of keys, int64. Raises ``NotFoundError`` naming the first key that no node has."""
        return self.keys(node_type).ids(keys)

    def partition_of(self, ids: Any, node_type: str | None = None) -> Array:
        """Which partition has each of these nodes: int64, shaped as ``ids``."""
        node = self._node(node_type)
        dataset_ids = self._dataset_ids(node, _checked(ids, int(node["count"])))
        return np.searchsorted(np.asarray(node["partition_offsets"]), dataset_ids, side="right") - 1

    def _node(self, name: str | None) -> dict[str, Any]:
        nodes = self.meta["node_types"]
        found = nodes[0] if name is None else next((node for node in nodes if node["name"] == name), None)
        if found is None:
            raise NotFoundError(f"there is no node type '{name}'; there are {self.node_types}")
        return found

    def _edge(self, key: tuple[str, str, str] | None) -> dict[str, Any]:
        edges = self.meta["edge_types"]
        if key is None:
            if not edges:
                raise NotFoundError(f"{self.folder} has no edge type")
            return edges[0]
        if tuple(key) not in self.edge_types:
            raise NotFoundError(f"there is no edge type {key}; there are {self.edge_types}")
        return edges[self.edge_types.index(tuple(key))]

    def _dataset_ids(self, node: dict[str, Any], ids: Array) -> Array:
        """Of nodes by original id: of each where the ids are here, else of those whose partitions are."""
        if self._has_all_ids:
            return np.asarray(self._new_ids(node["name"])[ids])
        known, dataset_ids = self._nodes_here(node)
        wanted = ids.reshape(-1)
        at = np.searchsorted(known, wanted)
        there = at < len(known)
        there[there] = known[at[there]] == wanted[there]
        if not there.all():
            first = wanted[~there][0]
            raise UnsupportedError(f"the partition of {self.folder} that has node {first} of '{node['name']}' is not on this machine{_ELSEWHERE}")
        return dataset_ids[at].reshape(ids.shape)

    def _nodes_here(self, node: dict[str, Any]) -> tuple[Array, Array]:
        """Original ids of the nodes whose partitions are here, rising, and the dataset ids of these."""
        if node["name"] not in self._here:
            offsets = node["partition_offsets"]
            parts = [part for part in range(self.num_partitions) if self._has(part)]
            known = np.concatenate([np.empty(0, np.int64), *(self._original_ids(part, node["name"]) for part in parts)])
            dataset_ids = np.concatenate([np.empty(0, np.int64), *(np.arange(offsets[part], offsets[part + 1]) for part in parts)])
            order = np.argsort(known)
            self._here[node["name"]] = known[order], dataset_ids[order]
        return self._here[node["name"]]

    def _original_ids(self, part: int, node_type: str) -> Array:
        """Of a partition's nodes, in the order of its rows."""
        into = next((edge for edge in self.edge_types if edge[2] == node_type), None)
        if into is None:
            return self._part(part, f"nodes/{node_type}/original_ids.npy")
        return np.asarray(self._part(part, f"edges/{'__'.join(into)}/rows.npy")["original_id"][:-1])

    @cached_property
    def _here(self) -> dict[str, tuple[Array, Array]]:
        return {}

    @cached_property
    def _arrays(self) -> dict[str, Array]:
        return {}

    def _map(self, path: str) -> Array:
        if path not in self._arrays:
            try:
                array = np.load(self.folder / path, mmap_mode="r")
            except FileNotFoundError:
                raise NotFoundError(f"{self.folder / path} is not there; restore it, or run hopfeed-partition verify") from None
            except (ValueError, EOFError):
                raise CorruptError(f"{self.folder / path} is damaged; restore it, or run hopfeed-partition verify") from None
            if array.size:  # a truncation of the file becomes an error, not a death
                _core.note_mapped_file(array.ctypes.data, array.nbytes, str(self.folder / path))
            self._arrays[path] = array
        return self._arrays[path]

    def _part(self, part: int, path: str) -> Array:
        path = f"{_part_folder(part)}/{path}"
        if path not in self._arrays and not self._has(part):
            raise UnsupportedError(f"partition {part} of {self.folder} is not on this machine{_ELSEWHERE}")
        return self._map(path)

    def _has(self, part: int) -> bool:
        return (self.folder / _part_folder(part)).is_dir()

    def _new_ids(self, node_type: str) -> Array:
        return self._of_ranges(f"ids/{node_type}/new_ids.npy") if self._sharded_ids else self._map(f"nodes/{node_type}/new_ids.npy")

    @property
    def _sharded_ids(self) -> bool:
        """Whether each partition has a range of the ids, and of the splits."""
        return self.meta.get("ids") == "sharded"

    @property
    def _has_all_ids(self) -> bool:
        return not self._sharded_ids or all(map(self._has, range(self.num_partitions)))

    def _of_ranges(self, path: str) -> Array:
        """What each partition has a range of, joined when it is first wanted."""
        if path not in self._arrays:
            if not self._has_all_ids:
                raise UnsupportedError(f"ids of {self.folder} are sharded, and some of its partitions lie on other machines, with their ids; do it where "
                                       "all are, or through machines (hopfeed.distributed)")
            self._arrays[path] = np.concatenate([self._part(part, path) for part in range(self.num_partitions)])
        return self._arrays[path]

    def __repr__(self) -> str:
        nodes = ", ".join(f"{name}={self.num_nodes(name)}" for name in self.node_types)
        edges = ", ".join(f"{'__'.join(edge)}={self.num_edges(edge)}" for edge in self.edge_types)
        return f"Dataset({self.name}: nodes {nodes}; edges {edges}; partitions {self.num_partitions})"


class Rows:
    """Rows of an attribute by original id: ``rows[ids]`` reads these rows alone, and gives their values.

    Attributes:
        shape: of all rows.
        dtype: of the values; float32 where the dataset has bfloat16, which NumPy has not, or numbers with a scale a row.
        element_type: as the dataset has them: ``float32``, ``bfloat16``, ``int8_scaled``, ``int4_scaled``, ...
    """

    def __init__(
        self, meta: dict[str, Any], count: int, offsets: Array, dataset_ids: Callable[[Array], Array], stored: Callable[[int], Array]
    ) -> None:
        self._meta, self._offsets, self._dataset_ids, self._stored = meta, offsets, dataset_ids, stored
        self.shape = (count, *meta["shape"])
        self.dtype, self.element_type = value_type(meta), str(meta["element_type"])

    def __len__(self) -> int:
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Array]:
        return (self[at] for at in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """All rows, read; ``np.asarray(rows)``."""
        rows = self[:]
        return rows if dtype is None else rows.astype(dtype, copy=False)

    def __getitem__(self, ids: Any) -> Array:
        """The values of these rows. Raises ``UnsupportedError`` for those of a partition that is not on this machine."""
        if isinstance(ids, slice):
            ids = np.arange(len(self))[ids]
        wanted = _checked(ids, len(self))
        rows = self._dataset_ids(wanted).reshape(-1)
        partition = np.searchsorted(self._offsets, rows, side="right") - 1
        stored = {int(part): self._stored(int(part)) for part in np.unique(partition)}  # all, before a row is read
        out = np.empty((rows.size, int(np.prod(self.shape[1:], dtype=np.int64))), self.dtype)
        for part, array in stored.items():
            here = partition == part
            read = np.ascontiguousarray(array[rows[here] - self._offsets[part]])
            out[here] = values_of(read.view(np.uint8).reshape(len(read), -1), self._meta)
        return out.reshape((*wanted.shape, *self.shape[1:]))


class Keys:
    """Keys of a node type, by id: an integer, a text, or a :class:`uuid.UUID` each.

    Attributes:
        kind: ``int64``, ``string`` or ``uuid``.
    """

    def __init__(self, node_type: str, kind: str, stored: Any) -> None:
        self._node_type, self.kind, self._stored = node_type, kind, stored

    def __len__(self) -> int:
        return len(self._stored)

    def __iter__(self) -> Iterator[Any]:
        return (self[at] for at in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """All keys; ``np.asarray(keys)``."""
        found: Array = self[:]
        return found if dtype is None else found.astype(dtype, copy=False)

    def __getitem__(self, ids: Any) -> Any:
        """The key of a node, or those of several: int64, or objects."""
        if isinstance(ids, slice):
            ids = np.arange(len(self))[ids]
        wanted = _checked(ids, len(self))
        found = self._stored.keys(np.ascontiguousarray(wanted, np.int64).reshape(-1))
        if self.kind == "uuid":
            found = [uuid.UUID(bytes=key) for key in found]
        if np.ndim(ids) == 0:
            return found[0]
        out = np.empty(len(found), np.int64 if self.kind == "int64" else object)
        out[:] = found
        return out.reshape(np.shape(wanted))

    def ids(self, keys: Any) -> Array:
        """The ids of keys, int64.

        Raises:
            NotFoundError: naming the first that no node has; InvalidError: a key of another type.
        """
        several = [self._as_stored(key) for key in (keys.tolist() if isinstance(keys, np.ndarray) else keys)]
        found = np.asarray(self._stored.ids(several), np.int64)
        if (found < 0).any():
            first = several[int(np.argmax(found < 0))]
            shown = uuid.UUID(bytes=first) if isinstance(first, bytes) else repr(first)
            raise NotFoundError(f"no node of '{self._node_type}' has the key {shown}")
        return found

    def _as_stored(self, key: Any) -> Any:
        if self.kind == "uuid":
            try:
                return key.bytes if isinstance(key, uuid.UUID) else key if isinstance(key, bytes) and len(key) == 16 else uuid.UUID(key).bytes
            except (ValueError, AttributeError, TypeError):
                pass
        elif self.kind == "string" and isinstance(key, str):
            return key
        elif self.kind == "int64" and isinstance(key, (int, np.integer)) and not isinstance(key, bool) and -(1 << 63) <= key < 1 << 63:
            return int(key)
        raise InvalidError(f"{key!r} is no key of '{self._node_type}', whose keys are {self.kind}")


def _part_folder(part: int) -> str:
    return f"part-{part:04d}"


def _checked(ids: Any, count: int) -> Array:
    array = np.asarray(ids)
    if array.dtype.kind == "b" and array.shape == (count,):
        return np.flatnonzero(array)
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise InvalidError(f"ids are {array.dtype.name}; give whole numbers, or a mask of {count} bools")
    if not (0 <= int(array.min()) and int(array.max()) < count):
        raise InvalidError(f"ids has {int(array.min() if array.min() < 0 else array.max())}; nodes are from 0 to {count - 1}")
    return array
