"""A dataset folder as ``hopfeed.Dataset`` and ``hopfeed.to_pyg`` read it: rows of every stored type, and folders with some partitions."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hopfeed
from conftest import partition

EXAMPLES = Path(__file__).parents[2] / "examples" / "python"
STORED = ["bfloat16", "int8", "int4"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """600 nodes with 17 features, an odd number: float32."""
    folder = tmp_path_factory.mktemp("data") / "whole"
    partition("generate", folder, "--nodes", 600, "--edges", 6000, "--features", 17, "--classes", 4, "--train-fraction", 0.5, "--seed", 3)
    return folder


@pytest.fixture(scope="module", params=STORED)
def converted(request: pytest.FixtureRequest, whole: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The same in two partitions, with features of another type."""
    folder = tmp_path_factory.mktemp("data")
    partition("convert", whole, folder / "one", "--attr", f"x={request.param}")
    partition("partition", folder / "one", folder / "two", "--parts", 2)
    return request.param, folder / "two"


def values_of_loader(folder: Path, kind: str) -> np.ndarray:
    """x of all nodes, by id, as batches have it."""
    ids = np.arange(600)
    with hopfeed.Loader(folder, fanouts=[], seeds=ids, batch_size=600, shuffle=False, num_workers=0) as loader:
        (batch,) = loader
        x = np.empty((600, 17), np.float32)
        x[batch.n_id] = (batch.x.astype(np.uint32) << 16).view(np.float32) if kind == "bfloat16" else batch.x
    return x


def test_rows_are_values_whatever_they_are_stored_as(converted: tuple[str, Path], whole: Path) -> None:
    kind, folder = converted
    rows = hopfeed.Dataset(folder).attr("x")
    assert rows.shape == (600, 17) and rows.dtype == np.float32
    assert rows.element_type == {"bfloat16": "bfloat16", "int8": "int8_scaled", "int4": "int4_scaled"}[kind]
    expected = values_of_loader(folder, kind)
    assert rows[:].dtype == np.float32 and np.array_equal(rows[:], expected) and np.array_equal(np.asarray(rows), expected)
    assert np.array_equal(rows[[7, 599, 7]], expected[[7, 599, 7]]) and rows[5].shape == (17,) and rows[[]].shape == (0, 17)
    exact = hopfeed.Dataset(whole).attr("x")[:]
    step = {"bfloat16": np.abs(exact) / 256, "int8": np.abs(exact).max(1, keepdims=True) / 254, "int4": np.abs(exact).max(1, keepdims=True) / 14}[kind]
    assert (np.abs(expected - exact) <= step * 1.001).all() and not np.array_equal(expected, exact)


def test_to_pyg_gives_the_values_that_loaders_give(converted: tuple[str, Path]) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    import hopfeed.torch

    kind, folder = converted
    data = hopfeed.to_pyg(folder)
    with hopfeed.torch.Loader(folder, fanouts=[], seeds=np.arange(600), batch_size=600, num_workers=0) as loader:
        (batch,) = loader
        assert data.x.dtype == batch.x.dtype == (torch.bfloat16 if kind == "bfloat16" else torch.float32)
        assert data.x.shape == (600, 17) and torch.equal(data.x[batch.n_id], batch.x)


@pytest.mark.parametrize("stored", ["float16", "float32", "float64", "uint8", "int8", "int16", "int32", "int64", "uint32", "bool"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_numbers_come_as_they_were_imported(tmp_path: Path, stored: str, shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).integers(0, 2 if stored == "bool" else 100, (6, *shape)).astype(stored)
    np.save(tmp_path / "a.npy", values)
    np.save(tmp_path / "edges.npy", np.array([[0, 1, 2], [3, 4, 5]]))
    hopfeed.import_numpy(tmp_path / "made", edge_index=tmp_path / "edges.npy", node_attr=f"a={tmp_path / 'a.npy'}")
    rows = hopfeed.Dataset(tmp_path / "made").attr("a")
    assert rows.dtype == values.dtype and rows.shape == values.shape
    assert rows[:].dtype == values.dtype and np.array_equal(rows[:], values)


@pytest.mark.parametrize("kind", ["bfloat16", "int8"])
@pytest.mark.parametrize(
    "script, arguments",
    [
        ("pyg_sage.py", ["--data", "{folder}", "--epochs", 1, "--hidden", 8, "--fanouts", 3, 2]),
        ("infer_sage.py", ["--data", "{folder}", "--out", "{out}", "--epochs", 1, "--hidden", 8]),
        ("distributed_sage.py", ["--epochs", 1, "--hidden", 8, "--fanouts", 3, 2]),
    ],
)
def test_the_examples_take_features_of_every_type(
    whole: Path, tmp_path: Path, environment: dict[str, str], kind: str, script: str, arguments: list[object]
) -> None:
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    folder = tmp_path / "data"
    partition("convert", whole, folder, "--attr", f"x={kind}")
    words = [str(word).format(folder=folder, out=tmp_path / "out") for word in arguments]
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / script), *words], env=environment | {"HOPFEED_DATA": str(folder)}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0 and "test accuracy" in done.stdout, done.stderr[-2000:]


@pytest.fixture(params=["replicated", "sharded"])
def some(request: pytest.FixtureRequest, whole: Path, tmp_path: Path) -> Path:
    """Partitions 0 and 2 of three, as another machine has them."""
    partition("partition", whole, tmp_path / "cut", "--parts", 3, "--ids", request.param)
    partition("push", tmp_path / "cut", "--to", f"0,2={tmp_path / 'here'}")
    return tmp_path / "here"


