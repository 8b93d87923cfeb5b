"""Sampling servers (docs/servers.md) as named actors of Ray: one for each machine's partitions.

An actor watches a hopfeed-server. A program that dies is started again on the same port, and so is, by Ray, an actor that dies, whose
program dies with it. Clients meanwhile ask other servers, or wait for this one (docs/faults.md).
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hopfeed.errors import DeadlineError, Error, InvalidError, NotFoundError
from hopfeed.launch.cut import read_cut
from hopfeed.launch.errors import LaunchError
from hopfeed.launch.processes import die_with_parent
from hopfeed.programs import program
from hopfeed.ray.errors import one_line, require_ray

NAMESPACE = "hopfeed"  # of Ray, where these actors have their names: servers/NAME/NUMBER/ADDRESS
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_PAUSES = (0.1, 5.0)  # seconds between two starts: the first, and the longest
_KEPT_LINES = 5


@dataclass(frozen=True)
class Share:
    """What one machine has.

    Attributes:
        folder: of the dataset there.
        partitions: of them, the ones that its server answers for; without, all that are in the folder.
    """

    folder: str
    partitions: Sequence[int] | None = None


@dataclass
class Servers:
    """Servers that were started. Those that are not detached end with this object, or with its process.

    Attributes:
        name: that they are found by.
        addresses: for ``servers=`` of a loader.
    """

    name: str
    addresses: list[str]
    _actors: list[Any] = field(default_factory=list, repr=False)

    def stop(self) -> None:
        """As :func:`stop_servers`."""
        stop_servers(self.name)


class Watcher:
    """In an actor: keeps a program running until it is stopped.

    Args:
        arguments: of hopfeed-server.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        self._command = [program("hopfeed-server"), *arguments]
        self._listens, self._ending = threading.Event(), threading.Event()
        self._last: deque[str] = deque(maxlen=_KEPT_LINES)
        self._process: subprocess.Popen[str] | None = None
        self._starts = 0
        # The thread lives as long as this process: a program gets its signal when the thread ends that has started it.
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        pause = _PAUSES[0]
        while not self._ending.is_set():
            self._starts += 1
            self._process = process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", preexec_fn=die_with_parent
            )
            assert process.stdout is not None
            for line in process.stdout:
                self._last.append(line.strip())
                print(line, end="", file=sys.stderr, flush=True)
                if line.startswith("listening"):
                    self._listens.set()
                    pause = _PAUSES[0]
            process.wait()
            self._listens.clear()
            self._ending.wait(pause)
            pause = min(2 * pause, _PAUSES[1])

    def wait(self, within: float) -> str | None:
        """Waits until it listens; what it said where it does not, in ``within`` seconds or since it has ended twice."""
        until = time.monotonic() + within
        while not self._listens.wait(0.05):
            if self._starts > 2 or time.monotonic() > until:
                return self._last[-1].removeprefix("hopfeed-server: ") if self._last else "it says nothing"
        return None

    def state(self) -> dict[str, int]:
        """The process of the program, how often it was started, and this process."""
        return {"program": self._process.pid if self._process else 0, "starts": self._starts, "actor": os.getpid()}

    def node(self) -> str:
        """The node of Ray that this is on."""
        import ray

        return str(ray.get_runtime_context().get_node_id())

    def stop(self, grace: float) -> None:
        """SIGTERM, with which it delivers what it has promised, and once ``grace`` seconds are over SIGKILL."""
        self._ending.set()
        process = self._process
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            self._thread.join(grace)
            process.kill()
        self._thread.join()


