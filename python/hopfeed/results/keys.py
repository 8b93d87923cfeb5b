"""Users' keys of nodes, as arrays that ``numpy.load`` and Parquet have."""

from __future__ import annotations

from typing import Any

import numpy as np

from hopfeed.dataset import Dataset

Array = np.ndarray[Any, Any]


class KeyColumn:
    """Keys of a node type, by original id.

    Attributes:
        kind: int64, string or uuid.
    """

    def __init__(self, dataset: Dataset, node_type: str) -> None:
        self.kind = str(dataset._node(node_type)["keys"]["type"])
        self._keys = dataset._map(f"keys/{node_type}/keys.npy")
        self._offsets = dataset._map(f"keys/{node_type}/offsets.npy") if self.kind == "string" else None

    @staticmethod
    def is_here(dataset: Dataset, node_type: str) -> bool:
        """Whether this folder has the keys; of several machines some may not."""
        return "keys" in dataset._node(node_type) and (dataset.folder / f"keys/{node_type}/keys.npy").exists()

    def arrays(self, ids: Array) -> dict[str, Array]:
        """Of strings their bytes one behind the other and where each begins; else an array of int64, or of 16 bytes each."""
        if self._offsets is None:
            return {"keys": np.asarray(self._keys[ids])}
        begins, ends = np.asarray(self._offsets[ids]), np.asarray(self._offsets[ids + 1])
        offsets = np.concatenate([[0], np.cumsum(ends - begins)]).astype(np.int64)
        at = np.repeat(begins - offsets[:-1], ends - begins) + np.arange(offsets[-1])
        return {"keys": np.asarray(self._keys[at]), "key_offsets": offsets}

    def row_bytes(self) -> int:
        """Of a node, at the mean, rounded up."""
        if self._offsets is None:
            return 16 if self.kind == "uuid" else 8
        return 9 + len(self._keys) // max(1, len(self._offsets) - 1)


def as_arrow(kind: str, arrays: dict[str, Array]) -> Any:
    """A column of Arrow; UUIDs are texts there, which every reader of Parquet has."""
    import pyarrow as pa

    keys = np.ascontiguousarray(arrays["keys"])
    if kind == "int64":
        return pa.array(keys)
    if kind == "uuid":
        return pa.array(uuid_texts(keys))
    offsets = arrays["key_offsets"]
    return pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(keys)).cast(pa.string())


def uuid_texts(keys: Array) -> list[str]:
    """As ``str(uuid.UUID(bytes=key))`` of each."""
    texts = keys.tobytes().hex()
    return [f"{t[:8]}-{t[8:12]}-{t[12:16]}-{t[16:20]}-{t[20:]}" for t in (texts[at : at + 32] for at in range(0, len(texts), 32))]


def as_objects(kind: str, arrays: dict[str, Array]) -> Array:
    """int64, str or uuid.UUID, as ``Dataset.keys`` gives them."""
    import uuid

    keys = arrays["keys"]
    if kind == "int64":
        return keys
    if kind == "uuid":
        found: list[Any] = [uuid.UUID(bytes=key.tobytes()) for key in keys]
    else:
        raw, offsets = keys.tobytes(), arrays["key_offsets"].tolist()
        found = [raw[begin:end].decode() for begin, end in zip(offsets, offsets[1:])]
    out = np.empty(len(found), object)
    out[:] = found
    return out
