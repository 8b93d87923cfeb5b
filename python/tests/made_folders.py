"""A made-up graph as other systems' folders have it: GraphBolt's OnDiskDataset and DistDGL's chunks; and as the oracle of
``hopfeed.tables`` has it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from tables_oracle import EdgeTable, NodeTable, arrays

Array = np.ndarray[Any, Any]
Ends = tuple[str, str, str]
SPLITS = {"train": "train_set", "valid": "validation_set", "test": "test_set"}


@dataclass
class Graph:
    """Nodes of each type have the ids 0 to count - 1; ``y`` is -1 where there is no label."""

    counts: dict[str, int]
    edges: dict[Ends, tuple[Array, Array, dict[str, Array]]]
    nodes: dict[str, dict[str, Array]]
    y: dict[str, Array] = field(default_factory=dict)
    splits: dict[str, dict[str, Array]] = field(default_factory=dict)

    @property
    def typed(self) -> bool:
        return len(self.counts) > 1

    def oracle(self, parts: int = 1, partition: Any = lambda *_: 0, features: str = "feat") -> dict[str, Array]:
        """The arrays of the dataset."""
        nodes, edges = {}, []
        for name, count in self.counts.items():
            attrs = {"x": one.astype(np.float32) for key, one in self.nodes[name].items() if key == features}
            attrs |= {"y": self.y[name]} if name in self.y else {}
            attrs |= {key: one for key, one in self.nodes[name].items() if key != features}
            splits = {split: set(ids.tolist()) for split, ids in self.splits.get(name, {}).items()}
            nodes[name] = NodeTable(list(range(count)), attrs, splits)
        for (src, rel, dst), (sources, targets, attrs) in self.edges.items():
            edges.append(EdgeTable(src, rel, dst, sources.tolist(), targets.tolist(), attrs))
        return arrays(nodes, edges, parts, partition)


def made_graph(typed: bool, seed: int = 0) -> Graph:
    """Of one type, or of three with edges between them and back."""
    rng = np.random.default_rng(seed)
    ends = lambda n, m, count: (rng.integers(0, n, count), rng.integers(0, m, count))  # noqa: E731
    y = rng.integers(0, 4, 50)
    y[40:] = -1
    order = rng.permutation(40)
    splits = {"train": order[:20], "valid": order[20:30], "test": order[30:]}
    own = {"feat": rng.normal(size=(50, 3)).astype(np.float32), "year": rng.integers(1900, 2000, 50)}
    if not typed:
        cites = {"w": rng.random(300), "wide": rng.integers(0, 9, (300, 2)).astype(np.int16)}
        return Graph({"node": 50}, {("node", "to", "node"): (*ends(50, 50, 300), cites)}, {"node": own}, {"node": y}, {"node": splits})
    writes = ends(30, 50, 200)
    edges = {
        ("author", "writes", "paper"): (*writes, {"w": rng.random(200)}),
        ("paper", "rev_writes", "author"): (writes[1], writes[0], {}),
        ("paper", "cites", "paper"): (*ends(50, 50, 300), {"at": rng.integers(0, 99, 300)}),
        ("author", "at", "place"): (*ends(30, 7, 40), {}),
    }
    nodes = {"author": {"feat": rng.normal(size=(30, 2)), "age": rng.integers(20, 90, 30).astype(np.uint8)}, "paper": own, "place": {}}
    return Graph({"author": 30, "paper": 50, "place": 7}, edges, nodes, {"paper": y}, {"paper": splits})


def write_graphbolt(graph: Graph, folder: Path, edges: str = "numpy", torch: bool = False) -> dict[str, Any]:
    """A folder that OnDiskDataset takes; gives what its ``metadata.yaml`` says."""
    folder.mkdir(parents=True, exist_ok=True)
    told: dict[str, Any] = {"dataset_name": "made", "graph": {"nodes": [], "edges": []}, "feature_data": [], "tasks": []}
    typed = lambda name: {"type": name} if graph.typed else {}  # noqa: E731

    def stored(name: str, values: Array) -> dict[str, Any]:
        return {"format": "torch" if torch else "numpy", "in_memory": False, "path": save(folder / name, values, torch).name}

    for name, count in graph.counts.items():
        told["graph"]["nodes"].append({"num": count} | typed(name))
        for key, values in graph.nodes[name].items():
            told["feature_data"].append({"domain": "node", "name": key} | typed(name) | stored(f"{name}-{key}", values))
    for number, ((src, rel, dst), (sources, targets, attrs)) in enumerate(graph.edges.items()):
        own = typed(f"{src}:{rel}:{dst}")
        path = folder / f"edges-{number}.{'npy' if edges == 'numpy' else 'csv'}"
        if edges == "numpy":
            np.save(path, np.stack([sources, targets]))
        else:
            np.savetxt(path, np.stack([sources, targets], 1), fmt="%d", delimiter=",")
        told["graph"]["edges"].append({"format": edges, "path": path.name} | own)
        for key, values in attrs.items():
            told["feature_data"].append({"domain": "edge", "name": key} | own | stored(f"edges-{number}-{key}", values))
    task: dict[str, Any] = {"name": "classes", "num_classes": 4}
    for split, key in SPLITS.items():
        task[key] = []
        for name, splits in graph.splits.items():
            data = [{"name": kind} | stored(f"{name}-{split}-{kind}", values) for kind, values in (("seeds", splits[split]), ("labels", graph.y[name][splits[split]]))]
            task[key].append({"data": data} | typed(name))
    told["tasks"].append(task)
    return write_metadata(folder, told)


def write_metadata(folder: Path, told: dict[str, Any]) -> dict[str, Any]:
    """JSON is YAML."""
    (folder / "metadata.yaml").write_text(json.dumps(told, indent=1))
    return told


def save(path: Path, values: Array, torch: bool = False) -> Path:
    """An array as .npy or .pt; gives its path."""
    if not torch:
        np.save(path.with_suffix(".npy"), values)
        return path.with_suffix(".npy")
    import torch as torch_

    torch_.save(torch_.from_numpy(np.ascontiguousarray(values)), path.with_suffix(".pt"))
    return path.with_suffix(".pt")


def write_chunked(graph: Graph, folder: Path, chunks: int = 2, edges: str = "csv", data: str = "numpy", names: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A chunked graph; gives what its ``metadata.json`` says. ``names``: what node types and relations are called there."""
    folder.mkdir(parents=True, exist_ok=True)
    own = lambda name: (names or {}).get(name, name)  # noqa: E731
    told: dict[str, Any] = {"graph_name": "made", "node_type": [own(name) for name in graph.counts], "edge_type": [], "edges": {}, "node_data": {}, "edge_data": {}}
    told["num_nodes_per_chunk"] = [sizes_of(count, chunks) for count in graph.counts.values()]
    told["num_edges_per_chunk"] = []
    for name, count in graph.counts.items():
        found = dict(graph.nodes[name])
        if name in graph.y:
            found |= {"label": graph.y[name]}
        for split, ids in graph.splits.get(name, {}).items():
            mask = np.zeros(count, np.uint8)
            mask[ids] = 1
            found[f"{'val' if split == 'valid' else split}_mask"] = mask
        if found:
            told["node_data"][own(name)] = {key: _chunks(folder / f"{name}-{key}", values, chunks, data) for key, values in found.items()}
    for (src, rel, dst), (sources, targets, attrs) in graph.edges.items():
        name = f"{own(src)}:{own(rel)}:{own(dst)}"
        told["edge_type"].append(name)
        told["num_edges_per_chunk"].append(sizes_of(len(sources), chunks))
        told["edges"][name] = _chunks(folder / f"{src}-{rel}-{dst}", np.stack([sources, targets], 1), chunks, edges)
        if attrs:
            told["edge_data"][name] = {key: _chunks(folder / f"{rel}-{key}", values, chunks, data) for key, values in attrs.items()}
    (folder / "metadata.json").write_text(json.dumps(told, indent=1))
    return told


def sizes_of(count: int, chunks: int) -> list[int]:
    return [count // chunks + (i < count % chunks) for i in range(chunks)]


def _chunks(path: Path, values: Array, chunks: int, form: str) -> dict[str, Any]:
    files, begin = [], 0
    for i, size in enumerate(sizes_of(len(values), chunks)):
        files.append(_chunk(path.with_name(f"{path.name}-{i}"), values[begin : begin + size], form).name)
        begin += size
    return {"format": {"name": form} | ({"delimiter": " "} if form == "csv" else {}), "data": files}


def _chunk(path: Path, values: Array, form: str) -> Path:
    if form == "numpy":
        return save(path, values)
    if form == "csv":
        np.savetxt(path.with_suffix(".txt"), values, fmt="%d", delimiter=" ")
        return path.with_suffix(".txt")
    columns: Sequence[Array] = [values] if values.ndim == 1 else list(values.T)
    table = pa.table({str(i): column for i, column in enumerate(columns)}).replace_schema_metadata({"shape": str(values.shape)})
    pa.parquet.write_table(table, path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")
