"""An import on a cluster makes the files, the fingerprint and the report of the import on one machine."""

from __future__ import annotations

import io
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="the extra [tables] is not installed")
pytest.importorskip("duckdb", reason="the extra [tables] is not installed")

pytest.importorskip("pyarrow.fs", reason="this pyarrow has no file systems")

import pyarrow.csv  # noqa: E402
import pyarrow.parquet  # noqa: E402, F401

from cluster_ways import REFUSED, TAKEN, compared, described, files_of  # noqa: E402
from hopfeed.errors import InvalidError, NoSpaceError  # noqa: E402
from hopfeed.tables import import_tables  # noqa: E402
from hopfeed.tables.cluster import importing  # noqa: E402
from local_cluster import LocalCluster  # noqa: E402
from made_tables import Shop, make_shop, write_shop  # noqa: E402
from hopfeed.tables.work import Work  # noqa: E402
from object_store import object_store  # noqa: E402


@pytest.fixture(scope="module")
def shop() -> Shop:
    return make_shop()


def both_ways(folder: Path, description: Any, cluster: LocalCluster | None = None, **options: Any) -> dict[str, Any]:
    """Imports here and on a cluster in this process, and compares."""

    def on_cluster(out: Path, described: Any, **given: Any) -> dict[str, Any]:
        return importing.import_tables(cluster or LocalCluster(), described, out, **given)

    return compared(folder, description, on_cluster, **options)


@pytest.mark.parametrize("parts, seed", [(1, 0), (3, 5)])
@pytest.mark.parametrize("cluster", [LocalCluster(), LocalCluster(ranges=7, seed=3, twice=True), LocalCluster(ranges=1)])
def test_the_shop_is_the_same(shop: Shop, tmp_path: Path, parts: int, seed: int, cluster: LocalCluster) -> None:
    both_ways(tmp_path, write_shop(shop, tmp_path, files=3), cluster, parts=parts, seed=seed)


def test_sharded_ids_are_the_same(shop: Shop, tmp_path: Path) -> None:
    both_ways(tmp_path, write_shop(shop, tmp_path), LocalCluster(twice=True), parts=3, seed=5, ids="sharded")


@pytest.mark.parametrize("nodes, edges, options", REFUSED)
def test_the_line_of_what_is_refused_is_the_same(tmp_path: Path, nodes: dict[str, Any], edges: dict[str, Any], options: dict[str, Any]) -> None:
    assert both_ways(tmp_path, described(tmp_path, nodes, edges, {}, {}), parts=2, rejected=True, **options)["report"] == "InvalidError"


@pytest.mark.parametrize("nodes, edges, options", TAKEN)
def test_dirt_that_is_let_through_is_the_same(tmp_path: Path, nodes: dict[str, Any], edges: dict[str, Any], options: dict[str, Any]) -> None:
    report = both_ways(tmp_path, described(tmp_path, nodes, edges, {}, {}), parts=2, rejected=True, **options)["report"]
    assert isinstance(report, dict), report


@pytest.mark.parametrize("duplicates, x", [("same", [[0.0, 1.0]] * 5), ("smallest", [[3.0, 1.0], [0.0, 1.0], [1.0, 1.0], [-0.0, 1.0], [2.0, 1.0]])])
def test_of_rows_with_one_key_those_that_were_left_out_are_kept_aside(tmp_path: Path, duplicates: str, x: list[Any]) -> None:
    nodes = {"id": ["a", "b", "a", "b", "a"], "x": x, "y": ["p"] * 5}
    description = described(tmp_path, nodes, {"s": ["a"] * 4, "d": ["b"] * 4}, {}, {})
    found = both_ways(tmp_path, description, LocalCluster(twice=True), duplicates=duplicates, rejected=True)["rejected"]
    assert [line.count('"duplicates"') for line in found] == [1, 1, 1]


@pytest.mark.parametrize("edge", [{"undirected": True}, {"more": [{"src": "n", "rel": "rev", "dst": "n", "rev_of": "to"}]}, {"undirected": True, "more": [{"src": "n", "rel": "rev", "dst": "n", "rev_of": "to"}]}])
def test_edges_both_ways(tmp_path: Path, edge: dict[str, Any]) -> None:
    loops = {"s": ["a", "b", "ü", "b"], "d": ["b", "b", "d", "b"]}
    assert both_ways(tmp_path, described(tmp_path, {}, loops, {}, edge), LocalCluster(twice=True), parts=2)


