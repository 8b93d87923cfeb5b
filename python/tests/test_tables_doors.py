"""Folders of GraphBolt, of DistDGL and of SNAP become the dataset that a plain reading of them says, byte for byte; what is
wrong in them is one line."""

from __future__ import annotations

import gzip
import json
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="the extra [tables] is not installed")
pytest.importorskip("duckdb", reason="the extra [tables] is not installed")
pytest.importorskip("yaml", reason="the extra [tables] is not installed")

import hopfeed  # noqa: E402
from conftest import partition as tool  # noqa: E402
from hopfeed import CorruptError, InvalidError, NotFoundError, import_chunked, import_graphbolt, import_snap  # noqa: E402
from hopfeed.tables.doors import arrays as foreign  # noqa: E402
from made_folders import Graph, made_graph, save, sizes_of, write_chunked, write_graphbolt, write_metadata  # noqa: E402
from tables_oracle import EdgeTable, NodeTable, arrays, key_hash  # noqa: E402
from test_tables import equal_to_oracle  # noqa: E402


def by_hash(parts: int) -> Any:
    return lambda _, key: key_hash(key) % parts


# GraphBolt


@pytest.mark.parametrize("typed, edges, torch", [(False, "numpy", False), (False, "csv", True), (True, "csv", False), (True, "numpy", True)])
def test_graphbolt_is_what_the_oracle_says(tmp_path: Path, typed: bool, edges: str, torch: bool) -> None:
    graph = made_graph(typed)
    write_graphbolt(graph, tmp_path / "folder", edges, torch)
    report = import_graphbolt(tmp_path / "dataset", tmp_path / "folder", parts=3)
    equal_to_oracle(tmp_path / "dataset", graph.oracle(3, by_hash(3)))
    tool("verify", tmp_path / "dataset")
    dataset = hopfeed.Dataset(tmp_path / "dataset")
    labelled = "paper" if typed else "node"
    assert dataset.name == "made" and dataset.num_classes(labelled) == 4
    assert report["node_types"][labelled] | {"partition_offsets": 0} == {
        "nodes": 50, "keys": "int64", "added": 0, "rows": 50, "classes": 4, "coverage": {"x": 1.0, "y": 1.0, "year": 1.0},
        "splits": {"test": 10, "train": 20, "valid": 10}, "partition_offsets": 0,
    }  # fmt: skip
    assert {name: edge["edges"] for name, edge in report["edge_types"].items()} == {"__".join(name): len(ends[0]) for name, ends in graph.edges.items()}
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    with pytest.raises(NotFoundError):
        dataset.keys(labelled)


def as_numpy(graph: Graph, folder: Path) -> Path:
    """The description of the graph for ``import numpy``, its edges in the order that tables give them."""
    folder.mkdir()
    told: dict[str, Any] = {"name": "made", "nodes": [], "edges": []}
    for name, count in graph.counts.items():
        node: dict[str, Any] = {"name": name, "count": count, "splits": {}, "attrs": {}}
        for key, values in graph.nodes[name].items():
            path = save(folder / f"{name}-{key}", values).name
            node |= {"features": path} if key == "feat" else {"attrs": node["attrs"] | {key: path}}
        if name in graph.y:
            node["labels"] = save(folder / f"{name}-y", graph.y[name]).name
        node["splits"] = {split: save(folder / f"{name}-{split}", np.sort(ids)).name for split, ids in graph.splits.get(name, {}).items()}
        told["nodes"].append(node)
    for (src, rel, dst), (sources, targets, attrs) in graph.edges.items():
        stored = [b"".join(values[i].tobytes() for values in attrs.values()) for i in range(len(sources))]
        rows = sorted(range(len(sources)), key=lambda i: (targets[i], sources[i], stored[i]))
        edge = {"src": src, "rel": rel, "dst": dst, "index": save(folder / rel, np.stack([sources[rows], targets[rows]])).name}
        edge["attrs"] = {key: save(folder / f"{rel}-{key}", values[rows]).name for key, values in attrs.items()}
        told["edges"].append(edge | ({"rev_of": rel.removeprefix("rev_")} if rel.startswith("rev_") else {}))
    (folder / "graph.json").write_text(json.dumps(told))
    return folder / "graph.json"


@pytest.mark.parametrize("typed", [False, True])
def test_three_doors_lead_to_one_graph(tmp_path: Path, typed: bool) -> None:
    graph = made_graph(typed)
    tool("import", "numpy", tmp_path / "by-numpy", "--hetero", as_numpy(graph, tmp_path / "numpy"))
    write_graphbolt(graph, tmp_path / "graphbolt")
    write_chunked(graph, tmp_path / "chunked")
    fingerprint = hopfeed.Dataset(tmp_path / "by-numpy").fingerprint
    assert import_graphbolt(tmp_path / "by-graphbolt", tmp_path / "graphbolt")["fingerprint"] == fingerprint
    assert import_chunked(tmp_path / "by-chunks", tmp_path / "chunked")["fingerprint"] == fingerprint


def test_a_feature_that_sampling_wants_too_is_one(tmp_path: Path) -> None:
    graph = made_graph(False)
    told = write_graphbolt(graph, tmp_path / "folder")
    for node in told["feature_data"]:
        node["type"] = None
    told["graph"]["feature_data"] = [told["feature_data"][0] | {"in_memory": True}, told["feature_data"].pop()]
    write_metadata(tmp_path / "folder", told)
    import_graphbolt(tmp_path / "dataset", tmp_path / "folder")
    equal_to_oracle(tmp_path / "dataset", graph.oracle())
    told["graph"]["feature_data"][0]["path"] = "node-year.npy"
    write_metadata(tmp_path / "folder", told)
    with pytest.raises(InvalidError, match=r"graph: feature_data\[0\]: 'feat' is node-year.npy, and node-feat.npy before; name one of them otherwise"):
        import_graphbolt(tmp_path / "other", tmp_path / "folder")


def test_types_without_nodes_and_without_edges_are_types(tmp_path: Path) -> None:
    graph = made_graph(True)
    graph.counts["place"], graph.edges["author", "at", "place"] = 0, (np.zeros(0, int), np.zeros(0, int), {})
    for form in ("csv", "numpy"):
        write_graphbolt(graph, tmp_path / form, form)
        import_graphbolt(tmp_path / f"by-{form}", tmp_path / form, parts=2)
        equal_to_oracle(tmp_path / f"by-{form}", graph.oracle(2, by_hash(2)))


