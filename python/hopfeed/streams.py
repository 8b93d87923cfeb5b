"""Which CUDA stream reads a batch's memory, so that it is used again only behind that."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch

from hopfeed import _core


@functools.cache
def _gpu_here() -> bool:
    return torch.cuda.is_available()


def note_stream(batch: _core.Batch, options: Mapping[str, Any]) -> None:
    """Where a GPU reads the batch by itself: from its own memory (``device_batches``), or with ``non_blocking=True`` from a pinned
    slot (``pin_slots``). What the current stream is asked for as long as anything of the batch lives is then done before another
    batch is written there. Who reads it on another stream calls ``batch.used_on`` or lets the current one wait for that.
    """
    if (options.get("device_batches") or options.get("pin_slots")) and _gpu_here():
        batch.used_on(torch.cuda.current_stream().cuda_stream)
