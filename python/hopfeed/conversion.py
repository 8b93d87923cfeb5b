"""PyG's ``Data`` and ``HeteroData`` as a dataset folder."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import os
import re
import warnings
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hopfeed import _core
from hopfeed.batch import EdgeType, NodeType
from hopfeed.dataset import Dataset
from hopfeed.errors import Error, InputOutputError, InvalidError, NoSpaceError, UnsupportedError
from hopfeed.folders import CachedFolder, TemporaryFolder, cached_folder
from hopfeed.tool import PathLike, shown_progress
from hopfeed.version import explain_missing

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data, HeteroData

AddArray = Callable[[str, str, "Tensor"], str]  # (of what, attribute, values) -> the name that it has in the description

FORMAT = 2  # of what is converted; another makes every cached folder anew
_NAME = re.compile(r"[A-Za-z0-9_\-][A-Za-z0-9_.\-]{0,30}")
_SPLITS = {"train_mask": "train", "val_mask": "valid", "test_mask": "test"}
_MOST_DIMS = 4  # of an attribute in a folder for good; loaders of a graph in memory read those with more than two from its tensors
_ELSEWHERE = "; the graph is converted to a folder there, cache_dir= names another"
# Names that batches have of their own; an attribute of such a name is read in Python.
TAKEN = {
    "n_id", "dataset_id", "batch", "batch_size", "input_id", "seed_index", "seed_time", "num_sampled_nodes", "edge_index", "e_id",
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
    extra: set[str] = field(default_factory=set)  # attributes beside those of the graph

    @property
    def drawn_by(self) -> set[str]:
        """Names of the attributes that draws go by."""
        return self.weights | self.times | self.extra

    def of_draws(self) -> Plan:
        """The same without the attributes that batches alone carry."""
        node_attrs, edge_attrs = (
            {key: {name: value for name, value in attrs.items() if name in self.drawn_by} for key, attrs in by_type.items()}
            for by_type in (self.node_attrs, self.edge_attrs)
        )
        return dataclasses.replace(self, node_attrs=node_attrs, edge_attrs=edge_attrs)


def plan(
    data: Data | HeteroData,
    *,
    weight: str | None = None,
    time_attr: str | None = None,
    extra: Mapping[tuple[NodeType | None, str], Tensor] | None = None,
    gradients: bool = False,
    most_dims: int = 2,
) -> Plan:
    """Which tensors of a graph hopfeed stores. ``None`` is the key of the types of a ``Data``.

    ``extra``: node attributes beside those of the graph. ``gradients``: what gradients flow to is left to its tensor, since
    rows of a folder bring none; without it the values are stored. ``most_dims``: of an attribute that is stored.

    Raises:
        InvalidError: the graph has no edges, or weight or time cannot be what they are for.
    """
    try:
        from torch_geometric.data import Data
    except ModuleNotFoundError as error:
        raise explain_missing(error, "hopfeed.from_pyg", "torch torch-geometric") from None

    def stored(store: Any, kind: str) -> dict[str, Tensor]:
        rows = {name: value for name, value in store.items() if not _why_not(store, name, value, kind, most_dims)}
        return {name: value.detach() for name, value in rows.items() if not (gradients and value.requires_grad) or name in (weight, time_attr)}

    planned = Plan(weights={weight} if weight else set(), times={time_attr} if time_attr else set())
    if isinstance(data, Data):
        node_stores, edge_stores = {None: data._store}, {None: data._store}
    else:
        node_stores = {key: data[key] for key in data.node_types}
        edge_stores = {key: data[key] for key in data.edge_types}
    names = _safe_names(["node" if key is None else key for key in node_stores], "nodes")
    relations = _safe_names(["to" if key is None else key[1] for key in edge_stores], "edges")
    for name, (key, store) in zip(names, node_stores.items()):
        planned.node_names[key] = name
        count = store.num_nodes
        if count is None and key is None:
            raise InvalidError("data has no nodes; give it x, edge_index or num_nodes")
        if count is None:
            raise InvalidError(f"data has no number of nodes for type {key!r}; set data[{key!r}].num_nodes")
        planned.counts[key] = int(count)
        planned.node_attrs[key] = stored(store, "node")
    for relation, (key, store) in zip(relations, edge_stores.items()):
        src, _, dst = (None, "to", None) if key is None else key
        for end in (src, dst):
            if end not in planned.node_names:
                raise InvalidError(f"data has edges of type {key} and no node type {end!r}; set data[{end!r}].x, or its num_nodes")
        planned.edge_names[key] = (planned.node_names[src], relation, planned.node_names[dst])
        planned.edges[key] = _edge_index(key, store)
        planned.edge_attrs[key] = stored(store, "edge")
    for (key, name), value in (extra or {}).items():
        planned.node_attrs[key][name] = value
        planned.extra.add(name)
    if not edge_stores:
        raise InvalidError("data has no edges; give it an edge_index")
    _check_ends(planned)
    edges = _Attrs("edges", edge_stores, planned.edge_attrs)
    _prepare("weight_attr", weight, edges)
    _prepare("time_attr", time_attr, edges, _Attrs("nodes", node_stores, planned.node_attrs))
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

    Node and edge attributes are stored as they are: tensors with a row for each node or edge, of bool, uint8, int8 to int64
    or float16 to float64, with up to four dimensions; ``x`` is a matrix of float32 or float16, and ``y`` int64, a class each
    or -1. Nothing is cast. What cannot be stored so, and types whose names no file can have, are told by one ``UserWarning``.
    Masks ``train_mask``, ``val_mask`` and ``test_mask`` become the splits ``train``, ``valid`` and ``test``; types ``rev_...``
    (``T.ToUndirected``) are known as reverses.

    Args:
        data: its tensors are in the host's memory.
        folder: the dataset folder to make.
        weight: edge attribute that batches are drawn by.
        time: attribute of edges or nodes, int64, for temporal sampling.
        overwrite: replace a dataset that is there.
        progress: show a bar; by default where stderr is a terminal or a notebook.

    Returns:
        ``nodes`` and ``edges``: how many there are; ``fingerprint``: of the dataset. Where there are any, ``left_out``: what is
        not stored (``"x"``, of a graph of several types ``"x of 'paper'"``), with the reason of each; ``renamed``: types of the
        graph, with their names in the dataset.

    Raises:
        InvalidError: the folder exists, or the graph cannot be stored; the message says what and where.
    """
    try:
        planned = plan(data, weight=weight, time_attr=time, most_dims=_MOST_DIMS)
        _write(planned, folder, overwrite=overwrite, temporary=False, progress=progress)
    except InvalidError as error:
        raise InvalidError(str(error).replace("pass --overwrite", "pass overwrite=True")) from None
    made = Dataset(folder)
    nodes, edges = map(made.num_nodes, made.node_types), map(made.num_edges, made.edge_types)
    left_out, renamed = _left_out(data, planned), _renamed(planned)
    told = [f"is without {', '.join(f'{name} ({why})' for name, why in left_out.items())}"] if left_out else []
    told += [f"types have other names there: {', '.join(f'{key!r} is {name!r}' for key, name in renamed.items())}"] if renamed else []
    if told:
        warnings.warn(f"hopfeed.from_pyg: {os.fspath(folder)} {'; '.join(told)}", UserWarning, stacklevel=2)
    more = {name: found for name, found in (("left_out", left_out), ("renamed", renamed)) if found}
    return {"nodes": sum(nodes), "edges": sum(edges), "fingerprint": made.fingerprint, **more}