def test_classes_are_as_many_as_the_task_says_where_labels_are_a_feature(tmp_path: Path) -> None:
    graph = made_graph(False)
    told = write_graphbolt(graph, tmp_path / "folder")
    told["tasks"][0]["num_classes"] = 9
    for key in ("train_set", "validation_set", "test_set"):
        del told["tasks"][0][key][0]["data"][1]
    np.save(tmp_path / "folder/y.npy", graph.y["node"])
    told["feature_data"].append({"domain": "node", "name": "label", "format": "numpy", "path": "y.npy"})
    write_metadata(tmp_path / "folder", told)
    import_graphbolt(tmp_path / "dataset", tmp_path / "folder")
    dataset = hopfeed.Dataset(tmp_path / "dataset")
    assert dataset.num_classes() == 9 and dataset.attr("y")[:].tolist() == graph.y["node"].tolist() and sorted(dataset.split("train")) == sorted(graph.splits["node"]["train"])


def test_a_number_for_each_node_is_features_too_and_a_column_a_label(tmp_path: Path) -> None:
    graph = made_graph(False)
    told = write_chunked(graph, tmp_path)
    for name in told["node_data"]["node"]["feat"]["data"]:
        np.save(tmp_path / name, np.load(tmp_path / name)[:, 0].astype(np.float16))
    for name in told["node_data"]["node"]["label"]["data"]:
        np.save(tmp_path / name, np.load(tmp_path / name)[:, None])
    import_chunked(tmp_path / "dataset", tmp_path)
    graph.nodes["node"]["feat"] = graph.nodes["node"]["feat"][:, 0].astype(np.float16)
    equal_to_oracle(tmp_path / "dataset", graph.oracle())
    assert hopfeed.Dataset(tmp_path / "dataset").attr("x").shape == (50, 1)


def test_yaml_needs_its_package(tmp_path: Path, environment: dict[str, str]) -> None:
    write_graphbolt(made_graph(False), tmp_path)
    script = f"import sys; sys.modules['yaml'] = None; from hopfeed.tables.__main__ import main; sys.exit(main(['graphbolt', '{tmp_path}/dataset', '{tmp_path}']))"
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (2, f"hopfeed-partition import graphbolt: {tmp_path}/metadata.yaml is YAML, which needs the package pyyaml: pip install 'hopfeed[tables]'\n")


def test_a_reverse_is_known_by_its_name(tmp_path: Path) -> None:
    write_graphbolt(made_graph(True), tmp_path / "folder")
    import_graphbolt(tmp_path / "dataset", tmp_path / "folder")
    assert {edge["rel"]: edge.get("rev_of") for edge in hopfeed.Dataset(tmp_path / "dataset").meta["edge_types"]} == {
        "writes": None, "rev_writes": "author__writes__paper", "cites": None, "at": None,
    }  # fmt: skip


def test_arrays_become_what_options_say(tmp_path: Path) -> None:
    graph = made_graph(True)
    write_graphbolt(graph, tmp_path / "folder")
    options = {"features": "none", "label": "none", "task": "none", "weight": "w", "time": "at", "rename": {"author": "person", "feat": "words"}}
    import_graphbolt(tmp_path / "dataset", tmp_path / "folder", **options)
    dataset = hopfeed.Dataset(tmp_path / "dataset")
    assert dataset.node_types == ["person", "paper", "place"] and dataset.attrs("paper") == ["words", "year"] and dataset.splits("paper") == []
    assert dataset.attr("words", "person").dtype == np.float64
    assert [(edge["rel"], edge["weights"], edge["times"]) for edge in dataset.meta["edge_types"]] == [
        ("writes", ["w"], []), ("rev_writes", [], []), ("cites", [], ["at"]), ("at", [], []),
    ]  # fmt: skip
    import_graphbolt(tmp_path / "other", tmp_path / "folder", task="none", features="year")
    dataset = hopfeed.Dataset(tmp_path / "other")
    assert dataset.attrs("paper") == ["x", "feat"] and dataset.attr("x", "paper")[:].tolist() == graph.nodes["paper"]["year"][:, None].tolist()
    assert dataset.attrs("author") == ["feat", "age"]
    import_graphbolt(tmp_path / "third", tmp_path / "folder", task="none", label="year")
    assert hopfeed.Dataset(tmp_path / "third").attr("y", "paper")[:].tolist() == graph.nodes["paper"]["year"].tolist()
    with pytest.raises(InvalidError, match="--features year and --label year: an array is one of the two"):
        import_graphbolt(tmp_path / "fourth", tmp_path / "folder", features="year", label="year")


def test_edges_with_an_end_that_is_no_node_are_refused_or_dropped(tmp_path: Path) -> None:
    graph = made_graph(False)
    graph.edges["node", "to", "node"][1][[7, 9]] = 50
    for form in ("numpy", "csv"):
        write_graphbolt(graph, tmp_path / form, form)
        path = next((tmp_path / form).glob("edges-0.[nc]*"))
        with pytest.raises(InvalidError, match=rf"^{path}: edge 7 \(from 0\) is \d+ -> 50, and node type 'node' has 50 nodes, from 0 on; correct it, or --dangling drop"):
            import_graphbolt(tmp_path / f"by-{form}", tmp_path / form)
        report = import_graphbolt(tmp_path / f"by-{form}", tmp_path / form, dangling="drop")
        assert report["edge_types"]["node__to__node"]["edges"] == 298 and report["dirt"][0]["rows"] == 2
    with pytest.raises(InvalidError, match="--dangling is 'add'; it may be: error, drop"):
        import_graphbolt(tmp_path / "dataset", tmp_path / "csv", dangling="add")


Change = Callable[[dict[str, Any], Path], object]


def set_to(path: str, value: Any) -> Change:
    """Changes a field of the description."""

    def change(told: dict[str, Any], _: Path) -> None:
        *inner, last = [int(one) if one.isdecimal() else one for one in path.split("/")]
        for one in inner:
            told = told[one]
        if value is None:
            del told[last]
        else:
            told[last] = value

    return change


def truncate(name: str) -> Change:
    return lambda _, folder: (folder / name).write_bytes((folder / name).read_bytes()[:-100])


def array(name: str, values: Any) -> Change:
    return lambda _, folder: np.save(folder / name, values)


def text(name: str, written: str) -> Change:
    return lambda _, folder: (folder / name).write_text(written)


