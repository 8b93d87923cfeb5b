"""Datasets that the tests read: made once a run by hopfeed-partition."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hopfeed.programs import program
from state_owners import owner


def partition(*arguments: object) -> None:
    """Runs hopfeed-partition, which has to succeed."""
    subprocess.run([program("hopfeed-partition"), *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2,000 nodes, 20,000 edges, 8 features, a split of 500 training nodes."""
    folder = tmp_path_factory.mktemp("data") / "small"
    partition("generate", folder, "--nodes", 2000, "--edges", 20000, "--features", 8, "--classes", 5, "--train-fraction", 0.25, "--seed", 1)
    return folder


@pytest.fixture(scope="session")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Users and items, edges of two types, features of the users alone."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    np.save(folder / "x.npy", rng.random((300, 4), dtype=np.float32))
    np.save(folder / "likes.npy", np.stack([rng.integers(0, 300, 3000), rng.integers(0, 200, 3000)]))
    np.save(folder / "liked.npy", np.load(folder / "likes.npy")[::-1])
    (folder / "graph.json").write_text(
        '{"name": "typed", "nodes": [{"name": "user", "features": "x.npy"}, {"name": "item", "count": 200}],'
        ' "edges": [{"src": "user", "rel": "likes", "dst": "item", "index": "likes.npy"},'
        ' {"src": "item", "rel": "liked", "dst": "user", "index": "liked.npy", "rev_of": "likes"}]}'
    )
    partition("import", "numpy", folder / "data", "--hetero", folder / "graph.json")
    return folder / "data"


@pytest.fixture(scope="session")
def cut(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graph of ``small`` in three partitions."""
    folder = tmp_path_factory.mktemp("data") / "cut"
    partition("partition", small, folder, "--parts", 3)
    return folder


@pytest.fixture
def two(cut: Path, tmp_path: Path) -> Iterator[list[str]]:
    """Addresses of two owners of state: one has partitions 0 and 2, the other has 1."""
    with owner(cut, tmp_path / "one", "0,2") as one, owner(cut, tmp_path / "other", "1") as other:
        yield [one, other]


def alive(pid: int) -> bool:
    """Whether there is a process of that number, zombies apart."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def environment_of_python() -> dict[str, str]:
    """Of a Python that is to see the same package."""
    import hopfeed

    found = os.environ | {"PYTHONPATH": str(Path(hopfeed.__file__).parent.parent)}
    if "ASAN_OPTIONS" in found:  # the interpreter's own leaks would be on stderr
        found["ASAN_OPTIONS"] += ":detect_leaks=0"
    return found


@pytest.fixture
def environment() -> dict[str, str]:
    return environment_of_python()
