"""A description is checked before any row is read: each fault is one line that names its place. What is inferred, and what
a dry run says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="the extra [tables] is not installed")
pytest.importorskip("duckdb", reason="the extra [tables] is not installed")

import hopfeed  # noqa: E402
from hopfeed.errors import CorruptError, InvalidError, NotFoundError  # noqa: E402
from hopfeed.programs import program  # noqa: E402
from hopfeed.tables import import_tables, infer_description  # noqa: E402
from hopfeed.tables.__main__ import IMPORTS  # noqa: E402
from hopfeed.tables.description import read  # noqa: E402
from made_tables import DESCRIPTION, make_shop, write_shop, write_table  # noqa: E402

NODE: dict[str, Any] = {"name": "n", "table": "n.parquet", "key": "id"}
EDGE: dict[str, Any] = {"src": "n", "rel": "to", "dst": "n", "table": "e.parquet", "src_key": "s", "dst_key": "d"}
BACK: dict[str, Any] = {"src": "n", "rel": "back", "dst": "n", "rev_of": "to"}


@pytest.mark.parametrize(
    "given, line",
    [
        ({"nodes": []}, "the description has no node type"),
        ({"nodes": [NODE], "vertices": []}, "the description has an unknown field 'vertices'; it may have: name, nodes, edges"),
        ({"nodes": [NODE, NODE]}, "the description has two node types 'n'; a type has one table, which may be many files"),
        ({"nodes": [NODE | {"key": None}]}, "the description: node type 0 ('n') has no 'key'"),
        ({"nodes": [NODE | {"name": "a__b"}]}, "the description: node type 0: 'a__b' cannot be the name of a node type; take 1 to 31 letters, digits, '_', '.' or '-', without '__'"),
        ({"nodes": [NODE | {"feature": "x"}]}, "the description: node type 0 has an unknown field 'feature'; it may have: name, table, key, features, label, times, attrs, split, format, types, delimiter, header, null"),
        ({"nodes": [NODE | {"attrs": ["n_id"]}]}, "the description: node type 0 ('n'), attr: batches have a field 'n_id' of their own; call the attribute otherwise: {\"name\": ..., \"column\": ...}"),
        ({"nodes": [NODE | {"attrs": ["a", "a"]}]}, "the description: node type 0 ('n') has two attributes 'a'; name one otherwise: {\"name\": ..., \"column\": ...}"),
        ({"nodes": [NODE | {"times": [{"column": "t", "unit": "h"}]}]}, "the description: node type 0 ('n'), time has 'unit' = 'h'; it may be: s, ms, us, ns"),
        ({"nodes": [NODE | {"split": {"fractions": {"train": 0.7, "test": 0.4}}}]}, "the description: node type 0 ('n'), split has shares that add up to 1.1, more than 1"),
        ({"nodes": [NODE | {"split": {"column": "a", "time": "b"}}]}, "the description: node type 0 ('n'), split is by one of 'column', 'fractions' and 'time'"),
        ({"nodes": [NODE], "edges": [EDGE | {"dst": "m"}]}, "the description: edge type 0 ('n__to__m') ends at 'm', which is no node type; there are: n"),
        ({"nodes": [NODE], "edges": [EDGE, EDGE]}, "the description has two edge types 'n__to__n'; a type has one table, which may be many files"),
        ({"nodes": [NODE], "edges": [EDGE | {"table": None}]}, "the description: edge type 0 ('n__to__n') has no 'table'"),
        ({"nodes": [NODE], "edges": [EDGE, BACK | {"rev_of": "fro"}]}, "the description: edge type 1 has rev_of 'fro', which is no other edge type from 'n' to 'n'; there are: n__to__n"),
        ({"nodes": [NODE], "edges": [EDGE, BACK | {"weight": "w"}]}, "the description: edge type 1 ('n__back__n') has 'weight' and no 'table'; its edges are those of 'to', the other way round"),
        ({"nodes": [NODE, {"name": "m"}], "edges": [EDGE | {"dst": "m", "undirected": True}]}, "the description: edge type 0 ('n__to__m') is undirected, but leads from 'n' to 'm'; add an edge type with \"rev_of\": \"to\" instead"),
    ],
)  # fmt: skip
def test_faults_of_a_description(given: dict[str, Any], line: str) -> None:
    with pytest.raises(InvalidError) as found:
        read(given)
    assert str(found.value) == line


def test_files_that_are_no_description(tmp_path: Path) -> None:
    path = tmp_path / "shop.json"
    for text, line in (
        ('{"nodes": [}', "shop.json is no valid JSON: line 1, column 12: Expecting value"),
        ('{"nodes": [], "nodes": []}', "shop.json: 'nodes' is given twice in one place; say it once"),
        ("[]", "shop.json is no object {...}"),
    ):
        path.write_text(text)
        with pytest.raises(InvalidError) as found:
            read(path)
        assert str(found.value) == f"{tmp_path}/{line}"
    with pytest.raises(NotFoundError, match="none.json cannot be read: No such file or directory"):
        read(tmp_path / "none.json")


def test_yaml_is_the_same_as_json(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    (tmp_path / "shop.yaml").write_text(yaml.safe_dump(DESCRIPTION))
    (tmp_path / "shop.json").write_text(json.dumps(DESCRIPTION))
    assert read(tmp_path / "shop.yaml") == read(tmp_path / "shop.json")


def test_tables_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"node type 'n': there is no table .*/none/\*\.parquet; a table is a file, a glob or a folder"):
        import_tables(tmp_path / "dataset", nodes=[NODE | {"table": str(tmp_path / "none" / "*.parquet")}])
    (tmp_path / "n.data").write_text("id\n1\n")
    with pytest.raises(InvalidError, match='whether these are Parquet or CSV their names do not tell; say "format": "parquet" or "csv"'):
        import_tables(tmp_path / "dataset", nodes=[NODE | {"table": str(tmp_path / "n.data")}])
    import_tables(tmp_path / "dataset", nodes=[NODE | {"table": str(tmp_path / "n.data"), "format": "csv"}])


def test_paths_globs_and_folders_with_columns_are_one_table(tmp_path: Path) -> None:
    for i, day in enumerate(("2026-11-27", "2026-11-28")):
        write_table(pa.table({"id": [2 * i, 2 * i + 1]}), tmp_path / "by day [1]" / f"day={day}")
    split = {"time": "day", "until": {"train": "2026-11-28", "test": None}}
    node = {"name": "n", "table": str(tmp_path / "by day [1]"), "key": "id", "times": ["day"], "split": split}
    import_tables(tmp_path / "folder", nodes=[node])
    dataset = hopfeed.Dataset(tmp_path / "folder")
    assert dataset.split("train").tolist() == [0, 1] and dataset.split("test").tolist() == [2, 3]
    assert (dataset.attr("day")[:] // 86_400).tolist() == [20784, 20784, 20785, 20785]
    import_tables(tmp_path / "glob", nodes=[{"name": "n", "table": [str(tmp_path / "by day*" / "day=2026-11-2[7]" / "*"), str(tmp_path / "by day*/*8/*")], "key": "id"}])
    assert hopfeed.Dataset(tmp_path / "glob").num_nodes() == 4


def test_csv_files_have_one_type_whatever_their_order(tmp_path: Path) -> None:
    for names in (("a.csv", "b.csv"), ("b.csv", "a.csv")):
        (tmp_path / names[0]).write_text("id,v\n1,2\n")
        (tmp_path / names[1]).write_text("id,v\nx,2.5\n")
        import_tables(tmp_path / names[0][0], nodes=[{"name": "n", "table": str(tmp_path / "*.csv"), "key": "id", "attrs": ["v"]}])
    one, other = (hopfeed.Dataset(tmp_path / name) for name in "ab")
    assert list(one.keys()[:]) == ["1", "x"] and one.attr("v")[:].tolist() == [2.0, 2.5]
    assert one.fingerprint == other.fingerprint
    (tmp_path / "n.tsv").write_text("007\tNA\n07\t1\n")
    node = {"name": "n", "table": str(tmp_path / "n.tsv"), "key": "column0", "header": False, "null": "NA", "attrs": ["column1"], "types": {"column0": "VARCHAR"}}
    import_tables(tmp_path / "tsv", nodes=[node], nulls="0")
    assert list(hopfeed.Dataset(tmp_path / "tsv").keys()[:]) == ["007", "07"]
    assert hopfeed.Dataset(tmp_path / "tsv").attr("column1")[:].tolist() == [0, 1]


def test_a_dry_run_says_what_was_understood_and_makes_nothing(tmp_path: Path) -> None:
    path = write_shop(make_shop(), tmp_path)
    before = sorted(tmp_path.rglob("*"))
    told = import_tables(tmp_path / "dataset", path, dry_run=True)
    assert sorted(tmp_path.rglob("*")) == before
    assert told["node_types"]["user"]["rows"] == 60 and told["node_types"]["item"]["keys"] == "int64"
    assert told["node_types"]["user"]["attributes"]["x"] == "float32 [3] of vec (DOUBLE[])"
    assert told["edge_types"]["item__bought_by__user"] | {"attributes": 0} == {"table": None, "rows": 500, "attributes": 0, "times": ["at"]}
    assert told["work_bytes"] > told["disk_bytes"] > 500 * 16


def test_what_is_inferred_can_be_imported(tmp_path: Path) -> None:
    shop = make_shop()
    write_shop(shop, tmp_path)
    tables = {name: tmp_path / name for name in ("users", "items", "buys")}
    told = infer_description({"user": tables["users"], "item": tables["items"]}, {("user", "buys", "item"): tables["buys"]})
    assert told["nodes"][0] | {"table": 0} == {"name": "user", "table": 0, "key": "user id", "features": "vec", "times": ["joined"], "attrs": ["vip"], "split": "fold"}
    assert told["nodes"][1] | {"table": 0} == {"name": "item", "table": 0, "key": "sku", "features": ["price"], "attrs": ["stock", "cat"]}
    assert told["edges"][0] | {"table": 0} == {"src": "user", "rel": "buys", "dst": "item", "table": 0, "src_key": "user", "dst_key": "item", "time": "at", "attrs": ["amount"]}
    assert import_tables(tmp_path / "dataset", told)["edge_types"]["user__buys__item"]["edges"] == 500


def test_another_days_tables_are_like_todays(tmp_path: Path) -> None:
    columns = {"id": [1, 2, 3], "x": [1.0, 2.0, 3.0], "y": ["a", "c", None]}
    write_table(pa.table(columns), tmp_path / "today")
    node = {"name": "n", "table": str(tmp_path / "today"), "key": "id", "attrs": ["x"], "label": {"column": "y", "classes": ["c", "b", "a"]}}
    import_tables(tmp_path / "one", nodes=[node])
    write_table(pa.table(columns | {"x": pa.array([1, 2, 3], pa.int32()), "y": ["b", "b", "a"]}), tmp_path / "tomorrow")
    like = node | {"table": str(tmp_path / "tomorrow"), "label": "y"}
    import_tables(tmp_path / "other", nodes=[like], like=tmp_path / "one")
    dataset = hopfeed.Dataset(tmp_path / "other")
    assert dataset.meta["class_names"] == ["c", "b", "a"] and dataset.num_classes() == 3
    assert dataset.attr("y")[:].tolist() == [1, 1, 2] and dataset.attr("x").dtype.name == "float64"
    with pytest.raises(InvalidError, match=r"node type 'n' has the attributes y \(int64\), and in .*one y \(int64\), x \(float64\); --like wants the same, in the same order"):
        import_tables(tmp_path / "third", nodes=[like | {"attrs": []}], like=tmp_path / "one")
    write_table(pa.table(columns | {"y": ["b", "d", "a"]}), tmp_path / "tomorrow")
    with pytest.raises(InvalidError, match="1 row of .*tomorrow has a class in 'y' that is none of those given; the first is 2; add it to 'classes', or correct them"):
        import_tables(tmp_path / "third", nodes=[like], like=tmp_path / "one")


def test_features_come_in_the_order_of_the_other_import(tmp_path: Path) -> None:
    write_table(pa.table({"id": [1, 2], "a": [1.0, 2.0], "b": [3.0, 4.0], "c": [5.0, 6.0]}), tmp_path / "table")
    node = {"name": "n", "table": str(tmp_path / "table"), "key": "id"}
    import_tables(tmp_path / "one", nodes=[node | {"features": ["b", "c", "a"]}])
    import_tables(tmp_path / "other", nodes=[node | {"features": ["a", "b", "c"]}], like=tmp_path / "one")
    assert hopfeed.Dataset(tmp_path / "other").attr("x")[:].tolist() == [[3, 5, 1], [4, 6, 2]]
    with pytest.raises(InvalidError, match="node type 'n': 'x' has the columns a, b, and in .*one b, c, a; --like wants the same"):
        import_tables(tmp_path / "third", nodes=[node | {"features": ["a", "b"]}], like=tmp_path / "one")
    (tmp_path / "one" / "tables.json").write_text("{")
    with pytest.raises(CorruptError, match="tables.json cannot be read"):
        import_tables(tmp_path / "third", nodes=[node | {"features": ["a", "b", "c"]}], like=tmp_path / "one")


def run(*words: object, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "hopfeed.tables", "tables", *map(str, words)], env=environment, capture_output=True, text=True, timeout=120)


def test_the_command(tmp_path: Path, environment: dict[str, str]) -> None:
    write_shop(make_shop(), tmp_path)
    done = run(tmp_path / "new.json", "--infer", "--nodes", f"user={tmp_path}/users", "--edges", f"user,knows,user={tmp_path}/friends", environment=environment)
    assert done.returncode == 0 and done.stdout.startswith(f"{tmp_path}/new.json: 1 node types, 1 edge types; look at it"), done
    assert json.loads((tmp_path / "new.json").read_text())["nodes"][0]["table"] == "users"
    done = run(tmp_path / "dataset", tmp_path / "new.json", "--dry-run", environment=environment)
    assert done.returncode == 0 and "node type 'user': 60 rows of" in done.stdout and "GB of disk for the dataset" in done.stdout
    done = run(tmp_path / "dataset", tmp_path / "new.json", "--json", tmp_path / "report.json", environment=environment)
    report = json.loads((tmp_path / "report.json").read_text())
    assert done.returncode == 0 and f"60 nodes, 80 edges, 1 partition, 0 edges cut, fingerprint {report['fingerprint']}" in done.stdout
    assert hopfeed.Dataset(tmp_path / "dataset").meta["made_by"].startswith("hopfeed-partition import tables ")
    done = run(tmp_path / "dataset", tmp_path / "new.json", environment=environment)
    assert (done.returncode, done.stderr) == (2, f"hopfeed-partition import tables: {tmp_path}/dataset is there already; --overwrite replaces a dataset\n")


def test_the_program_starts_this_python(tmp_path: Path, environment: dict[str, str]) -> None:
    write_shop(make_shop(), tmp_path)

    def started(*words: object, **more: str) -> subprocess.CompletedProcess[str]:
        command = [program("hopfeed-partition"), "import", *map(str, words)]
        return subprocess.run(command, env=environment | {"HOPFEED_PYTHON": sys.executable} | more, capture_output=True, text=True, timeout=120)

    assert started("tables", tmp_path / "new.json", "--infer", "--nodes", f"user={tmp_path}/users").returncode == 0
    done = started("tables", tmp_path / "dataset", tmp_path / "new.json")
    assert done.returncode == 0 and hopfeed.Dataset(tmp_path / "dataset").num_nodes() == 60
    done = started("tables", tmp_path / "dataset", tmp_path / "new.json")
    assert (done.returncode, done.stderr) == (2, f"hopfeed-partition import tables: {tmp_path}/dataset is there already; --overwrite replaces a dataset\n")
    listed = started("--help").stdout
    for name in IMPORTS:
        assert f"\n  {name} " in listed and f"usage: hopfeed-partition import {name} " in started(name, "--help").stdout
    done = started("snap", "x", "y", HOPFEED_PYTHON="/nowhere/python")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "/nowhere/python cannot be started" in done.stderr
    (tmp_path / "bare").write_text(f"#!/bin/sh\nexec {sys.executable} -I -S \"$@\"\n")
    (tmp_path / "bare").chmod(0o755)
    done = started("tables", "x", "y", HOPFEED_PYTHON=str(tmp_path / "bare"))
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "has no hopfeed: pip install 'hopfeed[tables]'" in done.stderr


def test_a_package_that_is_missing_is_told_with_its_extra(tmp_path: Path, environment: dict[str, str]) -> None:
    for package in ("duckdb", "pyarrow"):
        script = f"import sys; sys.modules['{package}'] = None; from hopfeed.tables.__main__ import main; sys.exit(main(['tables', '{tmp_path}/dataset', 'shop.json']))"
        done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr) == (2, f"hopfeed-partition import tables: tables need the package {package}: pip install 'hopfeed[tables]'\n")
