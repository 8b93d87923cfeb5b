"""hopfeed.infer over machines that have some partitions each: the rows of one machine that has all, whatever is killed meanwhile."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import hopfeed
from hopfeed.programs import program
from conftest import partition
from state_owners import start

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from machine_models import MODELS, call  # noqa: E402
from test_infer import users, weighted  # noqa: E402, F401
from test_results import content  # noqa: E402

PARTS = {"weighted": [[0, 2], [1]], "users": [[0], [1]], "small": [[0, 2], [1]], "twice": [[0, 2], [1]], "one-way": [[0], [1]], "one-item": [[0], [1]]}
DEADLINE = 300


FORKS = """
import os, signal, sys
import machine_models

arguments, run = sys.argv[1:], None
for line in sys.stdin:
    word, _, out = line.strip().partition(" ")
    if word == "begin":
        run = os.fork()
        if run == 0:
            code = 1
            try:
                machine_models.main(arguments[0], arguments[1], out, *arguments[2:])
                code = 0
            except BaseException as error:
                print(repr(error), file=sys.stderr, flush=True)
            os._exit(code)
        continue
    if word == "kill":
        os.kill(run, signal.SIGKILL)
    print(os.waitstatus_to_exitcode(os.waitpid(run, 0)[1]), flush=True)
"""


class Forks:
    """A machine's runs, one behind the other: forks of a process that has Torch."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def begin(self, out: Path) -> None:
        self._say(f"begin {out}")

    def wait(self) -> int:
        """Its exit code."""
        return self._ended("wait")

    def kill(self) -> bool:
        """Whether it was not over before."""
        return self._ended("kill") == -signal.SIGKILL

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _ended(self, word: str) -> int:
        self._say(word)
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()


class Machines:
    """Two machines with a folder each, whose partitions are cut from one; a server of each, and what they infer.

    Attributes:
        folders: of the datasets.
        outs: of what is written.
        results: of the rows between layers.
    """

    def __init__(self, which: str, whole: Path, folder: Path, environment: dict[str, str]) -> None:
        self._which, self._environment, self._folder = which, environment, folder
        self.folders, self.outs, self.results = ([folder / f"{name}{i}" for i in range(2)] for name in ("data", "out", "results"))
        self._addresses = [f"unix:{folder}/server{i}" for i in range(2)]
        for mine, others in zip(self.folders, (PARTS[which][1], PARTS[which][0])):
            shutil.copytree(whole, mine, ignore=shutil.ignore_patterns(*(f"part-{part:04d}" for part in others)))
        self.servers = [self.served(i) for i in range(2)]

    def served(self, i: int) -> subprocess.Popen[str]:
        own = ",".join(map(str, PARTS[self._which][i]))
        Path(self._addresses[i].removeprefix("unix:")).unlink(missing_ok=True)
        more = ["--peers", ",".join(self._addresses), "--results", self.results[i], "--num-workers", 1]
        return start(self.folders[i], self._addresses[i], own, *more)

    def infers(self, i: int, out: Path | None = None) -> subprocess.Popen[str]:
        words = [self._which, self.folders[i], out or self.outs[i], self.results[i], ",".join(self._addresses)]
        log = open(self._folder / f"log{i}", "a")
        script = Path(__file__).parent / "machine_models.py"
        return subprocess.Popen([sys.executable, script, *map(str, words)], env=self._environment, stdout=log, stderr=log)

    def forks(self, i: int) -> Forks:
        words = [self._which, self.folders[i], self.results[i], ",".join(self._addresses)]
        environment = self._environment | {"PYTHONPATH": f"{self._environment['PYTHONPATH']}:{Path(__file__).parent}"}
        log = open(self._folder / f"log{i}", "a")
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log, "text": True}
        return Forks(subprocess.Popen([sys.executable, "-c", FORKS, *map(str, words)], env=environment, **pipes))  # type: ignore[call-overload]

    def log(self, i: int) -> str:
        return (self._folder / f"log{i}").read_text()

    def close(self) -> None:
        for server in self.servers:
            server.kill()
            server.wait()


def inferred(which: str, whole: Path, out: Path, environment: dict[str, str]) -> Path:
    """By one machine that has all partitions."""
    script = Path(__file__).parent / "machine_models.py"
    subprocess.run([sys.executable, script, which, whole, out], env=environment, check=True, timeout=DEADLINE)
    return out