BAD_GRAPHBOLT: list[tuple[Change, str]] = [
    (lambda _, folder: (folder / "metadata.yaml").unlink(), r"metadata.yaml is not there; give the folder that OnDiskDataset is given"),
    (set_to("graph", None), r"metadata.yaml has no 'graph'$"),
    (lambda told, _: told.update(graph_topology=told.pop("graph")), "has no 'graph'; this is what GraphBolt has made of a folder: give that folder"),
    (set_to("graph/nodes", []), "metadata.yaml: graph has no 'nodes'"),
    (lambda told, _: told["graph"]["nodes"].append({"num": 3}), r"graph: nodes\[1\]: node type 'node' is there twice; make them one"),
    (lambda told, _: told["graph"]["edges"].append(told["graph"]["edges"][0]), r"metadata.yaml has two edge types 'node__to__node'; make them one, or --rename gives one of them another name"),
    (set_to("graph/nodes/0/num", "many"), r"metadata.yaml: graph: nodes\[0\]: 'num' is 'many', expected a whole number from 0 on"),
    (set_to("graph/nodes/0/num", 51), r"metadata.yaml: feature_data\[0\] \('feat'\): .*node-feat.npy has 50 rows, and 'num' of node type 'node' says 51 rows; correct one of the two"),
    (set_to("graph/edges/0/format", "parquet"), r"metadata.yaml: graph: edges\[0\]: 'format' is 'parquet', expected one of csv, numpy"),
    (set_to("graph/edges/0/path", "none.npy"), r"metadata.yaml: graph: edges\[0\]: 'path' is none.npy, and .*none.npy is not there"),
    (set_to("graph/edges/0/type", "node:cites"), r"graph: edges\[0\]: the edge type is 'node:cites', expected SRC:REL:DST"),
    (set_to("graph/edges/0/type", "node:cites:author"), r"edge type 'node:cites:author' ends at 'author', which is no node type; there are: node"),
    (array("edges-0.npy", np.zeros((3, 300), int)), r"edges-0.npy is int64 of shape \[3, 300\], expected whole numbers of shape \[2, edges\]"),
    (array("edges-0.npy", np.zeros((2, 300))), r"edges-0.npy is float64 of shape \[2, 300\], expected whole numbers"),
    (array("edges-0.npy", np.zeros((2, 299), int)), r"feature_data\[2\] \('w'\): .*edges-0-w.npy has 300 rows, and the number of edges in .*edges-0.npy says 299 rows"),
    (set_to("feature_data/0/format", "tar"), r"feature_data\[0\]: 'format' is 'tar', expected one of numpy, torch"),
    (set_to("feature_data/0/domain", "graph"), r"feature_data\[0\]: 'domain' is 'graph', expected one of node, edge"),
    (set_to("feature_data/0/type", "author"), r"feature_data\[0\]: 'type' is 'author', which is no node type; there are: node"),
    (set_to("feature_data/0/path", "none.npy"), r"feature_data\[0\] \('feat'\)|feature_data\[0\]: 'path' is none.npy, and .*none.npy is not there"),
    (set_to("feature_data/0/name", None), r"feature_data\[0\] has no 'name'"),
    (set_to("feature_data/1/name", "FEAT"), r"node type 'node': names of arrays differ by more than the case of letters"),
    (set_to("feature_data/1/name", "a name"), r"'a name' cannot be the name of a attribute.*; --rename a name=NAME gives it another"),
    (set_to("feature_data/1/name", "n_id"), r"batches have a field 'n_id' of their own; --rename n_id=NAME gives it another"),
    (set_to("feature_data/1/name", "y"), r"node type 'node' has two attributes 'y'; --rename y=NAME gives one of them another name"),
    (truncate("node-feat.npy"), r"node-feat.npy is truncated: it has 500 bytes of numbers, and 600 make \[50, 3\]; write it again"),
    (text("node-feat.npy", "none"), r"node-feat.npy is no array of NumPy; write it again with numpy.save"),
    (array("node-feat.npy", np.zeros((50, 3), "S2")), r"node-feat.npy holds elements of type \|S2; arrays are of numbers"),
    (array("node-feat.npy", np.zeros((50, 3, 2))), r"node-feat.npy has the shape \[50, 3, 2\]; a row has one number or a list of them"),
    (array("node-feat.npy", np.zeros((50, 0))), r"feature_data\[0\] \('feat'\): .*node-feat.npy has the shape \[50, 0\], no number in a row"),
    (lambda told, _: told["tasks"].append(told["tasks"][0] | {"name": "other"}), "has 2 tasks: classes, other; --task NAME takes the sets of one, --task none those of none"),
    (array("node-train-seeds.npy", np.zeros((20, 3), int)), r"node-train-seeds.npy has 3 of int64 in a row, and a seed is a node or a pair of nodes, whole numbers; --task none"),
    (array("node-train-seeds.npy", np.full((20, 2), 50)), r"train_set\[0\]: data\[0\] \('seeds'\): .*seeds.npy: link 0 \(from 0\) is 50 -> 50, and node type 'node' has 50 nodes, from 0 on"),
    (array("node-train-seeds.npy", np.zeros(20)), r"node-train-seeds.npy has 1 of float64 in a row, and a seed is a node or a pair"),
    (set_to("tasks/0/train_set/0/type", "author"), r"train_set\[0\]: 'type' is 'author', which is no node type; there are: node"),
    (array("node-train-seeds.npy", np.arange(19)), r"node-train-labels.npy has 20 rows, and 'seeds' of the same set says 19 rows"),
    (array("node-train-seeds.npy", np.arange(31, 51)), r"node-train-seeds.npy has the seed 50 at 19 \(from 0\), and node type 'node' has 50 nodes"),
    (array("node-train-labels.npy", np.full(20, 4)), r"'labels' has the class 4, and 4 classes are said, from 0 on"),
    (array("node-train-labels.npy", np.full(20, 0.5)), r"has a label in 'labels' that is no class number|have a label in 'labels' that is no class number"),
    (array("node-train-labels.npy", np.zeros((20, 3))), r"node-train-labels.npy has 3 numbers in a row; a label is one class number"),
    (array("node-train-seeds.npy", np.zeros(20, int)), r"train_set\[0\]: node 0 of 'node' comes with the labels \d and \d; leave one"),
    (set_to("tasks/0/test_set/0/data/0/name", "nodes"), r"test_set\[0\] has no 'data' whose name is 'seeds'; --task none leaves tasks out"),
]  # fmt: skip


