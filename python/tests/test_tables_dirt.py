"""What is wrong in tables is told in one line: how many rows, the first by its key, what to do. Nothing is left behind."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="the extra [tables] is not installed")
pytest.importorskip("duckdb", reason="the extra [tables] is not installed")

import hopfeed  # noqa: E402
from hopfeed.errors import CorruptError, Error, InvalidError  # noqa: E402
from hopfeed.tables import import_tables  # noqa: E402
from made_tables import write_table  # noqa: E402

NODES: dict[str, Any] = {"id": ["a", "b", "c", "d"], "x": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]], "y": [0, 1, 0, 1]}
EDGES: dict[str, Any] = {"s": ["a", "b", "c"], "d": ["b", "c", "d"], "w": [1.0, 2.0, 3.0]}
NODE: dict[str, Any] = {"name": "n", "table": "nodes", "key": "id", "features": "x", "label": "y"}
EDGE: dict[str, Any] = {"src": "n", "rel": "to", "dst": "n", "table": "edges", "src_key": "s", "dst_key": "d", "weight": "w"}


def run(
    folder: Path, nodes: dict[str, Any] | None = None, edges: dict[str, Any] | None = None, node: dict[str, Any] | None = None, edge: dict[str, Any] | None = None, **options: Any
) -> dict[str, Any]:
    """Imports these columns and fields in place of the clean ones; None takes a field away."""
    write_table(pa.table(NODES | (nodes or {})), folder / "nodes")
    write_table(pa.table(EDGES | (edges or {})), folder / "edges")
    described = [{key: value for key, value in ({**one, **(changed or {})}).items() if value is not None} for one, changed in ((NODE, node), (EDGE, edge))]
    for one in described:
        one["table"] = str(folder / one["table"])
    return import_tables(folder / "dataset", nodes=[described[0]], edges=[described[1]], memory="1G", **options)


def refused(folder: Path, line: str, *args: Any, kind: type[Error] = InvalidError, **given: Any) -> None:
    """The import fails with a line that begins as given, F being the folder; no dataset and no scrap of one is left."""
    with pytest.raises(kind) as found:
        run(folder, *args, **given)
    told = str(found.value).replace(f"{folder}/", "")
    assert re.fullmatch(line, told), told
    assert not (folder / "dataset").exists()


def test_clean_tables_pass_without_a_word(tmp_path: Path) -> None:
    said = list[str]()
    report = run(tmp_path, say=said.append)
    assert report["dirt"] == [] and not [line for line in said if "warning" in line]
    assert report["node_types"]["n"]["coverage"] == {"x": 1.0, "y": 1.0}


@pytest.mark.parametrize(
    "nodes, line",
    [
        ({"id": ["a", None, "c", None]}, r"node type 'n': 2 rows of nodes have no key in 'id'; the first is None; give them one, or leave them out"),
        ({"id": ["a", "c", "c", "a"]}, r"node type 'n': 2 keys of nodes have several rows; the first is 'a'; leave one of each, or --duplicates same .* or smallest"),
        ({"x": [[1.0, 2.0], [3.0], [5.0, 6.0, 7.0], [7.0, 8.0]]}, r"node type 'n': 2 rows of nodes have a list in 'x' that is not of 2 numbers, as others are; the first is 'b'; make .*"),
        ({"x": [[1.0, 2.0], None, [5.0, 6.0], [7.0, 8.0]]}, r"node type 'n': 1 row of nodes has no value in 'x'; the first is 'b'; give them one, or --nulls 0"),
        ({"x": [[1.0, 2.0], [None, 1.0], [5.0, 6.0], [7.0, 8.0]]}, r"node type 'n': 1 row of nodes has a list in 'x' with a number missing; the first is 'b'; give it one, or --nulls 0"),
        ({"y": [0.0, 0.5, 1.0, 2e9]}, r"node type 'n': 2 rows of nodes have a label in 'y' that is no class number; the first is 'b'; labels are .*"),
        ({"id": [1.0, 2.0, 3.0, 4.0]}, r"node type 'n': the key column 'id' is DOUBLE; numbers with a fraction are no keys; make it whole numbers or texts"),
        ({"id": pa.array([1, 2**63, 3, 4], pa.uint64())}, r"node type 'n': 1 row of nodes has no key, or one beyond int64, in 'id'; .*|edge type .*"),
        ({"id": [1, 2, 3, 4]}, r"edge type 'n__to__n': the keys in 's' are string, and those of node type 'n' are int64; make them one"),
    ],
)
def test_rows_of_nodes(tmp_path: Path, nodes: dict[str, Any], line: str) -> None:
    refused(tmp_path, line, nodes)


@pytest.mark.parametrize(
    "edges, line",
    [
        ({"s": ["a", "z", "y"]}, r"edge type 'n__to__n': 2 rows of edges have an end that is no node type 'n'; the first is 'y' -> 'd'; add the nodes, or --dangling drop, or --dangling add"),
        ({"d": ["b", None, "d"]}, r"edge type 'n__to__n': 1 row of edges has no key in 's' or 'd'; the first is 'b' -> None; give them one, or --dangling drop"),
        ({"w": [1.0, -2.0, np.nan]}, r"edge type 'n__to__n': 2 rows of edges have a weight 'w' that is negative or no number; the first is 'b' -> 'c'; correct them, or leave the edges out"),
        ({"w": [1.0, None, 3.0]}, r"edge type 'n__to__n': 1 row of edges has no value in 'w'; the first is 'b' -> 'c'; give them one, or --nulls 0"),
    ],
)
def test_rows_of_edges(tmp_path: Path, edges: dict[str, Any], line: str) -> None:
    refused(tmp_path, line, None, edges)


def test_dangling_edges_are_dropped_and_kept_aside(tmp_path: Path) -> None:
    said = list[str]()
    edges = {"s": ["a", "z", None], "d": ["b", "c", "d"]}
    report = run(tmp_path, None, edges, dangling="drop", rejected=tmp_path / "rejected.jsonl", say=said.append)
    assert report["edge_types"]["n__to__n"] | {"coverage": 0} == {"edges": 1, "rows": 3, "dropped": 2, "coverage": 0}
    assert {(one["kind"], one["rows"]) for one in report["dirt"]} == {("dangling", 1), ("null keys", 1)}
    assert len([line for line in said if line.startswith("warning: edge type 'n__to__n': 1 row")]) == 2
    rows = [json.loads(line) for line in (tmp_path / "rejected.jsonl").read_text().splitlines()]
    assert sorted(((one["kind"], one["row"]) for one in rows), key=str) == [
        ("dangling", {"s": "z", "d": "c", "w": 2.0}),
        ("null keys", {"s": None, "d": "d", "w": 3.0}),
    ]


def test_rows_that_an_import_failed_by_are_kept_too(tmp_path: Path) -> None:
    refused(tmp_path, ".*several rows.*", {"id": ["a", "c", "c", "d"]}, rejected=tmp_path / "rejected.jsonl")
    rows = [json.loads(line)["row"] for line in (tmp_path / "rejected.jsonl").read_text().splitlines()]
    assert sorted(rows, key=str) == [{"id": "c", "x": [3.0, 4.0], "y": 1}, {"id": "c", "x": [5.0, 6.0], "y": 0}]


@pytest.mark.parametrize(
    "duplicates, x, left_out",
    [
        ("same", [[1.0, 2.0]] * 5, [("a", [1.0, 2.0]), ("a", [1.0, 2.0]), ("c", [1.0, 2.0])]),
        ("smallest", [[3.0, 0.0], [1.0, 0.0], [2.0, 0.0], [5.0, 0.0], [4.0, 0.0]], [("a", [2.0, 0.0]), ("a", [3.0, 0.0]), ("c", [5.0, 0.0])]),
        ("smallest", [[0.0, 1.0], [-0.0, 1.0], [0.0, 1.0], [5.0, 1.0], [4.0, 1.0]], [("a", [0.0, 1.0]), ("a", [0.0, 1.0]), ("c", [5.0, 1.0])]),
    ],
)
def test_of_rows_with_one_key_those_that_were_left_out_are_kept_aside(tmp_path: Path, duplicates: str, x: list[Any], left_out: list[Any]) -> None:
    nodes = {"id": ["a", "a", "a", "c", "c"], "x": x, "y": [1] * 5}
    edges = {"s": ["a", "c", "a"], "d": ["c", "a", "a"]}
    run(tmp_path, nodes, edges, duplicates=duplicates, rejected=tmp_path / "rejected.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "rejected.jsonl").read_text().splitlines()]
    assert {line["kind"] for line in lines} == {"duplicates"}
    assert sorted([(line["row"]["id"], line["row"]["x"]) for line in lines], key=str) == sorted(left_out, key=str)
    kept = hopfeed.Dataset(tmp_path / "dataset").attr("x")[:]
    for key, row in zip(("a", "c"), kept.tolist()):  # what is in the dataset and what is in the file are the table
        of_table = [values for name, values in zip(nodes["id"], x) if name == key]
        assert sorted(map(str, [row, *(values for name, values in left_out if name == key)])) == sorted(map(str, of_table))


def test_ends_of_edges_are_added_as_nodes(tmp_path: Path) -> None:
    refused(tmp_path, r"node type 'n': --dangling add adds 1 nodes, which have no 'x'; --nulls 0 gives them zeros", None, {"s": ["a", "bb", "c"]}, dangling="add")
    report = run(tmp_path, None, {"s": ["a", "bb", "c"]}, dangling="add", nulls="0")
    dataset = hopfeed.Dataset(tmp_path / "dataset")
    assert list(dataset.keys()[:]) == ["a", "b", "bb", "c", "d"]
    assert dataset.attr("x")[:].tolist() == [[1, 2], [3, 4], [0, 0], [5, 6], [7, 8]]
    assert dataset.attr("y")[:].tolist() == [0, 1, -1, 0, 1]
    assert report["node_types"]["n"]["added"] == 1


def test_duplicates_that_are_the_same_are_one(tmp_path: Path) -> None:
    twice: dict[str, Any] = {"id": ["b", "b", "a", "c", "d"], "x": [[0.0, np.nan]] * 2 + [[1.0, 1.0]] * 3, "y": [None, None, 1, 1, 1]}
    report = run(tmp_path, twice, duplicates="same")
    assert hopfeed.Dataset(tmp_path / "dataset").num_nodes() == 4
    assert [one["kind"] for one in report["dirt"] if one["kind"] != "nonfinite"] == ["duplicates"]


@pytest.mark.parametrize("other", [{"x": [[0.0, 1.0], [-0.0, 1.0]] + [[1.0, 1.0]] * 3}, {"y": [None, 1, 1, 1, 1]}])
def test_duplicates_that_differ_are_refused_or_the_smallest_is_taken(tmp_path: Path, other: dict[str, Any]) -> None:
    twice: dict[str, Any] = {"id": ["b", "b", "a", "c", "d"], "x": [[0.0, 1.0]] * 2 + [[1.0, 1.0]] * 3, "y": [1] * 5, **other}
    refused(tmp_path, r"node type 'n': 1 key of nodes has rows that differ; the first is 'b'; leave one of each, or --duplicates smallest", twice, duplicates="same")
    found = []
    for order in (twice, {name: [values[1], values[0], *values[2:]] for name, values in twice.items()}):
        run(tmp_path, order, duplicates="smallest", overwrite=True)
        dataset = hopfeed.Dataset(tmp_path / "dataset")
        found.append((dataset.fingerprint, dataset.attr("x")[1].tobytes(), int(dataset.attr("y")[1])))
    assert found[0] == found[1]


def test_nulls_become_zeros_when_asked(tmp_path: Path) -> None:
    report = run(tmp_path, {"x": [[1.0, None], None, [5.0, 6.0], [7.0, 8.0]], "y": [None, 1, -5, 0]}, {"w": [None, 2.0, 3.0]}, nulls="0")
    dataset = hopfeed.Dataset(tmp_path / "dataset")
    assert dataset.attr("x")[:].tolist() == [[1, 0], [0, 0], [5, 6], [7, 8]]
    assert dataset.attr("y")[:].tolist() == [-1, 1, -1, 0]
    assert report["node_types"]["n"]["coverage"] == {"x": 0.75, "y": 0.75}
    assert report["edge_types"]["n__to__n"]["coverage"] == {"weight": pytest.approx(2 / 3)}


def test_what_float32_rounds_is_told(tmp_path: Path) -> None:
    said = list[str]()
    report = run(tmp_path, {"x": [[1, 2], [2**24 + 1, 0], [3, 4], [5, 6]]}, say=said.append)
    assert "warning: node type 'n': 1 row of nodes has a whole number in 'x' beyond 2^24, which float32 rounds; the first is 'b'" in [line.replace(f"{tmp_path}/", "") for line in said]
    assert [(one["kind"], one["rows"]) for one in report["dirt"]] == [("rounded", 1)]


def test_values_that_are_not_finite_are_counted(tmp_path: Path) -> None:
    report = run(tmp_path, {"x": [[1.0, np.nan], [np.inf, 0.0], [3.0, 4.0], [5.0, 6.0]]})
    assert [(one["kind"], one["rows"]) for one in report["dirt"]] == [("nonfinite", 2)]


def test_a_class_that_training_lacks_is_told(tmp_path: Path) -> None:
    split = {"column": "fold", "values": {"train": "t", "valid": ["v", "w"]}}
    report = run(tmp_path, {"fold": ["t", "v", "t", "x"], "y": ["p", "q", "p", None]}, node={"split": split})
    line = "node type 'n': 1 class of split 'valid' is not in 'train', so no model learns it; the first is 'q'; split otherwise, or leave its nodes unlabelled"
    assert [one["line"] for one in report["dirt"]] == [line]
    assert hopfeed.Dataset(tmp_path / "dataset").meta["class_names"] == ["p", "q"]


@pytest.mark.parametrize(
    "column, field, line",
    [
        (pa.array([1, 2, 3, 4], pa.decimal128(8, 2)), {"attrs": ["z"]}, r"node type 'n': 'z' is DECIMAL\(8,2\), which no binary number holds; say \"type\": \"float64\" to have them rounded"),
        (["p", "q", "r", "s"], {"attrs": ["z"]}, r"node type 'n': 'z' is VARCHAR; only numbers, and lists of them, can be stored"),
        ([datetime(2026, 1, 1)] * 4, {"attrs": ["z"]}, r"node type 'n': 'z' is TIMESTAMP; name it in 'times'"),
        ([1.5, 2.5, 3.5, 4.5], {"times": ["z"]}, r"node type 'n': 'z' is DOUBLE, which is no time; times are timestamps, dates or whole numbers"),
        ([1, 2, 300, 4], {"attrs": [{"name": "z", "column": "z", "type": "uint8"}]}, r"node type 'n': 1 row of nodes has a number in 'z' that uint8 does not hold; the first is 'c'; .*"),
        (pa.array([datetime(2026, 1, 1)] * 3 + [datetime(9999, 1, 1)], pa.timestamp("us")), {"times": [{"name": "z", "column": "z", "unit": "ns"}]},
         r"node type 'n': 1 row of nodes has a time in 'z' that int64 does not hold in ns; the first is 'd'; .*"),
        ([1, 2, 3, 4], {"attrs": ["q"]}, r"node type 'n', 'q': nodes has no column 'q'; it has: id, x, y, z"),
        ([1, 2, 3, 4], {"split": {"time": "q", "until": {"train": 3}}}, r"node type 'n', split: nodes has no column 'q'; it has: id, x, y, z"),
        ([1, 2, 3, 4], {"split": "z"}, r"node type 'n', split by 'z': '1' .*|.*no text.*"),
    ],
)  # fmt: skip
def test_columns_that_cannot_be_stored(tmp_path: Path, column: Any, field: dict[str, Any], line: str) -> None:
    if field == {"split": "z"}:
        run(tmp_path, {"z": column}, node=field)  # numbers are names of splits
        return
    refused(tmp_path, line, {"z": column}, node=field)


def test_decimals_become_float64_on_request(tmp_path: Path) -> None:
    decimals = pa.array([1, 2, 3, 4], pa.decimal128(8, 2))
    run(tmp_path, {"z": decimals}, node={"attrs": [{"name": "z", "column": "z", "type": "float64"}]})
    assert hopfeed.Dataset(tmp_path / "dataset").attr("z")[:].tolist() == [1.0, 2.0, 3.0, 4.0]


def test_a_text_that_is_no_utf8_is_refused(tmp_path: Path) -> None:
    table = pa.table(NODES)
    wrong = pa.Array.from_buffers(pa.string(), 4, pa.array([b"a", b"b", b"c", b"\xff"], pa.binary()).buffers())
    write_table(table.set_column(0, "id", wrong), tmp_path / "broken")
    refused(tmp_path, r".*; texts have to be UTF-8: write the table again with another encoding", node={"table": "broken"})


def test_a_file_that_cannot_be_parsed_is_named(tmp_path: Path) -> None:
    run(tmp_path)
    (tmp_path / "nodes" / "part-99.parquet").write_bytes(b"no table at all, but long enough to be looked at")
    with pytest.raises(CorruptError, match=r"part-99\.parquet.*; repair the file, or leave it out"):
        import_tables(tmp_path / "other", nodes=[NODE | {"table": str(tmp_path / "nodes")}])
    (tmp_path / "n.csv").write_text('id,v\na,1\n"b,2\n')
    with pytest.raises(CorruptError, match=r"n\.csv.*cannot be parsed: .*; repair the file, or leave it out"):
        import_tables(tmp_path / "other", nodes=[{"name": "n", "table": str(tmp_path / "n.csv"), "key": "id", "attrs": ["v"]}])
    assert not (tmp_path / "other").exists()


def test_too_little_memory_is_refused(tmp_path: Path) -> None:
    write_table(pa.table(NODES), tmp_path / "nodes")
    with pytest.raises(InvalidError, match="the memory is 512 MB; an import of tables needs 1024 MB at least"):
        import_tables(tmp_path / "dataset", nodes=[NODE | {"table": str(tmp_path / "nodes")}], memory="512M")
    with pytest.raises(InvalidError, match="--memory is 'much'"):
        import_tables(tmp_path / "dataset", nodes=[NODE | {"table": str(tmp_path / "nodes")}], memory="much")


def test_the_limit_of_a_memory_cgroup_is_the_machines(environment: dict[str, str]) -> None:
    lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    old = next((below for _, controllers, below in lines if "memory" in controllers.split(",")), None)
    new = next((below for _, controllers, below in lines if controllers == ""), "")
    folder = Path(f"/sys/fs/cgroup/memory{old}" if old is not None else f"/sys/fs/cgroup{new}") / f"hopfeed-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / ("memory.limit_in_bytes" if old is not None else "memory.max")).write_text(str(3 << 30))
    except OSError as error:
        if folder.exists():
            folder.rmdir()
        pytest.skip(f"memory cgroups are not this process's to make: {error}")
    try:
        text = f"import os; open('{folder}/cgroup.procs', 'w').write(str(os.getpid())); from hopfeed.tables.engine import machine_memory as m; print(m())"
        told = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True, timeout=60).stdout
    finally:
        folder.rmdir()
    assert int(told) == 3 << 30
