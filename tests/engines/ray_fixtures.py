"""A cluster of Ray on this machine: two raylets of one worker and a small object store each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_health_check_period_ms", "1000")  # a raylet that died is known to be dead sooner
os.environ.setdefault("RAY_health_check_failure_threshold", "8")
os.environ.setdefault("RAY_DATA_HASH_SHUFFLE_REDUCE_GET_TIMEOUT_S", "20")  # and so is what it takes along
os.environ.setdefault("HOPFEED_RAY_MADE_WITHIN", "30")

STORE = 150 << 20


def patiently(start: Callable[[], Any]) -> Any:
    """What ``start`` gives; a raylet gives itself 30 s to start, which a machine that does much else may not give it."""
    for _ in range(4):
        try:
            return start()
        except Exception as error:
            failed = error
    raise failed


class Machines:
    """The raylets; ``other`` is the one that may be killed."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        import hopfeed

        folders = [str(Path(__file__).parent), str(Path(hopfeed.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, folders))  # of the workers too
        head = {"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False, "resources": {"first": 8}}
        self.cluster = patiently(lambda: Cluster(initialize_head=True, head_node_args=head))
        self.other: Any = None
        self.bring_other()

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def bring_other(self) -> None:
        """Starts the second raylet, where it does not run."""
        if self.other is None:
            self.other = patiently(lambda: self.cluster.add_node(num_cpus=1, object_store_memory=STORE, resources={"other": 8}))

    def kill_other(self) -> None:
        """Kills the second raylet, and all that runs on it, as a machine that is lost."""
        self.cluster.remove_node(self.other, allow_graceful=False)
        self.other = None

    def end(self) -> None:
        self.cluster.shutdown()


@pytest.fixture(scope="module")  # not of the session: each file that imports it has one of its own
def _machines() -> Iterator[Machines]:
    import ray

    machines = Machines()
    ray.init(address=machines.address, log_to_driver=False)
    yield machines
    ray.shutdown()
    machines.end()


@pytest.fixture
def machines(_machines: Machines) -> Iterator[Machines]:
    """Two raylets that run, also where the test before has killed one."""
    _machines.bring_other()
    yield _machines


@pytest.fixture
def engine(machines: Machines) -> Any:
    from hopfeed.ray import RayCluster

    return RayCluster()


def once(folder: Path, name: str) -> bool:
    """Whether this is the first call with that name, of all processes."""
    try:
        (folder / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
