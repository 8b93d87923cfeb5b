"""PyG's loaders with hopfeed behind them: the same arguments, the same defaults, the same batches.

    from hopfeed.pyg import NeighborLoader    # was: from torch_geometric.loader import NeighborLoader
"""

from typing import TYPE_CHECKING, Any

from hopfeed.version import explain_missing

try:
    import torch
    import torch_geometric
except ModuleNotFoundError as error:
    raise explain_missing(error, "hopfeed.pyg", "torch torch-geometric") from None
del torch, torch_geometric

from hopfeed.pyg.link_loader import LinkNeighborLoader  # noqa: E402
from hopfeed.pyg.node_loader import NeighborLoader  # noqa: E402

if TYPE_CHECKING:
    from hopfeed.pyg.lightning import LightningLinkData, LightningNodeData

__all__ = ["LightningLinkData", "LightningNodeData", "LinkNeighborLoader", "NeighborLoader"]


def __getattr__(name: str) -> Any:
    if name in ("LightningLinkData", "LightningNodeData"):  # loads Lightning, which takes seconds
        from hopfeed.pyg import lightning

        return getattr(lightning, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
