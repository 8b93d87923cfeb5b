"""hopfeed: mini-batches of graph neighbourhoods for GNN training.

``hopfeed.pyg`` has PyG's loaders with hopfeed behind them, ``hopfeed.torch.Loader`` gives torch tensors and
``hopfeed.Loader`` NumPy arrays.
"""

from hopfeed.batch import Batch, Block
from hopfeed.dataset import Dataset
from hopfeed.errors import (
    CorruptError,
    DeadlineError,
    Error,
    InputOutputError,
    InvalidError,
    NoSpaceError,
    NotFoundError,
    PeerDiedError,
    UnsupportedError,
    VersionError,
)
from hopfeed.conversion import from_pyg
from hopfeed.loader import Loader
from hopfeed.to_pyg import to_pyg
from hopfeed.tool import generate, import_numpy, inspect, partition, tune
from hopfeed.version import __version__

__all__ = [
    "Batch",
    "Block",
    "CorruptError",
    "Dataset",
    "DeadlineError",
    "Error",
    "InputOutputError",
    "InvalidError",
    "Loader",
    "NoSpaceError",
    "NotFoundError",
    "PeerDiedError",
    "UnsupportedError",
    "VersionError",
    "__version__",
    "from_pyg",
    "generate",
    "import_numpy",
    "inspect",
    "partition",
    "to_pyg",
    "tune",
]
