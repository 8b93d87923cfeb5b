"""What the ranks of one training tell each other of their loaders, through the store of the process group: never by a
collective, and nobody waits for anybody. Who comes first leaves a note, who comes later compares.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from hopfeed import no_seeds
from hopfeed.errors import InvalidError
from hopfeed.ranks import group_store, process_group

_made: Counter[int] = Counter()  # loaders that this process has made, by world size
_deals = 0  # those that all ranks of the group share
_warned = False

# What else a part of a spec is called.
_NAMES = {"fingerprint": "the dataset's fingerprint", "seeds.sha256": "the hash of the seeds", "seeds.node_type": "node_type", "seeds.split": "split"}


class Notice:
    """Of one loader. It is compared with what the other ranks made as their n-th too.

    The seeds: the n-th loader of that world size, so that a loader that only one rank makes meets no other. The deal: the
    n-th that is shared by all ranks of the group, of whatever world size. Where fewer share an epoch than the group has
    ranks, several models may be trained, and nobody knows which ranks belong together: such loaders are not compared.

    Args:
        spec: everything that decides the bytes of its batches.
        deal: ``batch_size``, ``drop_last``, ``rank``, ``world_size``.
    """

    def __init__(self, spec: Mapping[str, Any], deal: Mapping[str, Any]) -> None:
        global _deals
        self._spec, self._deal = spec, deal
        world = deal["world_size"]
        self._number = f"{world}/{_made[world]}"
        _made[world] += 1
        self._deal_number = _deals
        _deals += _all_share(world)
        self._posted = self._begun = self._agreed = False

    def post(self) -> None:
        """Where the loader is made: leaves the note of its deal and compares.

        Raises:
            InvalidError: the ranks share an epoch, and would make different batches.
        """
        self._ask(self._compare_deal)

    def begin(self) -> None:
        """Where an epoch begins. The first time it compares the seeds, and asks whether a later rank complained of the deal.

        Not before, since Lightning makes loaders that it does not iterate. Raises as :meth:`post`, and then each time.
        """
        if not self._begun:
            self._ask(self._compare_seeds)
        if not self._agreed:
            self._ask(self._complaint if self._posted else self._compare_deal)
            self._agreed = self._begun  # else there is no process group yet

    def _ask(self, compare: Callable[[Any], str]) -> None:
        store = _store()
        if store is None:
            return
        try:
            complaint = compare(store)
        except RuntimeError:  # of a store that ended with rank 0
            complaint = ""
        if complaint:
            raise InvalidError(complaint)

    def _compare_seeds(self, store: Any) -> str:
        """Warns where two ranks train on the same seeds in the same order: nobody shared them out."""
        global _warned
        self._begun = True
        group = process_group()
        world = self._deal["world_size"]
        if world == 1 and not self._spec["shuffle"] or world > 1 and world != group.get_world_size():
            return ""  # who evaluates wants all of them; ranks that hold parts of one model share their batches
        if self._spec["seeds"]["sha256"] == no_seeds.SHA256:
            return ""
        digest = hashlib.sha256(json.dumps(self._order(), sort_keys=True).encode()).hexdigest()
        mine = str(group.get_rank())
        other = store.compare_set(f"seeds/{self._number}/{digest}", "", mine).decode()
        if other == mine or _warned:
            return ""
        _warned = True
        warnings.warn(
            f"rank {mine} has the same seeds in the same order as rank {other}: both train on the same batches. Give the loader "
            "distributed=True (or rank= and world_size=), or hand each rank its own part of the seeds",
            stacklevel=5,
        )
        return ""

    def _order(self) -> dict[str, Any]:
        """What decides the seeds and their order."""
        spec = self._spec
        return {
            "dataset": spec["fingerprint"],
            "edge_type": spec["batch"].get("link"),
            "seeds": spec["seeds"],
            "seed": spec["seed"] if spec["shuffle"] else None,
            "rank": [self._deal["rank"], self._deal["world_size"]],
        }

    def _compare_deal(self, store: Any) -> str:
        """A line for the first difference from who came first, left for the others too; empty where there is none."""
        self._posted = True
        if not _all_share(self._deal["world_size"]):
            return ""
        parts = {name: value for name, value in self._deal.items() if name != "rank"} | _parts(self._spec)
        differing = _differing(store, f"deal/{self._deal_number}", parts)
        if not differing:
            return ""
        line = f"the ranks share an epoch and would make different batches of it: {differing}. Give the loaders of all ranks the same, and make them in the same order"
        store.compare_set(self._complaint_key(), "", line)
        return line

    def _complaint(self, store: Any) -> str:
        key = self._complaint_key()
        if not _all_share(self._deal["world_size"]) or not store.check([key]):
            return ""
        return str(store.get(key).decode())

    def _complaint_key(self) -> str:
        return f"deal/{self._deal_number}/complaint"


class OwnSeeds:
    """Of a loader whose seeds are one rank's own, as ``hopfeed.distributed`` shares them out: all else is to be the same at all ranks.

    The n-th of a rank that begins an epoch is compared with the n-th of others.

    Args:
        graph: what the graph is known by, and its cut.
        spec, deal: of the stream.
        seed: that all ranks are given.
    """

    _begun = 0  # of this process

    def __init__(self, graph: Mapping[str, Any], spec: Mapping[str, Any], deal: Mapping[str, Any], seed: int) -> None:
        own = ("seeds", "seed", "fingerprint")
        options = {name: value for name, value in spec.items() if name not in own} | {name: deal[name] for name in ("batch_size", "drop_last")}
        self._parts, self._key = {**graph, **_parts(options), "seed": seed}, ""

    def begin(self) -> None:
        """Where an epoch begins. Raises ``InvalidError`` where this rank differs from who came first, or, later on, another one does."""
        store = _store()
        if store is None:
            return
        try:
            if not self._key:
                self._key = f"own/{OwnSeeds._begun}"
                OwnSeeds._begun += 1
                differing = _differing(store, self._key, self._parts)
                if differing:
                    store.compare_set(f"{self._key}/complaint", "", differing)
            else:
                differing = str(store.get(f"{self._key}/complaint").decode()) if store.check([f"{self._key}/complaint"]) else ""
        except RuntimeError:  # of a store that ended with rank 0
            return
        if differing:
            what = "the ranks train on different graphs, or by different options"
            raise InvalidError(f"{what}: {differing}. Give all ranks the same, and begin loaders in the same order")


def _differing(store: Any, key: str, parts: Mapping[str, Any]) -> str:
    """What differs from who came first, who left a note under the key; empty where nothing does."""
    mine = process_group().get_rank()
    note = json.dumps({"rank": mine, "parts": parts}, sort_keys=True)
    first = json.loads(store.compare_set(key, "", note))
    return "; ".join(
        f"{_NAMES.get(name, name)} is {_shown(first['parts'].get(name))} at rank {first['rank']} and {_shown(parts.get(name))} at rank {mine}"
        for name in dict.fromkeys([*parts, *first["parts"]])
        if json.dumps(first["parts"].get(name), sort_keys=True) != json.dumps(parts.get(name), sort_keys=True)
    )


def _all_share(world: int) -> bool:
    """Whether all ranks of the group share an epoch that has so many. Before there is a group they do."""
    group = process_group()
    return world > 1 and (group is None or world >= group.get_world_size())


def _store() -> Any:
    """Of the default group; None where there is no group, or nobody else in it."""
    group = process_group()
    if group is None or group.get_world_size() == 1:
        return None
    try:
        return group_store()
    except (AttributeError, RuntimeError, ValueError):
        return None


def _parts(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A spec's values, flat, but the dataset's name, which may be a folder of this machine's."""
    flat: dict[str, Any] = {}

    def add(name: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for key, inner in value.items():
                add(f"{name}.{key}" if name and name != "batch" else key, inner)
        else:
            flat[name] = value

    add("", {name: value for name, value in spec.items() if name not in ("dataset", "version")})
    return flat


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
