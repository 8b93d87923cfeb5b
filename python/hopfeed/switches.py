"""True and False, which Python takes for 1 and 0: switches, and no numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hopfeed import keywords
from hopfeed.errors import InvalidError

# Arguments that are numbers, or lists of such, beside those of the library's table: of PyG's loaders, of torch's and of
# the partition tool.
NUMBERS = keywords.NUMBERS | {
    "cache_limit", "prefetch_factor", "timeout", "neg_sampling_ratio", "threads", "nodes", "edges", "features", "classes", "parts",
    "batches", "halo", "homophily", "interactions", "items", "loyalty", "metis_degree", "num_nodes", "reader", "span", "tastes",
    "train_fraction", "train_ms", "users", "valid_fraction", "within", "seconds",
}  # fmt: skip


def is_switch(value: Any) -> bool:
    """Whether it is True or False, NumPy's and torch's too."""
    return isinstance(value, bool) or "bool" in str(getattr(value, "dtype", ""))


def refuse_switches(arguments: Mapping[str, Any]) -> None:
    """Raises ``InvalidError`` naming a number that is True or False."""
    for name, value in arguments.items():
        if name in NUMBERS and any(map(is_switch, value if isinstance(value, (list, tuple)) else [value])):
            raise InvalidError(f"{name} is {value!r} ({type(value).__name__}); give a number: True and False are none")
