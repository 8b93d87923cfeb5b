#!/usr/bin/env python3
"""Runs PyG's own tests of loaders against hopfeed's, with nothing changed but the import.

Usage: pyg_own_tests.py FOLDER [PYTEST ARGUMENT...]
  FOLDER   test of a checkout of pytorch_geometric, or a folder in it

NeighborLoader and LinkNeighborLoader are imported from hopfeed.pyg in every file that imports them; files that do not are
PyG's alone and left out. The marks that skip a test where pyg-lib or torch-sparse is missing are patched away, but for
tests that compare these two.
Needs the package, torch and torch_geometric. Prints pytest's summary of what passes and what does not.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

IMPORT = re.compile(r"^from torch_geometric\.loader import (\((?:[^)]*)\)|[^\n(]*)$", re.MULTILINE)
OURS = {"NeighborLoader", "LinkNeighborLoader"}
PATCHES = '''
import pytest
import torch
import torch_geometric.testing as _testing
import torch_geometric.typing as _typing
_with_package, _sampling = _testing.withPackage, ("pyg_lib", "torch_sparse")
_testing.withPackage = lambda *names: (lambda test: test) if len(names) == 1 and names[0].startswith(_sampling) else _with_package(*names)
_testing.onlyNeighborSampler = lambda test: test
_typing.WITH_WEIGHTED_NEIGHBOR_SAMPLE = _typing.WITH_EDGE_TIME_NEIGHBOR_SAMPLE = True


@pytest.fixture
def get_dataset():
    """PyG downloads Cora; a graph of its size stands in."""
    from torch_geometric.data import Data
    from torch_geometric.datasets import KarateClub

    def make(name):
        if name == "karate":
            return KarateClub()

        class Made(list):
            num_features, num_classes = 1433, 7

        edges = torch.randint(0, 2708, (2, 5278))
        return Made([Data(x=torch.rand(2708, 1433), y=torch.randint(0, 7, (2708,)), edge_index=torch.cat([edges, edges.flip(0)], 1))])

    return make

'''


def with_ours(text: str) -> str:
    """A test file whose two loaders are hopfeed's; as it is where it imports neither."""

    def changed(found: re.Match[str]) -> str:
        names = {name.strip() for name in found[1].strip("()").split(",") if name.strip()}
        parts = {"hopfeed.pyg": names & OURS, "torch_geometric.loader": names - OURS}
        return "\n".join(f"from {module} import {', '.join(sorted(some))}" for module, some in parts.items() if some)

    return IMPORT.sub(changed, text)


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] in ("--help", "-h"):
        print(__doc__.strip(), file=sys.stderr if len(sys.argv) < 2 else sys.stdout)
        return 2 if len(sys.argv) < 2 else 0
    import pytest

    tests = sorted(Path(sys.argv[1]).rglob("test_*.py"))
    changed = {f"test_{path.parent.name}_{path.name[5:]}": with_ours(path.read_text()) for path in tests}
    changed = {name: text for name, text in changed.items() if "from hopfeed.pyg import" in text}
    if not changed:
        print(f"pyg_own_tests.py: no test of these loaders in {sys.argv[1]}; give the folder test of a checkout", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        for name, text in changed.items():
            (Path(folder) / name).write_text(PATCHES + text)
        for parent in (Path(sys.argv[1]), Path(sys.argv[1]).parent):
            if (parent / "conftest.py").is_file():  # PyG's fixtures
                shutil.copy(parent / "conftest.py", Path(folder) / "conftest.py")
                break
        return pytest.main(["-q", "--no-header", "-p", "no:cacheprovider", "-rA", *sys.argv[2:], folder])


if __name__ == "__main__":
    sys.exit(main())
