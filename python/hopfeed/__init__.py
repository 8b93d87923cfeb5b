"""hopfeed: mini-batches of graph neighbourhoods for GNN training.

``hopfeed.pyg`` has PyG's loaders with hopfeed behind them, ``hopfeed.torch.Loader`` gives torch tensors and
``hopfeed.Loader`` NumPy arrays. ``hopfeed.state`` has state of training at servers, ``hopfeed.distributed`` training over
several machines by DGL's names. These, and ``hopfeed.spark`` and ``hopfeed.ray``, are loaded where they are first named:
``import hopfeed`` alone needs NumPy, and loads no torch.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from hopfeed import distributed as distributed
    from hopfeed import pyg as pyg
    from hopfeed import ray as ray
    from hopfeed import spark as spark
    from hopfeed import torch as torch

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

_NEEDS: dict[str, tuple[str, ...]] = {  # modules, and the packages without which they cannot be imported
    "distributed": ("torch",),
    "pyg": ("torch", "torch_geometric"),
    "ray": (),
    "spark": (),
    "torch": ("torch",),
}

if not TYPE_CHECKING:  # a checker takes the names from above, and no others

    def __getattr__(name: str) -> Any:
        if name in _NEEDS:
            return import_module(f"hopfeed.{name}")
        raise AttributeError(f"module 'hopfeed' has no attribute {name!r}")


def __dir__() -> list[str]:
    """With the modules that can be imported: who looks at each name, as ``help(hopfeed)`` does, is told of no missing package."""
    return sorted({*globals(), *(name for name, packages in _NEEDS.items() if all(map(_is_installed, packages)))})


def _is_installed(package: str) -> bool:
    return sys.modules[package] is not None if package in sys.modules else find_spec(package) is not None
