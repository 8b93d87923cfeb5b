"""A list of seeds (or links) that is empty, as a rank's share or a graph without test nodes may be: epochs without a batch.

The library opens no stream of no seeds. One with a seed for each rank, which nobody iterates, checks all other
arguments and tells types and counts.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hopfeed.errors import InvalidError

SHA256 = hashlib.sha256(b"").hexdigest()  # of no seeds, in a loader's spec

# The lists of seeds, and what has an entry for each of their entries.
_LISTS = {"seeds": ("seed_times", "seed_weights"), "seed_mask": ("seed_times", "seed_weights"), "links": ("link_labels", "link_times")}


def with_seeds(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """The options of a stream with a seed for each rank, where they give an empty list; else None.

    Raises:
        InvalidError: entries of a list that has none.
    """
    name = next((name for name in _LISTS if options.get(name) is not None), None)
    if name is None:
        return None
    given, ranks = options[name], options.get("world_size")
    if given.any() if name == "seed_mask" else len(given):
        return None
    count = _ranks(ranks)
    changed: dict[str, Any]
    if name == "seed_mask" and count > len(given) > 0:  # a mask has a node once
        changed = {name: None, "seeds": np.zeros(count, np.int64)}
    elif name == "seed_mask":
        changed = {name: np.arange(len(given)) < count}
    else:
        changed = {name: np.zeros((count, *given.shape[1:]), given.dtype)}
    for of_each in _LISTS[name]:
        entries = options.get(of_each)
        if entries is None:
            continue
        if len(entries):
            raise InvalidError(f"{of_each} has {len(entries)} entries, and {name} none; give one for each")
        changed[of_each] = np.ones(count, entries.dtype)
    return {option: value for option, value in {**options, **changed}.items() if value is not None}


def check_mask(options: Mapping[str, Any], node_types: Sequence[Mapping[str, Any]]) -> None:
    """Raises ``InvalidError`` where a mask is not as long as its type has nodes, as the library does, which may see none of it."""
    mask = options.get("seed_mask")
    name = options.get("node_type", node_types[0]["name"])
    nodes = next((node["count"] for node in node_types if node["name"] == name), None)
    if mask is not None and nodes is not None and len(mask) != nodes:
        raise InvalidError(f"the mask of seeds has {len(mask)} entries, and type '{name}' has {nodes} nodes")


def _ranks(given: Any) -> int:
    """How many there are; 1 where it is no number of them, which the library says."""
    try:
        return max(operator.index(given), 1)
    except TypeError:
        return 1