@pytest.mark.parametrize("kind", ["int64", "uuid", "int8", "csv"])
def test_keys_of_each_type(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(1)
    keys: Any = {
        "int64": lambda: pa.array([int(one) for one in (-(2**63), 2**63 - 1, 0, -1, *rng.integers(-(2**62), 2**62, 30))]),
        "uuid": lambda: pa.array([uuid.UUID(bytes=rng.bytes(16)).bytes for _ in range(34)], pa.uuid()),
        "int8": lambda: pa.array(rng.choice(np.arange(-100, 100), 34, replace=False), pa.int8()),
        "csv": lambda: pa.array([f"{'x' * (i % 5)},{i}" for i in range(34)]),
    }[kind]()
    src, dst = (keys.take(pa.array(rng.integers(0, 34, 90))) for _ in range(2))
    ending = ".csv" if kind == "csv" else ".parquet"
    write = pa.csv.write_csv if kind == "csv" else pa.parquet.write_table
    write(pa.table({"id": keys, "a": np.arange(34)}), tmp_path / f"n{ending}")
    write(pa.table({"s": src, "d": dst}), tmp_path / f"e{ending}")
    nodes = [{"name": "n", "table": str(tmp_path / f"n{ending}"), "key": "id", "attrs": ["a"], "split": {"fractions": {"train": 0.5, "test": 0.25}}}]
    edges = [{"src": "n", "rel": "to", "dst": "n", "table": str(tmp_path / f"e{ending}"), "src_key": "s", "dst_key": "d"}]
    both_ways(tmp_path, {"name": "g", "nodes": nodes, "edges": edges}, parts=3, seed=7)


def test_nodes_without_a_table(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("from,to\nb,a\nc,a\n\"x,y\",b\nb,b\n")
    edges = [{"src": "n", "rel": "to", "dst": "m", "table": str(tmp_path / "e.csv"), "src_key": "from", "dst_key": "to"}]
    both_ways(tmp_path, {"name": "g", "nodes": [{"name": "n"}, {"name": "m"}], "edges": edges}, parts=2)


@pytest.mark.parametrize("wrong", ["", "outside", "twice", "missing", "type"])
def test_a_table_of_partitions(shop: Shop, tmp_path: Path, wrong: str) -> None:
    rows = [(name, str(key), i % 3) for name, table in shop.nodes.items() for i, key in enumerate(table.keys)]
    if wrong == "outside":
        rows[4] = (*rows[4][:2], 7)
    if wrong == "twice":
        rows += rows[2:5]
    if wrong == "missing":
        del rows[7:9]
    names = ["kind" if wrong == "type" else "type", "key", "partition"]
    pa.parquet.write_table(pa.table(dict(zip(names, map(list, zip(*rows))))), tmp_path / "cut.parquet")
    found = both_ways(tmp_path, write_shop(shop, tmp_path), parts=3, assign=tmp_path / "cut.parquet")
    assert (found["report"] == "InvalidError") == bool(wrong)


def test_ldg_on_the_driver(shop: Shop, tmp_path: Path) -> None:
    both_ways(tmp_path, write_shop(shop, tmp_path), parts=3, assign="ldg")


def test_metis_is_refused_by_name(shop: Shop, tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="--assign metis needs the whole graph in one memory; on a cluster take hash, ldg or a table"):
        importing.import_tables(LocalCluster(), write_shop(shop, tmp_path), tmp_path / "out", parts=2, assign="metis")


def test_ldg_is_refused_where_the_driver_has_too_little_memory(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hopfeed.tables.cluster.assign.machine_memory", lambda: 1000)
    with pytest.raises(InvalidError, match=r"--assign ldg takes 0 MB of the driver's memory for 85 nodes, which is more than half of it"):
        importing.import_tables(LocalCluster(), write_shop(shop, tmp_path), tmp_path / "out", parts=2, assign="ldg")


def test_like_another_import(shop: Shop, tmp_path: Path) -> None:
    description = write_shop(shop, tmp_path)
    import_tables(tmp_path / "other", description, parts=2)
    both_ways(tmp_path, description, parts=2, like=tmp_path / "other")


@pytest.mark.parametrize("split", [{"column": "fold", "values": {"train": "t", "valid": ["v", "w"]}}, {"column": "fold"}, {"time": "at", "until": {"train": "2026-01-03", "valid": None}, "of": "all"}])
def test_splits(tmp_path: Path, split: dict[str, Any]) -> None:
    day = np.arange("2026-01-01", "2026-01-05", dtype="datetime64[D]")
    both_ways(tmp_path, described(tmp_path, {"fold": ["t", "v", "t", "x"], "at": day}, {}, {"split": split}, {}), parts=2)


def test_bounds_of_a_sample_of_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hopfeed.tables.bounds._SAMPLES", 300)
    rng = np.random.default_rng(2)
    table = pa.table({"s": rng.integers(0, 20, 2000), "d": rng.integers(0, 10, 2000), "at": rng.integers(0, 10**9, 2000), "w": rng.integers(0, 3, 2000).astype(np.int32)})
    pa.parquet.write_table(table, tmp_path / "e.parquet")
    pa.parquet.write_table(pa.table({"id": list(range(20)), "born": rng.integers(0, 99, 20)}), tmp_path / "n.parquet")
    edge = {"src": "n", "rel": "to", "dst": "n", "table": str(tmp_path / "e.parquet"), "src_key": "s", "dst_key": "d", "weight": "w", "time": "at", "times": ["born"]}
    node = {"name": "n", "table": str(tmp_path / "n.parquet"), "key": "id", "times": ["born"]}
    both_ways(tmp_path, {"name": "g", "nodes": [node], "edges": [edge]}, parts=3)


def test_a_large_file_is_read_in_ranges_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hopfeed.tables.cluster.pieces._LEAST", 500)
    monkeypatch.setattr("hopfeed.tables.cluster.pieces._MOST", 500)
    read = list[int]()
    rows = LocalCluster.rows
    monkeypatch.setattr(LocalCluster, "rows", lambda self, items, *rest: (read.append(len(items)), rows(self, items, *rest))[1])
    keys = np.random.default_rng(0).permutation(5000)
    pa.parquet.write_table(pa.table({"id": keys, "x": keys / 2}), tmp_path / "n.parquet")
    both_ways(tmp_path, {"name": "g", "nodes": [{"name": "n", "table": str(tmp_path / "n.parquet"), "key": "id", "attrs": ["x"]}], "edges": []})
    assert max(read) > 20


def test_a_driver_that_ended_goes_on_behind_its_last_stage(shop: Shop, tmp_path: Path) -> None:
    description, said = write_shop(shop, tmp_path), list[str]()

    class Ended(Exception):
        pass

    def say(line: str) -> None:
        said.append(line)
        if "writing 2 partitions" in line and "item" in line:
            raise Ended

    with pytest.raises(Ended):
        importing.import_tables(LocalCluster(), description, tmp_path / "out", parts=2, say=say)
    assert not (tmp_path / "out").exists()
    again = list[str]()
    report = importing.import_tables(LocalCluster(ranges=5), description, tmp_path / "out", parts=2, say=again.append)
    assert report["fingerprint"] == import_tables(tmp_path / "here", description, parts=2)["fingerprint"]
    assert files_of(tmp_path / "out") == files_of(tmp_path / "here")
    assert any("ordering keys" in line for line in said) and not any("ordering keys" in line for line in again)
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_worker_that_does_not_see_the_folder_says_so(shop: Shop, tmp_path: Path) -> None:
    class Elsewhere(LocalCluster):
        def tasks(self, items: Any, task: Any) -> Any:
            for mark in (tmp_path / ".out.import").glob("run-*"):
                mark.unlink()
            return super().tasks(items, task)

    with pytest.raises(InvalidError, match=r"the worker on .* does not see .*/\.out\.import; give folders that all workers have at the same path"):
        importing.import_tables(Elsewhere(), write_shop(shop, tmp_path), tmp_path / "out")


def test_tables_in_an_object_store(tmp_path: Path) -> None:
    rows = io.BytesIO()
    pa.parquet.write_table(pa.table({"id": list(range(1000)), "x": [i / 2 for i in range(1000)]}), rows)
    with object_store(rows.getvalue()) as store:
        both_ways(tmp_path, {"name": "g", "nodes": [{"name": "n", "table": store.url("who:s3cret@"), "key": "id", "attrs": ["x"]}], "edges": []}, parts=2)


def test_a_task_that_still_writes_when_all_is_done_costs_nothing(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hopfeed.tables.cluster.importing._PAUSE", 0.01)
    remove, left = Work.remove, [1, 2, 3]

    def removed(self: Work) -> None:
        if left:
            left.pop()
            raise OSError(39, "Directory not empty")
        remove(self)

    monkeypatch.setattr(Work, "remove", removed)
    report = importing.import_tables(LocalCluster(), write_shop(shop, tmp_path), tmp_path / "out")
    assert report["fingerprint"] and not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


def graph(folder: Path, table: Path | str, **node: Any) -> dict[str, Any]:
    """One node type, of a table with the key ``id``."""
    return {"name": "g", "nodes": [{"name": "n", "table": str(table), "key": "id", **node}], "edges": []}


def test_a_driver_that_goes_on_with_more_workers_leaves_out_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hopfeed.tables.cluster.pieces._LEAST", 1)
    (tmp_path / "e").mkdir()
    pa.parquet.write_table(pa.table({"id": list(range(20))}), tmp_path / "n.parquet")
    for i in range(12):
        pa.parquet.write_table(pa.table({"s": [99 if i % 3 == 0 and k == i else k % 20 for k in range(30)], "d": [k * 7 % 20 for k in range(30)]}), tmp_path / "e" / f"{i:02}.parquet")
    description = graph(tmp_path, tmp_path / "n.parquet")
    description["edges"] = [{"src": "n", "rel": "to", "dst": "n", "table": str(tmp_path / "e"), "src_key": "s", "dst_key": "d"}]

    def ended(line: str) -> None:
        if "adding up" in line:
            raise KeyboardInterrupt

    cluster = LocalCluster()
    cluster.slots = 1
    with pytest.raises(KeyboardInterrupt):
        importing.import_tables(cluster, description, tmp_path / "cluster", parts=2, dangling="drop", say=ended)
    cluster.slots = 4
    assert both_ways(tmp_path, description, cluster, parts=2, dangling="drop")["report"]["edge_types"]["n__to__n"]["dropped"] == 4


def test_a_late_task_of_a_run_that_was_killed_changes_nothing(tmp_path: Path) -> None:
    late = list[Any]()

    class Killed(LocalCluster):
        def ranges(self, frame: Any, by: Any, within: Any, take: Any) -> Any:
            late.append(lambda: take(0, iter([pa.record_batch({"key": [7, 8, 9], "own": [1, 1, 1]})])))
            raise KeyboardInterrupt

    class Next(LocalCluster):
        def ranges(self, *given: Any) -> Any:
            found = super().ranges(*given)
            if late:
                with pytest.raises(InvalidError, match="does not see"):
                    late.pop()()
            return found

    pa.parquet.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "n.parquet")
    with pytest.raises(KeyboardInterrupt):
        importing.import_tables(Killed(), graph(tmp_path, tmp_path / "n.parquet"), tmp_path / "cluster")
    both_ways(tmp_path, graph(tmp_path, tmp_path / "n.parquet"), Next())
    assert not late


def test_files_of_other_columns_are_brought_to_those_of_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hopfeed.tables.cluster.pieces._LEAST", 1000)
    monkeypatch.setattr("hopfeed.tables.cluster.pieces._MOST", 1000)
    folder = tmp_path / "n"
    for i, kind in enumerate((pa.int8(), pa.int32(), pa.float32(), pa.float64(), None)):
        (folder / f"day=0{i}").mkdir(parents=True)
        columns = {"id": list(range(i * 1000, i * 1000 + 1000))} | ({"v": pa.array([k % 100 for k in range(1000)]).cast(kind)} if kind else {})
        pa.parquet.write_table(pa.table(columns), folder / f"day=0{i}" / "a.parquet")
    (folder / "day=abc").mkdir()
    pa.parquet.write_table(pa.table({"id": [-1], "v": [0.1]}), folder / "day=abc" / "a.parquet")
    read = list[int]()
    rows = LocalCluster.rows
    monkeypatch.setattr(LocalCluster, "rows", lambda self, items, *rest: (read.append(len(items)), rows(self, items, *rest))[1])
    both_ways(tmp_path, graph(tmp_path, folder, attrs=["v"], split={"column": "day"}), nulls="0")
    assert max(read) > 6


def test_a_column_that_is_called_as_duckdbs_own_is_only_a_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hopfeed.tables.cluster.pieces._LEAST", 100)
    monkeypatch.setattr("hopfeed.tables.cluster.pieces._MOST", 100)
    pa.parquet.write_table(pa.table({"id": list(range(500)), "file_row_number": list(range(500))}), tmp_path / "n.parquet")
    both_ways(tmp_path, graph(tmp_path, tmp_path / "n.parquet", attrs=["file_row_number"]))


@pytest.mark.parametrize("split", [{"fractions": {"train": 1e-9, "valid": 0.5}}, {"time": "at", "until": {"train": "2025-01-01", "valid": None}}, {"column": "fold"}])
def test_a_split_without_a_node_is_told(tmp_path: Path, split: dict[str, Any]) -> None:
    at = np.arange("2026-01-01", "2026-01-05", dtype="datetime64[D]")
    columns = {"id": list(range(4)), "y": [0, None, 1, None], "at": at, "fold": ["valid", "train", "valid", "train"]}
    pa.parquet.write_table(pa.table(columns), tmp_path / "n.parquet")
    dirt = both_ways(tmp_path, graph(tmp_path, tmp_path / "n.parquet", label="y", split=split))["report"]["dirt"]
    assert {one["kind"] for one in dirt} & {"empty splits", "classes"}


def test_rows_of_a_table_that_two_types_share_are_both_kept(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "n.parquet")
    pa.parquet.write_table(pa.table({"s": [1, 9, 3], "d": [2, 2, 8]}), tmp_path / "e.parquet")
    description = graph(tmp_path, tmp_path / "n.parquet")
    ends = {"src": "n", "dst": "n", "table": str(tmp_path / "e.parquet")}
    description["edges"] = [ends | {"rel": "to", "src_key": "s", "dst_key": "d"}, ends | {"rel": "of", "src_key": "d", "dst_key": "s"}]
    assert len(both_ways(tmp_path, description, dangling="drop", rejected=True)["rejected"]) == 4


def test_wide_rows_are_handled_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = list[int]()
    packed = importing.shards.packed.packed
    monkeypatch.setattr("hopfeed.tables.cluster.packed.packed", lambda stored, batch, classes: (given.append(len(batch)), packed(stored, batch, classes))[1])
    values = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(1024 * 9000, np.float32)), 1024)
    pa.parquet.write_table(pa.table({"id": list(range(9000)), "x": values}), tmp_path / "n.parquet")
    both_ways(tmp_path, graph(tmp_path, tmp_path / "n.parquet", features="x"), parts=2)
    assert sum(given) == 9000 + 1 and max(given) <= 2048  # and the row of a node that no table has


def test_edges_of_one_node_that_a_task_cannot_hold_say_what_to_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pa.parquet.write_table(pa.table({"id": [1, 2]}), tmp_path / "n.parquet")
    pa.parquet.write_table(pa.table({"s": [1] * 300_000, "d": [2] * 300_000, "v": np.random.default_rng(0).random(300_000)}), tmp_path / "e.parquet")
    description = graph(tmp_path, tmp_path / "n.parquet")
    description["edges"] = [{"src": "n", "rel": "to", "dst": "n", "table": str(tmp_path / "e.parquet"), "src_key": "s", "dst_key": "d", "attrs": ["v"]}]
    with pytest.raises(InvalidError, match="task_memory is '1M'; a task needs 1024 MB at least"):
        importing.import_tables(LocalCluster(), description, tmp_path / "out", task_memory="1M")
    monkeypatch.setattr("hopfeed.tables.cluster.importing.LEAST_MEMORY", 1)
    with pytest.raises(NoSpaceError, match="in-edges.*give more task_memory"):
        importing.import_tables(LocalCluster(), description, tmp_path / "out", task_memory="1M")
    importing.import_tables(LocalCluster(), description, tmp_path / "out", task_memory="64M")


def test_times_of_sources_of_parallel_edges_without_attributes(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"id": [0, 1, 2], "created.at": [5, 3, 9], "created_at": [1, 2, 3]}), tmp_path / "n.parquet")
    pa.parquet.write_table(pa.table({"s": [0, 0, 2], "d": [1, 1, 1]}), tmp_path / "e.parquet")
    description = graph(tmp_path, tmp_path / "n.parquet", times=["created.at", "created_at"])
    description["edges"] = [{"src": "n", "rel": "to", "dst": "n", "table": str(tmp_path / "e.parquet"), "src_key": "s", "dst_key": "d", "times": ["created.at", "created_at"]}]
    both_ways(tmp_path, description)


