"""PyG's ``Data`` and ``HeteroData`` as a dataset folder, and the cache of such folders."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hopfeed.batch import EdgeType, NodeType
from hopfeed.errors import DeadlineError, Error, InvalidError, UnsupportedError
from hopfeed.tool import PathLike, import_numpy

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data, HeteroData

FORMAT = 1  # of what is converted; another makes every cached folder anew
_NAME = re.compile(r"[A-Za-z0-9_\-][A-Za-z0-9_.\-]{0,30}")
_SPLITS = {"train_mask": "train", "val_mask": "valid", "test_mask": "test"}
# Names that batches have of their own; an attribute of such a name is read in Python.
_TAKEN = {
    "n_id", "batch", "batch_size", "input_id", "seed_index", "seed_time", "num_sampled_nodes", "edge_index", "e_id",
    "num_sampled_edges", "_orig_edge_index", "walks", "hotness", "original_ids", "edge_label_index", "edge_label",
    "edge_label_time", "src_index", "dst_pos_index", "dst_neg_index", "num_negative_retries",
}  # fmt: skip


@dataclass
class Plan:
    """What of a graph goes into the folder: names there, and tensors."""

    node_names: dict[NodeType | None, str] = field(default_factory=dict)
    edge_names: dict[EdgeType | None, tuple[str, str, str]] = field(default_factory=dict)
    counts: dict[NodeType | None, int] = field(default_factory=dict)
    edges: dict[EdgeType | None, Tensor] = field(default_factory=dict)
    node_attrs: dict[NodeType | None, dict[str, Tensor]] = field(default_factory=dict)
    edge_attrs: dict[EdgeType | None, dict[str, Tensor]] = field(default_factory=dict)
    weights: set[str] = field(default_factory=set)
    times: set[str] = field(default_factory=set)


def plan(
    data: Data | HeteroData,
    *,
    weight: str | None = None,
    time_attr: str | None = None,
    extra: Mapping[tuple[NodeType | None, str], Tensor] | None = None,
) -> Plan:
    """Which tensors of a graph hopfeed stores. ``None`` is the key of the types of a ``Data``.

    ``extra``: node attributes beside those of the graph.

    Raises:
        InvalidError: the graph has no edges, or weight or time cannot be what they are for.
    """
    from torch_geometric.data import Data

    planned = Plan(weights={weight} if weight else set(), times={time_attr} if time_attr else set())
    if isinstance(data, Data):
        node_stores, edge_stores = {None: data._store}, {None: data._store}
    else:
        node_stores = {key: data[key] for key in data.node_types}
        edge_stores = {key: data[key] for key in data.edge_types}
    for number, (key, store) in enumerate(node_stores.items()):
        planned.node_names[key] = _safe_name("node" if key is None else key, f"nodes{number}")
        count = store.num_nodes
        if count is None:
            raise InvalidError(f"data has no number of nodes for type {key!r}; set data[{key!r}].num_nodes")
        planned.counts[key] = int(count)
        planned.node_attrs[key] = {name: value for name, value in store.items() if _is_rows(store, name, value, "node")}
    for number, (key, store) in enumerate(edge_stores.items()):
        src, rel, dst = (None, "to", None) if key is None else key
        planned.edge_names[key] = (planned.node_names[src], _safe_name(rel, f"edges{number}"), planned.node_names[dst])
        planned.edges[key] = _edge_index(key, store)
        planned.edge_attrs[key] = {name: value for name, value in store.items() if _is_rows(store, name, value, "edge")}
    for (key, name), value in (extra or {}).items():
        planned.node_attrs[key][name] = value
    if not edge_stores:
        raise InvalidError("data has no edges; give it an edge_index")
    _check_ends(planned)
    _prepare(planned, "weight_attr", weight, planned.edge_attrs, {})
    _prepare(planned, "time_attr", time_attr, planned.edge_attrs, planned.node_attrs)
    return planned


def from_pyg(
    data: Data | HeteroData,
    folder: PathLike,
    *,
    weight: str | None = None,
    time: str | None = None,
    overwrite: bool = False,
    progress: bool | None = None,
) -> dict[str, Any]:
    """Makes a dataset folder of a graph that PyG has in memory.

    Node and edge attributes are stored as they are; masks ``train_mask``, ``val_mask`` and ``test_mask`` become the splits
    ``train``, ``valid`` and ``test``; types ``rev_...`` (``T.ToUndirected``) are known as reverses.

    Args:
        data: its tensors are in the host's memory.
        folder: the dataset folder to make.
        weight: edge attribute that batches are drawn by.
        time: attribute of edges or nodes, int64, for temporal sampling.
        overwrite: replace a dataset that is there.

    Returns:
        The report of ``hopfeed-partition import numpy``.
    """
    return _write(plan(data, weight=weight, time_attr=time), folder, overwrite=overwrite, progress=progress)


class Converted:
    """A dataset folder made of a graph, for as long as somebody samples from it."""

    def __init__(self, folder: Path, planned: Plan, lock: int | None) -> None:
        self.folder, self.plan = folder, planned
        # Kept in the cache: its lock goes. Else it goes itself.
        self._end = weakref.finalize(self, os.close, lock) if lock is not None else weakref.finalize(self, shutil.rmtree, folder, True)


_converted: weakref.WeakValueDictionary[tuple[str, str], Converted] = weakref.WeakValueDictionary()


def convert(
    planned: Plan, cache_dir: PathLike | None, *, cache_limit: int = 1 << 40, deadline: float = 3600, progress: bool | None = None
) -> Converted:
    """The folder of a plan: the one that this process has, the one of the cache, or a new one.

    Args:
        cache_dir: where folders are kept, under a fingerprint of their content; None: a temporary folder.
        cache_limit: bytes that the cache may have; what was used longest ago goes first, what is in use stays.
        deadline: seconds to wait for another process that makes the same folder.

    Raises:
        DeadlineError: naming the process's lock.
    """
    fingerprint = _fingerprint(planned)
    key = (fingerprint, os.fspath(cache_dir) if cache_dir is not None else "")
    found = _converted.get(key)
    if found is None:
        found = _temporary(planned, progress) if cache_dir is None else _cached(planned, Path(cache_dir), fingerprint, cache_limit, deadline, progress)
        _converted[key] = found
    return found


def _temporary(planned: Plan, progress: bool | None) -> Converted:
    folder = Path(tempfile.mkdtemp(prefix="hopfeed-"))
    try:
        _write(planned, folder / "data", overwrite=False, progress=progress)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    converted = Converted(folder, planned, None)
    converted.folder = folder / "data"
    return converted


def _cached(planned: Plan, cache: Path, fingerprint: str, limit: int, deadline: float, progress: bool | None) -> Converted:
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / fingerprint
    path = cache / f"{fingerprint}.lock"
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        if not (folder / "meta.json").exists():
            with _exclusive(lock, path, deadline):
                if not (folder / "meta.json").exists():  # nobody made it while we waited
                    _write(planned, folder, overwrite=True, progress=progress)
        _wait_for(lock, fcntl.LOCK_SH, path, deadline)
        if not (folder / "meta.json").exists():  # evicted in between
            os.close(lock)
            return _cached(planned, cache, fingerprint, limit, deadline, progress)
        os.utime(path)
        _evict(cache, limit, keep=fingerprint)
    except BaseException:
        os.close(lock)
        raise
    return Converted(folder, planned, lock)


@contextmanager
def _exclusive(lock: int, path: Path, deadline: float) -> Iterator[None]:
    _wait_for(lock, fcntl.LOCK_EX, path, deadline)
    try:
        yield
    finally:
        fcntl.flock(lock, fcntl.LOCK_UN)


def _wait_for(lock: int, kind: int, path: Path, deadline: float) -> None:
    end, told = time.monotonic() + deadline, False
    while True:
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            pass
        if time.monotonic() > end:
            raise DeadlineError(f"another process has held {path} for {deadline:g} s while it converts the graph; wait for it, or end it")
        if not told and time.monotonic() > end - deadline + 2:
            told = True
            print(f"waiting for another process that converts the graph ({path})", file=sys.stderr)
        time.sleep(0.05)


def _evict(cache: Path, limit: int, keep: str) -> None:
    """Removes what was used longest ago, until the cache fits; folders in use stay."""
    entries = sorted(cache.glob("*.lock"), key=lambda path: path.stat().st_mtime)
    sizes = {path.stem: _size(cache / path.stem) + _size(cache / f".{path.stem}.arrays") for path in entries}
    total = sum(sizes.values())
    for path in entries:
        if total <= limit:
            return
        if path.stem == keep or not sizes[path.stem]:
            continue
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(cache / path.stem, ignore_errors=True)
            shutil.rmtree(cache / f".{path.stem}.arrays", ignore_errors=True)  # of a process that was killed
            total -= sizes[path.stem]
        except BlockingIOError:
            pass  # in use
        finally:
            os.close(lock)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _fingerprint(planned: Plan) -> str:
    """Of everything that the folder will hold."""
    digest = hashlib.blake2b(digest_size=16)

    def add(*words: object) -> None:
        digest.update(json.dumps([str(word) for word in words]).encode() + b"\n")

    add(FORMAT, sorted(planned.weights), sorted(planned.times))
    for key, name in planned.node_names.items():
        add("nodes", name, planned.counts[key])
        for attr, value in planned.node_attrs[key].items():
            _add_tensor(digest, add, attr, value)
    for key, names in planned.edge_names.items():
        _add_tensor(digest, add, names, planned.edges[key])
        for attr, value in planned.edge_attrs[key].items():
            _add_tensor(digest, add, attr, value)
    return digest.hexdigest()


def _add_tensor(digest: Any, add: Any, name: object, value: Tensor) -> None:
    array = np.ascontiguousarray(value.numpy())
    add(name, array.dtype.str, array.shape)
    digest.update(array.reshape(-1).view(np.uint8))


def _write(planned: Plan, folder: PathLike, *, overwrite: bool, progress: bool | None) -> dict[str, Any]:
    Path(folder).parent.mkdir(parents=True, exist_ok=True)
    with _scratch_beside(Path(folder)) as scratch:
        files = _Files(scratch)
        graph = {"name": "pyg", "nodes": [], "edges": []}
        for key, name in planned.node_names.items():
            graph["nodes"].append(_node_entry(planned, key, name, files))
        for key in planned.edge_names:
            graph["edges"].append(_edge_entry(planned, key, files))
        path = scratch / "graph.json"
        path.write_text(json.dumps(graph))
        try:
            return import_numpy(folder, hetero=path, overwrite=overwrite, progress=progress)
        except Error as error:  # files of ours, which nobody can look at
            raise type(error)(str(error).replace(f"{scratch}/", "").replace(".npy", "")) from None


@contextmanager
def _scratch_beside(folder: Path) -> Iterator[Path]:
    """A folder of one name for each dataset, so that what a killed process left goes with the next one."""
    scratch = folder.parent / f".{folder.name}.arrays"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


class _Files:
    """Arrays as .npy files whose names tell what they are."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, of: str, attr: str, value: Any) -> str:
        name = f"{of}.{attr}.npy"
        np.save(self._folder / name, np.ascontiguousarray(value))
        return name


