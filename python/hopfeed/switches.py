"""True and False, which Python takes for 1 and 0: switches, and no numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hopfeed.errors import InvalidError

# Arguments that are numbers, or lists of such.
NUMBERS = {
    "batch_size", "rank", "world_size", "seed", "labor_seeds", "time_window", "walk_length", "walks_per_seed", "walk_p", "walk_q", "amount",
    "num_workers", "channel_size", "max_batch_memory", "num_slots", "cores", "max_worker_restarts", "row_cache_bytes", "window",
    "gpu_device", "worker_devices", "batch_deadline", "start_deadline", "batches_ahead", "connect_timeout",
    "reconnect_deadline", "partitions", "replicas", "worker_concurrency", "peer_deadline", "peer_connect_timeout", "cache_limit",
    "prefetch_factor", "timeout", "neg_sampling_ratio", "threads", "nodes", "edges", "features", "classes", "parts",
    "batches", "halo", "homophily", "interactions", "items", "loyalty", "metis_degree", "num_nodes", "reader", "seconds", "span", "tastes",
    "train_fraction", "train_ms", "users", "valid_fraction", "within",
}  # fmt: skip


def is_switch(value: Any) -> bool:
    """Whether it is True or False, NumPy's and torch's too."""
    return isinstance(value, bool) or "bool" in str(getattr(value, "dtype", ""))


def refuse_switches(arguments: Mapping[str, Any]) -> None:
    """Raises ``InvalidError`` naming a number that is True or False."""
    for name, value in arguments.items():
        if name in NUMBERS and any(map(is_switch, value if isinstance(value, (list, tuple)) else [value])):
            raise InvalidError(f"{name} is {value!r} ({type(value).__name__}); give a number: True and False are none")