@pytest.mark.parametrize("which", ["weighted", "users"])
def test_EachMachinesRows_AreThoseOfOne(which: str, request: pytest.FixtureRequest, tmp_path: Path, environment: dict[str, str]) -> None:
    whole: Path = request.getfixturevalue(which)
    one = inferred(which, whole, tmp_path / "one", environment)
    machines = Machines(which, whole, tmp_path, environment)
    try:
        running = [machines.infers(i) for i in range(2)]
        for i, process in enumerate(running):
            assert process.wait(DEADLINE) == 0, machines.log(i)
        end = time.monotonic() + 60
        while any((folder / "run.json").exists() for folder in machines.results) and time.monotonic() < end:
            time.sleep(0.1)
        assert not [path for folder in machines.results for path in folder.rglob("*.rows")]  # all was fetched, and goes
    finally:
        machines.close()
    for name in MODELS[which]:
        alone, parts = hopfeed.read_results(one / name), [hopfeed.read_results(out / name, verify=True) for out in machines.outs]
        assert [part.manifest["partitions"] for part in parts] == PARTS[which]
        for node_type in alone.node_types:
            found, wanted = [part.of(node_type) for part in parts], alone.of(node_type)
            assert sorted([*found[0].ids, *found[1].ids]) == wanted.ids.tolist()
            for of in found:
                assert of.dtype == wanted.dtype and len(of)
                np.testing.assert_array_equal(of.array(), wanted[of.ids])
        words = [program("hopfeed-partition"), "gather", *(out / name for out in machines.outs), "--out", tmp_path / f"{name}.npy"]
        if len(alone.node_types) == 1:
            subprocess.run([str(word) for word in words], check=True)
            np.testing.assert_array_equal(np.load(tmp_path / f"{name}.npy"), alone.array())