def _node_entry(planned: Plan, key: NodeType | None, name: str, files: _Files) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "count": planned.counts[key], "attrs": {}, "splits": {}}
    for attr, value in planned.node_attrs[key].items():
        array = value.numpy()
        if attr in ("x", "y"):
            entry["features" if attr == "x" else "labels"] = files.add(name, attr, array)
            continue
        if attr in _SPLITS and array.dtype == np.bool_ and array.ndim == 1:
            entry["splits"][_SPLITS[attr]] = files.add(name, f"split.{attr}", array)
        entry["attrs"][attr] = files.add(name, attr, array)
    return entry


def _edge_entry(planned: Plan, key: EdgeType | None, files: _Files) -> dict[str, Any]:
    src, rel, dst = planned.edge_names[key]
    name = f"{src}__{rel}__{dst}"
    attrs = {attr: files.add(name, attr, value.numpy()) for attr, value in planned.edge_attrs[key].items()}
    entry = {"src": src, "rel": rel, "dst": dst, "index": files.add(name, "edge_index", planned.edges[key].numpy()), "attrs": attrs}
    entry["weights"] = [name for name in planned.weights if name in attrs]
    of_source = planned.node_attrs[None if key is None else key[0]]
    entry["times"] = [name for name in planned.times if name in attrs or name in of_source]
    forward = None if key is None else _reverse_of(key, list(planned.edge_names))
    if forward is not None:
        entry["rev_of"] = "__".join(planned.edge_names[forward])
    return entry


