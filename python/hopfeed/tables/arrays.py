"""Arrays of our own in stages: a number for each node, in a file that is mapped, so that memory can let go of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
BLOCK = 1 << 20  # rows that are handled together


def created(path: Path, dtype: type, shape: int | tuple[int, ...]) -> Array:
    """A new array of zeros in a file."""
    if np.prod(shape) == 0:  # of which there is nothing to map
        np.save(path, np.zeros(shape, dtype))
        return np.zeros(shape, dtype)
    array = np.lib.format.open_memmap(path, "w+", dtype, (shape,) if isinstance(shape, int) else shape)
    with open(path, "r+b") as file:
        os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size)  # a full disk is an error now, not a death later
    return array


def opened(path: Path) -> Array:
    """An array of a stage, to be read."""
    array: Array = np.load(path, mmap_mode=None if path.stat().st_size <= 128 else "r")
    return array


def blocks(count: int) -> list[slice]:
    """All places, some at a time."""
    return [slice(begin, min(begin + BLOCK, count)) for begin in range(0, count, BLOCK)]
