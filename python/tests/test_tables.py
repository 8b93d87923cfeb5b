"""Tables become the dataset that the oracle says, byte for byte, whatever their order, files, memory and threads."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="the extra [tables] is not installed")
pytest.importorskip("duckdb", reason="the extra [tables] is not installed")

import hopfeed  # noqa: E402
from conftest import partition as tool  # noqa: E402
from hopfeed.tables import import_tables  # noqa: E402
from made_tables import Shop, make_shop, write_shop, write_table  # noqa: E402
from tables_oracle import EdgeTable, NodeTable, arrays, in_order, key_hash  # noqa: E402


@pytest.fixture(scope="module")
def shop() -> Shop:
    return make_shop()


@pytest.fixture(scope="module")
def imported(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The shop in three partitions, and the report."""
    folder = tmp_path_factory.mktemp("shop")
    return folder / "dataset", import_tables(folder / "dataset", write_shop(shop, folder), parts=3, seed=5)


def equal_to_oracle(folder: Path, expected: dict[str, Any]) -> None:
    """Every array that the oracle names lies in the dataset, with its bytes; and its arrays of other kinds are none of these."""
    for path, values in expected.items():
        found = np.load(folder / path)
        if found.ndim == 2:
            found = np.ascontiguousarray(found[:, : values.shape[1]])
        values = values.reshape(found.shape).astype(found.dtype, casting="same_kind" if values.dtype.names is None else "no")
        assert found.tobytes() == np.ascontiguousarray(values).tobytes(), f"{path}\n{found}\n{values}"


def files_of(folder: Path) -> dict[str, str]:
    return {path: file["xxh3"] for path, file in json.loads((folder / "meta.json").read_text())["files"].items()}


def by_hash(parts: int, seed: int) -> Any:
    return lambda _, key: key_hash(key, seed) % parts


def test_three_partitions_are_those_of_the_oracle(shop: Shop, imported: tuple[Path, dict[str, Any]]) -> None:
    equal_to_oracle(imported[0], arrays(shop.nodes, shop.edges, 3, by_hash(3, 5)))


def test_one_partition_is_that_of_the_oracle(shop: Shop, tmp_path: Path) -> None:
    import_tables(tmp_path / "dataset", write_shop(shop, tmp_path))
    equal_to_oracle(tmp_path / "dataset", arrays(shop.nodes, shop.edges))