def test_rows_that_are_here_are_given_and_others_are_one_line(some: Path, whole: Path) -> None:
    here, everything = hopfeed.Dataset(some), hopfeed.Dataset(whole).attr("x")[:]
    elsewhere = np.flatnonzero(hopfeed.Dataset(some.parent / "cut").partition_of(np.arange(600)) == 1)
    ids = np.setdiff1d(np.arange(600), elsewhere)[::-1]
    assert 0 < len(elsewhere) < 600
    rows = here.attr("x")
    assert rows.shape == (600, 17) and np.array_equal(rows[ids], everything[ids]) and np.array_equal(rows[ids[0]], everything[ids[0]])
    assert set(here.partition_of(ids)) == {0, 2} and here.partition_of(ids[0]).shape == () and here.partition_of(ids[:6].reshape(2, 3)).shape == (2, 3)
    assert np.array_equal(rows[ids[:6].reshape(2, 3)], everything[ids[:6].reshape(2, 3)]) and rows[[]].shape == (0, 17)
    for wanted in (elsewhere[:1], np.arange(600), slice(None)):
        with pytest.raises(hopfeed.UnsupportedError, match=f"of {some}.* not on this machine.*hopfeed-partition push.*hopfeed.distributed") as raised:
            rows[wanted]
        assert "\n" not in str(raised.value)


def test_what_reads_the_whole_graph_says_which_partition_is_not_here(some: Path, whole: Path) -> None:
    here = hopfeed.Dataset(some)
    with pytest.raises(hopfeed.UnsupportedError, match=f"(partition 1 of|ids of) {some} "):
        here.edge_index()
    if "ids" in here.meta:
        with pytest.raises(hopfeed.UnsupportedError, match=f"ids of {some} are sharded"):
            here.split("train")
    else:
        assert np.array_equal(here.split("train"), hopfeed.Dataset(whole).split("train"))
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    with pytest.raises(hopfeed.UnsupportedError, match=f"of {some}"):
        hopfeed.to_pyg(some)


def test_a_file_that_is_gone_is_told_in_our_words(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "copy")
    (tmp_path / "copy/part-0000/nodes/node/x.npy").unlink()
    with pytest.raises(hopfeed.NotFoundError, match="part-0000/nodes/node/x.npy is not there; restore it"):
        hopfeed.Dataset(tmp_path / "copy").attr("x")[[1]]


@pytest.mark.parametrize("size", [0, 10, 200])
def test_a_file_that_is_cut_short_is_told_in_our_words(whole: Path, tmp_path: Path, size: int) -> None:
    shutil.copytree(whole, tmp_path / "copy")
    with open(tmp_path / "copy/part-0000/nodes/node/x.npy", "r+b") as file:
        file.truncate(size)
    with pytest.raises(hopfeed.CorruptError, match="part-0000/nodes/node/x.npy is damaged; restore it"):
        hopfeed.Dataset(tmp_path / "copy").attr("x")


def test_what_to_pyg_gives_is_what_infer_takes(whole: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    nn = pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed")
    partition("convert", whole, tmp_path / "half", "--attr", "x=bfloat16")
    data = hopfeed.to_pyg(tmp_path / "half")
    assert data.x.dtype == torch.bfloat16
    torch.manual_seed(0)
    layer = nn.SAGEConv(17, 3)
    stored = hopfeed.infer([layer], tmp_path / "half", progress=False)
    for given in (data.x, {"node": data.x}, data.x.float()):
        assert torch.equal(hopfeed.infer([layer], tmp_path / "half", x=given, progress=False), stored)


def test_elements_of_a_later_release_are_refused_by_name(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "copy")
    meta = (tmp_path / "copy/meta.json").read_text()
    (tmp_path / "copy/meta.json").write_text(meta.replace('"element_type": "float32"', '"element_type": "float4"').replace('"element_type":"float32"', '"element_type":"float4"'))
    with pytest.raises(hopfeed.UnsupportedError, match="attribute 'x' is float4; this release reads uint8, .*, bfloat16, int8_scaled, int4_scaled"):
        hopfeed.Dataset(tmp_path / "copy").attr("x")


def test_rows_that_are_here_of_a_type_that_no_edge_ends_at(tmp_path: Path) -> None:
    x = np.random.default_rng(0).random((90, 2), dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "edges.npy", np.stack([np.arange(90), np.arange(90) % 30]))
    (tmp_path / "graph.json").write_text(
        '{"name": "two", "nodes": [{"name": "user", "features": "x.npy"}, {"name": "item", "count": 30}],'
        ' "edges": [{"src": "user", "rel": "likes", "dst": "item", "index": "edges.npy"}]}'
    )
    partition("import", "numpy", tmp_path / "one", "--hetero", tmp_path / "graph.json")
    partition("partition", tmp_path / "one", tmp_path / "cut", "--parts", 3, "--ids", "sharded", "--method", "random")
    partition("push", tmp_path / "cut", "--to", f"1={tmp_path / 'here'}")
    ids = np.flatnonzero(hopfeed.Dataset(tmp_path / "cut").partition_of(np.arange(90), "user") == 1)
    assert 0 < len(ids) < 90 and np.array_equal(hopfeed.Dataset(tmp_path / "here").attr("x", "user")[ids], x[ids])
