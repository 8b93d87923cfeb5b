"""Imports on one machine and on a cluster, compared; and small tables with what may be wrong in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from hopfeed.errors import Error
from hopfeed.tables import import_tables


def files_of(folder: Path) -> dict[str, str]:
    return {path: file["xxh3"] for path, file in json.loads((folder / "meta.json").read_text())["files"].items()}


def told(report: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in report.items() if name not in ("folder", "seconds")}


def rejected(path: Path | None) -> list[str]:
    return sorted(path.read_text().splitlines()) if path is not None and path.exists() else []


def compared(folder: Path, description: Any, on_cluster: Callable[..., dict[str, Any]], **options: Any) -> dict[str, Any]:
    """Imports here and by ``on_cluster(out, description, ...)``, and compares: files, report, rejected rows, or the line of the error."""
    outcomes = list[Any]()
    for way in ("here", "cluster"):
        lines, keep = list[str](), options.pop("rejected", None) and folder / f"{way}.json"
        try:
            if way == "here":
                report = import_tables(folder / way, description, rejected=keep, say=lines.append, **options)
            else:
                report = on_cluster(folder / way, description, rejected=keep, say=lines.append, **options)
            meta = json.loads((folder / way / "meta.json").read_text())
            outcomes.append([told(report), files_of(folder / way), {name: meta[name] for name in ("fingerprint", "cut", "node_types", "edge_types")}])
        except Error as error:
            assert not (folder / way).exists()
            outcomes.append([type(error).__name__, str(error)])
        outcomes[-1] += [rejected(keep), [line for line in lines if line.startswith("warning")]]
        options |= {"rejected": True} if keep else {}
    assert outcomes[0] == outcomes[1]
    found: dict[str, Any] = {"report": outcomes[0][0], "rejected": outcomes[0][-2]}
    return found


NODES: dict[str, Any] = {"id": ["a", "b", "ü", "d"], "x": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]], "y": ["p", "q", "p", None]}
EDGES: dict[str, Any] = {"s": ["a", "b", "ü", "b"], "d": ["b", "ü", "d", "ü"], "w": [1.0, 2.0, 3.0, 0.5]}
NODE: dict[str, Any] = {"name": "n", "table": "nodes", "key": "id", "features": "x", "label": "y"}
EDGE: dict[str, Any] = {"src": "n", "rel": "to", "dst": "n", "table": "edges", "src_key": "s", "dst_key": "d", "weight": "w"}


def described(folder: Path, nodes: dict[str, Any], edges: dict[str, Any], node: dict[str, Any], edge: dict[str, Any]) -> dict[str, Any]:
    """Two small tables with these columns and fields in place of the clean ones, each in several files."""
    for name, columns in (("nodes", NODES | nodes), ("edges", EDGES | edges)):
        (folder / name).mkdir()
        table = pa.table(columns)
        for i in range(3):
            pa.parquet.write_table(table.slice(i * len(table) // 3, (i + 1) * len(table) // 3 - i * len(table) // 3), folder / name / f"{i}.parquet")
    one, other = NODE | node, EDGE | edge
    return {"name": "g", "nodes": [one | {"table": str(folder / "nodes")}], "edges": [other | {"table": str(folder / "edges")}, *edge.get("more", [])]}


Case = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]  # columns of nodes, of edges, options

REFUSED: list[Case] = [
    ({"id": ["a", None, "ü", None]}, {}, {}),
    ({"id": ["a", "ü", "ü", "a"]}, {}, {}),
    ({"id": ["a", "ü", "ü", "a"]}, {}, {"duplicates": "same"}),
    ({"x": [[1.0, 2.0], [3.0], [5.0, 6.0, 7.0], [7.0, 8.0]]}, {}, {}),
    ({"x": [[1.0, 2.0], None, [5.0, 6.0], [7.0, 8.0]]}, {}, {}),
    ({"x": [[1.0, 2.0], [None, 1.0], [5.0, 6.0], [7.0, 8.0]]}, {}, {}),
    ({"y": [0.0, 0.5, 1.0, 2e9]}, {}, {}),
    ({"id": pa.array([1, 2**63, 3, 4], pa.uint64())}, {"s": [1, 3, 4, 3], "d": [3, 4, 1, 4]}, {}),
    ({}, {"s": ["a", "z", "y", "z"]}, {}),
    ({}, {"d": ["b", None, "d", None]}, {}),
    ({}, {"d": ["b", None, "d", "z"]}, {"dangling": "add", "nulls": "0"}),
    ({}, {"w": [1.0, -2.0, float("nan"), 0.0]}, {}),
    ({}, {"w": [1.0, None, 3.0, None]}, {}),
    ({}, {"s": ["a", "z", "ü", "b"], "w": [-1.0, -2.0, 3.0, 1.0]}, {"dangling": "drop"}),
    ({}, {"s": ["a", "bb", "ü", "b"]}, {"dangling": "add"}),
    ({"id": pa.array([], pa.string()), "x": pa.array([], pa.list_(pa.float64(), 2)), "y": pa.array([], pa.string())}, {"s": pa.array([], pa.string()), "d": pa.array([], pa.string()), "w": pa.array([], pa.float32())}, {}),
]
TAKEN: list[Case] = [
    ({}, {"s": ["a", "z", None, "b"], "d": ["b", "ü", "d", "zz"]}, {"dangling": "drop"}),
    ({}, {"s": ["z", "z", None, "y"]}, {"dangling": "drop"}),
    ({}, {"s": ["a", "bb", "é", "b"]}, {"dangling": "add", "nulls": "0"}),
    ({"id": ["b", "b", "a", "b"], "x": [[0.0, 1.0]] * 4, "y": ["p"] * 4}, {"s": ["a"] * 4, "d": ["b"] * 4}, {"duplicates": "same"}),
    ({"id": ["b", "d", "a", "b"], "x": [[0.0, 1.0], [1.0, 1.0], [0.0, 2.0], [-0.0, 1.0]]}, {"s": ["a"] * 4, "d": ["b"] * 4}, {"duplicates": "smallest"}),
    ({"id": ["b", "d", "a", "b"]}, {"s": ["a", "é", "b", "d"], "d": ["b"] * 4}, {"duplicates": "smallest", "dangling": "add", "nulls": "0"}),
    ({"x": [[1.0, None], None, [5.0, 6.0], [7.0, 8.0]], "y": [None, 1, -5, 0]}, {"w": [None, 2.0, 3.0, None]}, {"nulls": "0"}),
    ({"x": [[1, 2], [2**24 + 1, 0], [3, 4], [5, 6]]}, {}, {}),
    ({"x": [[1.0, float("nan")], [float("inf"), 0.0], [3.0, 4.0], [5.0, 6.0]]}, {}, {}),
    ({}, {}, {"keys": False, "edge_ids": False}),
    ({}, {}, {"by_id": True, "name": "renamed"}),
    ({}, {"s": pa.array([], pa.string()), "d": pa.array([], pa.string()), "w": pa.array([], pa.float32())}, {}),
]
