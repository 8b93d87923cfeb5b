"""examples/python/infer_sage.py as users run it, for each kind of model."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hopfeed

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

EXAMPLE = Path(__file__).parents[2] / "examples" / "python" / "infer_sage.py"
DEADLINE = 300  # seconds; importing torch and PyG takes some where the machine is busy

pytestmark = pytest.mark.skipif(not EXAMPLE.is_file(), reason="the examples are in hopfeed's checkout")


def run(environment: dict[str, str], *words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLE), *map(str, words)]
    return subprocess.run(command, env=environment | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=DEADLINE)


@pytest.mark.parametrize("model", ["sage", "gat", "gcn"])
def test_ModelsOfPyg_AreTrainedAndWritten(cut: Path, environment: dict[str, str], tmp_path: Path, model: str) -> None:
    call = ["--data", cut, "--out", tmp_path / "out", "--model", model, "--hidden", 16, "--show", 1999, 0]
    done = run(environment, *call)
    assert done.returncode == 0, done.stderr
    assert f"node: 2,000 rows of width 16 in {tmp_path}/out\n" in done.stdout
    assert re.search(r"^test accuracy 0\.\d+, from all neighbours$", done.stdout, re.MULTILINE)
    rows = hopfeed.read_results(tmp_path / "out", verify=True).array()
    assert np.isfinite(rows).all() and rows.std(0).min() > 0
    for node in (1999, 0):
        assert f"\n{node}: {' '.join(f'{number:.4f}' for number in rows[node, :4])} ..." in done.stdout
    refused = run(environment, *call, "--epochs", 1)  # other parameters
    assert refused.returncode != 0 and refused.stderr.splitlines()[-1].endswith("has the results of another run; give overwrite=True, or another folder")


def test_TypedModel_FromItsWeights_ByKeys(environment: dict[str, str], tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("duckdb")
    import pyarrow.parquet as pq

    rng = np.random.default_rng(2)
    for name, count in (("user", 40), ("item", 30)):
        columns = {"id": [f"{name}-{i}" for i in range(count)], **{f"x{i}": rng.random(count) for i in range(3)}}
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    for name, sources, destinations in (("likes", "user", "item"), ("liked", "item", "user")):
        ends = [[f"{kind}-{i}" for i in rng.integers(0, 30, 200)] for kind in (sources, destinations)]
        pq.write_table(pa.table({"a": ends[0], "b": ends[1]}), tmp_path / f"{name}.parquet")
    attrs = '[{"name": "x", "columns": ["x0", "x1", "x2"]}]'
    (tmp_path / "tables.json").write_text(
        '{"name": "shop", "nodes": [' + ", ".join(f'{{"name": "{name}", "table": "{name}.parquet", "key": "id", "attrs": {attrs}}}' for name in ("user", "item")) + "],"
        ' "edges": [{"src": "user", "rel": "likes", "dst": "item", "table": "likes.parquet", "src_key": "a", "dst_key": "b"},'
        ' {"src": "item", "rel": "liked", "dst": "user", "table": "liked.parquet", "src_key": "a", "dst_key": "b"}]}'
    )
    dataset = hopfeed.Dataset(hopfeed.import_tables(tmp_path / "dataset", tmp_path / "tables.json", parts=2) and tmp_path / "dataset")
    sys.path.insert(0, str(EXAMPLE.parent))
    try:
        from infer_sage import typed_layers
    finally:
        sys.path.pop(0)
    torch.manual_seed(5)
    layers = typed_layers(dataset, 8, 2)
    torch.save(layers.state_dict(), tmp_path / "weights.pt")
    call = ["--data", tmp_path / "dataset", "--out", tmp_path / "out", "--model", "hetero", "--hidden", 8, "--weights", tmp_path / "weights.pt"]
    done = run(environment, *call, "--format", "parquet", "--show", "item-7")
    assert done.returncode == 0, done.stderr
    x = {name: torch.from_numpy(dataset.attr("x", name)[:]).float() for name in dataset.node_types}
    edges = {edge: torch.from_numpy(dataset.edge_index(edge)) for edge in dataset.edge_types}
    between = {name: rows.relu() for name, rows in layers[0](x, edges).items()}
    wanted = {name: rows.detach().numpy() for name, rows in layers[1](between, edges).items()}
    for name, rows in wanted.items():
        assert f"{name}: {len(rows)} rows of width 8 in {tmp_path}/out\n" in done.stdout
        found = hopfeed.read_results(tmp_path / "out", name)
        np.testing.assert_allclose(found.array(), rows, rtol=1e-4, atol=1e-5)
        assert list(found.keys) == list(dataset.keys(name)[:])
    first = hopfeed.read_results(tmp_path / "out")
    shown = re.search(r"^item-7: (.*) \.\.\.$", done.stdout, re.MULTILINE)
    assert first.node_type == "item" and shown
    at = list(dataset.keys("item")[:]).index("item-7")
    np.testing.assert_allclose([float(number) for number in shown[1].split()], wanted["item"][at, :4], atol=1e-4)


def test_WhatCannotBe_IsOneLine(small: Path, environment: dict[str, str], tmp_path: Path) -> None:
    done = run(environment, "--data", small, "--out", tmp_path / "out", "--edge-weight", "w", "--epochs", 1)
    assert done.returncode != 0 and done.stderr == "edge_weight='w' is given, and no layer has an argument edge_weight\n"
    assert not (tmp_path / "out").exists()
