"""PyG's arguments as hopfeed's options, or one error that names the argument as it was given."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader
from torch_geometric.sampler import NegativeSampling

from hopfeed.batch import EdgeType, NodeType
from hopfeed.errors import Error, InvalidError, UnsupportedError
from hopfeed.loader import as_array, fanout_list
from hopfeed.switches import refuse_switches

# Of PyG's and torch's loaders: what changes speed alone is taken and has no effect; hopfeed's workers do otherwise.
SPEED_ALONE = {
    "filter_per_worker", "is_sorted", "persistent_workers", "prefetch_factor", "pin_memory", "pin_memory_device", "timeout",
    "multiprocessing_context", "in_order", "share_memory",
}  # fmt: skip

# All of torch's.
OF_TORCH = set(inspect.signature(DataLoader.__init__).parameters) - {"self"}

# What would change batches, or run code where there is none: the reason, and what to do.
REFUSED = {
    "transform_sampler_output": "samples never exist as Python objects; change the batch in transform=",
    "neighbor_sampler": "it samples by itself; use PyG's loader with it, or a plugin of hopfeed (sampler=, plugins=)",
    "custom_cls": "batches are Data or HeteroData; convert them in transform=",
    "generator": "the order comes from seed= (and the epoch), so that it is the same on every machine; give seed=",
    "worker_init_fn": "workers are programs without Python; there is nothing to initialise",
    "input_id": "batches tell positions in input_nodes; map them yourself: ids[batch.input_id]",
}

# Names that hopfeed.Loader and DGL have, and PyG's of the same.
_PYG_NAMES = {
    "fanout": "num_neighbors", "fanouts": "num_neighbors", "edge_fanouts": "num_neighbors", "seeds": "input_nodes", "seed_mask": "input_nodes",
    "seed_times": "input_time", "links": "edge_label_index", "link_labels": "edge_label", "link_times": "edge_label_time",
    "weight": "weight_attr", "time": "time_attr", "subgraph": "subgraph_type", "negatives": "neg_sampling",
}  # fmt: skip

# Of the other loader, where they are left among the arguments of one: seeds are nodes or links.
_OF_NODES = "is of loaders of nodes; give link_split=, or edge_label_index=(edge type, links)"
_OF_LINKS = "is of loaders of links; give split=, or input_nodes=(node type, nodes)"
_OF_THE_OTHER = {"split": _OF_NODES, "node_type": _OF_NODES, "link_split": _OF_LINKS, "edge_type": _OF_LINKS}

# Of hopfeed's negatives, which PyG has in NegativeSampling.
_OF_NEGATIVES = ("amount", "src_weight", "dst_weight")

# None is no value of these, in PyG and in torch. Of all others it means the default.
_NEVER_NONE = {"batch_size", "num_workers", "drop_last", "replace", "disjoint", "directed", "subgraph_type", "temporal_strategy"}

_SUBGRAPHS = ("directional", "bidirectional", "induced")


def take_torch_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """What is left for hopfeed of a loader's other keyword arguments. Raises ``UnsupportedError`` for those refused."""
    left = {}
    for name, value in arguments.items():
        if name in ("dataset", "collate_fn") or name in SPEED_ALONE:  # PyG drops the first two as well
            continue
        if name in REFUSED:
            if value is not None and not _seeds_workers(name, value):
                raise UnsupportedError(f"{name} cannot be honoured: {REFUSED[name]}")
        elif value is not None and name in _PYG_NAMES:
            shown = f"{_PYG_NAMES[name]}={value!r}" if isinstance(value, (list, tuple, dict)) else f"{_PYG_NAMES[name]}="
            raise InvalidError(f"{name} is not what PyG names it; give {shown}")
        elif value is not None and name in _OF_THE_OTHER:
            raise InvalidError(f"{name} {_OF_THE_OTHER[name]}")
        elif value is not None and name in _OF_NEGATIVES:
            raise InvalidError(f"{name} is of neg_sampling; give NegativeSampling(mode, {name}=...) there, to a loader of links")
        elif value is not None:
            left[name] = value
    return left