def _left_out(data: Data | HeteroData, planned: Plan) -> dict[str, str]:
    """What a graph has beside the edges and what is stored, with the reason of each."""
    found = {}
    for store in data.stores:
        stored = {**planned.node_attrs.get(store._key, {}), **planned.edge_attrs.get(store._key, {})}
        for name, value in store.items():
            if name in stored or name in ("edge_index", "num_nodes") or value is None:
                continue
            kind = "edge" if hasattr(store, "is_edge_attr") and store.is_edge_attr(name) else "node"
            found[name if store._key is None else f"{name} of {store._key!r}"] = _why_not(store, name, value, kind, _MOST_DIMS)
    return found


def _renamed(planned: Plan) -> dict[Any, Any]:
    """Types whose names in the folder are others; those of a ``Data`` have none."""
    names = {**planned.node_names, **planned.edge_names}
    return {key: name for key, name in names.items() if key is not None and key != name}


class Converted:
    """A dataset folder made of a graph, for as long as somebody samples from it.

    Attributes:
        folder: the dataset.
        plan: what it holds.
        fingerprint: of the graph, whether or not the folder holds its rows.
    """

    def __init__(self, folder: Path, planned: Plan, fingerprint: str, held: TemporaryFolder | CachedFolder) -> None:
        self.folder, self.plan, self.fingerprint, self._held = folder, planned, fingerprint, held


# By fingerprint, cache, and what of the rows the folder has: None is all, else the attributes that draws go by.
_converted: weakref.WeakValueDictionary[tuple[str, str, tuple[str, ...] | None], Converted] = weakref.WeakValueDictionary()
os.register_at_fork(after_in_child=_converted.clear)  # they go with the process that made them


