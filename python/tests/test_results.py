"""What hopfeed.infer writes: files that others read, and a run that is killed, disturbed, or finds something else there."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hopfeed
from hopfeed.results import folder as files

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch_geometric.nn import GraphSAGE, HeteroConv, SAGEConv  # noqa: E402

from hopfeed.results import plan  # noqa: E402

SMALL = "1M"


def model(width: int = 8) -> GraphSAGE:
    torch.manual_seed(1)
    return GraphSAGE(width, 16, 3, 4).eval()


def infer(folder: Path, out: Path, **options: Any) -> Any:
    return hopfeed.infer(options.pop("layers", None) or model(), folder, out, **{"progress": False, "memory": SMALL, **options})


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def many_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "SHARD_BYTES", 4096)
    monkeypatch.setattr(plan, "BLOCK_BYTES", 1 << 15)


@pytest.fixture(scope="session", params=["int64", "string", "uuid"])
def keyed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """50 nodes of a table, whose keys are of each kind, in two partitions; and the keys."""
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("duckdb")
    import pyarrow.parquet as pq

    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(2)
    keys: list[Any]
    if request.param == "int64":
        keys = [int(key) for key in rng.choice(10**6, 50, replace=False) - 500]
        column = pa.array(keys)
    elif request.param == "string":
        keys = [f"k\u00fc\U0001d4fe{'x' * (i % 7)}{i}" for i in range(49)] + [""]
        column = pa.array(keys)
    else:
        keys = [uuid.UUID(bytes=rng.bytes(16)) for _ in range(50)]
        column = pa.array([key.bytes for key in keys], pa.uuid())
    for name in ("nodes", "edges"):
        (folder / name).mkdir()
    pq.write_table(pa.table({"id": column, "x": rng.random(50)}), folder / "nodes" / "a.parquet")
    ends = [column.take(pa.array(rng.integers(0, 50, 300))) for _ in range(2)]
    pq.write_table(pa.table({"a": ends[0], "b": ends[1]}), folder / "edges" / "a.parquet")
    description = {
        "name": "keyed",
        "nodes": [{"name": "node", "table": "nodes/*.parquet", "key": "id", "attrs": [{"name": "x", "column": "x"}]}],
        "edges": [{"src": "node", "rel": "to", "dst": "node", "table": "edges/*.parquet", "src_key": "a", "dst_key": "b"}],
    }
    (folder / "tables.json").write_text(json.dumps(description))
    hopfeed.import_tables(folder / "dataset", folder / "tables.json", parts=2)
    return folder / "dataset", keys


# What is written.


def test_Rows_ByOriginalIdAndInTheirOrder(cut: Path, tmp_path: Path) -> None:
    wanted = hopfeed.infer(model(), cut, memory=SMALL, progress=False).numpy()
    results = infer(cut, tmp_path / "out")
    assert isinstance(results, hopfeed.Results)
    results = hopfeed.read_results(tmp_path / "out", verify=True)
    assert results.shape == (2000, 4) and results.dtype == np.float32 and len(results) == 2000
    assert (results.ids == np.arange(2000)).all()
    assert (results.array() == wanted).all() and (np.asarray(results) == wanted).all()
    ids = np.array([[5, 1999], [0, 5]])
    assert (results[ids] == wanted[ids]).all() and (results[7] == wanted[7]).all() and (results[10:20] == wanted[10:20]).all()
    for match, given, kind in (("no row of node 2000", [2000], hopfeed.NotFoundError), ("no row of node -1", [-1], hopfeed.NotFoundError), ("float64", [0.5], hopfeed.InvalidError)):
        with pytest.raises(kind, match=match):
            results[given]
    with pytest.raises(hopfeed.NotFoundError, match="have no keys"):
        results.keys
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["embeddings", "manifest.json"]


def test_NpyFiles_AsTheManifestTellsThem(cut: Path, tmp_path: Path, many_shards: None) -> None:
    rows = infer(cut, tmp_path / "out", name="vectors", dtype="float16").array()
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["format"] == "hopfeed-results" and manifest["version"] == 1 and manifest["fingerprint"] == hopfeed.Dataset(cut).fingerprint
    assert manifest["torch"] == torch.__version__ and manifest["dtype"] == "float16" and manifest["processor"].startswith("cpu: ")
    assert manifest["outputs"] == [{"name": "vectors", "node_types": [{"name": "node", "width": 4, "rows": 2000, "chosen": 2000, "count": 2000, "keys": None}]}]
    assert len(manifest["shards"]) > 5 and {shard["partition"] for shard in manifest["shards"]} == {0, 1, 2}
    assert manifest["shards"][0]["files"]["rows"]["path"] == "vectors/node/part-0000-00000.npy"
    for shard in manifest["shards"]:
        found, ids = (np.load(tmp_path / "out" / shard["files"][kind]["path"]) for kind in ("rows", "ids"))
        assert found.dtype == np.float16 and ids.dtype == np.int64 and (found == rows[ids]).all()
        assert (hopfeed.Dataset(cut).partition_of(ids) == shard["partition"]).all()


def test_Keys_StandBesideTheirRows(keyed: tuple[Path, list[Any]], tmp_path: Path) -> None:
    folder, keys = keyed
    conv = [SAGEConv(1, 4)]
    rows = {format: infer(folder, tmp_path / format, layers=conv, format=format) for format in ("npy", "parquet")}
    dataset = hopfeed.Dataset(folder)
    assert sorted(dataset.keys(), key=str) == sorted(keys, key=str)
    for results in rows.values():
        assert list(results.keys) == list(dataset.keys()[:])
        assert (results.array() == rows["npy"].array()).all()
    for shard in rows["npy"].manifest["shards"]:
        loaded = {kind: np.load(tmp_path / "npy" / file["path"], allow_pickle=False) for kind, file in shard["files"].items()}
        kind = dataset.keys().kind
        if kind == "string":
            at = loaded["key_offsets"]
            found: list[Any] = [loaded["keys"][begin:end].tobytes().decode() for begin, end in zip(at, at[1:])]
        else:
            found = loaded["keys"].tolist() if kind == "int64" else [uuid.UUID(bytes=key.tobytes()) for key in loaded["keys"]]
        assert found == list(dataset.keys()[loaded["ids"]])


def test_Parquet_IsReadByArrowAndDuckdb(keyed: tuple[Path, list[Any]], tmp_path: Path) -> None:
    import duckdb
    import pyarrow.dataset

    folder, keys = keyed
    wanted = infer(folder, tmp_path / "out", layers=[SAGEConv(1, 4)], format="parquet", dtype="float16").array()
    table = pyarrow.dataset.dataset(tmp_path / "out" / "embeddings" / "node", format="parquet").to_table().sort_by("id")
    assert table.column_names == ["id", "key", "row"] and table["id"].to_pylist() == list(range(50))
    assert np.array_equal(np.array(table["row"].to_pylist(), np.float16), wanted)
    wanted = infer(folder, tmp_path / "wide", layers=[SAGEConv(1, 4)], format="parquet").array()
    found = duckdb.sql(f"SELECT id, key, row FROM '{tmp_path}/wide/embeddings/node/*.parquet' ORDER BY id").fetchall()
    assert np.array_equal(np.array([row for _, _, row in found], np.float32), wanted)
    shown = [str(key) if isinstance(key, uuid.UUID) else key for key in hopfeed.Dataset(folder).keys()]
    assert [key for _, key, _ in found] == shown and len(shown) == len(keys)


def spark() -> Any:
    """A session of Spark on this machine alone; skips where there is none."""
    sql = pytest.importorskip("pyspark.sql", reason="the package pyspark is not here: Spark cannot read the files")
    if shutil.which("java") is None:
        pytest.skip("there is no Java here, which Spark runs on")
    builder = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    return builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()


def test_Parquet_IsReadBySpark(keyed: tuple[Path, list[Any]], tmp_path: Path) -> None:
    session = spark()
    try:
        folder, _ = keyed
        wanted = infer(folder, tmp_path / "out", layers=[SAGEConv(1, 4)], format="parquet").array()
        found = session.read.parquet(str(tmp_path / "out" / "embeddings" / "node")).orderBy("id").collect()
        assert [row["id"] for row in found] == list(range(50))
        assert np.array_equal(np.array([row["row"] for row in found], np.float32), wanted)
        shown = [str(key) if isinstance(key, uuid.UUID) else key for key in hopfeed.Dataset(folder).keys()]
        assert [row["key"] for row in found] == shown
    finally:
        session.stop()


def test_HalfPrecision_IsReadByDuckdbToo(cut: Path, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    full = infer(cut, tmp_path / "full").array()
    wanted = infer(cut, tmp_path / "out", format="parquet", dtype="float16").array()
    assert wanted.dtype == np.float16 and np.array_equal(wanted, full.astype(np.float16))
    found = duckdb.sql(f"SELECT row FROM '{tmp_path}/out/embeddings/node/*.parquet' ORDER BY id").fetchall()
    assert np.array_equal(np.array([row for (row,) in found], np.float16), wanted)


@pytest.mark.parametrize("format", ["npy", "parquet"])
def test_SomeNodesWithKeys_HaveTheirs(keyed: tuple[Path, list[Any]], tmp_path: Path, format: str) -> None:
    folder, _ = keyed
    keys, layers = hopfeed.Dataset(folder).keys(), [SAGEConv(1, 4)]
    every = infer(folder, tmp_path / "every", layers=layers, format=format)
    some = infer(folder, tmp_path / "some", layers=layers, format=format, nodes=[40, 2, 17])
    assert some.shape == (3, 4) and some.ids.tolist() == [2, 17, 40] and list(some.keys) == list(keys[[2, 17, 40]])
    assert np.array_equal(some.array(), every[[2, 17, 40]])
    none = infer(folder, tmp_path / "none", layers=layers, format=format, nodes=[])
    assert none.array().shape == (0, 4) and len(none.keys) == 0


def test_SomeNodes_AloneAreWritten(cut: Path, tmp_path: Path) -> None:
    wanted = infer(cut, tmp_path / "all").array()
    ids = np.array([1500, 3, 3, 77])
    some = infer(cut, tmp_path / "some", nodes=ids)
    assert some.ids.tolist() == [3, 77, 1500] and (some.array() == wanted[[3, 77, 1500]]).all() and (some[ids] == wanted[ids]).all()
    with pytest.raises(hopfeed.NotFoundError, match="no row of node 4 "):
        some[4]
    assert (hopfeed.infer(model(), cut, nodes=ids, memory=SMALL, progress=False).numpy() == wanted[ids]).all()
    mask = np.zeros(2000, bool)
    mask[::3] = True
    assert (hopfeed.infer(model(), cut, nodes=mask, memory=SMALL, progress=False).numpy() == wanted[mask]).all()


def test_SeveralTypes_AFolderEach(typed: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    layer = HeteroConv({("user", "likes", "item"): SAGEConv((4, 2), 3), ("item", "liked", "user"): SAGEConv((2, 4), 3)})
    x = {"user": "x", "item": torch.rand(200, 2)}
    results = infer(typed, tmp_path / "out", layers=[layer], x=x)
    assert results.node_types == ["item", "user"] and results.of("user").shape == (300, 3)
    wanted = hopfeed.infer([layer], typed, x=x, progress=False)
    for name in ("user", "item"):
        assert (hopfeed.read_results(tmp_path / "out", name).array() == wanted[name].numpy()).all()
    with pytest.raises(hopfeed.NotFoundError, match="no results of 'z'"):
        results.of("z")
    some = infer(typed, tmp_path / "some", layers=[layer], x=x, nodes={"item": [4, 2]})
    assert some.node_types == ["item"] and some.ids.tolist() == [2, 4]


# What is there already.


def test_TheSameCallAgain_ComputesNothing(cut: Path, tmp_path: Path) -> None:
    infer(cut, tmp_path / "out")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*") if path.is_file()}
    infer(cut, tmp_path / "out")
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*") if path.is_file()}


def test_AnotherRun_IsRefusedAndOverwrites(small: Path, cut: Path, tmp_path: Path) -> None:
    infer(cut, tmp_path / "out", name="old")
    for options in ({"name": "new"}, {"dtype": "float16"}, {"nodes": [1]}, {"layers": GraphSAGE(8, 16, 3, 4)}, {"memory": "2M"}):
        with pytest.raises(hopfeed.InvalidError, match="has the results of another run; give overwrite=True, or another folder"):
            infer(cut, tmp_path / "out", **options)
    with pytest.raises(hopfeed.InvalidError, match="another run"):
        infer(small, tmp_path / "out", name="old")
    infer(cut, tmp_path / "out", name="new", overwrite=True)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["manifest.json", "new"]


def test_AFolderOfSomethingElse_IsRefused(small: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("1")
    for overwrite in (False, True):
        with pytest.raises(hopfeed.InvalidError, match="has files that are no results"):
            infer(small, tmp_path / "out", overwrite=overwrite)
        with pytest.raises(hopfeed.InvalidError, match="is no folder"):
            infer(small, tmp_path / "out" / "mine", overwrite=overwrite)
    with pytest.raises(hopfeed.InputOutputError, match="out/mine/below: Not a directory"):
        infer(small, tmp_path / "out" / "mine" / "below")
    assert content(tmp_path / "out") == {"mine": b"1"}


def test_TwoRunsIntoOneFolder_TheSecondIsRefused(small: Path, tmp_path: Path) -> None:
    held = files.lock(tmp_path / "out")
    try:
        with pytest.raises(hopfeed.BusyError, match=f"another run writes to {tmp_path}/out; wait for it, or give another folder"):
            infer(small, tmp_path / "out")
    finally:
        os.close(held)
    infer(small, tmp_path / "out")


def test_RunInsideAnother_IsRefusedAndDisturbsNothing(small: Path, tmp_path: Path) -> None:
    refused: list[str] = []

    def layer(pair: tuple[torch.Tensor, torch.Tensor], edges: torch.Tensor) -> torch.Tensor:
        if len(pair[1]) > 2 and not refused:
            with pytest.raises(hopfeed.BusyError) as caught:
                infer(small, tmp_path / "out", overwrite=True)
            refused.append(str(caught.value))
        return pair[1]

    rows = hopfeed.infer([layer], small, tmp_path / "out", progress=False).array()
    assert refused == [f"another run writes to {tmp_path}/out; wait for it, or give another folder"]
    assert np.array_equal(rows, hopfeed.Dataset(small).attr("x")[:])
    with pytest.raises(hopfeed.BusyError, match="another run writes to .*/work; wait"):
        held = files.lock(tmp_path / "work")
        try:
            infer(small, tmp_path / "other", work=tmp_path / "work")
        finally:
            os.close(held)


def test_NoPackageForParquet_IsSaidBeforeAnythingIsComputed(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(hopfeed.InvalidError, match="format='parquet' needs the package pyarrow: pip install"):
        infer(small, tmp_path / "out", format="parquet")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("change, match", [
    (lambda manifest: manifest.update(version=2), "has version 2; this hopfeed reads 1"),
    (lambda manifest: manifest.update(format="x"), "is no manifest of results"),
    (lambda manifest: manifest.pop("shards"), "is damaged: it has no shards"),
    (lambda manifest: manifest["outputs"][0].pop("name"), "an output is not described"),
    (lambda manifest: manifest["outputs"][0]["node_types"][0].update(chosen="all"), "an output is not described"),
    (lambda manifest: manifest["shards"][0].pop("rows"), "a shard is not described"),
    (lambda manifest: manifest["shards"][0]["files"]["rows"].update(path="../x"), "a shard's file is not described"),
    (lambda manifest: manifest["shards"].pop(), "the shards of 'node' have not 2000 rows"),
])  # fmt: skip
def test_DamagedManifest_IsToldFromOthers(cut: Path, tmp_path: Path, change: Callable[[Any], object], match: str) -> None:
    infer(cut, tmp_path / "out")
    path = tmp_path / "out" / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))
    with pytest.raises(hopfeed.Error, match=match):
        hopfeed.read_results(tmp_path / "out")


def test_DamagedResults_AreNamed(small: Path, tmp_path: Path) -> None:
    with pytest.raises(hopfeed.NotFoundError, match="holds no results"):
        hopfeed.read_results(tmp_path)
    infer(small, tmp_path / "out")
    path = tmp_path / "out" / "embeddings" / "node" / "part-0000-00000.npy"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    hopfeed.read_results(tmp_path / "out")
    with pytest.raises(hopfeed.CorruptError, match="part-0000-00000.npy is damaged: its checksum is another"):
        hopfeed.read_results(tmp_path / "out", verify=True)
    path.write_bytes(whole[:-1])
    with pytest.raises(hopfeed.CorruptError, match="part-0000-00000.npy has .* bytes and was written with"):
        hopfeed.read_results(tmp_path / "out")
    path.unlink()
    with pytest.raises(hopfeed.CorruptError, match="part-0000-00000.npy is gone"):
        hopfeed.read_results(tmp_path / "out")


# A run that ends before its end.


class Stop(Exception):
    pass


def stopped(folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch, after: int, error: Callable[[], BaseException] = Stop, **options: Any) -> BaseException:
    """A run that fails where it writes its file of that number."""
    write, count = files.os.fsync, [0]

    def failing(handle: int) -> None:
        count[0] += 1
        if count[0] == after:
            raise error()
        write(handle)

    with monkeypatch.context() as patch, pytest.raises(BaseException) as caught:
        patch.setattr(files.os, "fsync", failing)
        infer(folder, out, **options)
    return caught.value


@pytest.mark.parametrize("after", [2, 9, 30, 50, 70, 95])
def test_StoppedRun_GoesOnToTheSameBytes(cut: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many_shards: None, after: int) -> None:
    infer(cut, tmp_path / "whole")
    assert isinstance(stopped(cut, tmp_path / "out", monkeypatch, after), Stop)
    assert not (tmp_path / "out" / "manifest.json").exists() and not list((tmp_path / "out").rglob("*.new"))
    done = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.json")}
    assert after < 20 or len(done) > 3
    work = tmp_path / "out" / ".work"
    before = {path for path in work.rglob("part-*.json")}
    seen: list[Path] = []
    write = files.Files.json
    monkeypatch.setattr(files.Files, "json", lambda self, path, content: (seen.append(path), write(self, path, content)))
    infer(cut, tmp_path / "out")
    assert not before & set(seen)  # what was whole was not made again
    assert content(tmp_path / "out") == content(tmp_path / "whole")


def test_DiskFullInMidShard_NothingLooksFinished(cut: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many_shards: None) -> None:
    infer(cut, tmp_path / "whole")
    for error in (errno.ENOSPC, errno.EDQUOT):
        found = stopped(cut, tmp_path / "out", monkeypatch, 25, lambda: OSError(error, os.strerror(error)))
        assert isinstance(found, hopfeed.NoSpaceError) and "the disk is full; make room and make the same call again" in str(found)
        assert "\n" not in str(found) and not list((tmp_path / "out").rglob("*.new"))
        with pytest.raises(hopfeed.NotFoundError):
            hopfeed.read_results(tmp_path / "out")
    found = stopped(cut, tmp_path / "out", monkeypatch, 15, lambda: OSError(errno.EIO, os.strerror(errno.EIO)))
    assert isinstance(found, hopfeed.InputOutputError) and str(found).endswith("Input/output error")
    infer(cut, tmp_path / "out")
    assert content(tmp_path / "out") == content(tmp_path / "whole")


FULL = """
import os, sys
import numpy, torch
import hopfeed
from hopfeed.results import plan, tables
from torch_geometric.nn import GraphSAGE