def with_links(folder: Path, graph: Graph, ends: tuple[str, str, str], labelled: bool) -> dict[str, tuple[Any, Any]]:
    """Gives the folder a task of links; gives what the splits are: pairs and labels."""
    told, rng, found = json.loads((folder / "metadata.yaml").read_text()), np.random.default_rng(3), {}
    task: dict[str, Any] = {"name": "links"}
    for split, key in (("train", "train_set"), ("valid", "validation_set"), ("test", "test_set")):
        pairs = np.stack([rng.integers(0, graph.counts[ends[0]], 30), rng.integers(0, graph.counts[ends[2]], 30)], 1)
        arrays = {"seeds": pairs} | ({"labels": rng.integers(0, 2, 30)} if labelled else {}) | ({"indexes": rng.integers(0, 9, 30)} if split == "test" else {})
        data = [{"name": name, "format": "numpy", "path": save(folder / f"links-{split}-{name}", values).name} for name, values in arrays.items()]
        task[key] = [{"data": data} | ({"type": ":".join(ends)} if graph.typed else {})]
        found[split] = (pairs, arrays.get("labels"))
    told["tasks"].append(task)
    write_metadata(folder, told)
    return found


@pytest.mark.parametrize("ends, labelled", [(("node", "to", "node"), True), (("author", "writes", "paper"), False), (("author", "writes", "paper"), True)])
def test_sets_of_links_are_splits_of_links(tmp_path: Path, ends: tuple[str, str, str], labelled: bool) -> None:
    graph = made_graph(ends[0] != "node")
    write_graphbolt(graph, tmp_path / "folder")
    found = with_links(tmp_path / "folder", graph, ends, labelled)
    fingerprints = set()
    for parts in (1, 3):
        folder = tmp_path / f"{parts}"
        report = import_graphbolt(folder, tmp_path / "folder", task="links", parts=parts)
        tool("verify", folder)
        for split, (pairs, labels) in found.items():
            there = folder / "edge_splits" / "__".join(ends) / split
            assert (np.load(there / "pairs.npy") == pairs).all() and np.load(there / "pairs.npy").shape == (30, 2)
            assert (np.load(there / "labels.npy") == labels).all() if labelled else not (there / "labels.npy").exists()
        assert report["edge_types"]["__".join(ends)]["splits"] == {"train": 30, "valid": 30, "test": 30}
        assert [one["line"].partition("metadata.yaml: ")[2] for one in report["dirt"]] == ["tasks[1]: test_set[0]: 'indexes' is left out; a set has seeds and labels"]
        assert hopfeed.Dataset(folder).splits() == []
        fingerprints.add(report["fingerprint"])
    assert len(fingerprints) == 1
    with hopfeed.Loader(tmp_path / "3", fanouts=(3,), batch_size=10, link_split="train", edge_type=ends) as loader:
        assert len(list(loader)) == 3


@pytest.mark.parametrize("number", range(len(BAD_GRAPHBOLT)))
def test_a_bad_graphbolt_folder_is_one_line(tmp_path: Path, number: int) -> None:
    change, line = BAD_GRAPHBOLT[number]
    told = write_graphbolt(made_graph(False), tmp_path / "folder")
    gone = not change(told, tmp_path / "folder") and not (tmp_path / "folder/metadata.yaml").exists()
    if not gone:
        write_metadata(tmp_path / "folder", told)
    with pytest.raises((InvalidError, NotFoundError, CorruptError), match=line) as raised:
        import_graphbolt(tmp_path / "dataset", tmp_path / "folder")
    assert "\n" not in str(raised.value) and not (tmp_path / "dataset").exists()


def test_seeds_that_overlap_are_refused_with_both_sets(tmp_path: Path) -> None:
    graph = made_graph(False)
    graph.splits["node"]["test"][3] = graph.splits["node"]["train"][5]
    write_graphbolt(graph, tmp_path / "folder")
    with pytest.raises(InvalidError, match=rf"test_set\[0\]: node {graph.splits['node']['train'][5]} of 'node' is in train_set and in test_set; a node is in one split"):
        import_graphbolt(tmp_path / "dataset", tmp_path / "folder")


@pytest.mark.parametrize(
    "written, line",
    [
        ("1\n2\n", "has 1 column where ',' is between columns; an edge is a source and a destination"),
        ("0,1,2\n", "has 3 columns where ',' is between columns"),
        ("src,dst\n0,1\n", "begins with 'src,dst', and ids are whole numbers; it has no header"),
        ("0,1\n2\n", "CSV Error on Line: 2.*Expected Number of Columns: 2 Found: 1"),
        ("0,1\n2,x\n", "x is no whole number"),
        ("0,1\n1,2.5\n", "2.5 is no whole number"),
        ("0,1\n2,\n", r"edge 1 \(from 0\) has no destination"),
        ("0,1\n" * 299, r"edges-0.csv has 299 rows, and 'w' of the same edges says 300 rows"),
        ("0,1\n" * 301, r"edges-0.csv has 301 rows, and 'w' of the same edges says 300 rows"),
    ],
)
def test_bad_pairs_in_csv_are_one_line(tmp_path: Path, written: str, line: str) -> None:
    write_graphbolt(made_graph(False), tmp_path / "folder", "csv")
    (tmp_path / "folder/edges-0.csv").write_text(written)
    with pytest.raises((InvalidError, CorruptError), match=line) as raised:
        import_graphbolt(tmp_path / "dataset", tmp_path / "folder")
    assert "edges-0.csv" in str(raised.value) and "\n" not in str(raised.value)


def test_options_that_name_nothing_are_refused(tmp_path: Path) -> None:
    write_graphbolt(made_graph(False), tmp_path / "folder")
    for options, line in (
        ({"features": "embed"}, "--features embed: no node type has that; there are: feat, year"),
        ({"label": "embed"}, "--label embed: no node type has that; there are: feat, year"),
        ({"label": "year"}, "--label year: the task's labels are those of node type 'node'; --task none leaves them out"),
        ({"weight": "v"}, "--weight v: no edge type has that; there are: w, wide"),
        ({"time": "v"}, "--time v: no edge type has that; there are: w, wide"),
        ({"rename": {"paper": "p"}}, "--rename paper=p: nothing in .*metadata.yaml is called 'paper'"),
        ({"task": "other"}, "--task other: .*metadata.yaml has no such task; there are: classes"),
    ):
        with pytest.raises(InvalidError, match=line):
            import_graphbolt(tmp_path / "dataset", tmp_path / "folder", **options)


