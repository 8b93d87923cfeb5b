"""Rows of attributes as a dataset's files have them, and the values that they stand for (docs/formats.md, "Rows with a scale")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hopfeed.errors import UnsupportedError

Array = np.ndarray[Any, Any]

_SCALED = ("int8_scaled", "int4_scaled")
_SCALE_BYTES = 4
_NUMPY = {name: np.dtype(name).newbyteorder("<") for name in (
    "uint8", "int8", "int16", "int32", "int64", "uint32", "float16", "float32", "float64", "bool",
)}  # fmt: skip


def value_type(meta: Mapping[str, Any]) -> np.dtype[Any]:
    """Of the values of an attribute, which ``meta.json`` describes so. NumPy has no bfloat16: float32 holds its values.

    Raises:
        UnsupportedError: elements that no dataset of this release has.
    """
    stored = meta["element_type"]
    if stored == "bfloat16" or stored in _SCALED:
        return _NUMPY["float32"]
    if stored not in _NUMPY:
        raise UnsupportedError(f"attribute '{meta['name']}' is {stored}; this release reads {', '.join([*_NUMPY, 'bfloat16', *_SCALED])}")
    return _NUMPY[stored]


def row_bytes(meta: Mapping[str, Any]) -> int:
    """Of a row without what pads it."""
    stored, elements = meta["element_type"], _elements(meta)
    if stored in _SCALED:
        return _SCALE_BYTES + (elements if stored == "int8_scaled" else (elements + 1) // 2)
    return elements * (2 if stored == "bfloat16" else value_type(meta).itemsize)


def values_of(raw: Array, meta: Mapping[str, Any]) -> Array:
    """The values of rows, [n, elements].

    Args:
        raw: the bytes of each row, uint8 [n, row_bytes(meta) or more].
    """
    stored, elements = meta["element_type"], _elements(meta)
    raw = raw[:, : row_bytes(meta)]
    if stored in _SCALED:
        scale = np.ascontiguousarray(raw[:, :_SCALE_BYTES]).view("<f4")
        numbers = raw[:, _SCALE_BYTES:]
        if stored == "int4_scaled":  # two of them a byte, the earlier in the lower half
            numbers = np.stack([numbers & 15, numbers >> 4], 2).reshape(len(raw), numbers.shape[1] * 2)[:, :elements]
            numbers = (numbers ^ 8).view("i1") - np.int8(8)
        return np.multiply(numbers.view("i1"), scale, dtype=np.float32)
    raw = np.ascontiguousarray(raw)
    if stored == "bfloat16":  # the upper half of a float32
        return (raw.view("<u2").astype("<u4") << np.uint32(16)).view("<f4")
    return raw.view(value_type(meta))


def _elements(meta: Mapping[str, Any]) -> int:
    return int(np.prod(meta["shape"], dtype=np.int64))