def start_servers(
    dataset: str | os.PathLike[str],
    *,
    name: str = "servers",
    placement: Mapping[str, Share] | None = None,
    workers: int = 1,
    port: int = 9470,
    host: str | None = None,
    options: Sequence[str] = (),
    detached: bool = True,
    within: float = 300,
) -> Servers:
    """Starts a hopfeed-server on each of some nodes, and waits until all of them listen.

    Args:
        dataset: its folder, which all nodes see.
        name: that they are found by, of letters, digits and ``._-``.
        placement: by node id what each has, where it is not the one folder. Without, each living node has a server: with as many of
            the dataset's partitions as the others where there are enough of them, or else with the whole dataset.
        workers: sampling workers of each server, which take as many CPUs of Ray.
        port: of the first server of a machine; more of them have the next ones.
        host: that servers listen on in place of their node's address: ``127.0.0.1`` where all is on one machine.
        options: more of hopfeed-server's: beyond a machine it wants ``--token-file``, ``--tls-cert`` and ``--tls-key``, or
            ``--insecure``.
        detached: whether they stay when this process ends.
        within: seconds that they have to listen.

    Raises:
        InvalidError: Ray is not installed, servers of that name are there, or a node is not.
        DeadlineError: one does not listen in time; Error: what a program says that ends.
    """
    ray = require_ray()
    if not _NAME.fullmatch(name):
        raise InvalidError(f"the name '{name}' of servers is not of letters, digits and ._-")
    with one_line():
        if not ray.is_initialized():
            ray.init(log_to_driver=False)
        if servers(name):
            raise InvalidError(f"there are servers '{name}' already, at {', '.join(servers(name))}; stop_servers('{name}') ends them")
        nodes = {node["NodeID"]: str(node["NodeManagerAddress"]) for node in ray.nodes() if node["Alive"]}
        shares = dict(placement) if placement is not None else _shares(str(dataset), list(nodes))
        for node in shares:
            if node not in nodes:
                raise InvalidError(f"Ray has no living node '{node}'; it has {', '.join(nodes)}")
        addresses = _addresses([host or nodes[node] for node in shares], port)
        started = Servers(name, addresses)
        try:
            for number, (node, share) in enumerate(shares.items()):
                started._actors.append(_actor(ray, f"servers/{name}/{number}/{addresses[number]}", node, detached, workers, [
                    "--data", share.folder, "--listen", addresses[number], "--num-workers", str(workers), *_peers(share, addresses), *options
                ]))  # fmt: skip
            _await(ray, started, within)
        except BaseException:
            for actor in started._actors:
                ray.kill(actor, no_restart=True)
            raise
        return started


def _shares(folder: str, nodes: list[str]) -> dict[str, Share]:
    try:
        count = read_cut(folder).partitions
    except LaunchError as error:
        raise NotFoundError(str(error).removeprefix("--data: ")) from None
    if len(nodes) == 1 or count < len(nodes):
        return {node: Share(folder) for node in nodes}
    return {node: Share(folder, range(at * count // len(nodes), (at + 1) * count // len(nodes))) for at, node in enumerate(nodes)}


def _addresses(hosts: Sequence[str], port: int) -> list[str]:
    return [f"[{host}]:{port + hosts[:at].count(host)}" if ":" in host else f"{host}:{port + hosts[:at].count(host)}" for at, host in enumerate(hosts)]


def _peers(share: Share, addresses: Sequence[str]) -> list[str]:
    if share.partitions is None:
        return []
    return ["--partitions", ",".join(map(str, share.partitions)), "--peers", ",".join(addresses)]


def _actor(ray: Any, name: str, node: str, detached: bool, workers: int, arguments: list[str]) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return ray.remote(Watcher).options(
        name=name, namespace=NAMESPACE, lifetime="detached" if detached else None, num_cpus=workers, max_restarts=-1, max_task_retries=-1,
        max_concurrency=4, scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=node, soft=False),
    ).remote(arguments)  # fmt: skip


def _await(ray: Any, started: Servers, within: float) -> None:
    until = time.monotonic() + within
    waits = [actor.wait.remote(within) for actor in started._actors]
    for address, wait in zip(started.addresses, waits):
        try:
            why = ray.get(wait, timeout=max(0.0, until - time.monotonic()) + 5)
        except ray.exceptions.GetTimeoutError:
            raise DeadlineError(f"the server {address} did not start in {within:g} s: its node has no free CPUs, or no hopfeed") from None
        if why is not None:
            raise Error(f"the server {address} does not listen: {why}")


def _named(ray: Any, name: str) -> list[tuple[int, str, str]]:
    """The number, address and full name of each actor."""
    names = (each["name"] for each in ray.util.list_named_actors(all_namespaces=True) if each["namespace"] == NAMESPACE)
    parts = ((full.split("/", 3), full) for full in names if full.startswith(f"servers/{name}/"))
    return sorted((int(number), address, full) for (_, _, number, address), full in parts)


def servers(name: str = "servers") -> list[str]:
    """Addresses of the servers of that name, for ``servers=`` of a loader; none where there are none."""
    ray = require_ray()
    with one_line():
        return [address for _, address, _ in _named(ray, name)]


def stop_servers(name: str = "servers", *, grace: float = 30) -> None:
    """Ends the servers of that name: they deliver what they have promised, for up to ``grace`` seconds."""
    ray = require_ray()
    with one_line():
        actors = [ray.get_actor(full, namespace=NAMESPACE) for _, _, full in _named(ray, name)]
        stops = [actor.stop.remote(grace) for actor in actors]
        ray.wait(stops, num_returns=len(stops), timeout=grace + 5) if stops else None
        for actor in actors:
            ray.kill(actor, no_restart=True)