def _seeds_workers(name: str, value: Any) -> bool:
    """Lightning's seed_everything(workers=True) sets such a function on every loader; here seed= seeds all."""
    return name == "worker_init_fn" and "lightning" in getattr(getattr(value, "func", None), "__module__", "")


def in_pygs_words(error: Error, folder: str | None) -> Error:
    """An error of the library, which names options in parentheses, and as ``hopfeed.Loader`` has them. ``folder``: one that was
    made of a graph in memory, and that users do not know."""

    def renamed(names: re.Match[str]) -> str:
        return f"({', '.join(dict.fromkeys(_PYG_NAMES.get(name, name) for name in names[1].split(', ')))})"

    text = re.sub(r"\((\w+(?:, \w+)*)\)", renamed, str(error))
    return type(error)(text if folder is None else text.replace(f" of {folder} has no ", " of data has no "))


def refuse_none(arguments: Mapping[str, Any]) -> None:
    """Raises ``InvalidError`` naming an argument that is None and cannot be."""
    for name, value in arguments.items():
        if value is None and name in _NEVER_NONE:
            raise InvalidError(f"{name} is None; give a value, or leave it out")


def fanouts(num_neighbors: Any, edge_types: Sequence[EdgeType], typed: bool, sampler: str | None, subgraph: str) -> dict[str, Any]:
    """num_neighbors as ``fanouts`` and ``edge_fanouts``: a list, a dict by edge type, or PyG's ``NumNeighbors``.

    A ``sampler`` of hopfeed's that is another than neighbor has none; of an induced subgraph they may count a model's layers.
    """
    if sampler is not None and sampler != "neighbor":
        by_type = isinstance(num_neighbors, Mapping) or hasattr(num_neighbors, "default")
        counted = [] if num_neighbors is None or by_type else fanout_list("num_neighbors", num_neighbors)
        layers = subgraph == "induced" and set(counted) == {-1}
        if by_type or counted and not layers:
            what = ", or give -1 for each layer of the model" if subgraph == "induced" else ""
            raise InvalidError(f"num_neighbors is {num_neighbors!r}, and sampler {sampler!r} has no such numbers; leave it out (None){what}")
        return {"fanouts": counted} if layers else {}
    if num_neighbors is None:
        raise InvalidError("num_neighbors is missing; give a list, a number of neighbours for each hop")
    default: list[int] | None = None
    by_type: Mapping[Any, Any] | None = None
    if hasattr(num_neighbors, "values") and hasattr(num_neighbors, "default"):  # NumNeighbors
        values, default = num_neighbors.values, num_neighbors.default
        if isinstance(values, Mapping):
            by_type = {tuple(key.split("__")) if isinstance(key, str) else key: value for key, value in values.items()}
            default = None if default is None else fanout_list("num_neighbors", default)
        else:
            return {"fanouts": fanout_list("num_neighbors", values)}
    elif isinstance(num_neighbors, Mapping):
        by_type = num_neighbors
    else:
        return {"fanouts": fanout_list("num_neighbors", num_neighbors)}
    if not typed:
        raise InvalidError("num_neighbors is a dict, and data has one edge type; give a list, a number for each hop")
    unknown = [key for key in by_type if tuple(key) not in edge_types]
    if unknown:
        raise InvalidError(f"num_neighbors names the edge type {unknown[0]!r}; data has {list(edge_types)}")
    given = {tuple(key): fanout_list(f"num_neighbors[{key!r}]", value) for key, value in by_type.items()}
    missing = [key for key in edge_types if key not in given]
    if missing and default is None:
        raise InvalidError(f"num_neighbors has no number for the edge type {missing[0]!r}; name all types, or give a default")
    given |= {key: default for key in missing if default is not None}
    hops = {len(value) for value in given.values()}
    if len(hops) != 1:
        raise InvalidError(f"num_neighbors has lists of {sorted(hops)} numbers; the number of hops must be the same across all edge types")
    return {"fanouts": [1] * hops.pop(), "edge_fanouts": given}