def test_KilledProcesses_EndWithTheSameBytes(cut: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    """Runs are forks of a process that has Torch, so that kills fall into what they compute."""
    machines, chance = Machines("small", cut, tmp_path, environment), random.Random(4)
    forks = [machines.forks(i) for i in range(2)]
    try:
        for _ in range(2):  # the first one imports
            for i, fork in enumerate(forks):
                shutil.rmtree(tmp_path / f"undisturbed{i}", ignore_errors=True)
                fork.begin(tmp_path / f"undisturbed{i}")
            begin = time.monotonic()
            assert [fork.wait() for fork in forks] == [0, 0], [machines.log(i) for i in range(2)]
        lasts, kills = time.monotonic() - begin, {"server": 0, "run": 0}
        while sum(kills.values()) < 20 or min(kills.values()) < 5:
            for fork, out in zip(forks, machines.outs):
                shutil.rmtree(out, ignore_errors=True)
                fork.begin(out)
            for _ in range(3):
                time.sleep(chance.uniform(0, 0.7) * lasts)
                i = chance.randrange(2)
                if chance.random() < 0.6:
                    kills["run"] += forks[i].kill()
                    forks[i].begin(machines.outs[i])
                else:
                    kills["server"] += any(not (out / "sage/manifest.json").exists() for out in machines.outs)
                    machines.servers[i].kill()
                    machines.servers[i].wait()
                    machines.servers[i] = machines.served(i)
            assert [fork.wait() for fork in forks] == [0, 0], [machines.log(i) for i in range(2)]
            for i in range(2):
                assert content(machines.outs[i]) == content(tmp_path / f"undisturbed{i}")
            assert time.monotonic() < begin + DEADLINE, kills
    finally:
        for fork in forks:
            fork.close()
        machines.close()


def test_KilledInTheSecondCall_GoesOnWithoutTheFirst(cut: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    machines = Machines("twice", cut, tmp_path, environment)
    forks = [machines.forks(i) for i in range(2)]
    try:
        for i, fork in enumerate(forks):
            fork.begin(tmp_path / f"undisturbed{i}")
        assert [fork.wait() for fork in forks] == [0, 0], [machines.log(i) for i in range(2)]
        for i in (0, 1, 0, 1):
            for fork, out in zip(forks, machines.outs):
                shutil.rmtree(out, ignore_errors=True)
                fork.begin(out)
            end = time.monotonic() + 60
            while not list(machines.outs[i].glob("two/.work/stage-[12]")) and time.monotonic() < end:
                time.sleep(0.002)
            assert forks[i].kill()
            forks[i].begin(machines.outs[i])
            assert [fork.wait() for fork in forks] == [0, 0], [machines.log(i) for i in range(2)]
            for at in range(2):
                assert content(machines.outs[at]) == content(tmp_path / f"undisturbed{at}")
    finally:
        for fork in forks:
            fork.close()
        machines.close()


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two partitions, of which one has no neighbours in the other ("one-way"), or no node of a type ("one-item")."""
    folder, rng = tmp_path_factory.mktemp("uneven"), np.random.default_rng(3)
    ends = rng.integers(0, 100, (2, 900))
    into_first = np.stack([rng.integers(100, 200, 300), rng.integers(0, 100, 300)])  # from the other half
    np.save(folder / "edges.npy", np.concatenate([ends, ends + 100, into_first], 1))
    np.save(folder / "x.npy", rng.standard_normal((200, 4), np.float32))
    (folder / "one-way.json").write_text(
        '{"name": "one-way", "nodes": [{"name": "node", "features": "x.npy"}], "edges": [{"src": "node", "rel": "to", "dst": "node", "index": "edges.npy"}]}'
    )
    np.save(folder / "user.npy", rng.standard_normal((200, 5), np.float32))
    np.save(folder / "item.npy", rng.standard_normal((1, 7), np.float32))
    for name, sources, destinations in (("likes", 200, 1), ("liked", 1, 200), ("knows", 200, 200)):
        np.save(folder / f"{name}.npy", np.stack([rng.integers(0, sources, 600), rng.integers(0, destinations, 600)]))
    (folder / "one-item.json").write_text(
        '{"name": "one-item", "nodes": [{"name": "user", "features": "user.npy"}, {"name": "item", "features": "item.npy"}],'
        ' "edges": [{"src": "user", "rel": "likes", "dst": "item", "index": "likes.npy"},'
        ' {"src": "item", "rel": "liked", "dst": "user", "index": "liked.npy"},'
        ' {"src": "user", "rel": "knows", "dst": "user", "index": "knows.npy"}]}'
    )
    for name in ("one-way", "one-item"):
        partition("import", "numpy", folder / name, "--hetero", folder / f"{name}.json")
        partition("partition", folder / name, folder / f"{name}-cut", "--parts", 2)
    return {name: folder / f"{name}-cut" for name in ("one-way", "one-item")}


@pytest.mark.parametrize("which", ["one-way", "one-item"])
@pytest.mark.parametrize("first", [0, 1])
def test_MachinesThatNeedNothingOfEachOther_LeaveNothing(uneven: dict[str, Path], which: str, first: int, tmp_path: Path, environment: dict[str, str]) -> None:
    """Two calls, where one machine begins long before the other."""
    one = inferred(which, uneven[which], tmp_path / "one", environment)
    machines = Machines(which, uneven[which], tmp_path, environment)
    try:
        running = [machines.infers(first)]
        time.sleep(5)
        running.append(machines.infers(1 - first))
        for process in running:
            assert process.wait(DEADLINE) == 0, [machines.log(i) for i in range(2)]
        end = time.monotonic() + 60
        while any((folder / "run.json").exists() for folder in machines.results) and time.monotonic() < end:
            time.sleep(0.1)
        assert not [path for folder in machines.results for path in folder.rglob("*") if path.name not in (".lock", "ended.json")]
    finally:
        machines.close()
    for name in MODELS[which]:
        for out in machines.outs:
            for node_type in hopfeed.read_results(one / name).node_types:
                of, wanted = (hopfeed.read_results(folder, node_type) for folder in (out / name, one / name))
                np.testing.assert_array_equal(of.array(), wanted[of.ids])


def test_RefusedOverwrite_KeepsWhatWasFinished(cut: Path, tmp_path: Path) -> None:
    layers, arguments = call("small", "sage")
    rows = hopfeed.infer(layers, cut, tmp_path / "out", results=tmp_path / "results", progress=False).array()
    held = hopfeed._core.RunFolder(str(tmp_path / "results"), "1" * 32, "{}", False)
    with pytest.raises(hopfeed.BusyError, match="another run computes in .*/results; wait for it, or give another folder"):
        hopfeed.infer(layers, cut, tmp_path / "out", results=tmp_path / "results", progress=False, overwrite=True)
    held.let_go()
    assert np.array_equal(hopfeed.read_results(tmp_path / "out", verify=True).array(), rows) and sorted(os.listdir(tmp_path / "out")) == ["embeddings", "manifest.json"]


def test_WhatAMachineLacks_IsOneLine(cut: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    machines = Machines("small", cut, tmp_path, environment)
    layers, _ = call("small", "sage")
    peers = [f"unix:{tmp_path}/server{i}" for i in range(2)]
    mine = {"data": machines.folders[0], "out": tmp_path / "out", "progress": False}
    try:
        with pytest.raises(hopfeed.NotFoundError, match="data0 has no partition 1; give peers=, the servers that have the others, or a folder with all"):
            hopfeed.infer(layers, **mine)
        with pytest.raises(hopfeed.InvalidError, match="infer over several machines needs results=, a folder that"):
            hopfeed.infer(layers, **mine, peers=peers)
        with pytest.raises(hopfeed.NotFoundError, match=r"partition 1 is neither on this machine nor served by one of those named \(peers\)"):
            hopfeed.infer(layers, **mine, partitions=[0, 2], results=tmp_path / "results")
        with pytest.raises(hopfeed.NotFoundError, match="partitions has 1, and .*/data0 has no part-0001; give those that are here"):
            hopfeed.infer(layers, **mine, peers=peers, partitions=[1], results=tmp_path / "results")
        with pytest.raises(hopfeed.InvalidError, match="peers are given, and .* has all partitions; give partitions=, those whose rows this machine computes"):
            hopfeed.infer(layers, cut, tmp_path / "out", progress=False, peers=peers, results=tmp_path / "results")
        for given in (3, "", "a\0b"):
            with pytest.raises(hopfeed.InvalidError, match="results is .*; give the path of a folder"):
                hopfeed.infer(layers, **mine, peers=peers, results=given)
        with pytest.raises(hopfeed.InvalidError, match="peers is given without out; a machine writes its own partitions' rows: give out="):
            hopfeed.infer(layers, machines.folders[0], peers=peers, results=tmp_path / "results")
        with pytest.raises(hopfeed.InvalidError, match="results='.*/out/r' and out='.*/out' are one in the other; give results= a folder of its own"):
            hopfeed.infer(layers, **mine, peers=peers, results=tmp_path / "out" / "r")
        with pytest.raises((hopfeed.InvalidError, TypeError), match="peer_dedline"):
            hopfeed.infer(layers, **mine, peers=peers, results=tmp_path / "r", peer_dedline=3)
        with pytest.raises(hopfeed.DeadlineError, match=r"nobody computes rows of partition 1 at unix:.*/server1, for 500 ms \(peer_deadline\); start the same run there"):
            hopfeed.infer(layers, **mine, peers=peers, results=machines.results[0], peer_deadline=0.5)
        assert not (tmp_path / "out" / "manifest.json").exists()
        machines.servers[1].kill()
        machines.servers[1].wait()
        with pytest.raises(hopfeed.DeadlineError, match="peer_connect_timeout|partition 1"):
            hopfeed.infer(layers, **mine, peers=peers, results=machines.results[0], peer_connect_timeout=0.5)
    finally:
        machines.close()


def test_AnotherRunThere_IsOneLine(cut: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    machines = Machines("small", cut, tmp_path, environment)
    other = torch.nn.Linear(8, 8)  # other parameters than those of the run there
    peers = [f"unix:{tmp_path}/server{i}" for i in range(2)]
    process = machines.infers(1)  # it waits for partitions 0 and 2
    try:
        end = time.monotonic() + 60
        while not (machines.results[1] / "run.json").exists() and time.monotonic() < end:
            time.sleep(0.05)
        with pytest.raises(hopfeed.InvalidError, match=r"server1 computes another run .*, for 500 ms \(peer_deadline\); start the same run on all"):
            hopfeed.infer(
                [lambda x, edge_index: other(x[1]), lambda x, edge_index: other(x[1])],
                machines.folders[0], tmp_path / "out", progress=False, peers=peers, results=machines.results[0],
                peer_deadline=0.5,
            )  # fmt: skip
        assert process.poll() is None and not (tmp_path / "out" / "manifest.json").exists()
    finally:
        process.kill()
        process.wait()
        machines.close()
