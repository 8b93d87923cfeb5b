"""What stands between convolutions is computed by rows; modules that look at all rows at once are refused by name."""

from __future__ import annotations

from typing import Any

import torch

from hopfeed.errors import UnsupportedError

_OVER_ALL_ROWS = {
    "GraphNorm", "PairNorm", "MeanSubtractionNorm", "GraphSizeNorm", "InstanceNorm", "InstanceNorm1d", "InstanceNorm2d", "DeepSetsAggregation",
}  # fmt: skip


def require_rowwise(module: Any, title: str) -> None:
    """Raises ``UnsupportedError`` naming the module whose output at a row depends on other rows."""
    for inner in module.modules() if isinstance(module, torch.nn.Module) else ():
        name = type(inner).__name__
        whole = name in _OVER_ALL_ROWS
        whole |= name == "LayerNorm" and getattr(inner, "mode", "node") == "graph"
        whole |= isinstance(inner, torch.nn.modules.batchnorm._BatchNorm) and not inner.track_running_stats
        if whole:
            raise UnsupportedError(f"{title} has {name}, which looks at all rows at once; inference by blocks cannot compute it")