def test_an_import_goes_on_behind_its_whole_stages_and_begins_anew_with_another_file(tmp_path: Path) -> None:
    write_graphbolt(made_graph(False), tmp_path / "folder")

    def stop(line: str) -> None:
        said.append(line)
        if "sorting edges" in line:
            raise KeyboardInterrupt

    said: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        import_graphbolt(tmp_path / "dataset", tmp_path / "folder", say=stop)
    assert any("reading edges-0.npy" in line for line in said)
    said.clear()
    with pytest.raises(KeyboardInterrupt):
        import_graphbolt(tmp_path / "dataset", tmp_path / "folder", say=stop)
    assert len(said) == 2 and "sorting edges" in said[1], said  # behind what the memory is
    save(tmp_path / "folder/node-year", np.arange(50))
    said.clear()
    import_graphbolt(tmp_path / "dataset", tmp_path / "folder", say=said.append)
    assert "node-year.npy has changed, so the import begins anew" in said[1] and any("reading edges-0.npy" in line for line in said)
    assert hopfeed.Dataset(tmp_path / "dataset").attr("year")[:].tolist() == list(range(50))


# arrays in files


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int16", "uint8", "bool", ">f4", ">i8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_blocks_of_numpy_arrays_are_their_rows(tmp_path: Path, dtype: str, order: str) -> None:
    values = np.asarray(np.random.default_rng(0).integers(0, 100, (101, 7)).astype(dtype), order=order)
    np.save(tmp_path / "a.npy", values)
    found = foreign.numpy_array(tmp_path / "a.npy")
    blocks = list(found.blocks(None, 20))
    assert [len(block) for block in blocks] == [20, 20, 20, 20, 20, 1] and {block.dtype for block in blocks} == {found.dtype}
    assert found.dtype.isnative and (np.concatenate(blocks) == values).all()
    assert (np.concatenate(list(found.turned().blocks(None, 3))) == values.T).all()


