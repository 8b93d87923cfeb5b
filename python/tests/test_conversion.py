"""Graphs of PyG as folders: what comes back, the cache, its lock and its bound."""

from __future__ import annotations

import fcntl
import gc
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

from torch_geometric.data import Data, HeteroData  # noqa: E402

import hopfeed  # noqa: E402
import hopfeed.distributed  # noqa: E402
import hopfeed.torch  # noqa: E402
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
    with pytest.raises(hopfeed.InvalidError, match="one exists; choose another folder or pass overwrite=True$"):
        hopfeed.from_pyg(data, tmp_path / "one")
    hopfeed.from_pyg(data, tmp_path / "one", overwrite=True)
    assert os.listdir(tmp_path) == ["one"]


@pytest.mark.parametrize(
    "argument, call",
    [
        ("dataset", hopfeed.Loader),
        ("dataset", hopfeed.torch.Loader),
        ("dataset", hopfeed.to_pyg),
        ("folder", hopfeed.Dataset),
        ("data", lambda data: hopfeed.infer([], data)),
        ("data", lambda data: hopfeed.distributed.initialize(data=data)),
    ],
)
def test_a_graph_in_memory_where_a_folder_is_wanted_is_one_line(argument: str, call: Callable[[Any], object]) -> None:
    for given, name, more in ((graph(), "Data", ": hopfeed.from_pyg(data, folder) makes one, and the loaders of hopfeed.pyg take the graph itself"), (5, "int", "")):
        with pytest.raises(hopfeed.InvalidError) as raised:
            call(given)
        assert str(raised.value) == f"{argument} is a {name}; give the path of a dataset's folder{more}"


def test_types_keep_their_names_and_reverses_are_known(tmp_path: Path) -> None:
    data = HeteroData()
    data["paper"].x = torch.rand(9, 2)
    data["an author"].num_nodes = 5
    data["an author", "writes", "paper"].edge_index = torch.tensor([[0, 4], [8, 1]])
    data["paper", "rev_writes", "an author"].edge_index = torch.tensor([[8, 1], [0, 4]])
    told(data, tmp_path / "one")
    meta = hopfeed.Dataset(tmp_path / "one").meta
    assert [node["name"] for node in meta["node_types"]] == ["paper", "nodes1"]
    assert meta["edge_types"][1]["rev_of"] == "nodes1__writes__paper"


