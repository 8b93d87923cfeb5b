"""python -m hopfeed.results: a folder of results becomes Parquet, whatever kills it meanwhile."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hopfeed

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
pytest.importorskip("pyarrow")

from hopfeed.results import folder as files  # noqa: E402
from hopfeed.results import parquet, plan  # noqa: E402
from hopfeed.results.__main__ import main  # noqa: E402
from test_results import content, infer, keyed  # noqa: E402, F401
from torch_geometric.nn import SAGEConv  # noqa: E402

DEADLINE = 120  # seconds


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "hopfeed.results", *map(str, words)]


def run(environment: dict[str, str], *words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words), env=environment, capture_output=True, text=True, timeout=DEADLINE)


def shards_of(folder: Path) -> list[dict[str, Any]]:
    return json.loads((folder / "manifest.json").read_text())["shards"]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_Rewritten_AsInferWritesParquet(keyed: tuple[Path, list[Any]], tmp_path: Path, dtype: str) -> None:  # noqa: F811
    convs = [SAGEConv(1, 4)]
    wanted = infer(keyed[0], tmp_path / "wanted", layers=convs, format="parquet", dtype=dtype)
    npy = infer(keyed[0], tmp_path / "out", layers=convs, dtype=dtype)
    keys, rows, run_id = list(npy.keys), npy.array().copy(), npy.manifest["run"]
    told: list[tuple[int, int]] = []
    report = parquet.to_parquet(tmp_path / "out", lambda done, total: told.append((done, total)))
    assert report["rows"] == 50 and report["files"] == len(shards_of(tmp_path / "wanted")) == 2
    assert [done for done, _ in told] == sorted(done for done, _ in told) and told[-1] == (50, 50)
    found, expected = content(tmp_path / "out"), content(tmp_path / "wanted")
    assert found.keys() == expected.keys()
    assert all(found[path] == expected[path] for path in found if path != "manifest.json")
    assert shards_of(tmp_path / "out") == shards_of(tmp_path / "wanted")
    results = hopfeed.read_results(tmp_path / "out", verify=True)
    assert results.manifest["run"] == run_id and results.manifest["file_format"] == "parquet"
    assert np.array_equal(results.array(), rows) and np.array_equal(wanted.array(), rows) and list(results.keys) == keys


def test_OthersReadIt(keyed: tuple[Path, list[Any]], tmp_path: Path, environment: dict[str, str]) -> None:  # noqa: F811
    duckdb = pytest.importorskip("duckdb")
    import pyarrow.dataset

    wanted = infer(keyed[0], tmp_path / "out", layers=[SAGEConv(1, 4)]).array().copy()
    done = run(environment, "to-parquet", tmp_path / "out", "--json", tmp_path / "told.json")
    assert done.returncode == 0 and done.stdout.startswith(f"{tmp_path}/out: 50 rows in 2 Parquet files"), done.stderr
    assert json.loads((tmp_path / "told.json").read_text())["rewritten"] is True
    keys = [str(key) if isinstance(key, uuid.UUID) else key for key in hopfeed.Dataset(keyed[0]).keys()]
    found = duckdb.sql(f"SELECT id, key, row FROM '{tmp_path}/out/embeddings/node/*.parquet' ORDER BY id").fetchall()
    assert [at for at, _, _ in found] == list(range(50)) and [key for _, key, _ in found] == keys
    assert np.array_equal(np.array([row for _, _, row in found], np.float32), wanted)
    table = pyarrow.dataset.dataset(tmp_path / "out" / "embeddings" / "node", format="parquet").to_table().sort_by("id")
    assert table["key"].to_pylist() == keys and np.array_equal(np.array(table["row"].to_pylist(), np.float32), wanted)

    before = content(tmp_path / "out")
    again = run(environment, "to-parquet", tmp_path / "out")
    assert (again.returncode, again.stdout, again.stderr) == (0, f"{tmp_path}/out is Parquet already\n", "")
    assert content(tmp_path / "out") == before


def test_SomeNodesAndSeveralTypes_AreRewritten(typed: Path, tmp_path: Path) -> None:
    from torch_geometric.nn import HeteroConv

    layer = HeteroConv({("user", "likes", "item"): SAGEConv((4, 2), 3), ("item", "liked", "user"): SAGEConv((2, 4), 3)})
    given = {"x": {"user": "x", "item": torch.rand(200, 2)}, "nodes": {"item": [4, 2], "user": []}}
    results = infer(typed, tmp_path / "out", layers=[layer], **given)
    rows = results.of("item").array().copy()
    parquet.to_parquet(tmp_path / "out")
    found = hopfeed.read_results(tmp_path / "out", "item", verify=True)
    assert found.ids.tolist() == [2, 4] and np.array_equal(found.array(), rows) and len(found.of("user")) == 0
    assert not list((tmp_path / "out").rglob("*.npy"))


def test_Lines_TellProgramsHowFarItIs(cut: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(plan, "SHARD_BYTES", 4096)
    monkeypatch.setattr(plan, "BLOCK_BYTES", 1 << 15)
    infer(cut, tmp_path / "out")
    assert main(["to-parquet", str(tmp_path / "out"), "--lines"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    done = [int(line.split()[0]) for line in lines]
    assert len(done) > 5 and done == sorted(done) and lines[-1] == "2000 2000" and last.startswith(f"{tmp_path}/out: 2,000 rows in")


def test_BadInput_IsOneLine(small: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    def refuse(part: str, code: int = 2) -> None:
        before = content(tmp_path)
        done = run(environment, "to-parquet", tmp_path / "out")
        assert done.returncode == code and done.stderr.count("\n") == 1 and part in done.stderr, done.stderr
        assert content(tmp_path) == before

    refuse("out holds no results: there is no manifest.json")
    assert not (tmp_path / "out").exists()
    infer(small, tmp_path / "out")
    stem = tmp_path / "out" / "embeddings" / "node" / "part-0000-00000"
    for suffix in (".npy", ".ids.npy"):
        path = stem.with_suffix(suffix)
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        refuse(f"part-0000-00000{suffix} is damaged: its checksum is another")
        path.unlink()
        refuse(f"part-0000-00000{suffix} is gone")
        path.write_bytes(whole)
    held = files.lock(tmp_path / "out")
    try:
        done = run(environment, "to-parquet", tmp_path / "out")
        assert done.returncode == 1 and "another run writes to" in done.stderr
    finally:
        files.os.close(held)
    assert run(environment, "to-parquet", tmp_path / "out").returncode == 0
    hopfeed.read_results(tmp_path / "out", verify=True)


def test_DiskThatIsTooSmall_IsSaidBeforeAnythingIsWritten(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    infer(small, tmp_path / "out")
    before = content(tmp_path)
    monkeypatch.setattr(files.shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(10**6, 0, 10**4))  # type: ignore[attr-defined]
    with pytest.raises(hopfeed.NoSpaceError, match="Parquet takes up to 0.0 MB beside the files that are there, and 0.0 MB are free; make room"):
        parquet.to_parquet(tmp_path / "out")
    assert content(tmp_path) == before


def test_Check_TellsWhetherThereIsThePackage(environment: dict[str, str]) -> None:
    done = run(environment, "check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    script = "import sys; sys.modules['pyarrow'] = None; from hopfeed.results.__main__ import main; sys.exit(main(sys.argv[1:]))"
    for words in (["check"], ["to-parquet", "nowhere"]):
        done = subprocess.run([sys.executable, "-c", script, *words], env=environment, capture_output=True, text=True, timeout=DEADLINE)
        assert done.returncode == 1 and done.stderr.count("\n") == 1
        assert "written by the package pyarrow" in done.stderr and "pip install 'hopfeed[tables]', or write npy" in done.stderr


# Where it is killed: before its first file, in a file, between them, and while it removes what it has rewritten.


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Results of 2,000 nodes in 50 shards, with keys that are texts."""
    folder, shards, order = tmp_path / "npy", [], np.random.default_rng(1).permutation(2000)
    write = files.Files(sync=False)
    (folder / "embeddings" / "node").mkdir(parents=True)
    for at in range(0, 2000, 40):
        ids, stem = order[at : at + 40], f"embeddings/node/part-0000-{at:05}"
        texts = [str(node).encode() for node in ids]
        arrays = {
            "rows": ("", (ids[:, None] + np.arange(4)).astype(np.float32)), "ids": (".ids", ids),
            "keys": (".keys", np.frombuffer(b"".join(texts), np.uint8)), "key_offsets": (".key_offsets", np.cumsum([0, *map(len, texts)])),
        }  # fmt: skip
        made = {kind: {"path": f"{stem}{suffix}.npy", **write.array(folder / f"{stem}{suffix}.npy", [array])} for kind, (suffix, array) in arrays.items()}
        shards.append({"output": "embeddings", "node_type": "node", "partition": 0, "rows": 40, "files": made})
    node = {"name": "node", "width": 4, "rows": 2000, "count": 2000, "keys": "string"}
    write.json(folder / "manifest.json", {
        "format": "hopfeed-results", "version": 1, "run": "0", "dataset": "made", "fingerprint": "0", "dtype": "float32", "file_format": "npy",
        "outputs": [{"name": "embeddings", "node_types": [node]}], "shards": shards, "torch": "2", "processor": "cpu: made",
    })  # fmt: skip
    assert (hopfeed.read_results(folder, verify=True).array()[:, 0] == np.arange(2000)).all()
    return folder