def test_a_torch_tensor_is_read_where_it_lies(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    base = torch.arange(60, dtype=torch.float32).reshape(12, 5)
    for tensor in (
        base, base.t(), base[3:], base[:, 0].clone(), base.to(torch.bfloat16), base.half(), base.long(), base.bool(), base.to(torch.uint16),
        torch.nn.Parameter(base), base[:1], base.to(torch.uint32)[2:],
    ):  # fmt: skip
        torch.save(tensor, tmp_path / "a.pt")
        found = foreign.torch_array(tmp_path / "a.pt")
        values = np.concatenate(list(found.blocks(None, 5)))
        wanted = tensor.detach().float().numpy() if tensor.dtype in (torch.bfloat16, torch.half) else tensor.detach().numpy()
        assert values.dtype == wanted.dtype and values.tolist() == wanted.tolist()


def test_what_is_no_tensor_is_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "a.pt"

    class Ran:
        def __reduce__(self) -> Any:
            return print, ("a file has run",)

    def pickled() -> None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive/data.pkl", pickle.dumps(Ran()))

    for write, line in (
        (lambda: torch.save({"x": torch.zeros(3)}, path), "a.pt holds a dict, no tensor; save each tensor in a file of its own"),
        (lambda: torch.save([1, 2], path), "a.pt holds a list, no tensor"),
        (lambda: torch.save(torch.zeros(4, 6)[:, ::2], path), r"a.pt holds a part of a larger tensor; save x.contiguous\(\)"),
        (lambda: torch.save(torch.eye(3).to_sparse(), path), r"a.pt holds 'torch._utils._rebuild_sparse_tensor', no plain tensor"),
        (lambda: torch.save(torch.tensor(3), path), r"a.pt has the shape \[\]; a row has one number or a list of them"),
        (lambda: torch.save(torch.zeros(3, dtype=torch.complex64), path), "a.pt holds 'torch.ComplexFloatStorage', no plain tensor"),
        (lambda: torch.save(torch.zeros(3), path, _use_new_zipfile_serialization=False), r"a.pt is no whole file of torch.save \(of Torch 1.6 or later\)"),
        (lambda: path.write_bytes(b"none"), "a.pt is no whole file of torch.save"),
        (pickled, "a.pt holds '(builtins|__builtin__).print', no plain tensor"),
    ):
        write()
        with pytest.raises((InvalidError, CorruptError), match=line):
            foreign.torch_array(path)
    torch.save(torch.zeros(1000), path)
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(CorruptError, match="a.pt is no whole file of torch.save"):
        foreign.torch_array(path)


def test_torch_is_not_needed(tmp_path: Path, environment: dict[str, str]) -> None:
    pytest.importorskip("torch")
    write_graphbolt(made_graph(False), tmp_path / "folder", torch=True)
    script = f"import sys; sys.modules['torch'] = None; import hopfeed; hopfeed.import_graphbolt({str(tmp_path / 'dataset')!r}, {str(tmp_path / 'folder')!r})"
    subprocess.run([sys.executable, "-c", script], env=environment, check=True, timeout=120)
    assert hopfeed.Dataset(tmp_path / "dataset").num_edges() == 300


# DistDGL


@pytest.mark.parametrize("typed", [False, True])
def test_chunks_are_what_the_oracle_says_whatever_their_number_and_format(tmp_path: Path, typed: bool) -> None:
    graph, found = made_graph(typed), set()
    for chunks, edges, data in ((1, "csv", "numpy"), (2, "parquet", "parquet"), (7, "csv", "parquet"), (3, "numpy", "numpy")):
        folder = tmp_path / f"{chunks}"
        write_chunked(graph, folder, chunks, edges, data)
        found.add(import_chunked(folder / "dataset", folder / "metadata.json")["fingerprint"])
        equal_to_oracle(folder / "dataset", graph.oracle())
    assert len(found) == 1
    tool("verify", tmp_path / "7/dataset")


def test_dgls_names_of_the_only_types_are_ours(tmp_path: Path) -> None:
    write_chunked(made_graph(False), tmp_path, names={"node": "_N", "to": "_E"})
    import_chunked(tmp_path / "dataset", tmp_path)
    assert hopfeed.Dataset(tmp_path / "dataset").edge_types == [("node", "to", "node")]


def test_lists_in_parquet_are_rows(tmp_path: Path) -> None:
    graph = made_graph(False)
    told = write_chunked(graph, tmp_path, 2, "csv", "parquet")
    begin = 0
    for name, size in zip(told["node_data"]["node"]["feat"]["data"], sizes_of(50, 2)):
        rows = graph.nodes["node"]["feat"][begin : begin + size]
        pa.parquet.write_table(pa.table({"vector": pa.array([row.tolist() for row in rows], pa.list_(pa.float32()))}), tmp_path / name)
        begin += size
    import_chunked(tmp_path / "dataset", tmp_path)
    equal_to_oracle(tmp_path / "dataset", graph.oracle())


def test_files_need_not_be_as_many_as_chunks(tmp_path: Path) -> None:
    graph = made_graph(False)
    told = write_chunked(graph, tmp_path, 3)
    told["num_nodes_per_chunk"] = [[10, 20, 20]]  # cut otherwise than the files
    told["num_edges_per_chunk"], told["num_edges_per_type"] = None, [300]
    (tmp_path / "metadata.json").write_text(json.dumps(told))
    import_chunked(tmp_path / "dataset", tmp_path, parts=2)
    equal_to_oracle(tmp_path / "dataset", graph.oracle(2, by_hash(2)))


EDGES, NODES, MASKS = "edges/node:to:node", "node_data/node", "node_data/node"
BAD_CHUNKS: list[tuple[Change, str]] = [
    (lambda _, folder: (folder / "metadata.json").unlink(), "metadata.json is not there; a chunked graph is described by its metadata.json"),
    (set_to("graph_name", None), "metadata.json has no 'graph_name'"),
    (set_to("node_type", None), "metadata.json has no 'node_type'"),
    (set_to("num_nodes_per_chunk", None), "metadata.json has neither 'num_nodes_per_chunk' nor 'num_nodes_per_type'"),
    (set_to("num_nodes_per_chunk", []), "'num_nodes_per_chunk' has 0 entries, and 'node_type' has more; 'node' is the first that lacks one"),
    (set_to("num_nodes_per_chunk", [["a"]]), "'num_nodes_per_chunk' of 'node' is .*, expected a list of whole numbers"),
    (set_to("num_nodes_per_chunk", [[25, 24]]), r"metadata.json: node_data: node: feat: .*node-feat-1.npy has 25 rows, and 'num_nodes_per_chunk' of 'node' says 24 rows"),
    (set_to("num_nodes_per_chunk", [[49]]), r"node_data: node: feat: its 2 files have 50 rows, and 'num_nodes_per_chunk' of 'node' says 49 rows"),
    (set_to("num_nodes_per_type", [49]), "'num_nodes_per_type' of 'node' is 49, and the chunks of 'num_nodes_per_chunk' are 50 together"),
    (set_to("num_edges_per_chunk", [[150, 151]]), r"edge_data: node:to:node: w: .*to-w-1.npy has 150 rows, and 'num_edges_per_chunk' of 'node:to:node' says 151 rows"),
    (set_to("edge_type", ["node:to"]), "'edge_type': the edge type is 'node:to', expected SRC:REL:DST"),
    (set_to("edge_type", ["node:to:author"]), "'edges' has the type 'node:to:node', which 'edge_type' has not"),
    (set_to("edge_type", ["node:to:node", "a:b:node"]), "edge type 'a:b:node' ends at 'a', which 'node_type' has not"),
    (set_to("node_data/author", {}), "'node_data' has the type 'author', which 'node_type' has not"),
    (set_to("edges", {}), "metadata.json: 'edges' has no 'node:to:node'"),
    (set_to(f"{EDGES}/format/name", "orc"), "metadata.json: edges: node:to:node: format: 'name' is 'orc', expected one of csv, parquet, numpy"),
    (set_to(f"{EDGES}/data", []), "edges: node:to:node: 'data' names no file"),
    (set_to(f"{EDGES}/data", ["none.txt"]), "edges: node:to:node: 'data' is none.txt, and .*none.txt is not there"),
    (set_to(f"{EDGES}/format/delimiter", ","), "node-to-node-0.txt has 1 column where ',' is between columns"),
    (text("node-to-node-1.txt", "0 1\n" * 149), "edges: node:to:node: .*node-to-node-1.txt has 149 rows, and 'num_edges_per_chunk' of 'node:to:node' says 150 rows"),
    (text("node-to-node-1.txt", "0 1\n" * 99 + "0 50\n" * 51), r"node-to-node-1.txt: edge 99 \(from 0\) is 0 -> 50, and node type 'node' has 50 nodes"),
    (set_to(f"{NODES}/feat/format/name", "csv"), "node_data: node: feat: format: 'name' is 'csv', expected one of numpy, parquet"),
    (set_to(f"{NODES}/feat/data/0", "none.npy"), "node_data: node: feat: 'data' is none.npy, and .*none.npy is not there"),
    (set_to(f"{NODES}/feat/format/name", "parquet"), "node-feat-0.npy"),
    (array("node-feat-1.npy", np.zeros((25, 2), np.float32)), "node_data: node: feat: .*node-feat-1.npy has 2 numbers in a row, and .*node-feat-0.npy has 3 numbers in a row"),
    (truncate("node-feat-1.npy"), "node-feat-1.npy is truncated"),
    (array("node-train_mask-0.npy", np.zeros((25, 2), bool)), "'train_mask' has 2 numbers in a row|train_mask: .*has one number in a row"),
    (lambda told, _: told["node_data"]["node"].update(valid_mask=told["node_data"]["node"]["val_mask"]), "node_data: node: has 'val_mask' and 'valid_mask'; leave one"),
    (lambda _, folder: [np.save(folder / f"node-{name}_mask-1.npy", np.arange(25) == 3) for name in ("train", "val")], "val_mask: node 28 of 'node' is in 'train_mask' and in 'val_mask'; a node is in one split"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BAD_CHUNKS)))
def test_a_bad_chunked_graph_is_one_line(tmp_path: Path, number: int) -> None:
    change, line = BAD_CHUNKS[number]
    told = write_chunked(made_graph(False), tmp_path)
    change(told, tmp_path)
    if (tmp_path / "metadata.json").exists():
        (tmp_path / "metadata.json").write_text(json.dumps(told))
    with pytest.raises((InvalidError, NotFoundError, CorruptError), match=line) as raised:
        import_chunked(tmp_path / "dataset", tmp_path)
    assert "\n" not in str(raised.value) and not (tmp_path / "dataset").exists()


# SNAP


def ends() -> tuple[list[int], list[int]]:
    """Ends of 200 edges: sparse ids; among them loops."""
    rng = np.random.default_rng(1)
    ids = rng.choice(10**9, 40, replace=False)
    src, dst = ids[rng.integers(0, 40, 200)], ids[rng.integers(0, 40, 200)]
    dst[:3] = src[:3]
    return src.tolist(), dst.tolist()


def nodes_of(*lists: list[Any]) -> dict[str, NodeTable]:
    return {"node": NodeTable(sorted(set().union(*lists)))}


