"""hopfeed: mini-batches of graph neighbourhoods for GNN training.

``hopfeed.pyg`` has PyG's loaders with hopfeed behind them, ``hopfeed.torch.Loader`` gives torch tensors and
``hopfeed.Loader`` NumPy arrays. ``hopfeed.state`` has state of training at servers, ``hopfeed.distributed`` training over
several machines by DGL's names.
"""

from hopfeed.batch import Batch, Block
from hopfeed.dataset import Dataset
from hopfeed.errors import (
    BusyError,
    CorruptError,
    DeadlineError,
    Error,
    InputOutputError,
    InvalidError,
    NoSpaceError,
    NotFoundError,
    PeerDiedError,
    StateLost,
    UnsupportedError,
    VersionError,
)
from hopfeed.conversion import from_pyg
from hopfeed.loader import Loader
from hopfeed.results import Results, infer, read_results
from hopfeed.state import DistTensor
from hopfeed.tables import import_chunked, import_graphbolt, import_snap, import_tables
from hopfeed.to_pyg import to_pyg
from hopfeed.tool import generate, import_numpy, inspect, partition, tune
from hopfeed.version import __version__

__all__ = [
    "Batch",
    "Block",
    "BusyError",
    "CorruptError",
    "Dataset",
    "DeadlineError",
    "DistTensor",
    "Error",
    "InputOutputError",
    "InvalidError",
    "Loader",
    "NoSpaceError",
    "NotFoundError",
    "PeerDiedError",
    "Results",
    "StateLost",
    "UnsupportedError",
    "VersionError",
    "__version__",
    "from_pyg",
    "generate",
    "import_chunked",
    "import_graphbolt",
    "import_numpy",
    "import_snap",
    "import_tables",
    "infer",
    "inspect",
    "partition",
    "read_results",
    "to_pyg",
    "tune",
]
