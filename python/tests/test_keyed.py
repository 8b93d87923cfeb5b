"""Seeds by key, and keys of batches: of loaders and of hopfeed-sample, with keys of each type, on one and two partitions."""

from __future__ import annotations

import subprocess
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="the extra [tables] is not installed")
pytest.importorskip("duckdb", reason="the extra [tables] is not installed")

import hopfeed  # noqa: E402
from hopfeed.programs import program  # noqa: E402
from hopfeed.tables import import_tables  # noqa: E402
from made_tables import write_table  # noqa: E402

NODES, EDGES = 60, 400
OPTIONS: dict[str, Any] = dict(fanouts=[3, 2], batch_size=4, shuffle=False, num_workers=0)


def keys_of(kind: str) -> list[Any]:
    draw = np.random.default_rng(3)
    if kind == "int64":
        return [int(key) for key in draw.choice(10**12, NODES, replace=False) - 10**11]
    if kind == "uuid":
        return [uuid.UUID(bytes=draw.bytes(16)) for _ in range(NODES)]
    return [f"näme {number} {'x' * (number % 7)}" for number in draw.choice(10**6, NODES, replace=False)]


def imported(folder: Path, kind: str, parts: int, **options: Any) -> tuple[Path, list[Any]]:
    keys, draw = keys_of(kind), np.random.default_rng(4)
    column = pa.array([key.bytes for key in keys], pa.uuid()) if kind == "uuid" else pa.array(keys)
    ends = [column.take(pa.array(draw.integers(0, NODES, EDGES))) for _ in range(2)]
    write_table(pa.table({"key": column}), folder / "nodes", 0, 2)
    write_table(pa.table({"s": ends[0], "d": ends[1]}), folder / "edges", 0, 2)
    node = {"name": "n", "table": str(folder / "nodes"), "key": "key"}
    edge = {"src": "n", "rel": "to", "dst": "n", "table": str(folder / "edges"), "src_key": "s", "dst_key": "d"}
    import_tables(folder / "dataset", nodes=[node], edges=[edge], parts=parts, **options)
    return folder / "dataset", keys


def lines_of(path: Path, keys: list[Any]) -> Path:
    path.write_text("".join(f"{key}\n" for key in keys), encoding="utf-8")
    return path


