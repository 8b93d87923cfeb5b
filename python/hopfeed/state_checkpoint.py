"""A checkpoint of a table at servers, as Python keeps it: a dict of numbers and texts, which names the files of the servers."""

from __future__ import annotations

import operator
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from hopfeed.errors import InvalidError
from hopfeed.switches import is_switch

Shard = tuple[int, int, int, int]  # first partition, rows, bytes, xxh3

_KEYS = ("table", "dataset", "run", "attempt", "checkpoint", "steps", "shards")
_SHARD = ("first_partition", "rows", "bytes", "xxh3")
_2024 = 1_704_067_200  # seconds since 1970
_LAST_ATTEMPT = 2**32 - 2  # another one follows


class StateCheckpoint(NamedTuple):
    """What ``save()`` gives, read: which run's, its number, the steps that it has, and the shards of all owners.

    The dict is for the user's own file, whose renaming is the commit: shards that no file names are nothing.
    """

    table: str
    dataset: str
    """Its fingerprint."""
    run: int
    attempt: int
    checkpoint: int
    steps: int
    shards: list[Shard]

    def to_dict(self) -> dict[str, Any]:
        """Plain: JSON, pickle and ``torch.load(weights_only=True)`` take it."""
        return self._asdict() | {"shards": [dict(zip(_SHARD, (*shard[:3], f"{shard[3]:016x}"))) for shard in self.shards]}

    @classmethod
    def of(cls, state: Any, table: str, dataset: str) -> StateCheckpoint:
        """Reads what ``save()`` gave, of this table.

        Raises:
            InvalidError: it is no such dict, or of another table or dataset.
        """
        if not isinstance(state, Mapping) or set(state) != set(_KEYS):
            shown = f"a {type(state).__name__}" if not isinstance(state, Mapping) else f"a dict of {', '.join(map(str, state)) or 'nothing'}"
            raise InvalidError(f"the state of table '{table}' is {shown}; give what its save() gave")
        for key, is_ours in (("table", table), ("dataset", dataset)):
            if state[key] != is_ours:
                raise InvalidError(f"the state is of {key} {state[key]!r}, and this is {key} {is_ours!r}; give the state of this one")
        numbers = {key: _number(f"state[{key!r}]", state[key], most) for key, most in _MOST.items()}
        if numbers["run"] == 0:
            raise InvalidError("state['run'] is 0; give what save() gave")
        return cls(table=table, dataset=dataset, **numbers, shards=_shards(state["shards"]))

    def attempt_after(self, last: int = 0) -> int:
        """One behind this and the last."""
        return attempt_after(max(self.attempt, last))


def attempt_after(last: int) -> int:
    """Attempts of a run rise, also where a process that has died has told nobody of its last one."""
    return max(last + 1, int(time.time()) - _2024)


_MOST = {"run": 2**64 - 1, "attempt": _LAST_ATTEMPT, "checkpoint": 2**63 - 1, "steps": 2**62}


def _shards(given: Any) -> list[Shard]:
    if not isinstance(given, Sequence) or not given or not all(isinstance(shard, Mapping) and set(shard) == set(_SHARD) for shard in given):
        raise InvalidError("state['shards'] names no shards; give what save() gave")
    shards = []
    for shard in given:
        first_partition, rows, size = (_number(f"{name} of a shard", shard[name], 2**63 - 1) for name in _SHARD[:3])
        text = shard["xxh3"]
        if not isinstance(text, str) or len(text) != 16 or not set(text) <= set("0123456789abcdef"):
            raise InvalidError(f"xxh3 of a shard is {text!r}; give what save() gave")
        shards.append((first_partition, rows, size, int(text, 16)))
    return shards


def numbers_to_keep(given: Any) -> list[int]:
    """Raises ``InvalidError`` for what are no numbers of checkpoints."""
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise InvalidError(f"checkpoints are {given!r} ({type(given).__name__}); give a list of numbers")
    return [_number("a checkpoint", number, 2**63 - 1) for number in given]


def _number(name: str, given: Any, most: int) -> int:
    try:
        number = -1 if is_switch(given) else operator.index(given)
    except TypeError:
        number = -1
    if not 0 <= number <= most:
        hint = "give a whole number from 0 on" if "checkpoint" in name and "state" not in name else "give what save() gave"
        raise InvalidError(f"{name} is {given!r}; {hint}")
    return number


class Numbers:
    """The numbers of the checkpoints of one table, as its process gives them: they rise, since a checkpoint that a file names must
    not be written again."""

    def __init__(self, table: str) -> None:
        self._table, self._last = table, -1

    def next(self, given: int | None) -> int:
        """The one that is written now. Raises ``InvalidError`` for one that is not above the last."""
        if given is None:
            return self._last + 1
        number = _number("checkpoint", given, 2**63 - 1)
        if number <= self._last:
            raise InvalidError(
                f"checkpoint {number} of table '{self._table}' is not above {self._last}, which a file may name; give a higher number, "
                "or none"
            )
        return number

    def taken(self, checkpoint: int) -> None:
        """It was written, or gone back to."""
        self._last = max(self._last, checkpoint)