def convert(
    planned: Plan, cache_dir: PathLike | None, *, rows: bool = True, cache_limit: int = 1 << 40, deadline: float = 3600, progress: bool | None = None
) -> Converted:
    """The folder of a plan: the one that this process has, the one of the cache, or a new one.

    Args:
        cache_dir: where folders are kept, under a fingerprint of their content; None: a temporary folder.
        rows: whether the folder has to hold what batches carry. One that is kept does always.
        cache_limit: bytes that the cache may have; what was used longest ago goes first, what is in use stays.
        deadline: seconds to wait for another process that makes the same folder.

    Raises:
        DeadlineError: naming the process's lock. NoSpaceError: naming the folder, what is needed and what is free.
    """
    fingerprint = _fingerprint(planned)
    rows = rows or cache_dir is not None
    place = os.fspath(cache_dir) if cache_dir is not None else ""
    has = None if rows else tuple(sorted(planned.drawn_by))
    found = _converted.get((fingerprint, place, None)) or _converted.get((fingerprint, place, has))
    planned = planned if rows else planned.of_draws()
    if found is None:
        try:
            found = _made(planned, cache_dir, fingerprint, cache_limit, deadline, progress)
        except (InputOutputError, NoSpaceError) as error:
            if not str(error).startswith(("cannot write", "cannot create")):  # of memory
                raise
            raise type(error)(f"{error}{_ELSEWHERE}") from None
        except OSError as error:
            if isinstance(error, Error):
                raise
            raise InputOutputError(f"cannot make a folder for the graph: {error}{_ELSEWHERE}") from None
        _converted[fingerprint, place, has] = found
    return found


def _made(planned: Plan, cache_dir: PathLike | None, fingerprint: str, limit: int, deadline: float, progress: bool | None) -> Converted:
    if cache_dir is None:
        held = TemporaryFolder()
        try:
            _write(planned, held.path / "data", overwrite=False, temporary=True, progress=progress)
        except BaseException:
            held.remove()
            raise
        return Converted(held.path / "data", planned, fingerprint, held)
    make = functools.partial(_write, planned, overwrite=True, temporary=False, progress=progress)
    kept = cached_folder(Path(cache_dir), fingerprint, make, limit=limit, deadline=deadline)
    return Converted(kept.path, planned, fingerprint, kept)


def _fingerprint(planned: Plan) -> str:
    """Of all that hopfeed stores of a graph."""
    digest = hashlib.blake2b(digest_size=16)

    def add(*words: object) -> None:
        digest.update(json.dumps([str(word) for word in words]).encode() + b"\n")

    def add_tensor(name: object, value: Tensor) -> None:
        array = _as_array(value)
        add(name, array.dtype.str, array.shape, _core.digest_of(array))

    add(FORMAT, sorted(planned.weights), sorted(planned.times))
    for key, name in planned.node_names.items():
        add("nodes", name, planned.counts[key])
        for attr, value in planned.node_attrs[key].items():
            add_tensor(attr, value)
    for key, names in planned.edge_names.items():
        add_tensor(names, planned.edges[key])
        for attr, value in planned.edge_attrs[key].items():
            add_tensor(attr, value)
    return digest.hexdigest()


def _as_array(value: Tensor) -> np.ndarray[Any, Any]:
    """Its own memory, where that is contiguous."""
    return np.ascontiguousarray(value.detach().numpy())


def _write(planned: Plan, folder: PathLike, *, overwrite: bool, temporary: bool, progress: bool | None) -> None:
    arrays: dict[str, np.ndarray[Any, Any]] = {}

    def add(of: str, attr: str, value: Tensor) -> str:
        """Under a name that tells what it is."""
        name = f"{of}.{attr}"
        while name in arrays:
            name += "'"
        arrays[name] = _as_array(value)
        return name

    graph = {
        "name": "pyg",
        "nodes": [_node_entry(planned, key, name, add) for key, name in planned.node_names.items()],
        "edges": [_edge_entry(planned, key, add) for key in planned.edge_names],
    }
    with shown_progress(progress) as show:
        _core.make_dataset(os.fspath(folder), json.dumps(graph), arrays, overwrite=overwrite, temporary=temporary, progress=show)


def _node_entry(planned: Plan, key: NodeType | None, name: str, add: AddArray) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "count": planned.counts[key], "attrs": {}, "splits": {}}
    for attr, value in planned.node_attrs[key].items():
        if attr in ("x", "y"):
            entry["features" if attr == "x" else "labels"] = add(name, attr, value)
            continue
        if attr in _SPLITS and str(value.dtype) == "torch.bool" and value.dim() == 1:
            entry["splits"][_SPLITS[attr]] = add(name, f"split.{attr}", value)
        entry["attrs"][attr] = add(name, attr, value)
    return entry


def _edge_entry(planned: Plan, key: EdgeType | None, add: AddArray) -> dict[str, Any]:
    src, rel, dst = planned.edge_names[key]
    name = f"{src}__{rel}__{dst}"
    attrs = {attr: add(name, attr, value) for attr, value in planned.edge_attrs[key].items()}
    entry = {"src": src, "rel": rel, "dst": dst, "index": add(name, "edge_index", planned.edges[key]), "attrs": attrs}
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