@pytest.mark.parametrize("between, name", [("\t", "e.txt"), (" ", "e.txt.gz"), (",", "e.csv"), ("\t", "e.edges.gz")])
def test_snap_is_what_the_oracle_says(tmp_path: Path, between: str, name: str) -> None:
    src, dst = ends()
    lines = ["# Directed graph: e.txt", "# Nodes: 40 Edges: 200", *(f"{one}{between}{other}" for one, other in zip(src, dst))]
    opened = gzip.open if name.endswith(".gz") else open
    with opened(tmp_path / name, "wt") as file:
        file.write("\r\n".join(lines) + "\r\n" if between == "," else "\n".join(lines) + "\n")
    report = import_snap(tmp_path / "dataset", tmp_path / name, parts=2)
    equal_to_oracle(tmp_path / "dataset", arrays(nodes_of(src, dst), [EdgeTable("node", "to", "node", src, dst)], 2, by_hash(2)))
    dataset = hopfeed.Dataset(tmp_path / "dataset")
    assert dataset.keys()[:].tolist() == sorted({*src, *dst}) and dataset.ids("node", [src[0]]).tolist() == [sorted({*src, *dst}).index(src[0])]
    assert dataset.name == "e" and report["edge_types"]["node__to__node"]["edges"] == 200


def test_several_files_are_one_edge_type_and_undirected_is_both_ways(tmp_path: Path) -> None:
    src, dst = ends()
    for i, at in enumerate((slice(0, 90), slice(90, 200))):
        (tmp_path / f"{i}.csv").write_text("id_1,id_2\n" + "".join(f"{one},{other}\n" for one, other in zip(src[at], dst[at])))
    import_snap(tmp_path / "dataset", [tmp_path / "0.csv", tmp_path / "1.csv"], undirected=True, node="page", rel="links", name="web")
    both = EdgeTable("page", "links", "page", src + [one for one, other in zip(dst, src) if one != other], dst + [other for one, other in zip(dst, src) if one != other])
    equal_to_oracle(tmp_path / "dataset", arrays({"page": nodes_of(src, dst)["node"]}, [both]))
    assert hopfeed.Dataset(tmp_path / "dataset").name == "web"


def test_further_columns_have_names(tmp_path: Path) -> None:
    src, dst = ends()
    rng = np.random.default_rng(2)
    rating, at = np.array([1.0, *rng.integers(-10, 10, 198), 0.5]), rng.integers(10**9, 2 * 10**9, 200)
    (tmp_path / "a.csv").write_text("".join(f"{one},{other},{value:g},x{when},{when}\n" for one, other, value, when in zip(src, dst, rating, at)))
    import_snap(tmp_path / "dataset", tmp_path / "a.csv", columns=("src", "dst", "rating", "-", "time"))
    edges = EdgeTable("node", "to", "node", src, dst, {"time": at, "rating": rating}, ("time",))
    expected = arrays(nodes_of(src, dst), [edges])
    dataset = hopfeed.Dataset(tmp_path / "dataset")
    assert dataset.meta["edge_types"][0]["times"] == ["time"] and [attr["name"] for attr in dataset.meta["edge_types"][0]["attrs"]] == ["rating", "time"]
    assert sorted(np.load(tmp_path / "dataset/part-0000/edges/node__to__node/attrs/rating.npy").reshape(200, -1)[:, 0]) == sorted(rating)
    assert (np.load(tmp_path / "dataset/part-0000/edges/node__to__node/rows.npy") == expected["part-0000/edges/node__to__node/rows.npy"]).all()


def test_texts_are_keys_too_and_comments_may_begin_otherwise(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("% bip weighted\nb\ta\nc\ta\n")
    import_snap(tmp_path / "dataset", tmp_path / "a.tsv", comment="%")
    assert list(hopfeed.Dataset(tmp_path / "dataset").keys()[:]) == ["a", "b", "c"]


@pytest.mark.parametrize("between", [" ", "\t", ","])
def test_quotes_are_of_texts_as_other_signs_are(tmp_path: Path, between: str) -> None:
    src, dst = ['"1', "2", '3"', "5"], ["2", '"3"', "4", '"1']
    (tmp_path / "e.txt").write_text("".join(f"{one}{between}{other}\n" for one, other in zip(src, dst)))
    import_snap(tmp_path / "dataset", tmp_path / "e.txt")
    equal_to_oracle(tmp_path / "dataset", arrays(nodes_of(src, dst), [EdgeTable("node", "to", "node", src, dst)]))
    assert list(hopfeed.Dataset(tmp_path / "dataset").keys()[:]) == sorted({*src, *dst})


@pytest.mark.parametrize(
    "largest, whole",
    [("9223372036854775807", True), ("-9223372036854775808", True), ("1234567890123456789", True), ("9223372036854775808", False), ("-9223372036854775809", False), ("-0", False), ("+1", False), ("01", False), ("1e3", False)],
)  # fmt: skip
def test_whole_numbers_that_int64_holds_are_numbers(tmp_path: Path, largest: str, whole: bool) -> None:
    (tmp_path / "e.txt").write_text(f"1 2\n2 {largest}\n0 -7\n")
    import_snap(tmp_path / "dataset", tmp_path / "e.txt")
    texts = ["1", "2", largest, "0", "-7"]
    assert list(hopfeed.Dataset(tmp_path / "dataset").keys()[:]) == sorted(map(int, texts) if whole else texts)


@pytest.mark.parametrize(
    "written, options, line",
    [
        (None, {}, "e.txt is no file that is there"),
        ("# nothing\n", {}, r"e.txt has no line of an edge, but for comments \(#\)"),
        ("12\n", {}, "e.txt has the line '12', which is no source and destination with a tab, a space or a comma between"),
        ("1  2\n3  4\n", {}, "e.txt has several spaces between columns, or before them; write one: sed"),
        ("1 2 3\n4 5 6\n", {}, "e.txt has 3 columns with spaces between, and 2 are named; say --columns src,dst,- "),
        ("1,2\n3,4\n", {"columns": ("src", "-")}, "--columns src,-: 'dst' has to be there once"),
        ("1,2,3\n", {"columns": ("src", "dst", "n_id")}, "--columns: batches have a field 'n_id' of their own"),
        ("1\t2\n3\t4\n5\n", {}, "CSV Error on Line: 3.*Expected Number of Columns: 2 Found: 1"),
        ("1 2\n3 4\n", {"node": "a b"}, "--node: 'a b' cannot be the name of a node type"),
    ],
)
def test_a_bad_edge_list_is_one_line(tmp_path: Path, written: str | None, options: dict[str, Any], line: str) -> None:
    if written is not None:
        (tmp_path / "e.txt").write_text(written)
    with pytest.raises((InvalidError, NotFoundError, CorruptError), match=line) as raised:
        import_snap(tmp_path / "dataset", tmp_path / "e.txt", **options)
    assert "\n" not in str(raised.value) and not (tmp_path / "dataset").exists()


def test_files_that_look_otherwise_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\t2\n")
    (tmp_path / "b.txt").write_text("1,2\n")
    with pytest.raises(InvalidError, match="b.txt has 2 columns with ',' between, and .*a.txt has 2 columns with tabs between; import files that look the same"):
        import_snap(tmp_path / "dataset", [tmp_path / "a.txt", tmp_path / "b.txt"])
    (tmp_path / "c.txt.gz").write_bytes(gzip.compress(b"1 2\n" * 99999)[:-30])
    with pytest.raises(CorruptError, match="c.txt.gz is no whole file .*; get it again"):
        import_snap(tmp_path / "dataset", tmp_path / "c.txt.gz")
    damaged = bytearray(gzip.compress(b"".join(b"%d %d\n" % (i * 7919 % 100003, i) for i in range(9999))))
    damaged[40] ^= 255  # of the first block's codes
    (tmp_path / "d.txt.gz").write_bytes(damaged)
    with pytest.raises(CorruptError, match="d.txt.gz is no whole file of gzip; get it again"):
        import_snap(tmp_path / "dataset", tmp_path / "d.txt.gz")


# the commands


def run(*words: object, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "hopfeed.tables", *map(str, words)], env=environment, capture_output=True, text=True, timeout=120)