def sampled(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    command = [program("hopfeed-sample"), folder, "--fanouts", "3,2", "--batch-size", "4", "--no-shuffle", "--num-workers", "0", *words]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("kind", ["int64", "string", "uuid"])
def test_seeds_are_taken_by_their_keys_and_batches_have_theirs(tmp_path: Path, kind: str, parts: int) -> None:
    folder, keys = imported(tmp_path, kind, parts)
    wanted = [keys[5], keys[0], keys[59], keys[5], keys[33], keys[7]]  # in this order, one of them twice
    dataset = hopfeed.Dataset(folder)
    by_id = hopfeed.Loader(folder, seeds=dataset.ids(None, wanted), **OPTIONS)
    digests = [batch.digest() for batch in by_id]
    file = lines_of(tmp_path / "keys.txt", wanted)
    for given in (wanted, file, str(file)):
        loader = hopfeed.Loader(folder, seeds_by_key=given, keys=True, **OPTIONS)
        batches = list(loader)
        assert [batch.digest() for batch in batches] == digests and len(digests) == 2
        assert list(batches[0].keys[:3]) == [keys[5], keys[0], keys[59]]
        for batch in batches:
            assert list(batch.keys) == [dataset.keys()[int(node)] for node in batch.n_id]
    np.save(tmp_path / "ids.npy", dataset.ids(None, wanted))
    expected = sampled(folder, "--seeds", tmp_path / "ids.npy")
    assert expected.returncode == 0 and expected.stdout.count("\n") == 2
    files = [file]
    if kind == "int64":
        np.save(tmp_path / "keys.npy", np.array(wanted))
        files.append(tmp_path / "keys.npy")
        assert [batch.digest() for batch in hopfeed.Loader(folder, seeds_by_key=tmp_path / "keys.npy", **OPTIONS)] == digests
    for one in files:
        assert sampled(folder, "--seeds-by-key", one).stdout == expected.stdout


def test_keys_of_several_types_are_told_by_type(tmp_path: Path) -> None:
    write_table(pa.table({"u": ["b", "a", "c"]}), tmp_path / "users", 0, 1)
    write_table(pa.table({"s": ["a", "a", "c"], "d": [70, 7, 7]}), tmp_path / "buys", 0, 1)
    nodes = [{"name": "user", "table": str(tmp_path / "users"), "key": "u"}, {"name": "item"}]
    edges = [{"src": "user", "rel": "buys", "dst": "item", "table": str(tmp_path / "buys"), "src_key": "s", "dst_key": "d"}]
    import_tables(tmp_path / "dataset", nodes=nodes, edges=edges)
    with hopfeed.Loader(tmp_path / "dataset", seeds_by_key=[70, 7], node_type="item", keys=True, **OPTIONS | {"fanouts": [-1]}) as loader:
        (batch,) = loader
        assert {name: list(keys) for name, keys in batch.keys.items()} == {"item": [70, 7], "user": ["a", "c"]}
    file = lines_of(tmp_path / "keys", [7])
    assert sampled(tmp_path / "dataset", "--seeds-by-key", file, "--node-type", "item").returncode == 0
    refused = sampled(tmp_path / "dataset", "--seeds-by-key", file)  # of users, the first type
    assert refused.returncode != 0 and refused.stderr == f"hopfeed-sample: --seeds-by-key: {file}, line 1: no node of type 'user' has the key '7'\n"


def test_what_is_no_key_is_one_line(tmp_path: Path) -> None:
    for kind in ("int64", "string", "uuid"):
        (tmp_path / kind).mkdir()
    numbers, texts, uuids = (imported(tmp_path / kind, kind, 1)[0] for kind in ("int64", "string", "uuid"))
    some = keys_of("int64")[0]
    lines, nobody = tmp_path / "lines", uuid.UUID(int=1)
    for folder, keys, said in (
        (numbers, [some, "x1"], "line 2: 'x1' is no key of node type 'n', whose keys are of type int64"),
        (numbers, ["1_0"], "line 1: '1_0' is no key of node type 'n', whose keys are of type int64"),
        (numbers, [some, 17], "line 2: no node of type 'n' has the key '17'"),
        (texts, ["vim"], "line 1: no node of type 'n' has the key 'vim'"),
        (uuids, ["12345678-1234-1234-1234-12345678901"], "line 1: '12345678-1234-1234-1234-12345678901' is no key of node type 'n', whose keys are of type uuid"),
        (uuids, [nobody], f"line 1: no node of type 'n' has the key '{nobody}'"),
    ):
        refused = sampled(folder, "--seeds-by-key", lines_of(lines, keys))
        assert (refused.returncode, refused.stderr) == (2, f"hopfeed-sample: --seeds-by-key: {lines}, {said}\n")
        with pytest.raises(hopfeed.Error, match="no key|has the key"):
            hopfeed.Loader(folder, seeds_by_key=lines, **OPTIONS)
    refused = sampled(numbers, "--seeds-by-key", tmp_path / "absent")
    assert refused.returncode != 0 and refused.stderr.count("\n") == 1 and str(tmp_path / "absent") in refused.stderr
    assert sampled(tmp_path / "nowhere", "--seeds-by-key", lines).stderr == f"hopfeed-sample: no dataset folder {tmp_path / 'nowhere'}\n"
    np.save(tmp_path / "numbers.npy", np.arange(3))
    assert "give a text file with a key in each line" in sampled(texts, "--seeds-by-key", tmp_path / "numbers.npy").stderr
    assert "give one of them" in sampled(numbers, "--seeds-by-key", lines, "--seeds", tmp_path / "numbers.npy").stderr
    with pytest.raises(hopfeed.InvalidError, match="seeds_by_key and seeds both say what the seeds are"):
        hopfeed.Loader(numbers, seeds_by_key=[some], seeds=[1], **OPTIONS)
    with pytest.raises(hopfeed.InvalidError, match="with servers there is none; turn keys into ids by Dataset.ids"):
        hopfeed.Loader(servers="127.0.0.1:1", seeds_by_key=[some], **OPTIONS)
    with pytest.raises(hopfeed.InvalidError, match="this loader gives no keys; make it with keys=True"):
        next(iter(hopfeed.Loader(numbers, seeds=[1], **OPTIONS))).keys  # noqa: B018
    bare = tmp_path / "bare"
    bare.mkdir()
    without, _ = imported(bare, "int64", 1, keys=False)
    for options, said in (({"keys": True}, "keys=True: .* has no keys; an import of tables keeps them"), ({"seeds_by_key": [some]}, "node type 'n' has no keys")):
        with pytest.raises(hopfeed.NotFoundError, match=said):
            hopfeed.Loader(without, **options, **OPTIONS)
    assert "has no keys; import it from tables, with keys" in sampled(without, "--seeds-by-key", lines).stderr
