"""A dataset of more than 2^33 nodes in files with holes: a small graph, whose nodes got numbers beyond 32 bits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.lib import format as npy

import hopfeed

NODES, PARTS = 12_000_000_000, 3
_EACH = NODES // PARTS
_ROW = np.dtype([("offset", "<i8"), ("original_id", "<i8")])


class Sparse:
    """Writes ``small``, of one node type with ``x``, ``y`` and a split ``train``, as such a dataset.

    Attributes:
        folder: the dataset.
        small: the graph's own dataset.
        ids: the original id of each of its nodes: rising, the last beyond 2^33; nodes lie in every partition.
    """

    def __init__(self, folder: Path, small: Path) -> None:
        self.folder, self.small = folder, hopfeed.Dataset(small)
        count = self.small.num_nodes()
        # Nothing is the first row of a partition, and none is node 0: holes read as it.
        self.ids = 1 + np.arange(count, dtype=np.int64) * (NODES // count)
        self.new_ids = np.random.default_rng(0).permutation(self.ids)  # where each node's row lies
        self._files: dict[str, Any] = {}
        edges = self.small.edge_index()
        self._write_nodes()
        in_parts = [self._write_rows(part, edges) for part in range(PARTS)]
        self._write_meta(edges.shape[1], in_parts)

    def _put(self, path: str, count: int, at: Any, values: np.ndarray[Any, Any]) -> None:
        """An array of ``count`` entries, of which those ``at`` some places are there."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        entry = values.itemsize * int(np.prod(values.shape[1:]))
        with open(file, "wb") as out:
            npy.write_array_header_1_0(out, {"descr": npy.dtype_to_descr(values.dtype), "fortran_order": False, "shape": (count, *values.shape[1:])})
            head = out.tell()
            for i, value in zip(at, values):
                out.seek(head + int(i) * entry)
                out.write(value.tobytes())
            out.truncate(head + count * entry)
        self._files[path] = {"bytes": file.stat().st_size, "xxh3": "0" * 16}

    def _write_nodes(self) -> None:
        self._put("nodes/node/new_ids.npy", NODES, self.ids, self.new_ids)
        self._put("nodes/node/original_ids.npy", NODES, self.new_ids, self.ids)
        train = self.ids[self.small.split("train")]
        self._put("splits/node/train.npy", len(train), range(len(train)), train)
        for part in range(PARTS):
            here = self.new_ids // _EACH == part
            rows, old = self.new_ids[here] % _EACH, np.flatnonzero(here)
            folder = f"part-{part:04d}/nodes/node"
            self._put(f"{folder}/hotness.npy", _EACH, rows, np.zeros(len(rows)))
            self._put(f"{folder}/x.npy", _EACH, rows, self.small.attr("x")[old])
            self._put(f"{folder}/y.npy", _EACH, rows, self.small.attr("y")[old].reshape(-1, 1))

    def _write_rows(self, part: int, edges: np.ndarray[Any, Any]) -> int:
        """The edges into a partition; gives how many there are."""
        here = np.flatnonzero(self.new_ids // _EACH == part)
        here = here[np.argsort(self.new_ids[here])]
        sources, targets = edges
        lists = [np.flatnonzero(targets == node) for node in here]  # edge ids, in the imported order
        ends = np.cumsum([len(one) for one in lists])
        ids = np.concatenate(lists)
        at = self.new_ids[here] % _EACH
        assert at[0] > 0 and (np.diff(at) > 1).all()
        records = np.zeros(2 * len(here) + 1, _ROW)
        records["offset"] = [*np.stack([ends - [len(one) for one in lists], ends], 1).ravel(), ends[-1]]
        records["original_id"] = [*np.stack([self.ids[here], np.zeros(len(here), np.int64)], 1).ravel(), -1]
        folder = f"part-{part:04d}/edges/node__to__node"
        self._put(f"{folder}/rows.npy", _EACH + 1, [*np.stack([at, at + 1], 1).ravel(), _EACH], records)
        self._put(f"{folder}/indices.npy", len(ids), range(len(ids)), self.new_ids[sources[ids]])
        self._put(f"{folder}/edge_ids.npy", len(ids), range(len(ids)), ids)
        return len(ids)

    def _write_meta(self, edges: int, in_parts: list[int]) -> None:
        meta = {"checksum": "0" * 16} | {key: value for key, value in self.small.meta.items() if key != "checksum"}
        node, edge = dict(meta["node_types"][0]), dict(meta["edge_types"][0])
        node |= {"count": NODES, "partition_offsets": [_EACH * part for part in range(PARTS + 1)], "new_id_type": "int64"}
        node["splits"] = {"train": node["splits"]["train"]}
        edge |= {"count": edges, "partition_edges": in_parts, "index_type": "int64", "has_edge_ids": True, "edge_id_type": "int64"}
        meta |= {"partitions": PARTS, "node_types": [node], "edge_types": [edge], "files": self._files}
        text = json.dumps(meta, indent=1) + "\n"
        sealed = text.replace("0" * 16, xxhash.xxh3_64_hexdigest(text.encode()), 1)
        (self.folder / "meta.json").write_text(sealed)