def _is_name(name: str) -> bool:
    return bool(_NAME.fullmatch(name)) and "__" not in name


def _safe_names(names: list[str], made_up: str) -> list[str]:
    """Names that files can have: those that are such stay, the others are made up, and none of them is another's."""
    used, safe = {name for name in names if _is_name(name)}, []
    for number, name in enumerate(names):
        if not _is_name(name):
            name = next(made for n in itertools.count(number) if (made := f"{made_up}{n}") not in used)
            used.add(name)
        safe.append(name)
    return safe


def _why_not(store: Any, name: str, value: Any, kind: str, most_dims: int) -> str:
    """Why it is no attribute of nodes (or edges) that hopfeed stores; empty where it is one."""
    import torch

    if name in TAKEN:
        return "batches have a field of that name"
    if not _is_name(name):
        return "a name has up to 31 letters, digits, '_', '.' and '-', and no '__'"
    if not isinstance(value, torch.Tensor):
        return f"a {type(value).__name__}: tensors are stored"
    shown = f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    if value.layout != torch.strided:
        return f"{shown}: it is {value.layout}"
    if not value.is_cpu:
        return f"{shown}: it lies on {value.device}, and not in the host's memory"
    if kind == "node" and name == "x" and not (value.dim() == 2 and value.size(1) and value.dtype in (torch.float16, torch.float32)):
        return f"{shown}: x is a matrix of float32 or float16"
    if kind == "node" and name == "y" and not (value.dim() == 1 and value.dtype == torch.int64 and (not len(value) or value.min() >= -1)):
        return f"{shown}: labels y are int64, one for each node, from -1 (none) on"
    if value.dtype not in {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64, torch.bool}:
        return f"{shown}: elements are bool, uint8, int8 to int64 or float16 to float64"
    if value.dim() > most_dims:
        return f"{shown}: it has more than {most_dims} dimensions"
    if 0 in value.shape[1:]:
        return f"{shown}: its rows have no elements"
    return "" if _has_rows(store, name, value, kind) else f"{shown}: it has no row for each node or edge"


def _has_rows(store: Any, name: str, value: Tensor, kind: str) -> bool:
    """Whether the graph takes it for an attribute of nodes (or edges), one behind the other."""
    dim = store._parent().__cat_dim__(name, value, store) if value.dim() else None
    if not isinstance(dim, int) or dim % value.dim() != 0 or not hasattr(store, "is_node_attr"):  # of the graph as a whole
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


@dataclass
class _Attrs:
    """The attributes of all node types, or of all edge types."""

    of: str
    stores: Mapping[Any, Any]
    stored: dict[Any, dict[str, Tensor]]


def _prepare(argument: str, name: str | None, *places: _Attrs) -> None:
    """The attribute that draws go by exists, has a row for each edge (or node), and is of the type that they need."""
    import torch

    if name is None:
        return
    found = False
    for place in places:
        for key, store in place.stores.items():
            attrs = place.stored[key]
            if name not in attrs and name in store and not any(name in other.stored.get(key, {}) for other in places):
                attrs[name] = _rows_for(argument, name, key, store, places)
            if name not in attrs:
                continue
            found, value = True, attrs[name]
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
    if not found:
        raise InvalidError(f"{argument} is {name!r}, and no type of data has an attribute of that name")


def _rows_for(argument: str, name: str, key: Any, store: Any, places: tuple[_Attrs, ...]) -> Tensor:
    """What a graph does not show as an attribute of edges (or nodes): where it has as many rows it is one all the same."""
    import torch

    value = store[name]
    counts = {place.of: getattr(store, f"num_{place.of}") for place in places if key in place.stores}
    where = f"{argument} {name!r}" if key is None else f"{argument} {name!r} of {key!r}"
    if hasattr(value, "__len__") and not isinstance(value, str) and getattr(value, "ndim", 1) and len(value) not in counts.values():
        there = " and ".join(f"{count} {of}" for of, count in counts.items())
        raise InvalidError(f"{where} has {len(value)} values; there are {there}")
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or not value.is_cpu or value.is_complex() or not value.ndim:
        raise InvalidError(f"{where} is {_kind_of(value)}; give a tensor of numbers in the host's memory, one for each of {' or '.join(counts)}")
    if not _is_name(name) or name in TAKEN:
        raise InvalidError(f"{where} has a name that hopfeed cannot store; rename it: up to 31 letters, digits, '_', '.', '-', and none of a batch's fields")
    return value


def _kind_of(value: Any) -> str:
    import torch

    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    return f"{value.dtype} on {value.device}" if value.ndim else "a single number"
