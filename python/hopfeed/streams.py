"""Which CUDA streams read a batch's memory, so that it is used again only behind them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch

from hopfeed import _core


@functools.cache
def _gpus() -> int:
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def note_streams(batch: _core.Batch, options: Mapping[str, Any]) -> None:
    """Where a GPU reads the batch by itself: from its own memory (``device_batches``), or with ``non_blocking=True`` from a pinned
    slot (``pin_slots``). What the current stream of such a GPU is asked for as long as anything of the batch lives is then done
    before another batch is written there. Of pinned slots these are all GPUs that this process uses already. Who reads the batch on
    another stream calls ``batch.used_on``, or lets the current one wait for that stream before the batch goes.
    """
    if options.get("device_batches"):
        devices = [int(options.get("gpu_device") or 0)]
    elif options.get("pin_slots"):
        devices = [number for number in range(_gpus()) if torch._C._cuda_hasPrimaryContext(number) or number == torch.cuda.current_device()]
    else:
        return
    for number in devices if _gpus() else ():
        batch.used_on(torch.cuda.current_stream(number).cuda_stream, number)