def _reverse_of(key: EdgeType, keys: list[EdgeType | None]) -> EdgeType | None:
    """The type that this one is the reverse of, by T.ToUndirected's names, or of two with the same relation the first."""
    src, rel, dst = key
    forward = (dst, rel.removeprefix("rev_"), src)
    if rel.startswith("rev_") and forward in keys:
        return forward
    same = (dst, rel, src)
    named = (dst, f"rev_{rel}", src) in keys
    return same if src != dst and not named and same in keys and keys.index(same) < keys.index(key) else None


def _safe_name(name: str, otherwise: str) -> str:
    return name if _NAME.fullmatch(name) and "__" not in name else otherwise


def _is_rows(store: Any, name: str, value: Any, kind: str) -> bool:
    """Whether it is an attribute of nodes (or edges) that hopfeed stores."""
    import torch

    if not isinstance(value, torch.Tensor) or name in _TAKEN or not _NAME.fullmatch(name) or "__" in name:
        return False
    dtypes = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64, torch.bool}
    if value.layout != torch.strided or value.dtype not in dtypes or value.dim() not in (1, 2) or not value.is_cpu:
        return False
    if value.dim() == 2 and value.size(1) == 0:
        return False
    if kind == "node" and name == "x" and not (value.dim() == 2 and value.dtype in (torch.float16, torch.float32)):
        return False
    if kind == "node" and name == "y" and not (value.dim() == 1 and value.dtype == torch.int64 and (not len(value) or value.min() >= -1)):
        return False
    dim = store._parent().__cat_dim__(name, value, store)
    if not isinstance(dim, int) or dim % value.dim() != 0:
        return False
    return bool(store.is_node_attr(name) if kind == "node" else store.is_edge_attr(name))


