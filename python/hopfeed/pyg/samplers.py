"""Torch's samplers, read as hopfeed's options: in what order seeds come, and which rank gets which.

Lightning hands loaders such samplers when it builds them again: a ``DistributedSampler`` where several devices train, a
sequential one where it wants no shuffle, and for predictions a batch sampler around one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch.utils.data import BatchSampler, DistributedSampler, RandomSampler, Sampler, SequentialSampler, WeightedRandomSampler

from hopfeed.errors import InvalidError, UnsupportedError
from hopfeed.loader import as_array

Options = dict[str, Any]

# Lightning's own samplers wrap another, or leave out what torch's pads; hopfeed does as much.
_LIGHTNING = {"lightning", "pytorch_lightning", "lightning_fabric"}


def options_of(sampler: Any, num_seeds: int) -> Options:
    """``shuffle``, and where the sampler says so ``seed_weights``, ``rank`` and ``world_size``.

    Raises:
        UnsupportedError: a sampler of another kind, or with an order of its own. InvalidError: one of another number of seeds.
    """
    if _is(sampler, DistributedSampler):
        return _distributed(sampler, num_seeds)
    if _is(sampler, SequentialSampler):
        _check_length(sampler.data_source, num_seeds)
        return {"shuffle": False}
    if getattr(sampler, "generator", None) is not None:
        raise UnsupportedError("sampler has a generator; the order comes from seed= (and the epoch), so that it is the same on every machine")
    if _is(sampler, RandomSampler) and not sampler.replacement and sampler.num_samples == num_seeds:
        return {"shuffle": True}
    if _is(sampler, RandomSampler) and sampler.replacement and sampler.num_samples == num_seeds:
        return {"shuffle": True, "seed_weights": np.ones(num_seeds)}
    return {"shuffle": True, "seed_weights": _weights(sampler, num_seeds)}  # shuffle is of the draws


def _is(sampler: Any, kind: type[Sampler[Any]]) -> bool:
    """Whether it is one of torch's: no subclass that comes to other positions, or to another number of them."""
    return isinstance(sampler, kind) and all(_is_torchs(sampler, kind, method) for method in ("__iter__", "__len__"))


def _is_torchs(sampler: Any, kind: type[Sampler[Any]], method: str) -> bool:
    owner = next(one for one in type(sampler).__mro__ if method in vars(one))
    return owner is kind or owner.__module__.split(".")[0] in _LIGHTNING


def _weights(sampler: Any, num_seeds: int) -> np.ndarray[Any, Any]:
    """The weights of an ``ImbalancedSampler`` (or ``WeightedRandomSampler``), which hopfeed draws by itself."""
    if not _is(sampler, WeightedRandomSampler) or not sampler.replacement or sampler.num_samples != num_seeds:
        raise UnsupportedError(
            f"sampler is {type(sampler).__name__}; hopfeed knows torch's own DistributedSampler, SequentialSampler, RandomSampler, "
            f"ImbalancedSampler and WeightedRandomSampler with replacement, and as many draws as seeds ({num_seeds}), and no subclass that "
            "iterates otherwise. For another order give input_nodes= in it, with shuffle=False"
        )
    array = as_array("sampler.weights", sampler.weights, np.float64, 1)
    if len(array) != num_seeds:
        raise InvalidError(f"sampler has {len(array)} weights; there are {num_seeds} seeds")
    return array


def of_batch_sampler(batch_sampler: Any) -> Options:
    """``sampler``, ``batch_size`` and ``drop_last`` of torch's own batch sampler, or of a wrapper of Lightning's around it.

    Raises:
        UnsupportedError: it is another.
    """
    inner = getattr(batch_sampler, "_batch_sampler", batch_sampler)
    if type(inner) is not BatchSampler:
        raise UnsupportedError(
            f"batch_sampler is a {type(batch_sampler).__name__}; batches are cut from the order by position: give batch_size=, shuffle= and seed="
        )
    return {"sampler": inner.sampler, "batch_size": inner.batch_size, "drop_last": inner.drop_last}


def _distributed(sampler: DistributedSampler[Any], num_seeds: int) -> Options:
    """Its rank and number of replicas. No seed comes twice, where torch's sampler pads."""
    _check_length(sampler.dataset, num_seeds)
    inner = getattr(sampler.dataset, "_sampler", None)  # Lightning's wrapper around another sampler, which has the order
    order = {"shuffle": bool(sampler.shuffle)} if inner is None else options_of(inner, num_seeds)
    return order | {"rank": sampler.rank, "world_size": sampler.num_replicas}


def _check_length(source: Any, num_seeds: int) -> None:
    if len(source) != num_seeds:
        raise InvalidError(f"sampler is of {len(source)} positions, and there are {num_seeds} seeds; make it of range({num_seeds})")


def placed_by(sampler: Options, placed: Options) -> Options:
    """Takes rank and world_size out of ``sampler``. Raises ``InvalidError`` where ``placed`` has others."""
    told = {name: sampler.pop(name) for name in ("rank", "world_size") if name in sampler}
    given = {name: placed[name] for name in told}
    if told and given not in (told, {"rank": None, "world_size": None}):
        raise InvalidError(
            f"sampler is of rank {told['rank']} of {told['world_size']}, and the loader of rank {given['rank']} of {given['world_size']}; say it once"
        )
    return told


def epoch_of(sampler: Any) -> int | None:
    """What ``set_epoch`` was called with; None where the sampler has no epochs."""
    return int(sampler.epoch) if isinstance(sampler, DistributedSampler) else None


def begin_to_note(batch_sampler: Any) -> list[Any] | None:
    """A new list for the positions of each batch, where Lightning looks for them; None where nobody does."""
    if not hasattr(batch_sampler, "_batch_sampler"):
        return None
    batch_sampler.seen_batch_indices = seen = []
    return seen