def test_sharded_ids_are_those_that_every_machine_would_have(shop: Shop, imported: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    report = import_tables(tmp_path / "sharded", write_shop(shop, tmp_path), parts=3, seed=5, ids="sharded")
    assert report["fingerprint"] == imported[1]["fingerprint"]
    tool("verify", tmp_path / "sharded")
    whole, sharded = hopfeed.Dataset(imported[0]), hopfeed.Dataset(tmp_path / "sharded")
    for node_type in whole.node_types:
        assert not (tmp_path / "sharded" / "nodes" / node_type / "new_ids.npy").exists()
        ids = np.arange(whole.num_nodes(node_type))
        assert np.array_equal(whole.partition_of(ids, node_type), sharded.partition_of(ids, node_type))
        assert whole.splits(node_type) == sharded.splits(node_type)
        for split in whole.splits(node_type):
            assert np.array_equal(whole.split(split, node_type), sharded.split(split, node_type))
        for attr in whole.attrs(node_type):
            assert np.asarray(whole.attr(attr, node_type)).tobytes() == np.asarray(sharded.attr(attr, node_type)).tobytes()
    same = files_of(imported[0])
    assert {path: xxh3 for path, xxh3 in files_of(tmp_path / "sharded").items() if path in same}.items() <= same.items()


def test_ids_of_large_types_are_sharded_unasked(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = write_shop(shop, tmp_path)
    for threshold, sharded in ((1, True), (10**6, False)):
        monkeypatch.setattr("hopfeed.tables.draft.SHARDED_FROM", threshold)
        import_tables(tmp_path / str(threshold), tables, parts=2)
        assert bool(list((tmp_path / str(threshold)).glob("nodes/*/new_ids.npy"))) == (not sharded)


def test_one_partition_has_no_ranges_of_ids(shop: Shop, tmp_path: Path) -> None:
    with pytest.raises(hopfeed.InvalidError, match="--ids sharded gives each partition a range of the ids; give --parts 2 or more"):
        import_tables(tmp_path / "dataset", write_shop(shop, tmp_path), ids="sharded")


def test_the_dataset_is_whole_for_the_program(imported: tuple[Path, dict[str, Any]]) -> None:
    tool("verify", imported[0])
    assert not [path for path in imported[0].parent.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("order, files, threads, memory", [(1, 1, 1, "1G"), (2, 7, 2, "4G")])
def test_order_files_threads_and_memory_leave_every_file_as_it_is(
    shop: Shop, imported: tuple[Path, dict[str, Any]], tmp_path: Path, order: int, files: int, threads: int, memory: str
) -> None:
    report = import_tables(tmp_path / "dataset", write_shop(shop, tmp_path, order, files), parts=3, seed=5, threads=threads, memory=memory)
    assert report["fingerprint"] == imported[1]["fingerprint"]
    assert files_of(tmp_path / "dataset") == files_of(imported[0])


def test_another_cut_has_the_same_fingerprint(shop: Shop, imported: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    assert import_tables(tmp_path / "dataset", write_shop(shop, tmp_path))["fingerprint"] == imported[1]["fingerprint"]


def test_batches_are_drawn_of_it(imported: tuple[Path, dict[str, Any]]) -> None:
    with hopfeed.Loader(imported[0], fanouts=(5, 5), batch_size=8, split="train", seed=1) as loader:
        assert sum(len(batch["user"]["input_id"]) for batch in loader) == 30


def test_keys_lead_to_ids_and_back(shop: Shop, imported: tuple[Path, dict[str, Any]]) -> None:
    dataset = hopfeed.Dataset(imported[0])
    for name, table in shop.nodes.items():
        keys = in_order(table.keys)
        assert list(dataset.keys(name)[[3, 0, 3]]) == [keys[3], keys[0], keys[3]]
        assert dataset.ids(name, keys).tolist() == list(range(len(keys)))
        assert np.asarray(dataset.keys(name)).tolist() == keys == list(dataset.keys(name))
        rows = next(iter(dataset.attrs(name)), None)
        if rows is not None:
            everything = dataset.attr(rows, name)
            assert np.array_equal(np.asarray(everything), everything[:]) and len(list(everything)) == len(keys)
    with pytest.raises(hopfeed.NotFoundError, match="no node of 'item' has the key 1234"):
        dataset.ids("item", [1234])


def as_numpy(shop: Shop, folder: Path) -> Path:
    """The shop as arrays for ``import numpy``, nodes and edges in the order that tables give them; its description."""
    graph: dict[str, Any] = {"name": "shop", "nodes": [], "edges": []}

    def saved(name: str, values: Any) -> str:
        np.save(folder / f"{name}.npy", values)
        return f"{name}.npy"

    for name, table in shop.nodes.items():
        place = {key: i for i, key in enumerate(table.keys)}
        rows = [place[key] for key in in_order(table.keys)]
        attrs = {attr: saved(f"{name}-{attr}", values[rows]) for attr, values in table.attrs.items()}
        named = {field: attrs.pop(attr) for attr, field in (("x", "features"), ("y", "labels")) if attr in attrs}
        splits = {split: saved(f"{name}-{split}", np.array([key in members for key in in_order(table.keys)])) for split, members in table.splits.items()}
        graph["nodes"].append({"name": name, "attrs": attrs, "splits": splits, **named})
    for table in shop.edges:
        ids = [{key: i for i, key in enumerate(in_order(shop.nodes[end].keys))} for end in (table.src, table.dst)]
        ends = np.array([[ids[0][key] for key in table.sources], [ids[1][key] for key in table.targets]])
        stored = [b"".join(values[i].tobytes() for values in table.attrs.values()) for i in range(ends.shape[1])]
        rows = sorted(range(ends.shape[1]), key=lambda i: (ends[1, i], ends[0, i], stored[i]))
        attrs = {attr: saved(f"{table.rel}-{attr}", values[rows]) for attr, values in table.attrs.items()}
        extra: dict[str, Any] = {"rev_of": "buys"} if table.rel == "bought_by" else {}
        weights = [name for name in attrs if name == "amount"]
        edge = {"src": table.src, "rel": table.rel, "dst": table.dst, "index": saved(table.rel, ends[:, rows])}
        graph["edges"].append(edge | {"attrs": attrs, "weights": weights, "times": list(table.times)} | extra)
    (folder / "graph.json").write_text(json.dumps(graph))
    return folder / "graph.json"


def test_without_keys_it_is_the_graph_of_import_numpy(shop: Shop, tmp_path: Path) -> None:
    tool("import", "numpy", tmp_path / "by-numpy", "--hetero", as_numpy(shop, tmp_path))
    report = import_tables(tmp_path / "by-tables", write_shop(shop, tmp_path, 3, 2), keys=False)
    assert report["fingerprint"] == hopfeed.Dataset(tmp_path / "by-numpy").fingerprint


def test_uuids_are_keys(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    keys = [uuid.UUID(bytes=rng.bytes(16)) for _ in range(20)]
    as_uuid = lambda several: pa.array([key.bytes for key in several], pa.uuid())  # noqa: E731
    src, dst = ([keys[i] for i in rng.integers(0, 20, 50)] for _ in range(2))
    write_table(pa.table({"id": as_uuid(keys), "x": rng.random(20)}), tmp_path / "nodes")
    write_table(pa.table({"a": as_uuid(src), "b": as_uuid(dst)}), tmp_path / "edges")
    nodes = [{"name": "n", "table": str(tmp_path / "nodes"), "key": "id", "attrs": ["x"]}]
    edges = [{"src": "n", "rel": "to", "dst": "n", "table": str(tmp_path / "edges"), "src_key": "a", "dst_key": "b"}]
    import_tables(tmp_path / "dataset", nodes=nodes, edges=edges, parts=2, seed=9)
    table = NodeTable(keys, {"x": np.array(pa.parquet.read_table(tmp_path / "nodes")["x"])})
    equal_to_oracle(tmp_path / "dataset", arrays({"n": table}, [EdgeTable("n", "to", "n", src, dst)], 2, by_hash(2, 9)))
    assert list(hopfeed.Dataset(tmp_path / "dataset").keys("n")[:]) == sorted(keys, key=lambda key: key.bytes)


def test_nodes_without_a_table_are_the_ends_of_edges(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("from,to\nb,a\nc,a\n\"x,y\",b\nb,b\n")
    edges = [{"src": "n", "rel": "to", "dst": "n", "table": str(tmp_path / "edges.csv"), "src_key": "from", "dst_key": "to"}]
    report = import_tables(tmp_path / "dataset", nodes=[{"name": "n"}], edges=edges)
    assert report["node_types"]["n"]["nodes"] == 4
    equal_to_oracle(tmp_path / "dataset", arrays({"n": NodeTable(["a", "b", "c", "x,y"])}, [EdgeTable("n", "to", "n", ["b", "c", "x,y", "b"], ["a", "a", "b", "b"])]))


def test_a_table_of_partitions_is_the_cut(shop: Shop, tmp_path: Path) -> None:
    description = write_shop(shop, tmp_path)
    told = [(name, str(key)) for name, table in shop.nodes.items() for key in table.keys]
    part_of = {pair: i % 4 for i, pair in enumerate(told)}
    cut = pa.table({"type": [one for one, _ in told], "key": [key for _, key in told], "partition": list(part_of.values())})
    pa.parquet.write_table(cut, tmp_path / "cut.parquet")
    import_tables(tmp_path / "dataset", description, parts=4, assign=tmp_path / "cut.parquet")
    equal_to_oracle(tmp_path / "dataset", arrays(shop.nodes, shop.edges, 4, lambda name, key: part_of[name, str(key)]))


def test_splits_by_fractions_go_by_the_hash_of_keys(tmp_path: Path) -> None:
    keys = list(range(1000, 3000))
    write_table(pa.table({"id": keys, "y": [key % 3 - 1 for key in keys]}), tmp_path / "nodes")
    nodes = [{"name": "n", "table": str(tmp_path / "nodes"), "key": "id", "label": "y", "split": {"fractions": {"train": 0.5, "test": 0.25}}}]
    report = import_tables(tmp_path / "dataset", nodes=nodes, edges=[], seed=3)
    share = {key: (key_hash(key, 3) >> 11) / 2**53 for key in keys if key % 3}  # labelled ones
    dataset = hopfeed.Dataset(tmp_path / "dataset")
    assert dataset.split("train").tolist() == [key - 1000 for key, of in share.items() if of < 0.5]
    assert dataset.split("test").tolist() == [key - 1000 for key, of in share.items() if 0.5 <= of < 0.75]
    assert report["node_types"]["n"]["splits"] == {"test": len(dataset.split("test")), "train": len(dataset.split("train"))}


def test_splits_by_time(tmp_path: Path) -> None:
    day = np.arange("2026-01-01", "2026-01-31", dtype="datetime64[D]")
    write_table(pa.table({"id": list(range(30)), "at": pa.array(day)}), tmp_path / "nodes")
    split = {"time": "at", "until": {"train": "2026-01-11", "valid": "2026-01-21T00:00:00+00:00", "test": None}}
    import_tables(tmp_path / "dataset", nodes=[{"name": "n", "table": str(tmp_path / "nodes"), "key": "id", "split": split}], edges=[])
    dataset = hopfeed.Dataset(tmp_path / "dataset")
    assert [dataset.split(name).tolist() for name in ("train", "valid", "test")] == [list(range(10)), list(range(10, 20)), list(range(20, 30))]


def test_bounds_of_times_are_those_of_every_step(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    edges = 600_000  # every second is sampled
    src, dst = rng.integers(0, 20, edges), rng.integers(0, 10, edges)
    at, weight = rng.integers(0, 10**9, edges), rng.integers(0, 3, edges).astype(np.int32)
    write_table(pa.table({"id": list(range(20))}), tmp_path / "nodes")
    table = pa.table({"s": src, "d": dst, "at": at, "w": weight})
    pa.parquet.write_table(table, tmp_path / "edges.parquet")
    told = {"src": "n", "rel": "to", "dst": "n", "table": str(tmp_path / "edges.parquet"), "src_key": "s", "dst_key": "d", "weight": "w", "time": "at"}
    import_tables(tmp_path / "dataset", nodes=[{"name": "n", "table": str(tmp_path / "nodes"), "key": "id"}], edges=[told])
    stored = np.concatenate([weight[:, None].view(np.uint8).reshape(edges, 4), at[:, None].view(np.uint8).reshape(edges, 8)], 1)
    ordered = np.lexsort((*stored.T[::-1], src, dst))
    sample = np.sort(at[ordered][::2])
    expected = sample[np.arange(1, 65_536) * len(sample) // 65_536]
    assert (np.load(tmp_path / "dataset/time_bounds/n__to__n/time.npy") == expected).all()
    assert (np.load(tmp_path / "dataset/part-0000/edges/n__to__n/attrs/time.npy").reshape(edges, -1)[:, 0][np.argsort(np.load(tmp_path / "dataset/part-0000/edges/n__to__n/edge_ids.npy"))] == at[ordered]).all()


def test_edges_are_joined_a_piece_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "odd [a]'b*"
    table.mkdir()
    for number in range(5):
        sources = np.arange(100) % 10 + number
        pa.parquet.write_table(pa.table({"s": sources, "d": np.arange(100) * 7 % 12}), table / f"e?{number}.parquet")
    edge = {"src": "n", "rel": "e", "dst": "n", "table": str(table), "src_key": "s", "dst_key": "d"}
    found, made = [], list[int]()
    for piece in (1 << 30, 1):
        monkeypatch.setattr("hopfeed.tables.engine.Engine.piece", piece)

        def say(line: str) -> None:
            if line == "counting the edges of each node":
                made.append(len(list((tmp_path / "work").glob(".*/ids-0/ids-*.parquet"))))

        report = import_tables(tmp_path / f"dataset-{piece}", nodes=[{"name": "n"}], edges=[edge], work=tmp_path / "work", say=say)
        found.append(report["fingerprint"])
    assert found[0] == found[1] and made == [1, 5]
