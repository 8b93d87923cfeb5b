"""Learned rows at the servers that own a graph's partitions: a torch module without parameters of its own."""

from __future__ import annotations

import os
import secrets
from typing import Any

import numpy as np
import torch

from hopfeed import _core
from hopfeed.errors import InvalidError
from hopfeed.ranks import process_group
from hopfeed.state import Owners, core_of, id_array, whole
from hopfeed.switches import is_switch

OPTIMIZERS = ("sparse_adam", "adagrad", "row_wise_adagrad", "sgd")

_run: tuple[int, int] | None = None  # of the process of that number


class DistEmbedding(torch.nn.Module):
    """A learned row for each node of a type, at the servers that own the partitions, with the optimizer's state beside it. The
    machines of the trainers hold none of it, so it may be larger than any of them.

    All ranks of a run learn it together, step by step. A step of theirs moves the rows that their batches read, and no other::

        emb = hopfeed.torch.DistEmbedding(owners, "papers", "paper", 64, lr=0.01)
        for batch in loader:                       # dataset_ids=True
            x = emb(batch.n_id)
            loss(model(x, batch)).backward()
            emb.step()

    Each rank calls ``step()`` once in each step, also where it has learned nothing: the others wait for it. The step's gradient
    is the mean over the ranks. Sums are made in the order of lookups, then in that of ranks, so rows have the same bits over any
    number of servers. There are no parameters: torch's optimizers and ``DistributedDataParallel`` leave the rows alone.

    **Ids are dataset ids**: those that a loader gives in ``n_id`` with ``dataset_ids=True``.

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
        table = {
            "name": name, "node_type": node_type, "width": whole("dim", dim), "first_values": "uniform", "seed": whole("seed", seed),
            "optimizer": optimizer, "lr": float(lr), "beta1": float(beta1), "beta2": float(beta2), "epsilon": float(epsilon),
        }  # fmt: skip
        self.run = _run_of(world_size, group) if run is None else whole("run", run)
        self._core = _core.StateRows(core_of(owners), table, self.run, whole("attempt", attempt), rank, world_size, int(timeout * 1000))
        self.name, self.node_type, self.dim, self.optimizer = name, node_type, table["width"], optimizer
        self.rank, self.world_size = rank, world_size
        self._lookups: list[tuple[np.ndarray[Any, Any], torch.Tensor]] = []
        self._owners = owners  # it lives as long
        owners._add(self)

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

    def close(self) -> None:
        """Leaves the run: this rank brings no more steps, and who waits for them hears so. The servers keep the table."""
        self._lookups.clear()
        self._core.close()

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


def _run_of(world_size: int, group: Any) -> int:
    """The number of this run. It is one for the process group, through its store: no collective, and nobody waits."""
    global _run
    if world_size == 1:
        if _run is None or _run[0] != os.getpid():
            _run = os.getpid(), _new_run()
        return _run[1]
    if group is None or group.get_world_size() != world_size:
        raise InvalidError(f"run is missing: there is no process group of {world_size} ranks to agree on one; give all ranks of the run the same number")
    store = group.distributed_c10d._get_default_store()
    return int(store.compare_set("hopfeed/state/run", "", str(_new_run())))


def _new_run() -> int:
    return secrets.randbits(63) | 1


__all__ = ["DistEmbedding"]
