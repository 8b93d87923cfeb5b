"""The rules of an import of tables, written down a second time and slowly: from keys and arrays in the order of the
tables to the arrays of the dataset (docs/importing.md, docs/formats.md). No engine, no stream, no block of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_MASK = (1 << 64) - 1
_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248e"
)


@dataclass
class NodeTable:
    """A node type: keys, and attributes in the same order; splits are sets of keys."""

    keys: Sequence[Any]
    attrs: Mapping[str, Array] = field(default_factory=dict)
    splits: Mapping[str, set[Any]] = field(default_factory=dict)


@dataclass
class EdgeTable:
    """An edge type: keys of sources and destinations, and attributes in the same order."""

    src: str
    rel: str
    dst: str
    sources: Sequence[Any]
    targets: Sequence[Any]
    attrs: Mapping[str, Array] = field(default_factory=dict)
    times: Sequence[str] = ()

    @property
    def folder(self) -> str:
        return f"{self.src}__{self.rel}__{self.dst}"

    def other_way(self, rel: str, times: Sequence[str] = ()) -> EdgeTable:
        return EdgeTable(self.dst, rel, self.src, self.targets, self.sources, self.attrs, times)


def key_bytes(key: Any) -> bytes:
    """What a hash is of."""
    return key.to_bytes(8, "little", signed=True) if isinstance(key, int) else key.encode() if isinstance(key, str) else bytes(key.bytes)


def in_order(keys: Sequence[Any]) -> list[Any]:
    """Integers by value, the others by their bytes."""
    return sorted(keys) if keys and isinstance(keys[0], int) else sorted(keys, key=key_bytes)


def arrays(nodes: Mapping[str, NodeTable], edges: Sequence[EdgeTable], parts: int = 1, partition: Callable[[str, Any], int] = lambda *_: 0) -> dict[str, Array]:
    """Path in the dataset -> what lies there. Attributes are [n, elements of a row]."""
    out = dict[str, Array]()
    ids = {name: {key: i for i, key in enumerate(in_order(table.keys))} for name, table in nodes.items()}
    leave = {name: [0] * len(table.keys) for name, table in nodes.items()}
    for table in edges:
        for key in table.sources:
            leave[table.src][ids[table.src][key]] += 1
    order, part_of = {}, {}
    for name, table in nodes.items():
        part_of[name] = [partition(name, key) for key in in_order(table.keys)]
        order[name] = sorted(range(len(table.keys)), key=lambda v: (part_of[name][v], -leave[name][v], v))
        out[f"nodes/{name}/new_ids.npy"] = np.argsort(order[name]) if order[name] else np.zeros(0, np.int64)
        if parts > 1:
            out[f"nodes/{name}/original_ids.npy"] = np.array(order[name], np.int64)
        for split, members in table.splits.items():
            out[f"splits/{name}/{split}.npy"] = np.array(sorted(ids[name][key] for key in members), np.int64)
        _add_node_parts(out, name, table, ids[name], order[name], part_of[name], leave[name], parts)
    for table in edges:
        _add_edges(out, table, nodes, ids, order, part_of, parts)
    return out


def _add_node_parts(out: dict[str, Array], name: str, table: NodeTable, ids: Mapping[Any, int], order: list[int], part_of: list[int], leave: list[int], parts: int) -> None:
    place = {ids[key]: i for i, key in enumerate(table.keys)}
    for part in range(parts):
        here = [v for v in order if part_of[v] == part]
        out[f"part-{part:04d}/nodes/{name}/hotness.npy"] = np.array([leave[v] for v in here], np.float64)
        for attr, values in table.attrs.items():
            rows = values[[place[v] for v in here]] if here else values[:0]
            out[f"part-{part:04d}/nodes/{name}/{attr}.npy"] = rows.reshape(len(here), -1)


def _add_edges(out: dict[str, Array], table: EdgeTable, nodes: Mapping[str, NodeTable], ids: Any, order: Any, part_of: Any, parts: int) -> None:
    rows = range(len(table.sources))
    source = [ids[table.src][key] for key in table.sources]
    target = [ids[table.dst][key] for key in table.targets]
    stored = [b"".join(np.ascontiguousarray(values[i]).tobytes() for values in table.attrs.values()) for i in rows]
    ordered = sorted(rows, key=lambda i: (target[i], source[i], stored[i]))
    times = {name: _times_of(table, name, nodes, source) for name in table.times}
    bounds = {name: _bounds([times[name][i] for i in ordered]) for name in table.times}
    new_ids = out[f"nodes/{table.src}/new_ids.npy"]
    edges_of: dict[int, list[tuple[int, int]]] = {}
    for edge_id, i in enumerate(ordered):
        edges_of.setdefault(target[i], []).append((edge_id, i))
    for name in table.times:
        out[f"time_bounds/{table.folder}/{name}.npy"] = bounds[name]
    for part in range(parts):
        path = f"part-{part:04d}/edges/{table.folder}"
        here = [v for v in order[table.dst] if part_of[table.dst][v] == part]
        found = [pair for v in here for pair in edges_of.get(v, [])]
        lengths = [len(edges_of.get(v, [])) for v in here]
        out[f"{path}/rows.npy"] = np.array([(sum(lengths[:i]), v) for i, v in enumerate([*here, -1])], [("offset", "<i8"), ("original_id", "<i8")])
        out[f"{path}/indices.npy"] = np.array([new_ids[source[i]] for _, i in found], np.int64)
        out[f"{path}/edge_ids.npy"] = np.array([edge_id for edge_id, _ in found], np.int64)
        for attr, values in table.attrs.items():
            out[f"{path}/attrs/{attr}.npy"] = values[[i for _, i in found]].reshape(len(found), -1) if found else values[:0].reshape(0, -1)
        for name in table.times:
            begin, order_of, sorted_times = 0, list[int](), list[int]()
            for length in lengths:
                row = [times[name][i] for _, i in found[begin : begin + length]]
                order_of += sorted(range(length), key=row.__getitem__)
                sorted_times += sorted(row)
                begin += length
            out[f"{path}/time_order/{name}.npy"] = np.array(order_of, np.uint32)
            out[f"{path}/times/{name}.npy"] = np.array(sorted_times, np.int64)
            out[f"{path}/time_codes/{name}.npy"] = np.searchsorted(bounds[name], np.array(sorted_times, np.int64)) - 32768


def _times_of(table: EdgeTable, name: str, nodes: Mapping[str, NodeTable], source: list[int]) -> list[int]:
    if name in table.attrs:
        return [int(time) for time in table.attrs[name]]
    of = nodes[table.src]
    by_id = dict(zip(in_order(of.keys), range(len(of.keys))))
    time_of = {by_id[key]: int(time) for key, time in zip(of.keys, of.attrs[name])}
    return [time_of[v] for v in source]


def _bounds(times: list[int]) -> Array:
    """Of all edges in their order; small graphs have each time."""
    step = max(1, len(times) // (4 * 65_536))
    sample = sorted(times[::step])
    if len(sample) > 65_535:
        sample = [sample[i * len(sample) // 65_536] for i in range(1, 65_536)]
    return np.array(sample, np.int64)


def key_hash(key: Any, seed: int = 0) -> int:
    """XXH3-64 of a key of at most 16 bytes, as its specification has it."""
    data = key_bytes(key)
    length = len(data)
    assert 1 <= length <= 16
    word = lambda at, size=8, of=_SECRET: int.from_bytes(of[at : at + size], "little")  # noqa: E731
    if length > 8:
        low = word(0, 8, data) ^ ((word(24) ^ word(32)) + seed & _MASK)
        high = word(length - 8, 8, data) ^ ((word(40) ^ word(48)) - seed & _MASK)
        product = low * high
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        h = length + swapped + high + ((product & _MASK) ^ (product >> 64)) & _MASK
        h = (h ^ h >> 37) * 0x165667919E3779F9 & _MASK
        return h ^ h >> 32
    if length >= 4:
        seed ^= int.from_bytes((seed & 0xFFFFFFFF).to_bytes(4, "little"), "big") << 32
        h = (word(length - 4, 4, data) + (word(0, 4, data) << 32)) ^ ((word(8) ^ word(16)) - seed & _MASK)
        h ^= _rotated(h, 49) ^ _rotated(h, 24)
        h = h * 0x9FB21C651E98DF25 & _MASK
        h = (h ^ (h >> 35) + length) * 0x9FB21C651E98DF25 & _MASK
        return h ^ h >> 28
    mixed = data[0] << 16 | data[length >> 1] << 24 | data[-1] | length << 8
    return _avalanche(mixed ^ ((word(0, 4) ^ word(4, 4)) + seed & _MASK))


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _avalanche(h: int) -> int:
    h = (h ^ h >> 33) * 0xC2B2AE3D27D4EB4F & _MASK
    h = (h ^ h >> 29) * 0x165667B19E3779F9 & _MASK
    return h ^ h >> 32
