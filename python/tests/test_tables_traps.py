"""What looks like another thing than it is: each was taken for that once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="the extra [tables] is not installed")
pytest.importorskip("duckdb", reason="the extra [tables] is not installed")

import pyarrow.parquet  # noqa: E402

import hopfeed  # noqa: E402
from hopfeed.errors import CorruptError, Error, InvalidError  # noqa: E402
from hopfeed.programs import program  # noqa: E402
from hopfeed.tables import import_tables  # noqa: E402
from made_tables import write_table  # noqa: E402


def edges_of(folder: Path) -> list[tuple[Any, Any]]:
    """By key, in order."""
    dataset = hopfeed.Dataset(folder)
    sources, targets = (dataset.keys()[ids] for ids in dataset.edge_index())
    return sorted(zip(sources.tolist(), targets.tolist()))


@pytest.mark.parametrize(
    "written, columns, expected",
    [
        ("1,2,NA\n3,4,0.5\n", "src,dst,-", [(1, 2), (3, 4)]),
        ("\ufeff1 2\n3 4\n", "src,dst", [(1, 2), (3, 4)]),
        ("n1 2\n3 4\n", "src,dst", [("3", "4"), ("n1", "2")]),
        ("source target\n3 4\n", "src,dst", [(3, 4)]),
        ("1 2\n3 4\n5 2.5\n6 1e1\n", "src,dst", [("1", "2"), ("3", "4"), ("5", "2.5"), ("6", "1e1")]),
        ("007 7\n7 8\n", "src,dst", [("007", "7"), ("7", "8")]),
        ("1 2\n3 4\nx 5\n", "src,dst", [("1", "2"), ("3", "4"), ("x", "5")]),
        ("a, b\nb, a\n", "src,dst", [("a", "b"), ("b", "a")]),
        ("1, 2\n3, 4\n", "src,dst", [(1, 2), (3, 4)]),
    ],
)
def test_lines_of_snap_are_edges_as_they_are_written(tmp_path: Path, written: str, columns: str, expected: list[tuple[Any, Any]]) -> None:
    (tmp_path / "edges.txt").write_text(written, encoding="utf-8")
    hopfeed.import_snap(tmp_path / "dataset", tmp_path / "edges.txt", columns=columns.split(","))
    assert edges_of(tmp_path / "dataset") == expected


@pytest.mark.parametrize(
    "written, options, line",
    [
        ("1\t2\n3 4\n", {}, "has .* columns? in its first line and .* in the next|no source and destination|several spaces"),
        ("a\tb#2\nc\td\n", {}, "has '#' inside, which begins comments; say --comment '' or another sign"),
        ("1 2\n3 4\n", {"comment": "//"}, "--comment is '//'; it is one character, or '' for none"),
        ("1,2,3\n4,5,6\n", {"columns": ["src", "dst", "SRC"]}, "a name is there twice"),
    ],
)
def test_lines_of_snap_that_are_no_edges_are_refused(tmp_path: Path, written: str, options: dict[str, Any], line: str) -> None:
    (tmp_path / "edges.txt").write_text(written)
    with pytest.raises(Error, match=line):
        hopfeed.import_snap(tmp_path / "dataset", tmp_path / "edges.txt", **options)


@pytest.mark.parametrize(
    "codec, name, damage",
    [
        ("gzip", "e.csv.gz", "none"),
        ("gzip", "e.csv.gz", "cut off"),
        ("gzip", "e.csv.gz", "another checksum"),
        ("zstd", "e.csv.zst", "none"),
        ("zstd", "e.csv.zst", "cut off"),
    ],
)
def test_compressed_tables_that_are_not_whole_are_refused(tmp_path: Path, codec: str, name: str, damage: str) -> None:
    """DuckDB takes what it can read of some of them, and says nothing."""
    with pa.CompressedOutputStream(tmp_path / name, codec) as lines:
        lines.write(b"a,b\n" + b"".join(b"%d,%d\n" % (i, i * 7919 % 100_003) for i in range(50_000)))
    written = bytearray((tmp_path / name).read_bytes())
    if damage == "cut off":
        written = written[: len(written) * 9 // 10]
    elif damage != "none":
        written[-6] ^= 1
    (tmp_path / name).write_bytes(written)
    (tmp_path / "v.csv").write_text("k\n" + "".join(f"{i}\n" for i in range(100_003)))
    edge = {"src": "v", "rel": "to", "dst": "v", "table": str(tmp_path / name), "src_key": "a", "dst_key": "b"}
    job = {"nodes": [{"name": "v", "table": str(tmp_path / "v.csv"), "key": "k"}], "edges": [edge]}
    if damage == "none":
        import_tables(tmp_path / "dataset", job, memory="1G")
        assert len(edges_of(tmp_path / "dataset")) == 50_000
        return
    with pytest.raises(CorruptError, match=f"{name} is no whole file .*; get it again"):
        import_tables(tmp_path / "dataset", job, memory="1G")
    assert not (tmp_path / "dataset").exists()


def chunked(folder: Path, nodes: int, data: dict[str, list[Path]], form: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "edges.csv").write_text("0 1\n")
    told = {name: {"format": {"name": form}, "data": [str(path) for path in paths]} for name, paths in data.items()}
    graph = {
        "graph_name": "g", "node_type": ["n"], "num_nodes_per_chunk": [[nodes]], "edge_type": ["n:to:n"], "num_edges_per_chunk": [[1]],
        "edges": {"n:to:n": {"format": {"name": "csv", "delimiter": " "}, "data": ["edges.csv"]}}, "node_data": {"n": told}, "edge_data": {},
    }  # fmt: skip
    (folder / "metadata.json").write_text(json.dumps(graph))
    return folder / "metadata.json"


def in_parquet(path: Path, column: Any) -> Path:
    pyarrow.parquet.write_table(pa.table({"v": column}), path)
    return path


def in_numpy(path: Path, array: Any) -> Path:
    np.save(path, array)
    return path


def test_lists_of_other_lengths_are_refused_also_where_their_sum_fits(tmp_path: Path) -> None:
    table = in_parquet(tmp_path / "a.parquet", pa.array([[1.0, 2], [3], [5, 6, 9], [7, 8]]))
    with pytest.raises(InvalidError, match="has a list that is not of 2 numbers"):
        hopfeed.import_chunked(tmp_path / "dataset", chunked(tmp_path / "g", 4, {"feat": [table]}, "parquet"))


def test_a_piece_without_rows_says_nothing_of_their_width(tmp_path: Path) -> None:
    kind = pa.list_(pa.float32())
    tables = [in_parquet(tmp_path / "a.parquet", pa.array([], kind)), in_parquet(tmp_path / "b.parquet", pa.array([[1, 2], [3, 4]], kind))]
    hopfeed.import_chunked(tmp_path / "dataset", chunked(tmp_path / "g", 2, {"feat": tables}, "parquet"))
    assert hopfeed.Dataset(tmp_path / "dataset").attr("x")[:].tolist() == [[1, 2], [3, 4]]


def test_whole_numbers_are_not_made_floats_by_another_chunk(tmp_path: Path) -> None:
    chunks = [in_numpy(tmp_path / "a.npy", np.array([2**62 + 1], np.int64)), in_numpy(tmp_path / "b.npy", np.array([2], np.uint64))]
    with pytest.raises(InvalidError, match="a.npy has numbers of type int64, and .*b.npy of uint64; make them one type"):
        hopfeed.import_chunked(tmp_path / "dataset", chunked(tmp_path / "g", 2, {"big": chunks}, "numpy"))


def test_a_mask_has_no_nan_and_a_count_is_no_bool(tmp_path: Path) -> None:
    mask = in_numpy(tmp_path / "m.npy", np.array([1, 0, np.nan, 0]))
    with pytest.raises(InvalidError, match="node 2 of 'n' has NaN in 'train_mask'; a mask is 0 or 1"):
        hopfeed.import_chunked(tmp_path / "dataset", chunked(tmp_path / "g", 4, {"train_mask": [mask]}, "numpy"))
    for count in (True, 10**30):
        with pytest.raises(InvalidError, match="expected a list of whole numbers"):
            hopfeed.import_chunked(tmp_path / "dataset", chunked(tmp_path / "g", count, {}, "numpy"))


def test_a_tensor_that_is_seen_negated_is_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from hopfeed.tables.doors.arrays import torch_array

    torch.save(torch._neg_view(torch.arange(4.0)), tmp_path / "t.pt")
    with pytest.raises(InvalidError, match="holds a view that is negated or conjugated; save x.resolve_neg"):
        torch_array(tmp_path / "t.pt")


def test_a_file_without_rows_says_nothing_of_types(tmp_path: Path) -> None:
    for name, header in (("nodes", "k"), ("edges", "s,d")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "2.csv").write_text(f"{header}\n")
    (tmp_path / "nodes/1.csv").write_text("k\n2\n10\n")
    (tmp_path / "edges/1.csv").write_text("s,d\n2,10\n")
    node = {"name": "n", "table": str(tmp_path / "nodes"), "key": "k"}
    edge = {"src": "n", "rel": "to", "dst": "n", "table": str(tmp_path / "edges"), "src_key": "s", "dst_key": "d"}
    import_tables(tmp_path / "dataset", nodes=[node], edges=[edge])
    assert edges_of(tmp_path / "dataset") == [(2, 10)]
    (tmp_path / "edges/1.csv").write_text("s,d\n2,9.5\n")
    with pytest.raises(Error, match="9.5 is no whole number"):
        import_tables(tmp_path / "other", nodes=[node], edges=[edge | {"types": {"s": "BIGINT", "d": "BIGINT"}}])


def small(folder: Path) -> dict[str, Any]:
    write_table(pa.table({"k": [1, 2, 3], "y": [0, 1, 1]}), folder / "n", 0, 1)
    write_table(pa.table({"s": [1, 2, 9], "d": [2, 3, 1]}), folder / "e", 0, 1)
    node = {"name": "n", "table": str(folder / "n"), "key": "k", "label": "y"}
    return {"nodes": [node], "edges": [{"src": "n", "rel": "to", "dst": "n", "table": str(folder / "e"), "src_key": "s", "dst_key": "d"}]}


def test_the_folder_for_stages_keeps_what_it_has(tmp_path: Path) -> None:
    precious = tmp_path / "work/precious.tmp"
    precious.mkdir(parents=True)
    (precious / "thesis").write_text("hello")
    given = small(tmp_path)
    with pytest.raises(InvalidError, match="an end that is no node type"):
        import_tables(tmp_path / "dataset", **given, work=tmp_path / "work")
    import_tables(tmp_path / "dataset", **given, work=tmp_path / "work", dangling="drop")
    assert os.listdir(tmp_path / "work") == ["precious.tmp"] and (precious / "thesis").read_text() == "hello"


def test_a_run_that_goes_on_keeps_rejected_rows_and_takes_another_like(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = small(tmp_path)
    import_tables(tmp_path / "one", **given, dangling="drop")
    from hopfeed import _core

    def stop(*_: Any) -> str:
        raise KeyboardInterrupt

    options: dict[str, Any] = dict(dangling="drop", rejected=tmp_path / "rejected")
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(_core, "finish_dataset", stop)
        import_tables(tmp_path / "dataset", **given, **options)
    first = (tmp_path / "rejected").read_text()
    assert '"s":9' in first.replace(" ", "")
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(_core, "finish_dataset", stop)
        import_tables(tmp_path / "dataset", **given, **options)
    assert (tmp_path / "rejected").read_text() == first
    said = list[str]()
    import_tables(tmp_path / "dataset", **given, **options, like=tmp_path / "one", say=said.append)
    assert (tmp_path / "rejected").read_text() == first and any("so the import begins anew" in line for line in said)


def test_pieces_of_csv_need_not_have_all_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "e").mkdir()
    (tmp_path / "e/a.csv").write_text("s,d\n1,2\n")
    (tmp_path / "e/b.csv").write_text("s,d,w\n2,1,0.5\n")
    monkeypatch.setattr("hopfeed.tables.engine.Engine.piece", 1)
    edge = {"src": "n", "rel": "to", "dst": "n", "table": str(tmp_path / "e"), "src_key": "s", "dst_key": "d", "weight": "w"}
    import_tables(tmp_path / "dataset", nodes=[{"name": "n"}], edges=[edge], nulls="0")
    assert edges_of(tmp_path / "dataset") == [(1, 2), (2, 1)]


def test_metis_has_nothing_to_cut_without_edges(tmp_path: Path) -> None:
    write_table(pa.table({"k": [1, 2, 3]}), tmp_path / "n", 0, 1)
    import_tables(tmp_path / "dataset", nodes=[{"name": "n", "table": str(tmp_path / "n"), "key": "k"}], edges=[], parts=3, assign="metis")
    dataset = hopfeed.Dataset(tmp_path / "dataset")
    assert sorted(dataset.partition_of([0, 1, 2]).tolist()) == [0, 1, 2]
    with pytest.raises(hopfeed.NotFoundError, match="has no edge type"):
        dataset.edge_index()


def test_modules_of_the_users_folder_are_not_run(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('shadowed')\n")
    command = [program("hopfeed-partition"), "import", "tables", "--help"]
    told = environment | {"HOPFEED_PYTHON": sys.executable}
    done = subprocess.run(command, env=told, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "shadowed" not in done.stderr + done.stdout