def told(data: Data | HeteroData, folder: Path, **options: Any) -> tuple[dict[str, Any], list[str]]:
    """What from_pyg gives back, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = hopfeed.from_pyg(data, folder, **options)
    assert all(one.category is UserWarning and one.filename == __file__ for one in caught)
    return made, [str(one.message) for one in caught]


_MATRIX, _LABELS = "x is a matrix of float32 or float16", "labels y are int64, one for each node, from -1 (none) on"


@pytest.mark.parametrize(
    "name, value, why",
    [
        ("x", torch.rand(50, 3, dtype=torch.float64), f"float64 [50, 3]: {_MATRIX}"),
        ("x", torch.rand(50, 3).bfloat16(), f"bfloat16 [50, 3]: {_MATRIX}"),
        ("x", torch.zeros(50, 3, dtype=torch.int32), f"int32 [50, 3]: {_MATRIX}"),
        ("x", torch.zeros(50, 3, dtype=torch.uint8), f"uint8 [50, 3]: {_MATRIX}"),
        ("x", torch.zeros(50, 3, dtype=torch.bool), f"bool [50, 3]: {_MATRIX}"),
        ("x", torch.zeros(50, 3, dtype=torch.complex64), f"complex64 [50, 3]: {_MATRIX}"),
        ("x", torch.rand(50), f"float32 [50]: {_MATRIX}"),
        ("x", torch.rand(50, 2, 2), f"float32 [50, 2, 2]: {_MATRIX}"),
        ("x", torch.rand(50, 0), f"float32 [50, 0]: {_MATRIX}"),
        ("y", torch.rand(50), f"float32 [50]: {_LABELS}"),
        ("y", torch.zeros(50, 2, dtype=torch.int64), f"int64 [50, 2]: {_LABELS}"),
        ("y", torch.zeros(50, dtype=torch.int32), f"int32 [50]: {_LABELS}"),
        ("y", torch.full((50,), -2), f"int64 [50]: {_LABELS}"),
        ("z", torch.zeros(50, 3).bfloat16(), "bfloat16 [50, 3]: elements are bool, uint8, int8 to int64 or float16 to float64"),
        ("z", torch.zeros(300, dtype=torch.complex64), "complex64 [300]: elements are bool, uint8, int8 to int64 or float16 to float64"),
        ("z", torch.zeros(50, 0), "float32 [50, 0]: its rows have no elements"),
        ("z", torch.zeros(50, 1, 1, 1, 1), "float32 [50, 1, 1, 1, 1]: it has more than 4 dimensions"),
        ("z", torch.zeros(7), "float32 [7]: it has no row for each node or edge"),
        ("z", torch.tensor(1.0), "float32 []: it has no row for each node or edge"),
        ("z", torch.zeros(50, 3).to_sparse(), "float32 [50, 3]: it is torch.sparse_coo"),
        ("z", "text", "a str: tensors are stored"),
        ("z", np.zeros(50), "a ndarray: tensors are stored"),
        ("z" * 32, torch.zeros(50), "a name has up to 31 letters, digits, '_', '.' and '-', and no '__'"),
        ("a b", torch.zeros(50), "a name has up to 31 letters, digits, '_', '.' and '-', and no '__'"),
        ("n_id", torch.zeros(50), "batches have a field of that name"),
    ],
)  # fmt: skip
def test_what_a_folder_cannot_hold_is_told_with_the_reason(tmp_path: Path, name: str, value: Any, why: str) -> None:
    data = graph()
    data[name] = value
    made, lines = told(data, tmp_path / "one")
    assert made["left_out"] == {name: why} and "renamed" not in made
    assert lines == [f"hopfeed.from_pyg: {tmp_path / 'one'} is without {name} ({why})"]
    assert name not in hopfeed.Dataset(tmp_path / "one").attrs()
    with warnings.catch_warnings():  # of a graph in memory nothing is lost
        warnings.simplefilter("error")
        with NeighborLoader(data, [2], batch_size=50, cache_dir=tmp_path / "cache") as loader:
            batch = next(iter(loader))
    if isinstance(value, torch.Tensor) and len(value.shape) and len(value) == 50 and value.layout == torch.strided and name != "n_id":
        assert torch.equal(batch[name], value[batch.n_id])


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (2, 1, 3)])
def test_what_a_folder_holds_comes_back_as_it_was_and_is_not_warned_of(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    data = graph()
    data.x = data.x.half()
    data.y[:3] = -1
    data.mine = torch.randint(0, 2, (50, *shape)).to(getattr(torch, dtype))
    data.of_edges = torch.randint(0, 2, (300, *shape)).to(getattr(torch, dtype))
    made, lines = told(data, tmp_path / "one")
    assert made.keys() == {"nodes", "edges", "fingerprint"} and lines == []
    back = hopfeed.to_pyg(tmp_path / "one")
    for name in ("x", "y", "mine", "edge_index", "train_mask"):
        assert torch.equal(back[name], data[name]) and back[name].dtype == data[name].dtype
    batch = next(iter(NeighborLoader(tmp_path / "one", [2], batch_size=50)))
    assert torch.equal(batch.mine, data.mine[batch.n_id]) and torch.equal(batch.of_edges, data.of_edges[batch.e_id])


def test_types_that_are_renamed_are_told_once_with_what_is_left_out(tmp_path: Path) -> None:
    data = HeteroData()
    data["a b"].x, data["c"].x = torch.rand(4, 2, dtype=torch.float64), torch.rand(3, 2)
    data["a b", "to", "c"].edge_index, data["a b", "to", "c"].w = torch.tensor([[0, 1], [1, 0]]), torch.rand(2).bfloat16()
    data["c", "has been", "c"].edge_index = torch.tensor([[0, 1], [1, 0]])
    data.source, data.whole = "somewhere", torch.zeros(4)
    made, lines = told(data, tmp_path / "one")
    assert made["renamed"] == {"a b": "nodes0", ("a b", "to", "c"): ("nodes0", "to", "c"), ("c", "has been", "c"): ("c", "edges1", "c")}
    assert list(made["left_out"]) == ["source", "whole", "x of 'a b'", "w of ('a b', 'to', 'c')"]
    (line,) = lines
    assert line.startswith(f"hopfeed.from_pyg: {tmp_path / 'one'} is without source (a str: tensors are stored), whole (float32 [4]: it has no row for each node or edge), ")
    assert line.endswith("; types have other names there: 'a b' is 'nodes0', ('a b', 'to', 'c') is ('nodes0', 'to', 'c'), ('c', 'has been', 'c') is ('c', 'edges1', 'c')")
    meta = hopfeed.Dataset(tmp_path / "one")
    assert meta.node_types == ["nodes0", "c"] and meta.edge_types == [made["renamed"]["a b", "to", "c"], made["renamed"]["c", "has been", "c"]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NeighborLoader(data, [2], input_nodes="c", cache_dir=tmp_path / "cache").close()


def test_weights_and_times_that_are_stored_are_not_left_out(tmp_path: Path) -> None:
    data = graph()
    data.w, data.t = torch.rand(300, 1).half(), torch.arange(300, dtype=torch.int32)
    assert told(data, tmp_path / "one", weight="w", time="t")[1] == []
    assert {one["name"] for one in hopfeed.Dataset(tmp_path / "one").meta["edge_types"][0]["attrs"]} == {"w", "t"}


def test_a_cache_makes_a_folder_once_and_loaders_share_it(tmp_path: Path) -> None:
    first = NeighborLoader(graph(), [2], batch_size=10, cache_dir=tmp_path)
    made = sorted(path.name for path in tmp_path.iterdir())
    before = os.stat(tmp_path / made[0] / "meta.json")
    second = NeighborLoader(graph(), [3], batch_size=10, cache_dir=tmp_path)  # equal tensors, other objects
    NeighborLoader(graph(seed=1), [3], batch_size=10, cache_dir=tmp_path)
    assert len(list(first)) == len(list(second)) == 5
    assert len(list(tmp_path.glob("*/meta.json"))) == 2
    assert os.stat(tmp_path / made[0] / "meta.json").st_ino == before.st_ino


@pytest.mark.parametrize("damaged", ["meta.json", "part-0000/nodes/node/x.npy"])
@pytest.mark.parametrize("size", [None, 0, 10])
def test_what_is_damaged_in_the_cache_is_made_anew(tmp_path: Path, damaged: str, size: int | None) -> None:
    data = graph()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NeighborLoader(data, [2], batch_size=10, num_workers=0, cache_dir=tmp_path).close()
        gc.collect()
        NeighborLoader(data, [2], batch_size=10, num_workers=0, cache_dir=tmp_path).close()
    gc.collect()
    (entry,) = (path for path in tmp_path.iterdir() if path.is_dir())
    if size is None:
        (entry / damaged).unlink()
    else:
        os.truncate(entry / damaged, size)
    with pytest.warns(UserWarning, match=f"{entry}, which is of the cache, is damaged, and is made anew"):
        loader = NeighborLoader(data, [2], batch_size=10, num_workers=0, cache_dir=tmp_path)
    assert all(torch.equal(batch.x, data.x[batch.n_id]) for batch in loader)


def test_the_cache_is_bounded_and_keeps_what_is_in_use(tmp_path: Path) -> None:
    held = NeighborLoader(graph(seed=0), [2], cache_dir=tmp_path)
    dropped = NeighborLoader(graph(seed=1), [2], cache_dir=tmp_path)
    dropped.close()
    del dropped
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
    # Each imports torch and PyG first, which takes a few seconds where the machine is idle.
    assert [run.communicate(timeout=400)[0].strip() for run in runs] == [b"20"] * 3
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


def killed_while_it_writes(seed: int, cache: Path, environment: dict[str, str]) -> None:
    text = f"""
