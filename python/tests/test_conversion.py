"""Graphs of PyG as folders: what comes back, the cache, its lock and its bound."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

from torch_geometric.data import Data, HeteroData  # noqa: E402

import hopfeed  # noqa: E402
from hopfeed import conversion  # noqa: E402
from hopfeed.pyg import NeighborLoader  # noqa: E402


def graph(nodes: int = 50, seed: int = 0) -> Data:
    made = torch.Generator().manual_seed(seed)
    return Data(
        x=torch.rand(nodes, 3, generator=made),
        y=torch.randint(0, 3, (nodes,), generator=made),
        edge_index=torch.randint(0, nodes, (2, 6 * nodes), generator=made),
        train_mask=torch.arange(nodes) % 2 == 0,
    )


def test_a_graph_comes_back_as_it_was(tmp_path: Path) -> None:
    data = graph()
    hopfeed.from_pyg(data, tmp_path / "one")
    back = hopfeed.to_pyg(tmp_path / "one")
    for name in ("x", "y", "edge_index", "train_mask"):
        assert torch.equal(back[name], data[name])
    dataset = hopfeed.Dataset(tmp_path / "one")
    assert dataset.num_classes() == 3 and (dataset.split("train") == np.arange(0, 50, 2)).all()
    with pytest.raises(hopfeed.Error, match="exists"):
        hopfeed.from_pyg(data, tmp_path / "one")
    assert os.listdir(tmp_path) == ["one"]


def test_types_keep_their_names_and_reverses_are_known(tmp_path: Path) -> None:
    data = HeteroData()
    data["paper"].x = torch.rand(9, 2)
    data["an author"].num_nodes = 5
    data["an author", "writes", "paper"].edge_index = torch.tensor([[0, 4], [8, 1]])
    data["paper", "rev_writes", "an author"].edge_index = torch.tensor([[8, 1], [0, 4]])
    hopfeed.from_pyg(data, tmp_path / "one")
    meta = hopfeed.Dataset(tmp_path / "one").meta
    assert [node["name"] for node in meta["node_types"]] == ["paper", "nodes1"]
    assert meta["edge_types"][1]["rev_of"] == "nodes1__writes__paper"


def test_a_cache_makes_a_folder_once_and_loaders_share_it(tmp_path: Path) -> None:
    first = NeighborLoader(graph(), [2], batch_size=10, cache_dir=tmp_path)
    made = sorted(path.name for path in tmp_path.iterdir())
    before = os.stat(tmp_path / made[0] / "meta.json")
    second = NeighborLoader(graph(), [3], batch_size=10, cache_dir=tmp_path)  # equal tensors, other objects
    NeighborLoader(graph(seed=1), [3], batch_size=10, cache_dir=tmp_path)
    assert len(list(first)) == len(list(second)) == 5
    assert len(list(tmp_path.glob("*/meta.json"))) == 2
    assert os.stat(tmp_path / made[0] / "meta.json").st_ino == before.st_ino


def test_the_cache_is_bounded_and_keeps_what_is_in_use(tmp_path: Path) -> None:
    held = NeighborLoader(graph(seed=0), [2], cache_dir=tmp_path)
    dropped = NeighborLoader(graph(seed=1), [2], cache_dir=tmp_path)
    dropped.close()
    del dropped
    import gc

    gc.collect()
    last = NeighborLoader(graph(seed=2), [2], cache_dir=tmp_path, cache_limit=1)
    assert len(list(tmp_path.glob("*/meta.json"))) == 2
    assert len(list(held)) == len(list(last)) == 50


def test_two_processes_make_it_once(tmp_path: Path, environment: dict[str, str]) -> None:
    text = f"""
import sys, torch
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_conversion import graph
from hopfeed.pyg import NeighborLoader
print(len(list(NeighborLoader(graph(20000), [2], batch_size=1000, cache_dir={str(tmp_path)!r}))))
"""
    runs = [subprocess.Popen([sys.executable, "-c", text], env=environment, stdout=subprocess.PIPE) for _ in range(3)]
    assert [run.communicate(timeout=120)[0].strip() for run in runs] == [b"20"] * 3
    assert len(list(tmp_path.glob("*/meta.json"))) == 1


def test_who_waits_too_long_for_the_lock_is_told_which(tmp_path: Path) -> None:
    planned = conversion.plan(graph())
    lock = tmp_path / f"{conversion._fingerprint(planned)}.lock"
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(hopfeed.DeadlineError, match=lock.name):
            conversion.convert(planned, tmp_path, deadline=0.2)


def test_an_attribute_that_cannot_be_is_named(tmp_path: Path) -> None:
    data = graph()
    data.mass = torch.ones(data.num_edges)
    data.mass[7] = float("nan")
    with pytest.raises(hopfeed.InvalidError, match="node__to__node.mass: weight 'mass' of edge 7") as raised:
        NeighborLoader(data, [2], weight_attr="mass", cache_dir=tmp_path)
    assert str(tmp_path) not in str(raised.value)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_what_a_killed_process_left_goes_with_the_next_one(tmp_path: Path) -> None:
    planned = conversion.plan(graph())
    left = tmp_path / f".{conversion._fingerprint(planned)}.arrays"
    left.mkdir()
    (left / "half.npy").write_bytes(b"?")
    conversion.convert(planned, tmp_path)
    assert not left.exists() and len(list(tmp_path.glob("*/meta.json"))) == 1


def test_temporary_folders_go_with_their_loaders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    loader = NeighborLoader(graph(seed=9), [2])
    assert len(list(tmp_path.iterdir())) == 1
    loader.close()
    del loader
    import gc

    gc.collect()
    assert not list(tmp_path.iterdir())


def test_the_tool_s_commands_are_functions(tmp_path: Path) -> None:
    made = hopfeed.generate(tmp_path / "one", nodes=1000, edges=5000, features=4, classes=3, seed=1, train_fraction=0.5)
    assert made["nodes"] == 1000 or made.get("dataset") or made
    hopfeed.partition(tmp_path / "one", tmp_path / "two", parts=2)
    assert hopfeed.Dataset(tmp_path / "two").num_partitions == 2
    assert hopfeed.inspect(tmp_path / "two")
    told = hopfeed.tune(tmp_path / "one")
    assert 0 <= told["recommended"]["ratio"] <= 1
    with pytest.raises(hopfeed.InvalidError, match="parts"):
        hopfeed.partition(tmp_path / "one", tmp_path / "three", parts=0)
    with pytest.raises(hopfeed.Error, match="nothing"):
        hopfeed.inspect(tmp_path / "nothing")