class Stop(BaseException):
    pass


def test_StoppedAtEachStep_GoesOnToTheSameFiles(many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(many, tmp_path / "whole")
    parquet.to_parquet(tmp_path / "whole")
    wanted, shards = content(tmp_path / "whole"), len(shards_of(many))
    steps = [("rename", after) for after in (0, 1, shards // 2, shards - 1, shards)] + [("unlink", after) for after in (0, 1, shards, 4 * shards - 1)]
    for at, (name, after) in enumerate(steps):
        out = tmp_path / f"out-{at}"
        shutil.copytree(many, out)
        count = [0]

        def failing(*given: Any, call: Any, **more: Any) -> Any:
            if count[0] == after:
                raise Stop
            count[0] += 1
            return call(*given, **more)

        with monkeypatch.context() as patch, pytest.raises(Stop):
            place, call = (files.os, files.os.rename) if name == "rename" else (Path, Path.unlink)
            patch.setattr(place, name, lambda *given, call=call, **more: failing(*given, call=call, **more) if str(given[0]).endswith(("npy", "new")) else call(*given, **more))
            parquet.to_parquet(out)
        rows = hopfeed.read_results(out, verify=True)  # at any moment the results are whole
        assert rows.shape == (2000, 4)
        parquet.to_parquet(out)
        assert content(out) == wanted, (name, after)


def test_KilledAtRandomMoments_EndsWithTheSameFiles(many: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    shutil.copytree(many, tmp_path / "whole")
    begin = time.monotonic()
    process = subprocess.Popen(command("to-parquet", tmp_path / "whole", "--lines"), env=environment, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    started = time.monotonic() - begin  # Python's imports, and a shard
    process.communicate(timeout=DEADLINE)
    lasts = time.monotonic() - begin
    wanted, chance, killed, rounds = content(tmp_path / "whole"), random.Random(4), 0, 0
    out = tmp_path / "out"
    while killed < 20 and rounds < 100:
        rounds += 1
        if not out.exists():
            shutil.copytree(many, out)
        process = subprocess.Popen(command("to-parquet", out), env=environment, stdout=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.8 * started, lasts))
        process.kill()
        if process.wait(DEADLINE) == -signal.SIGKILL:
            killed += 1
            assert hopfeed.read_results(out, verify=True).shape == (2000, 4)
        elif content(out) != wanted:
            pytest.fail("a run that ended left other files")
        else:
            shutil.rmtree(out)  # it was done: begin anew
    assert killed == 20, f"{killed} of {rounds} rounds were killed before their end"
    if out.exists():
        assert run(environment, "to-parquet", out).returncode == 0
        assert content(out) == wanted
