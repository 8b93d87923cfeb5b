"""What every engine has to do with whole imports: the files, reports and lines of one machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

sys.path.insert(0, str(Path(__file__).parents[2] / "python" / "tests"))

from cluster_ways import REFUSED, TAKEN, compared, described, files_of  # noqa: E402, F401
from hopfeed.tables import import_tables  # noqa: E402
from made_tables import make_shop, write_shop  # noqa: E402

Way = Callable[..., dict[str, Any]]  # (out, description, ...) -> the report

NODES, EDGES = 100_000, 1_000_000


def the_shop_is_the_same(on_cluster: Way, folder: Path) -> None:
    """Keys of two types, times, weights, reverse edges, splits, classes; three partitions."""
    compared(folder, write_shop(make_shop(), folder, files=3), on_cluster, parts=3, seed=5)


def a_table_of_partitions_is_the_cut(on_cluster: Way, folder: Path) -> None:
    shop = make_shop()
    rows = [(name, str(key), i % 3) for name, table in shop.nodes.items() for i, key in enumerate(table.keys)]
    pa.parquet.write_table(pa.table(dict(zip(("type", "key", "partition"), map(list, zip(*rows))))), folder / "cut.parquet")
    compared(folder, write_shop(shop, folder), on_cluster, parts=3, assign=folder / "cut.parquet")


def ldg_is_the_same(on_cluster: Way, folder: Path) -> None:
    compared(folder, write_shop(make_shop(), folder), on_cluster, parts=3, assign="ldg")


def undirected_edges_are_the_same(on_cluster: Way, folder: Path) -> None:
    loops = {"s": ["a", "b", "ü", "b"], "d": ["b", "b", "d", "b"]}
    more = [{"src": "n", "rel": "rev", "dst": "n", "rev_of": "to"}]
    compared(folder, described(folder, {}, loops, {}, {"undirected": True, "more": more}), on_cluster, parts=2)


GRAPHS = [the_shop_is_the_same, a_table_of_partitions_is_the_cut, ldg_is_the_same, undirected_edges_are_the_same]


def large_tables(folder: Path) -> dict[str, Any]:
    """A million edges in eight files, nodes in four; string keys, features, a weight, fractions."""
    rng = np.random.default_rng(0)
    (folder / "n").mkdir()
    (folder / "e").mkdir()
    keys = [f"{'nöde' if i % 3 else 'node'}-{i * 7919 % NODES}" for i in range(NODES)]
    names, x = pa.array(keys), rng.random((NODES, 4), np.float32)
    for i, at in enumerate(np.array_split(rng.permutation(NODES), 4)):
        table = {"id": names.take(pa.array(at)), "y": pa.array(at % 7), **{f"x{f}": x[at, f] for f in range(4)}}
        pa.parquet.write_table(pa.table(table), folder / "n" / f"{i}.parquet")
    ends = (NODES * rng.random((2, EDGES)) ** 2).astype(np.int64)
    for i in range(8):
        at = slice(i * EDGES // 8, (i + 1) * EDGES // 8)
        table = {"s": names.take(pa.array(ends[0, at])), "d": names.take(pa.array(ends[1, at])), "w": rng.random(EDGES // 8, np.float32)}
        pa.parquet.write_table(pa.table(table), folder / "e" / f"{i}.parquet")
    node = {"name": "n", "table": str(folder / "n"), "key": "id", "label": "y", "features": [f"x{f}" for f in range(4)], "split": {"fractions": {"train": 0.6, "test": 0.2}}}
    edge = {"src": "n", "rel": "to", "dst": "n", "table": str(folder / "e"), "src_key": "s", "dst_key": "d", "weight": "w"}
    return {"name": "large", "nodes": [node], "edges": [edge]}


@dataclass(frozen=True)
class Large:
    """The large tables, and what one machine makes of them in three partitions."""

    description: dict[str, Any]
    fingerprint: str
    files: dict[str, str]


def large_import(folder: Path) -> Large:
    description = large_tables(folder)
    report = import_tables(folder / "here", description, parts=3)
    return Large(description, report["fingerprint"], files_of(folder / "here"))