def _edge_index(key: EdgeType | None, store: Any) -> Tensor:
    import torch

    where = "data" if key is None else f"data[{key!r}]"
    edges = store.get("edge_index")
    if edges is None and store.get("adj_t") is not None:
        raise UnsupportedError(f"{where} has adj_t and no edge_index; give edge_index, which batches then have too")
    if edges is None:
        return torch.empty(2, 0, dtype=torch.int64)  # nodes alone, as PyG takes it
    if not isinstance(edges, torch.Tensor) or edges.dim() != 2 or edges.size(0) != 2 or edges.dtype not in (torch.int64, torch.int32):
        shown = list(edges.shape) if isinstance(edges, torch.Tensor) else type(edges).__name__
        raise InvalidError(f"{where}.edge_index is {shown}; give [2, E] of int64, source and destination of each edge")
    if not edges.is_cpu:
        raise InvalidError(f"{where}.edge_index lies on {edges.device}; give it in the host's memory (data.cpu())")
    return edges.as_subclass(torch.Tensor).detach()


def _check_ends(planned: Plan) -> None:
    for key, edges in planned.edges.items():
        if edges.numel() == 0:
            continue
        src, _, dst = (None, None, None) if key is None else key
        for row, end, name in ((0, src, "source"), (1, dst, "destination")):
            low, high = int(edges[row].min()), int(edges[row].max())
            if low < 0 or high >= planned.counts[end]:
                raise InvalidError(
                    f"edge_index of {key or 'data'} has the {name} {low if low < 0 else high}; nodes of type "
                    f"{planned.node_names[end]!r} are from 0 to {planned.counts[end] - 1}"
                )


def _prepare(planned: Plan, argument: str, name: str | None, edge_attrs: dict[Any, Any], node_attrs: dict[Any, Any]) -> None:
    """The attribute that draws go by exists, and is of the type that they need."""
    import torch

    if name is None:
        return
    stores = [attrs for attrs in (*edge_attrs.values(), *node_attrs.values()) if name in attrs]
    if not stores:
        raise InvalidError(f"{argument} is {name!r}, and no type of data has an attribute of that name")
    for attrs in stores:
        value = attrs[name]
        if value.dim() == 2 and value.size(1) == 1:
            value = value.view(-1)
        if argument == "time_attr":
            if value.is_floating_point() or value.dim() != 1:
                raise InvalidError(f"{argument} {name!r} is {value.dtype} {list(value.shape)}; times are whole numbers, one each")
            value = value.to(torch.int64)
        elif value.dim() != 1:
            raise InvalidError(f"{argument} {name!r} is {list(value.shape)}; give one number for each edge")
        elif value.dtype not in (torch.float32, torch.float64, torch.int32, torch.int64):
            value = value.to(torch.float32)
        attrs[name] = value
