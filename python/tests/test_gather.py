"""hopfeed-partition gather over what hopfeed.infer has written: one array in original order, keys included."""

from __future__ import annotations

import json
import shutil
import subprocess
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hopfeed
from hopfeed.programs import program

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from hopfeed.results import plan  # noqa: E402
from test_results import infer, keyed  # noqa: E402, F401
from torch_geometric.nn import SAGEConv  # noqa: E402


def gather(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program("hopfeed-partition"), "gather", *map(str, words)], capture_output=True, text=True, timeout=120)


def split_by_partition(whole: Path, folders: list[Path]) -> None:
    """What machines would have written that have a partition each: its shards, and a manifest that tells of these alone."""
    manifest = json.loads((whole / "manifest.json").read_text())
    for part, folder in enumerate(folders):
        mine = [shard for shard in manifest["shards"] if shard["partition"] == part]
        for shard in mine:
            for file in shard["files"].values():
                (folder / file["path"]).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(whole / file["path"], folder / file["path"])
        outputs = json.loads(json.dumps(manifest["outputs"]))
        outputs[0]["node_types"][0]["rows"] = sum(shard["rows"] for shard in mine)
        (folder / "manifest.json").write_text(json.dumps(manifest | {"outputs": outputs, "shards": mine}))


def keys_of(stem: Path, kind: str) -> list[Any]:
    """As users read them."""
    keys = np.load(stem.with_suffix(".keys.npy"))
    if kind == "int64":
        return list(keys.tolist())
    if kind == "uuid":
        return [uuid.UUID(bytes=key.tobytes()) for key in keys]
    at = np.load(stem.with_suffix(".key_offsets.npy"))
    return [keys[begin:end].tobytes().decode() for begin, end in zip(at, at[1:])]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_OneFolder_AsItsArray(cut: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    monkeypatch.setattr(plan, "SHARD_BYTES", 4096)
    monkeypatch.setattr(plan, "BLOCK_BYTES", 1 << 15)
    results = infer(cut, tmp_path / "out", dtype=dtype)
    assert len(results.manifest["shards"]) > 5
    done = gather(tmp_path / "out", "--out", tmp_path / "all.npy", "--json", tmp_path / "told.json")
    assert done.returncode == 0, done.stderr
    found = np.load(tmp_path / "all.npy")
    assert found.dtype == np.dtype(dtype) and np.array_equal(found, results.array())
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["rows"] == told["count"] == 2000 and told["run"] == results.manifest["run"] and told["keys"] is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.npy", "out", "told.json"]


def test_FoldersOfTwoMachines_WithKeysOfTheirOwnOrOfTheDataset(keyed: tuple[Path, list[Any]], tmp_path: Path) -> None:  # noqa: F811
    folder, _ = keyed
    results = infer(folder, tmp_path / "whole", layers=[SAGEConv(1, 4)])
    machines = [tmp_path / "a", tmp_path / "b"]
    split_by_partition(tmp_path / "whole", machines)
    kind = str(results.key_kind)
    done = gather(*machines, "--out", tmp_path / "own.npy", "--memory", 300)
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(tmp_path / "own.npy"), results.array())
    assert keys_of(tmp_path / "own.npy", kind) == list(results.keys)

    manifest = json.loads((machines[1] / "manifest.json").read_text())  # a machine without keys
    manifest["outputs"][0]["node_types"][0]["keys"] = None
    (machines[1] / "manifest.json").write_text(json.dumps(manifest))
    done = gather(*machines, "--out", tmp_path / "given.npy", "--keys-from", folder)
    assert done.returncode == 0, done.stderr
    for suffix in ("npy", "keys.npy", *(["key_offsets.npy"] if kind == "string" else [])):
        assert (tmp_path / f"given.{suffix}").read_bytes() == (tmp_path / f"own.{suffix}").read_bytes()

    lacks = gather(machines[1], "--out", tmp_path / "less.npy")
    assert lacks.returncode == 2 and "there is no row of node" in lacks.stderr and lacks.stderr.count("\n") == lacks.stderr.count("rows/s") + 1
    assert not (tmp_path / "less.npy").exists()


def test_ChosenNodes_WithTheirIdsAndKeys(keyed: tuple[Path, list[Any]], tmp_path: Path) -> None:  # noqa: F811
    folder, _ = keyed
    results = infer(folder, tmp_path / "some", layers=[SAGEConv(1, 4)], nodes=[41, 3, 17, 8])
    for word, more in (("own", []), ("given", ["--keys-from", folder])):
        done = gather(tmp_path / "some", "--out", tmp_path / f"{word}.npy", *more)
        assert done.returncode == 0, done.stderr
        assert np.load(tmp_path / f"{word}.ids.npy").tolist() == [3, 8, 17, 41]
        assert np.array_equal(np.load(tmp_path / f"{word}.npy"), results.array())
        assert keys_of(tmp_path / f"{word}.npy", str(results.key_kind)) == list(results.keys)


def test_KeysOfAnotherDataset_AreRefused(keyed: tuple[Path, list[Any]], cut: Path, tmp_path: Path) -> None:  # noqa: F811
    infer(cut, tmp_path / "out")
    for given, part in ((keyed[0], "is another dataset than the results are of"), (cut, "has no keys"), (tmp_path, "meta.json")):
        done = gather(tmp_path / "out", "--out", tmp_path / "all.npy", "--keys-from", given)
        assert done.returncode == 2 and part in done.stderr.splitlines()[-1], done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_Parquet_IsOneLineThatSaysWhatToDo(cut: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    infer(cut, tmp_path / "out", format="parquet")
    done = gather(tmp_path / "out", "--out", tmp_path / "all.npy")
    assert done.returncode == 2 and f"{tmp_path}/out holds Parquet, and gather takes npy" in done.stderr and done.stderr.count("\n") == 1
    duckdb = pytest.importorskip("duckdb")
    query = done.stderr[done.stderr.index("FROM") : done.stderr.rindex(")")]  # what the line says
    assert len(duckdb.sql(f"SELECT row {query}").fetchall()) == 2000
