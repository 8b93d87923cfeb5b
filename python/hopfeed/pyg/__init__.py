"""PyG's loaders with hopfeed behind them: the same arguments, the same defaults, the same batches.

    from hopfeed.pyg import NeighborLoader    # was: from torch_geometric.loader import NeighborLoader
"""

from hopfeed.pyg.link_loader import LinkNeighborLoader
from hopfeed.pyg.node_loader import NeighborLoader

__all__ = ["LinkNeighborLoader", "NeighborLoader"]