def test_a_path_behind_a_link_leads_where_it_leads_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "far" / "inner").mkdir(parents=True)
    (tmp_path / "near").mkdir()
    (tmp_path / "near" / "link").symlink_to(tmp_path / "far" / "inner")
    for folder, count in (("far", 3), ("near", 1)):
        pa.parquet.write_table(pa.table({"id": list(range(count))}), tmp_path / folder / "n.parquet")
    monkeypatch.chdir(tmp_path / "near")
    assert both_ways(tmp_path, graph(tmp_path, "link/../n.parquet"))["report"]["node_types"]["n"]["nodes"] == 3


def test_a_table_that_a_worker_has_not_is_told(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "n.parquet")

    class Elsewhere(LocalCluster):
        def tasks(self, items: Any, task: Any) -> Any:
            pa.parquet.write_table(pa.table({"id": list(range(50))}), tmp_path / "n.parquet")
            return super().tasks(items, task)

    with pytest.raises(InvalidError, match=r"n\.parquet has .* bytes for the driver, and the worker on .* sees one of .* bytes; all of them have to see the same tables"):
        importing.import_tables(Elsewhere(), graph(tmp_path, tmp_path / "n.parquet"), tmp_path / "out")


@pytest.mark.parametrize("case", ["texts", "own column", "folders", "widths", "missing", "twice"])
def test_files_of_a_store_have_the_columns_of_the_table(tmp_path: Path, case: str) -> None:
    """``file://`` is a store too."""
    table, node, options = tmp_path / "v=7" / "t", dict[str, Any](), dict[str, Any]()
    files: list[dict[str, Any]] = [{"id": [1, 2]}, {"id": [3, 4]}]
    if case == "texts":
        files, node = [{"id": ["a1", "b"]}, {"id": ["01", "5"]}], {"format": "csv"}
    if case == "own column":
        files, node = [{"id": [1, 2], "v": pa.array([1, 2], pa.int32())}, {"id": [3, 4], "v": pa.array([3, 4], pa.int32())}], {"attrs": ["v"]}
    if case == "folders":
        files, node = [{"id": [i]} for i in range(3)], {"split": {"column": "day"}}
    if case == "widths":
        files, node = [{"id": [1], "v": pa.array([0.1], pa.float32())}, {"id": [2], "v": pa.array([0.1], pa.float64())}], {"attrs": [{"name": "v", "type": "float64"}]}
    if case == "missing":
        files, node, options = [{"id": [1], "v": [5]}, {"id": [2]}], {"attrs": ["v"]}, {"nulls": "0"}
    for i, columns in enumerate(files):
        folder = table / ("day=01", "day=02", "day=abc")[i] if case == "folders" else table
        folder.mkdir(parents=True, exist_ok=True)
        write = pa.csv.write_csv if case == "texts" else pa.parquet.write_table
        write(pa.table(columns), folder / f"{i}.{'csv' if case == 'texts' else 'parquet'}")
    url = f"file://{table}"
    description = graph(tmp_path, url, **node)
    if case == "twice":
        description["nodes"][0]["table"] = [url, url]
        options = {"duplicates": "same"}
    both_ways(tmp_path, description, **options)
