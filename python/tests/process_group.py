"""Runs a piece of Python in several processes that are the ranks of one process group, as torch.multiprocessing.spawn
would: none has RANK or WORLD_SIZE in its environment.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from typing import Any

DEADLINE = 240  # seconds; importing torch takes a few where the machine is idle

_BEGIN = """
import json, sys, warnings
import numpy as np, torch, torch.distributed as dist
import hopfeed
rank, world, port, *arguments = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:]
if port:
    dist.init_process_group("gloo", store=dist.TCPStore("127.0.0.1", port, is_master=False), rank=rank, world_size=world)
told = []
warnings.showwarning = lambda message, *_: told.append(str(message))
result = None
"""
_END = """
print(json.dumps(result))
"""


def run_ranks(text: str, environment: dict[str, str], *arguments: object, world: int = 2) -> list[Any]:
    """What each rank leaves in ``result``. It has ``rank``, ``world``, ``arguments`` and ``told``, its warnings so far."""
    import torch.distributed

    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=datetime.timedelta(seconds=DEADLINE))
    clean = {name: value for name, value in environment.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")}
    clean |= {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _BEGIN + text + _END, *map(str, (rank, world, store.port, *arguments))],
            env=clean, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(world)
    ]  # fmt: skip
    try:
        outputs = [process.communicate(timeout=DEADLINE) for process in processes]
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
    for process, (_, errors) in zip(processes, outputs):
        assert process.returncode == 0, errors
    return [json.loads(output.splitlines()[-1]) for output, _ in outputs]