def subgraph(subgraph_type: Any, directed: bool) -> str:
    """PyG's SubgraphType by name; the older ``directed=False`` is induced."""
    name = getattr(subgraph_type, "value", subgraph_type)
    if name not in _SUBGRAPHS:
        raise InvalidError(f"subgraph_type is {subgraph_type!r}; give one of {', '.join(_SUBGRAPHS)}")
    return name if directed else "induced"


def seeds(input_nodes: Any, node_types: Sequence[NodeType | None], num_nodes: Any, every: Any) -> tuple[int, dict[str, Any]]:
    """input_nodes as (number of the type, options that say which seeds). ``num_nodes(number)`` counts a type's nodes,
    ``every(number)`` gives the options where none of them are named."""
    number, nodes = 0, input_nodes
    if isinstance(input_nodes, str):
        nodes, number = None, _type_number(input_nodes, node_types)
    elif isinstance(input_nodes, (tuple, list)) and len(input_nodes) == 2 and isinstance(input_nodes[0], str):
        number, nodes = _type_number(input_nodes[0], node_types), input_nodes[1]
    elif len(node_types) > 1:
        raise InvalidError(f"input_nodes names no node type; give (type, nodes), a type of {list(node_types)}")
    count = num_nodes(number)
    if not count and node_types[number] is not None:
        raise InvalidError(f"input_nodes is of the node type {node_types[number]!r}, which has no nodes; give nodes of another")
    if nodes is None:
        return number, every(number)
    if isinstance(nodes, Tensor) and nodes.dtype == torch.bool or isinstance(nodes, np.ndarray) and nodes.dtype == np.bool_:
        mask = as_array("input_nodes", nodes, np.bool_, 1)
        if len(mask) != count:
            raise InvalidError(f"input_nodes is a mask of {len(mask)}; the type has {count} nodes")
        return number, {"seed_mask": mask}
    ids = as_array("input_nodes", nodes, np.int64, 1)
    if ids.size and (ids.min() < 0 or ids.max() >= count):
        raise InvalidError(f"input_nodes has {ids.min() if ids.min() < 0 else ids.max()}; nodes are from 0 to {count - 1}")
    return number, {"seeds": ids}


def refuse_both(given: Mapping[str, Any]) -> None:
    """``given``: a split, the type that it is of, and PyG's argument that says which seeds, in this order.

    Raises:
        InvalidError: the split and PyG's argument, or a type without a split, which PyG's argument names.
    """
    (split, name), (kind, of), (pygs, value) = given.items()
    if name is not None and value is not None:
        raise InvalidError(f"{split} and {pygs} are given, and each says which seeds; give one of them")
    if name is None and of is not None:
        raise InvalidError(f"{kind} is not what PyG names it; give {pygs}=({of!r}, ...)")


def split_number(given: Mapping[str, Any], types: Sequence[str], splits: Sequence[Collection[str]]) -> int:
    """Number of the type that a split is of: the one that is named, else the only one that has a split of that name.

    ``given``: as of :func:`refuse_both`; ``types``, ``splits``: names of the types, and of the splits of each.
    """
    (argument, split), (kind, of), (pygs, _) = given.items()
    if not isinstance(split, str):
        raise InvalidError(f"{argument} is {split!r}; give a split's name")
    wanted = "__".join(of) if isinstance(of, tuple) else of
    asked = [number for number, name in enumerate(types) if wanted in (None, name, *name.split("__")[1:2])]
    if not asked:
        raise InvalidError(f"{kind} is {of!r}; there are {list(types)}")
    found = [number for number in asked if split in splits[number]]
    if not found:
        known = sorted({name for number in asked for name in splits[number]})
        raise InvalidError(f"{argument} is {split!r}, and there are {known or 'none'}; choose one of them, or give {pygs}=")
    if len(found) > 1:
        raise InvalidError(f"{argument} {split!r} is there of {[types[number] for number in found]}; name one ({kind}=)")
    return found[0]