import contextlib, os, signal, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_conversion import conversion, graph
@contextlib.contextmanager
def shown(progress):
    yield lambda step, percent: os.kill(os.getpid(), signal.SIGKILL) if step == "Writing edges" else None
conversion.shown_progress = shown
conversion.convert(conversion.plan(graph(seed={seed})), {str(cache)!r})
"""
    assert subprocess.run([sys.executable, "-c", text], env=environment).returncode == -signal.SIGKILL


def test_what_a_killed_process_left_goes_with_the_next_one(tmp_path: Path, environment: dict[str, str]) -> None:
    killed_while_it_writes(0, tmp_path, environment)
    assert len(list(tmp_path.glob(".*.tmp-*"))) == 1 and not list(tmp_path.glob("*/meta.json"))
    conversion.convert(conversion.plan(graph()), tmp_path)
    assert not list(tmp_path.glob(".*.tmp-*")) and len(list(tmp_path.glob("*/meta.json"))) == 1


def test_what_a_killed_process_left_of_another_graph_counts_in_the_cache(tmp_path: Path, environment: dict[str, str]) -> None:
    killed_while_it_writes(0, tmp_path, environment)
    conversion.convert(conversion.plan(graph(seed=1)), tmp_path, cache_limit=1)
    assert not list(tmp_path.glob(".*.tmp-*")) and len(list(tmp_path.glob("*/meta.json"))) == 1


def test_a_type_that_no_store_has_is_named_with_its_edges() -> None:
    data = HeteroData()
    data["a"].x = torch.rand(4, 2)
    data["a", "to", "c"].edge_index = torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(hopfeed.InvalidError, match=r"edges of type \('a', 'to', 'c'\) and no node type 'c'; set data\['c'\]"):
        NeighborLoader(data, [2], input_nodes="a")


def test_a_list_as_an_attribute_is_named_at_once() -> None:
    data = graph()
    data.title = [f"node {v}" for v in range(50)]
    with pytest.raises(hopfeed.InvalidError, match="title is a list of 50"):
        NeighborLoader(data, [2])
    del data.title
    loader = NeighborLoader(data, [2])
    loader.data.title = [f"node {v}" for v in range(50)]
    with pytest.raises(hopfeed.InvalidError, match="title is a list of 50"):
        iter(loader)
    typed = HeteroData()
    typed["a"].x, typed["a", "to", "a"].edge_index = torch.rand(4, 2), torch.tensor([[0, 1], [1, 0]])
    typed["a", "to", "a"].kind = ("one", "two")
    with pytest.raises(hopfeed.InvalidError, match=r"kind of \('a', 'to', 'a'\) is a tuple of 2"):
        NeighborLoader(typed, [2], input_nodes="a")


def test_weights_and_times_that_are_too_few_are_counted() -> None:
    data = graph()
    data.w, data.t = torch.ones(299), torch.arange(49)
    with pytest.raises(hopfeed.InvalidError, match="weight_attr 'w' has 299 values; there are 300 edges"):
        NeighborLoader(data, [2], weight_attr="w")
    with pytest.raises(hopfeed.InvalidError, match="time_attr 't' has 49 values; there are 300 edges and 50 nodes"):
        NeighborLoader(data, [2], time_attr="t", input_time=torch.arange(50))
    data.w = torch.tensor(1.0)
    with pytest.raises(hopfeed.InvalidError, match="weight_attr 'w' is a single number; give a tensor of numbers"):
        NeighborLoader(data, [2], weight_attr="w")
    data.w = [1.0] * 300
    with pytest.raises(hopfeed.InvalidError, match="w is a list of 300"):
        NeighborLoader(data, [2], weight_attr="w")
    typed = HeteroData()
    typed["a"].x = torch.rand(4, 2)
    for rel, weights in (("to", 2), ("of", 1)):  # of one type right, of the other not
        typed["a", rel, "a"].edge_index, typed["a", rel, "a"].w = torch.tensor([[0, 1], [1, 0]]), torch.ones(weights)
    with pytest.raises(hopfeed.InvalidError, match=r"weight_attr 'w' of \('a', 'of', 'a'\) has 1 values; there are 2 edges"):
        NeighborLoader(typed, [2], input_nodes="a", weight_attr="w")


def test_weights_of_as_many_edges_as_nodes_are_of_the_edges() -> None:
    data = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [3, 3, 3, 0]]), w=torch.tensor([0.0, 0.0, 1.0, 1.0]))
    batch = next(iter(NeighborLoader(data, [1], input_nodes=torch.tensor([3]), weight_attr="w")))
    assert batch.n_id.tolist() == [3, 2] and batch.w.tolist() == [1.0, 1.0]


def test_names_that_are_made_up_avoid_those_in_use() -> None:
    data = HeteroData()
    data["nodes1"].x, data["two words"].x = torch.zeros(3, 1), torch.ones(4, 1)
    data["nodes1", "edges1", "two words"].edge_index = torch.tensor([[0, 1, 2], [0, 1, 2]])
    data["nodes1", "with words", "two words"].edge_index = torch.tensor([[0, 1, 2], [3, 3, 3]])
    batch = next(iter(NeighborLoader(data, [3], input_nodes=("two words", torch.tensor([3])))))
    assert batch["nodes1", "edges1", "two words"].edge_index.tolist() == [[], []]
    assert batch["nodes1", "with words", "two words"].edge_index.size(1) == 3
    assert batch["two words"].x.tolist() == [[1.0]] and batch["nodes1"].x.tolist() == [[0.0]] * 3


def test_names_with_dots_are_not_mixed_up(tmp_path: Path) -> None:
    data = HeteroData()
    data["a.b"].c, data["a"]["b.c"] = torch.arange(3), torch.arange(3) + 10
    data["a.b"].num_nodes = data["a"].num_nodes = 3
    data["a", "to", "a.b"].edge_index = torch.tensor([[0, 1, 2], [0, 1, 2]])
    hopfeed.from_pyg(data, tmp_path / "one")
    dataset = hopfeed.Dataset(tmp_path / "one")
    assert dataset.attr("c", "a.b")[:].tolist() == [0, 1, 2] and dataset.attr("b.c", "a")[:].tolist() == [10, 11, 12]


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


def test_without_workers_rows_are_the_tensors_own_and_the_batches_the_same(tmp_path: Path) -> None:
    data = graph()
    data.weight = torch.rand(300)
    data.kind = torch.arange(300, dtype=torch.int16)
    arguments = dict(num_neighbors=[3, 2], batch_size=10, weight_attr="weight", shuffle=True, seed=4)
    here, there = NeighborLoader(data, **arguments), NeighborLoader(data, num_workers=1, **arguments)
    kept = NeighborLoader(data, cache_dir=tmp_path, **arguments)
    for ours, theirs, others in zip(here, there, kept):
        assert set(ours.keys()) == set(theirs.keys()) == set(others.keys())
        for name, value in theirs.items():
            for other in (ours[name], others[name]):
                assert torch.equal(value, other) and value.dtype == other.dtype if isinstance(value, torch.Tensor) else value == other
    folder = Path(here._graph.options["dataset"])
    assert [attr["name"] for attr in hopfeed.Dataset(folder).meta["node_types"][0]["attrs"]] == []
    assert [attr["name"] for attr in hopfeed.Dataset(folder).meta["edge_types"][0]["attrs"]] == ["weight"]
    batches = iter(here)
    data.x.data.fill_(7.0)
    assert (next(batches).x == 7.0).all()


def test_a_state_is_that_of_any_number_of_workers(tmp_path: Path) -> None:
    arguments = dict(num_neighbors=[3, 2], batch_size=10, edge_ids=False)
    data = graph()
    data.kind = torch.arange(300, dtype=torch.int16)
    expected = [batch.n_id.tolist() for batch in NeighborLoader(data, **arguments)]
    loaders = [NeighborLoader(data, num_workers=workers, cache_dir=cache, **arguments) for workers in (0, 1) for cache in (None, tmp_path)]
    for first in loaders:
        batches = iter(first)
        assert [next(batches).n_id.tolist() for _ in range(2)] == expected[:2]
        for second in loaders:
            second.load_state_dict(first.state_dict())
            assert [batch.n_id.tolist() for batch in second] == expected[2:]
            if second is first:
                break
    with pytest.raises(hopfeed.InvalidError, match="fingerprint"):
        NeighborLoader(graph(seed=1), **arguments).load_state_dict(loaders[0].state_dict())
