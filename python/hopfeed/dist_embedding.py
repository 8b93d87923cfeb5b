"""Learned rows at the servers that own a graph's partitions: a torch module without parameters of its own."""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from hopfeed import _core
from hopfeed.errors import CorruptError, InvalidError, StateLost
from hopfeed.meeting import Meeting
from hopfeed.ranks import group_store, process_group
from hopfeed.state import Owners, core_of, id_array, whole
from hopfeed.state_checkpoint import Numbers, StateCheckpoint, attempt_after, numbers_to_keep
from hopfeed.switches import is_switch

OPTIMIZERS = ("sparse_adam", "adagrad", "row_wise_adagrad", "sgd")
_TRIES = 10  # to go back, while servers are lost on the way

_run: tuple[int, int] | None = None  # of the process of that number


class DistEmbedding(torch.nn.Module):
    """A learned row for each node of a type, at the servers that own the partitions, with the optimizer's state beside it. The
    machines of the trainers hold none of it, so it may be larger than any of them.

    All ranks of a run learn it together, step by step. A step of theirs moves the rows that their batches read, and no other::

        emb = hopfeed.torch.DistEmbedding(owners, "papers", "paper", 64, lr=0.01)
        for batch in loader:                       # dataset_ids=True
            x = emb(batch.dataset_id)
            loss(model(x, batch)).backward()
            emb.step()

    Each rank calls ``step()`` once in each step, also where it has learned nothing: the others wait for it. The step's gradient
    is the mean over the ranks. Sums are made in the order of lookups, then in that of ranks, so rows have the same bits over any
    number of servers. There are no parameters: torch's optimizers and ``DistributedDataParallel`` leave the rows alone.

    **Ids are dataset ids**: those that a loader gives in ``dataset_id`` with ``dataset_ids=True``.

    Args:
        owners: what :func:`hopfeed.state.connect` gave.
        name: of the table, the same at all ranks.
        node_type: it has a row for each node of this type.
        dim: numbers of a row.
        optimizer: ``"sparse_adam"``, ``"adagrad"``, ``"row_wise_adagrad"`` or ``"sgd"``. Their numbers are those of torch and
            FBGEMM, without weight decay.
        lr: the learning rate.
        beta1, beta2: of sparse_adam.
        epsilon: of all but sgd.
        seed: of first values: uniform, of length 1 in the mean, a function of the seed and the node.
        rank, world_size: of this process among those that learn; by default those of ``torch.distributed``, where its process
            group is initialised, else it learns alone.
        run: a number that all ranks of this run give, and no other run. By default one is made for each process group, or for
            each process that learns alone. A table belongs to its run until that is over; by the same run it is gone on with.
        attempt: of the run: a higher one begins the table anew.
        restore: what :meth:`save` gave, at all ranks: they go on from there, in a new attempt of its run, as :meth:`go_back` has
            it. ``run`` and ``attempt`` follow from it.
        timeout: seconds that a rank may be late.

    Raises:
        InvalidError: another run learns the table; another table has this name; an argument that cannot be.
        UnsupportedError: a server keeps no state.
        StateLost: by all that reads or learns: a server was started again, or another run or attempt has begun the table anew.
        PeerDiedError: the same: another rank has left. DeadlineError: it is late.
    """

    def __init__(
        self,
        owners: Owners,
        name: str,
        node_type: str,
        dim: int,
        optimizer: str = "sparse_adam",
        lr: float = 0.001,
        *,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        run: int | None = None,
        attempt: int = 0,
        restore: Mapping[str, Any] | None = None,
        timeout: float = 300,
    ) -> None:
        super().__init__()
        if optimizer not in OPTIMIZERS:
            raise InvalidError(f"optimizer is {optimizer!r}; give {', '.join(OPTIMIZERS)}")
        if (rank is None) != (world_size is None):
            raise InvalidError("rank and world_size go together; give both or leave both out")
        for option, value in (("lr", lr), ("beta1", beta1), ("beta2", beta2), ("epsilon", epsilon), ("timeout", timeout)):
            if is_switch(value) or not isinstance(value, (int, float)):
                raise InvalidError(f"{option} is {value!r} ({type(value).__name__}); give a number")
        if not 0.001 <= timeout <= 1e7:
            raise InvalidError(f"timeout is {timeout}; give seconds, from 0.001 on")
        group = process_group()
        if rank is None or world_size is None:
            rank, world_size = (0, 1) if group is None else (group.get_rank(), group.get_world_size())
        rank, world_size = whole("rank", rank), whole("world_size", world_size)
        if rank >= world_size:
            raise InvalidError(f"rank is {rank} and world_size is {world_size}; give a rank below the world size")
        if restore is not None and (run is not None or attempt != 0):
            raise InvalidError("restore goes with neither run nor attempt, which follow from it; leave them out")
        self._table = {
            "name": name, "node_type": node_type, "width": whole("dim", dim), "first_values": "uniform", "seed": whole("seed", seed),
            "optimizer": optimizer, "lr": float(lr), "beta1": float(beta1), "beta2": float(beta2), "epsilon": float(epsilon),
        }  # fmt: skip
        self.name, self.node_type, self.dim, self.optimizer = name, node_type, self._table["width"], optimizer
        self.rank, self.world_size = rank, world_size
        self._timeout = float(timeout)
        self._lookups: list[tuple[np.ndarray[Any, Any], torch.Tensor]] = []
        self._numbers = Numbers(name)
        core_of(owners)  # it is looked at before a rank waits for another
        self._owners = owners  # it lives as long
        if restore is None:
            self.run = _run_of(world_size, group) if run is None else whole("run", run)
            self.attempt = whole("attempt", attempt)
            self._core = self._opened(self.run, self.attempt)
        else:
            self.run, self.attempt = 0, 0
            self._begin_at(restore)
        owners._add(self)

    def _opened(self, run: int, attempt: int) -> _core.StateRows:
        return _core.StateRows(core_of(self._owners), self._table, run, attempt, self.rank, self.world_size, int(self._timeout * 1000))

    @property
    def num_rows(self) -> int:
        """Nodes of the type."""
        return self._core.rows

    @property
    def next_step(self) -> int:
        """The number of the step that is brought next: as many have been brought."""
        return self._core.next_step

    def look(self, ids: torch.Tensor) -> None:
        """Asks for the rows of the step behind those that were looked at, up to 64 ahead: they come while this one computes.

        ``ids`` are all that the step will look up, in any order, repeats allowed. Give the next batch's before this one's
        ``step()``.
        """
        self._core.look(id_array(ids))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """The rows of ``ids`` [n] as this step reads them: float32 [n, dim], copies, on the device of the ids.

        While training, and where gradients are recorded, they are a leaf whose gradient the next ``step()`` takes. What the step
        has not looked at with ``look()`` it looks at here, once: a model that looks up several times in a step calls ``look()``
        with all of these ids before. After ``eval()`` it is ``pull()``.
        """
        if not self.training:
            return self.pull(ids)
        wanted = id_array(ids)
        rows = torch.empty((len(wanted), self.dim))
        self._core.read(wanted, rows.numpy().reshape(-1))
        if isinstance(ids, torch.Tensor):
            rows = rows.to(ids.device)
        if torch.is_grad_enabled():
            rows.requires_grad_()
            self._lookups.append((wanted, rows))
        return rows

    @torch.no_grad()
    def step(self) -> None:
        """Brings what was learned since the last step. Lookups without a gradient do not count.

        Whatever it raises, the step has not been brought. Of a gradient with NaN or infinity :meth:`forget` lets go, and then
        ``step()`` brings nothing.
        """
        learned = [(ids, rows.grad) for ids, rows in self._lookups if rows.grad is not None]
        ids = np.concatenate([np.empty(0, np.int64)] + [ids for ids, _ in learned])
        gradients = torch.cat([torch.empty((0, self.dim))] + [gradient.float().cpu() for _, gradient in learned])
        self._core.step(ids, gradients.numpy().reshape(-1))
        self._lookups.clear()

    def forget(self) -> None:
        """Lets go of the lookups since the last step, and of their gradients."""
        self._lookups.clear()

    def pull(self, ids: torch.Tensor) -> torch.Tensor:
        """The rows of ``ids`` [n] as the steps that this rank has brought leave them: float32 [n, dim] without a gradient. It waits for
        the other ranks' parts of these, and belongs to no step: for evaluation."""
        wanted = id_array(ids)
        rows = torch.empty((len(wanted), self.dim))
        self._core.pull(wanted, rows.numpy().reshape(-1))
        return rows.to(ids.device) if isinstance(ids, torch.Tensor) else rows

    def save(self, number: int | None = None) -> dict[str, Any]:
        """Has the servers write a checkpoint of the table as the steps that this rank has brought leave it. Rank 0 calls; the others may
        go on with the next step, and wait there.

        Returns what :meth:`go_back` and ``restore=`` take: a plain dict, which is a checkpoint once it lies in a file of yours,
        beside the model. Write that under another name and rename it: the renaming is the commit.

        Args:
            number: of the checkpoint, above those before; by default the next one.

        Raises:
            InvalidError: another rank calls; the number is not above the last.
            NoSpaceError, InputOutputError: a server could not write, as its disk is full; the checkpoints before stand, training may
                go on, and save() be called again.
            StateLost, PeerDiedError: as of :meth:`step`.
        """
        self._require_rank_0("save")
        number = self._numbers.next(number)
        steps, shards = self._core.save(number)
        self._numbers.taken(number)
        return StateCheckpoint(self.name, self._owners.fingerprint, self.run, self.attempt, number, steps, shards).to_dict()

    def keep(self, checkpoints: Iterable[int]) -> None:
        """Removes the servers' files of all other checkpoints of the run. Rank 0 calls, once a newer one lies in its file."""
        self._require_rank_0("keep")
        self._core.keep(numbers_to_keep(checkpoints))

    def go_back(self, state: Mapping[str, Any] | None) -> None:
        """Goes back to a checkpoint: a new attempt of its run begins there. All ranks call it together, with the same ``state``, and all
        of them go back or all raise. Lookups since the last step, and looks ahead, are forgotten.

        The ranks agree through the store of the process group; none is late while servers read files for another. Servers that are
        lost meanwhile are waited for, and it is tried again. There may be other servers than before, and another cut, where servers
        share their ``--state`` folder.

        Args:
            state: what :meth:`save` gave. None: there is no checkpoint yet, and all ranks go back to step 0 and the first values.

        Raises:
            InvalidError: ``state`` is of another table or dataset, or not the same at all ranks.
            CorruptError, NotFoundError: a file of it is damaged or missing; go back to another checkpoint.
            PeerDiedError: a server did not come back, or a rank has ended. DeadlineError: a rank is late.
        """
        self._lookups.clear()
        self._core.give_up()  # who waits for this rank hears so, and comes too
        self._begin_at(state)

    def _begin_at(self, state: Mapping[str, Any] | None) -> None:
        for tries_left in reversed(range(_TRIES)):
            try:
                self._try_to_begin_at(state)
                return
            except StateLost:  # at all ranks
                if tries_left == 0:
                    raise
            time.sleep(1)  # attempts do not outrun the clock, by which a new process finds a higher one

    def _try_to_begin_at(self, state: Mapping[str, Any] | None) -> None:
        """Rank 0 takes the table back before another rank opens it."""
        core = None
        try:
            with Meeting(f"state/{self.name}", self.rank, self.world_size, timeout=self._timeout) as meeting:
                checkpoint = None if state is None else StateCheckpoint.of(state, self.name, self._owners.fingerprint)
                run, steps = (self.run, 0) if checkpoint is None else (checkpoint.run, checkpoint.steps)
                if self.rank == 0:
                    last = self.attempt if checkpoint is None else max(self.attempt, checkpoint.attempt)
                    self.attempt = attempt = attempt_after(last)  # of the next try too
                    core = self._opened(run, attempt)
                    if checkpoint is not None:
                        self._restore(core, checkpoint)
                    meeting.say({"attempt": attempt, "state": checkpoint and checkpoint.to_dict()})
                else:
                    said = meeting.heard()
                    self._require_same(checkpoint and checkpoint.to_dict(), said["state"])
                    attempt = int(said["attempt"])
                    core = self._opened(run, attempt)
                    if core.next_step != steps:
                        raise StateLost(f"table '{self.name}' was lost on the way to {_goal(state)}; go back again")
        except BaseException:
            if core is not None:
                core.give_up()
            raise
        self._core = core
        self.run, self.attempt = run, attempt
        if checkpoint is not None:
            self._numbers.taken(checkpoint.checkpoint)

    def _restore(self, core: _core.StateRows, checkpoint: StateCheckpoint) -> None:
        core.restore(checkpoint.checkpoint, checkpoint.shards)
        if core.next_step != checkpoint.steps:
            raise CorruptError(
                f"checkpoint {checkpoint.checkpoint} of table '{self.name}' is of step {core.next_step}, and its state says "
                f"{checkpoint.steps}; give what save() gave"
            )

    def _require_same(self, mine: Mapping[str, Any] | None, of_rank_0: Mapping[str, Any] | None) -> None:
        if json.dumps(mine, sort_keys=True) == json.dumps(of_rank_0, sort_keys=True):
            return
        raise InvalidError(
            f"rank {self.rank} goes back to {_goal(mine)} of table '{self.name}', and rank 0 to {_goal(of_rank_0)}; give all ranks the "
            "state of one file"
        )

    def _require_rank_0(self, call: str) -> None:
        if self.rank != 0:
            raise InvalidError(f"{call}() is for rank 0, and this is rank {self.rank}; the servers do it for all ranks")

    def close(self) -> None:
        """Leaves the run: this rank brings no more steps, and who waits for them hears so. The servers keep the table."""
        self._end(None)

    def _end(self, seconds: float | None) -> None:
        self._lookups.clear()
        self._core.close(seconds)

    leave = close

    def __enter__(self) -> DistEmbedding:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __deepcopy__(self, memo: object) -> DistEmbedding:
        raise InvalidError("a DistEmbedding cannot be copied: its rows lie at their owners, once; open it again in another process")

    def __reduce__(self) -> str:
        raise InvalidError("a DistEmbedding cannot be pickled: its rows lie at their owners; open it in each process")

    def extra_repr(self) -> str:
        return f"{self.name!r}, {self.node_type!r}, {self.num_rows}, {self.dim}, optimizer={self.optimizer!r}"


def _goal(state: Mapping[str, Any] | None) -> str:
    return "the first values" if state is None else f"checkpoint {state['checkpoint']} of attempt {state['attempt']}"


def _run_of(world_size: int, group: Any) -> int:
    """The number of this run. It is one for the process group, through its store: no collective, and nobody waits."""
    global _run
    if world_size == 1:
        if _run is None or _run[0] != os.getpid():
            _run = os.getpid(), _new_run()
        return _run[1]
    if group is None or group.get_world_size() != world_size:
        raise InvalidError(f"run is missing: there is no process group of {world_size} ranks to agree on one; give all ranks of the run the same number")
    return int(group_store().compare_set("state/run", "", str(_new_run())))


def _new_run() -> int:
    return secrets.randbits(63) | 1


__all__ = ["DistEmbedding"]