def _type_number(name: str, node_types: Sequence[NodeType | None]) -> int:
    if name not in node_types:
        raise InvalidError(f"input_nodes names the node type {name!r}; there are {[kind for kind in node_types if kind]}")
    return list(node_types).index(name)


def links(edge_label_index: Any, edge_types: Sequence[EdgeType | None], all_edges: Any) -> tuple[int, np.ndarray[Any, Any]]:
    """edge_label_index as (number of the edge type, int64 [P, 2]). ``all_edges(number)`` gives [2, E]."""
    number = edge_type_number(edge_label_index, edge_types)
    pairs = _links_alone(edge_label_index)
    if pairs is None:
        pairs = all_edges(number)
    if isinstance(pairs, (tuple, list)) and len(pairs) == 2 and isinstance(pairs[0], Tensor):
        pairs = torch.stack(list(pairs))
    array = as_array("edge_label_index", pairs, np.int64, 2)
    if array.shape[0] != 2:
        raise InvalidError(f"edge_label_index is {list(array.shape)}; give [2, P], source and destination of each link")
    return number, np.ascontiguousarray(array.T)


def edge_type_number(edge_label_index: Any, edge_types: Sequence[EdgeType | None]) -> int:
    """Number of the edge type that edge_label_index is of; named by (src, rel, dst), by (src, dst) or by the relation
    alone where one type has it, as PyG reads them."""
    if _is_name(edge_label_index):
        key = edge_label_index
    elif isinstance(edge_label_index, (tuple, list)) and len(edge_label_index) == 2 and _is_name(edge_label_index[0]):
        key = edge_label_index[0]
    elif len(edge_types) > 1:
        raise InvalidError(f"edge_label_index names no edge type; give (type, links), a type of {list(edge_types)}")
    else:
        return 0
    found = [
        number
        for number, edge in enumerate(edge_types)
        if edge is not None and (key in (edge[1], "__".join(edge)) if isinstance(key, str) else tuple(key) in (edge, (edge[0], edge[2])))
    ]
    if len(found) != 1:
        raise InvalidError(f"edge_label_index names the edge type {key!r}; there are {list(edge_types)}")
    return found[0]


def _is_name(key: Any) -> bool:
    return isinstance(key, str) or isinstance(key, (tuple, list)) and bool(key) and all(isinstance(part, str) for part in key)


def _links_alone(edge_label_index: Any) -> Any:
    if _is_name(edge_label_index):
        return None
    if isinstance(edge_label_index, (tuple, list)) and len(edge_label_index) == 2 and _is_name(edge_label_index[0]):
        return edge_label_index[1]
    return edge_label_index


def negatives(neg_sampling: Any, neg_sampling_ratio: Any) -> NegativeSampling | None:
    """PyG's two arguments as one."""
    refuse_switches({"neg_sampling_ratio": neg_sampling_ratio})
    try:
        if neg_sampling_ratio:
            return NegativeSampling("binary", neg_sampling_ratio)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidError(f"neg_sampling_ratio is {neg_sampling_ratio!r} ({error}); give a number above zero, of negatives for each link") from None
    try:
        return NegativeSampling.cast(neg_sampling)
    except (TypeError, ValueError) as error:
        raise InvalidError(f"neg_sampling is {neg_sampling!r} ({error}); give a NegativeSampling, 'binary' or 'triplet'") from None


def as_tensor(name: str, given: Any) -> Tensor:
    """``given`` with one entry for each of something, of any element type. Raises ``InvalidError`` naming the argument."""
    try:
        tensor = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidError(f"{name} is no tensor ({error}); give a tensor, or a list of numbers") from None
    if not tensor.dim():
        raise InvalidError(f"{name} is {given!r}; give a tensor, or a list of numbers")
    return tensor