data, disk = sys.argv[1:]
plan.SHARD_BYTES, plan.BLOCK_BYTES = 4096, 1 << 15
torch.manual_seed(1)
model = GraphSAGE(8, 16, 3, 4).eval()
hopfeed.infer(model, data, disk + "/whole", progress=False, memory="1M")
write, shards = tables.Tables.write, []


def filling(self, *shard):
    shards.append(shard)
    if len(shards) == 20:  # somebody else's file takes what is left
        try:
            with open(disk + "/other", "wb") as other:
                while True:
                    other.write(bytes(4096))
                    other.flush()
        except OSError:
            pass
    return write(self, *shard)


tables.Tables.write = filling
try:
    hopfeed.infer(model, data, disk + "/out", progress=False, memory="1M")
    sys.exit("the disk was not full")
except hopfeed.NoSpaceError as error:
    print(error)
left = sorted(name for _, _, names in os.walk(disk + "/out") for name in names)
assert "manifest.json" not in left and not [name for name in left if name.endswith(".new")], left
os.remove(disk + "/other")
hopfeed.infer(model, data, disk + "/out", progress=False, memory="1M")
one, two = (hopfeed.read_results(f"{disk}/{name}", verify=True).array() for name in ("whole", "out"))
assert numpy.array_equal(one, two)
"""


@pytest.mark.skipif(subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode != 0, reason="no mount namespaces here")
def test_DiskThatFillsMeanwhile_IsTold_AndGoneOnFromWithRoom(cut: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "disk").mkdir()
    script = f'mount -t tmpfs -o size=4m none {tmp_path}/disk && exec "$0" -c "$1" {cut} {tmp_path}/disk'
    done = subprocess.run(["unshare", "-rm", "bash", "-c", script, sys.executable, FULL], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert line.startswith(f"{tmp_path}/disk/out/") and line.endswith(": the disk is full; make room and make the same call again, which goes on with what is whole")


def test_DiskThatIsTooSmall_IsSaidBeforeTheStart(cut: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files.shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(10**6, 0, 10**5))  # type: ignore[attr-defined]
    with pytest.raises(hopfeed.NoSpaceError, match=f"{tmp_path}/out: the run writes 0.3 MB, and 0.1 MB are free"):
        infer(cut, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_AnotherCallInTheMiddle_IsRefused(cut: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many_shards: None) -> None:
    stopped(cut, tmp_path / "out", monkeypatch, 60)
    with pytest.raises(hopfeed.InvalidError, match="has the work of another run: dtype was 'float32' and is 'float16'"):
        infer(cut, tmp_path / "out", dtype="float16")
    with pytest.raises(hopfeed.InvalidError, match="has the work of another run: the layers are other"):
        infer(cut, tmp_path / "out", layers=GraphSAGE(8, 16, 3, 4))
    infer(cut, tmp_path / "out", dtype="float16", overwrite=True)
    infer(cut, tmp_path / "whole", dtype="float16")
    assert content(tmp_path / "out") == content(tmp_path / "whole")


@pytest.mark.parametrize("change", ["bytes", "size", "gone"])
def test_DamagedShardBetweenLayers_IsNamed(cut: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many_shards: None, change: str) -> None:
    infer(cut, tmp_path / "whole")
    stopped(cut, tmp_path / "out", monkeypatch, 60)
    path = sorted((tmp_path / "out" / ".work" / "rows").rglob("*.rows"))[0]
    whole = path.read_bytes()
    path.write_bytes(bytes([whole[0] ^ 1]) + whole[1:] if change == "bytes" else whole[:-4])
    if change == "gone":
        path.unlink()
    match = {"bytes": "is damaged: its checksum is another", "size": "is no shard of rows, or damaged", "gone": "is gone"}[change]
    with pytest.raises(hopfeed.CorruptError, match=f"{path} ?.*{match}.*; give overwrite=True, which begins anew"):
        infer(cut, tmp_path / "out")
    infer(cut, tmp_path / "out", overwrite=True)
    assert content(tmp_path / "out") == content(tmp_path / "whole")


def test_LayersBetween_GoWhenTheNextIsWhole(cut: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work, seen = tmp_path / "work", []
    write = files.Files.json

    def noting(self: files.Files, path: Path, content: Any) -> None:
        write(self, path, content)
        if path.name.startswith("part-"):
            seen.append((path.parent.parent.name, {found.parent.parent.name for found in work.rglob("*.rows")}))

    monkeypatch.setattr(files.Files, "json", noting)
    infer(cut, tmp_path / "out", work=work, layers=GraphSAGE(8, 16, 5, 4))
    for at in range(4):
        assert all(names == {f"h{at + 1}.0"} | ({f"h{at}.0"} if at else set()) for stage, names in seen if stage == f"stage-{at}")
    assert len({stage for stage, _ in seen}) == 5 and not work.exists()


KILLER = """
import os, random, signal, sys, time
import torch
import hopfeed
from hopfeed.results import plan
from torch_geometric.nn import GraphSAGE

