"""Which trainer this process is, of how many: what ``torch.distributed``, the launcher or Slurm says."""

from __future__ import annotations

import os
import sys
from typing import Any

from hopfeed import _core
from hopfeed.errors import InvalidError

_ALONE = "or give rank=0, world_size=1 for one trainer"


def process_group() -> Any:
    """``torch.distributed`` where its default group is initialised, else None. Imports nothing."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed


def group_store() -> Any:
    """The store of the default process group, with keys that are this attempt's alone. A torchrun on one host keeps its store over
    restarts, and what ranks that are gone have left there is nobody's. Over several hosts each torchrun counts restarts of its own:
    there the keys are of the number of ranks alone."""
    group = process_group()
    told = os.environ if os.environ.get("GROUP_WORLD_SIZE") == "1" else {}
    prefix = f"hopfeed/{told.get('TORCHELASTIC_RESTART_COUNT', 0)}/{group.get_world_size()}"
    return group.PrefixStore(prefix, group.distributed_c10d._get_default_store())


def this_rank() -> tuple[int, int]:
    """(rank, world size), by the process group, else RANK and WORLD_SIZE, else the step of srun.

    Raises:
        InvalidError: none of them says both.
    """
    group = process_group()
    if group is not None:
        return group.get_rank(), group.get_world_size()
    told = {name: os.environ.get(name) for name in ("RANK", "WORLD_SIZE")}
    given = {name: value for name, value in told.items() if value is not None}
    if len(given) < 2 and "SLURM_STEP_ID" in os.environ:
        task = {"RANK": os.environ.get("SLURM_PROCID"), "WORLD_SIZE": os.environ.get("SLURM_STEP_NUM_TASKS")}
        if all(task[name] == value for name, value in given.items()):
            return _numbers("SLURM_PROCID", task["RANK"], "SLURM_STEP_NUM_TASKS", task["WORLD_SIZE"])
    if not given:
        raise InvalidError(
            "distributed=True, and nothing says which trainer this is: there is no process group, and RANK and WORLD_SIZE are "
            f"not set; call torch.distributed.init_process_group first, start with torchrun or srun, {_ALONE}"
        )
    return _numbers("RANK", told["RANK"], "WORLD_SIZE", told["WORLD_SIZE"])


def _numbers(rank_name: str, rank: str | None, world_name: str, world: str | None) -> tuple[int, int]:
    if rank is None or world is None or not rank.isdecimal() or not world.isdecimal() or int(rank) >= int(world):
        shown = [f"{name} is {'not set' if value is None else repr(value)}" for name, value in ((rank_name, rank), (world_name, world))]
        raise InvalidError(
            f"distributed=True, but {' and '.join(shown)}; set both, a rank below the world size, call "
            f"torch.distributed.init_process_group first, {_ALONE}"
        )
    return int(rank), int(world)


def tell_world_size() -> None:
    """Has the library know how many trainers may share this machine where the environment does not say it."""
    group = process_group()
    _core.tell_world_size(1 if group is None else group.get_world_size())