def test_the_commands(tmp_path: Path, environment: dict[str, str]) -> None:
    graph = made_graph(False)
    write_graphbolt(graph, tmp_path / "graphbolt")
    write_chunked(graph, tmp_path / "chunked")
    np.savetxt(tmp_path / "snap.txt", np.stack(graph.edges["node", "to", "node"][:2], 1), fmt="%d", delimiter="\t")
    found = []
    for name, source in (("graphbolt", "graphbolt"), ("chunked", "chunked/metadata.json")):
        done = run(name, tmp_path / name / "dataset", tmp_path / source, "--weight", "w", "--rename", "to=cites", "--json", tmp_path / "report.json", environment=environment)
        report = json.loads((tmp_path / "report.json").read_text())
        assert done.returncode == 0 and f"50 nodes, 300 edges, 1 partition, 0 edges cut, fingerprint {report['fingerprint']}" in done.stdout, done
        assert hopfeed.Dataset(tmp_path / name / "dataset").meta["made_by"].startswith(f"hopfeed-partition import {name} ")
        found.append(report["fingerprint"])
    assert found[0] == found[1]
    done = run("snap", tmp_path / "snap", tmp_path / "snap.txt", "--undirected", "--dry-run", environment=environment)
    assert done.returncode == 0 and "edge type 'node__to__node': 600 edges of" in done.stdout and not (tmp_path / "snap").exists(), done
    done = run("graphbolt", tmp_path / "dataset", tmp_path / "none", environment=environment)
    assert (done.returncode, done.stderr) == (2, f"hopfeed-partition import graphbolt: {tmp_path}/none/metadata.yaml is not there; give the folder that OnDiskDataset is given\n")
    done = run("csv", environment=environment)
    assert (done.returncode, done.stderr) == (2, "hopfeed-partition import: expected one of tables, graphbolt, chunked, snap, then its own words (--help tells them)\n")
    for name in ("tables", "graphbolt", "chunked", "snap"):
        script = f"import sys; sys.argv = ['hopfeed-partition', 'import', '{name}', '--help']; from hopfeed.programs import partition_main; partition_main()"
        done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and done.stdout.startswith(f"usage: hopfeed-partition import {name} "), done


def test_the_exit_code_is_2_for_input_and_1_for_what_the_machine_refuses(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "nodes.csv").write_text("id\n1\n2\n3\n")
    (tmp_path / "edges.csv").write_text("s,d\n1,2\n2,3\n")
    (tmp_path / "ragged.csv").write_text("s,d\n1,2\n2,3,4\n")
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(b"s,d\n" + b"1,2\n" * 99999)[:-30])

    def described(table: str) -> Path:
        edge = {"src": "n", "rel": "to", "dst": "n", "table": table, "src_key": "s", "dst_key": "d"}
        (tmp_path / f"{table}.json").write_text(json.dumps({"name": "t", "nodes": [{"name": "n", "table": "nodes.csv", "key": "id"}], "edges": [edge]}))
        return tmp_path / f"{table}.json"

    good = described("edges.csv")
    for code, *words in (
        (2, "tables", "none.json"), (2, "tables", described("none.csv")), (2, "tables", described("ragged.csv")), (2, "tables", described("cut.csv.gz")),
        (2, "tables", good, "--assign", "none.csv"), (2, "tables", good, "--like", "none"), (2, "snap", "none.txt"), (2, "chunked", "none.json"),
        (1, "tables", good, "--memory", "1000T"), (1, "tables", good, "--work", "/proc/none"),
    ):  # fmt: skip
        done = run(words[0], tmp_path / "dataset", *words[1:], environment=environment)
        assert done.returncode == code and done.stderr.splitlines()[-1].startswith("hopfeed-partition import ") and not (tmp_path / "dataset").exists(), done


def test_features_larger_than_the_memory_are_read_by_blocks(tmp_path: Path, environment: dict[str, str]) -> None:
    rows = 400_000
    folder = tmp_path / "folder"
    folder.mkdir()
    out = np.lib.format.open_memmap(folder / "feat.npy", "w+", np.float32, (rows, 700))  # 1.1 GB, most of it no blocks on the disk
    out[:: rows // 8] = 1.5
    del out
    np.save(folder / "edges.npy", np.zeros((2, 10), np.int64))
    told = {"graph": {"nodes": [{"num": rows}], "edges": [{"format": "numpy", "path": "edges.npy"}]}, "feature_data": []}
    told["feature_data"] = [{"domain": "node", "name": "feat", "format": "numpy", "path": "feat.npy"}]  # type: ignore[assignment]
    write_metadata(folder, told)
    script = (
        "import resource, hopfeed; from pathlib import Path; from hopfeed.tables.doors.graphbolt import described; from hopfeed.tables.doors.types import Wishes\n"
        f"made = described(Path({str(folder)!r}), None, Wishes()).nodes[0].table.made\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        f"made.write(None, Path({str(tmp_path)!r}))\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True, timeout=300)
    assert int(done.stdout) < 300, f"{done.stdout} MB"
    assert pa.parquet.read_metadata(tmp_path / "rows.parquet").num_rows == rows
