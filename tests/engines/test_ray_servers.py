"""Sampling servers as actors: the batches of worker mode, also where programs, actors and nodes' processes are killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ray_fixtures import Machines, _machines, machines  # noqa: F401

import hopfeed
import hopfeed.ray
from hopfeed.errors import Error, InvalidError, NotFoundError
from hopfeed.programs import program
from hopfeed.ray import Share, servers, start_servers, stop_servers

ARGUMENTS: dict[str, Any] = dict(fanouts=[4, 3], batch_size=20, seed=3)
DEADLINE = 60


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    make = ["generate", folder / "small", "--nodes", 2000, "--edges", 20000, "--features", 8, "--classes", 5, "--train-fraction", 0.25, "--seed", 1]
    for command in (make, ["partition", folder / "small", folder / "cut", "--parts", 2]):
        subprocess.run([program("hopfeed-partition"), *map(str, command)], check=True, capture_output=True)
    return folder / "cut"


@pytest.fixture(scope="module")
def expected(cut: Path) -> list[int]:
    with hopfeed.Loader(cut, num_workers=1, **ARGUMENTS) as local:
        return digests(local)


@pytest.fixture
def port() -> int:
    """The first of two that are free."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1]) - 1


@pytest.fixture(autouse=True)
def _ended(machines: Machines) -> Iterator[None]:  # noqa: F811
    yield
    stop_servers("test", grace=2)


def digests(loader: hopfeed.Loader) -> list[int]:
    return [batch.digest() for batch in loader]


def from_servers() -> list[int]:
    with hopfeed.Loader(servers=servers("test"), **ARGUMENTS) as remote:
        return digests(remote)


def states() -> list[dict[str, int]]:
    import ray

    return [ray.get(ray.get_actor(full, namespace="hopfeed").state.remote(), timeout=DEADLINE) for _, _, full in _named_actors()]


def _named_actors() -> list[tuple[int, str, str]]:
    import ray

    return sys.modules["hopfeed.ray.servers"]._named(ray, "test")  # type: ignore[no-any-return]


def test_each_node_has_its_partitions_and_clients_get_the_batches_of_worker_mode(machines: Machines, cut: Path, expected: list[int], port: int) -> None:  # noqa: F811
    import ray

    started = start_servers(cut, name="test", port=port, host="127.0.0.1", within=DEADLINE)
    assert started.addresses == servers("test") == [f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}"]
    assert from_servers() == expected
    nodes = {actor["node_id"] for actor in _alive()}
    assert nodes == {node["NodeID"] for node in ray.nodes() if node["Alive"]}
    with pytest.raises(InvalidError, match=r"there are servers 'test' already, at 127.0.0.1:\d+, .*stop_servers\('test'\) ends them$"):
        start_servers(cut, name="test")
    programs = [state["program"] for state in states()]
    started.stop()
    assert servers("test") == [] and not any(Path(f"/proc/{pid}").exists() for pid in programs)


def _alive() -> list[dict[str, str]]:
    import ray

    return [{"node_id": ray.get(ray.get_actor(full, namespace="hopfeed").node.remote())} for _, _, full in _named_actors()]


@pytest.mark.parametrize("which", ["program", "actor"])
def test_what_is_killed_comes_back_on_its_port(machines: Machines, cut: Path, expected: list[int], port: int, which: str) -> None:  # noqa: F811
    start_servers(cut, name="test", port=port, host="127.0.0.1", within=DEADLINE)
    for round_ in range(2):
        before = states()
        with hopfeed.Loader(servers=servers("test"), **ARGUMENTS) as remote:
            batches = iter(remote)
            found = [next(batches).digest()]
            os.kill(before[round_][which], signal.SIGKILL)
            found += [batch.digest() for batch in batches]
        assert found == expected
        until = time.monotonic() + DEADLINE
        while (after := states()[round_])["program"] in (0, before[round_]["program"]):
            assert time.monotonic() < until
            time.sleep(0.1)
        assert (after["actor"] == before[round_]["actor"]) == (which == "program")
    assert len(servers("test")) == 2 and from_servers() == expected


def test_a_placement_says_which_node_has_what(machines: Machines, cut: Path, expected: list[int], port: int) -> None:  # noqa: F811
    import ray

    first, other = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    started = start_servers(cut, name="test", port=port, host="127.0.0.1", placement={other: Share(str(cut), [0]), first: Share(str(cut), [1])}, within=DEADLINE)
    assert len(started.addresses) == 2 and [actor["node_id"] for actor in _alive()] == [other, first]
    assert from_servers() == expected
    with pytest.raises(InvalidError, match="Ray has no living node 'nowhere'"):
        start_servers(cut, name="others", placement={"nowhere": Share(str(cut))})


def test_what_cannot_start_is_one_line_and_leaves_nothing(machines: Machines, cut: Path, port: int, tmp_path: Path) -> None:  # noqa: F811
    with pytest.raises(NotFoundError, match=r"meta\.json"):
        start_servers(tmp_path / "none", name="test")
    with pytest.raises(Error, match=r"^the server 127.0.0.1:\d+ does not listen: [^\n]*nonsense[^\n]*$"):
        start_servers(cut, name="test", port=port, host="127.0.0.1", options=["--nonsense"], within=DEADLINE)
    with pytest.raises(Error, match=r"^the server 0.0.0.0:\d+ does not listen: [^\n]*(token|TLS)[^\n]*$"):
        start_servers(cut, name="test", port=port, host="0.0.0.0", within=DEADLINE)
    with pytest.raises(InvalidError, match="letters, digits"):
        start_servers(cut, name="a/b")
    assert servers("test") == []