folder, whole, out = sys.argv[1:]
plan.SHARD_BYTES, plan.BLOCK_BYTES = 4096, 1 << 15
torch.set_num_threads(1)
torch.manual_seed(1)
model = GraphSAGE(8, 16, 3, 4).eval()


def begun(target):
    process = os.fork()
    if process == 0:
        code = 1
        try:
            hopfeed.infer(model, folder, target, progress=False, memory="1M")
            code = 0
        finally:
            os._exit(code)
    return process


begin = time.monotonic()
assert os.waitpid(begun(whole), 0)[1] == 0
lasts = time.monotonic() - begin
chance, killed, rounds = random.Random(3), 0, 0
while rounds < 20 or killed < 20 and rounds < 200:
    rounds += 1
    process = begun(out)
    time.sleep(chance.uniform(0, 0.5) * lasts)
    os.kill(process, signal.SIGKILL)
    killed += os.waitpid(process, 0)[1] == signal.SIGKILL and not os.path.exists(out + "/manifest.json")
    # one that was killed behind its manifest has its work yet, which the next one removes
    if os.path.exists(out + "/manifest.json") and not os.path.exists(out + "/.lock"):
        if rounds < 20 or killed < 20:
            os.rename(out, f"{out}-{rounds}")
assert os.waitpid(begun(out), 0)[1] == 0
print(killed, rounds)
"""


def test_KilledAtRandomMoments_EndsWithTheSameBytes(cut: Path, environment: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLER, cut, tmp_path / "whole", tmp_path / "out"], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    killed, rounds = map(int, done.stdout.split())
    ended = [tmp_path / "out", *tmp_path.glob("out-*")]
    assert killed >= 20, f"{killed} of {rounds} rounds were killed before their end"
    for folder in ended:
        assert content(folder) == content(tmp_path / "whole")
        hopfeed.read_results(folder, verify=True)
