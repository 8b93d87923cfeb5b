#!/usr/bin/env python3
"""Runs PyG's own tests of its neighbour and link loaders against hopfeed's, with nothing changed but the import.

Usage: pyg_own_tests.py FOLDER [PYTEST ARGUMENT...]
  FOLDER   has test_neighbor_loader.py and test_link_neighbor_loader.py of a checkout of pytorch_geometric (test/loader)

The loaders' imports are replaced, and the marks that skip a test where pyg-lib or torch-sparse is missing are patched away.
Needs the package, torch and torch_geometric. Prints pytest's summary of what passes and what does not.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

FILES = ("test_neighbor_loader.py", "test_link_neighbor_loader.py")
PATCHES = '''
import pytest
import torch
import torch_geometric.testing as _testing
_testing.withPackage = lambda *_: (lambda test: test)
_testing.onlyNeighborSampler = lambda test: test


@pytest.fixture
def get_dataset():
    """PyG downloads Cora; a graph of its size stands in."""
    from torch_geometric.data import Data

    def make(name):
        class Made(list):
            num_features, num_classes = 1433, 7

        edges = torch.randint(0, 2708, (2, 5278))
        return Made([Data(x=torch.rand(2708, 1433), y=torch.randint(0, 7, (2708,)), edge_index=torch.cat([edges, edges.flip(0)], 1))])

    return make

'''


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] in ("--help", "-h"):
        print(__doc__.strip(), file=sys.stderr if len(sys.argv) < 2 else sys.stdout)
        return 2 if len(sys.argv) < 2 else 0
    import pytest

    with tempfile.TemporaryDirectory() as folder:
        for name in FILES:
            path = Path(sys.argv[1]) / name
            if not path.is_file():
                print(f"pyg_own_tests.py: no {name} in {sys.argv[1]}; give the folder test/loader of a checkout", file=sys.stderr)
                return 2
            text = re.sub(r"from torch_geometric\.loader import (NeighborLoader|LinkNeighborLoader)", r"from hopfeed.pyg import \1", path.read_text())
            (Path(folder) / name).write_text(PATCHES + text)
        return pytest.main(["-q", "--no-header", "-p", "no:cacheprovider", "-rA", *sys.argv[2:], folder])


if __name__ == "__main__":
    sys.exit(main())
