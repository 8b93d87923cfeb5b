"""hopfeed-launch over sshd, on hosts that are namespaces: what trainers are given, what ends with what, and each bad input in one line."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hopfeed.launch.plan import TRAINERS
from hopfeed.programs import program
from ssh_hosts import NETWORK, SshHost, SshHosts, why_not

if why_not():
    pytest.skip(why_not(), allow_module_level=True)

DEADLINE = float(os.environ.get("HOPFEED_TEST_DEADLINE", "120"))  # seconds, of a run of these tests
ARGUMENTS = ["--fanouts", "4,3", "--batch-size", "20", "--seed", "3"]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHosts]:
    """Four; node4 takes passwords too."""
    with SshHosts(4, tmp_path_factory.mktemp("ssh") / "hosts", ask_passwords=["node4"]) as found:
        yield found


@pytest.fixture(autouse=True)
def nothing_is_left(hosts: SshHosts) -> Iterator[None]:
    """After each test no host has a process or a file of it."""
    yield
    wait_for(lambda: not any(host.processes() or host.files() for host in hosts.all), "a host is left alone")
    for host in hosts.all:
        host.install()


def wait_for(done: Callable[[], object], what: str) -> None:
    until = time.monotonic() + DEADLINE
    while not done():
        assert time.monotonic() < until, f"not within {DEADLINE} s: {what}"
        time.sleep(0.05)


class Launched:
    """hopfeed-launch on the first two hosts, if nothing else is said.

    Attributes:
        folder: of the test; ``logs`` and ``report.json`` are in it.
    """

    def __init__(self, hosts: SshHosts, cut: Path, folder: Path, *command: object, options: object = (), names: int = 2, ssh: str = "") -> None:
        self.folder = folder
        lines = [host.name for host in hosts.all[:names]]
        self.process = hosts.launcher(
            "--hosts", hosts.file(*lines), "--data", cut, "--ssh", ssh or hosts.ssh(), "--logs", folder / "logs", "--json", folder / "report.json",
            *options, "--", *command, folder=folder,
        )  # fmt: skip

    def end(self) -> tuple[int, str, str]:
        try:
            out, err = self.process.communicate(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            pytest.fail(f"no end within {DEADLINE} s: {out} {err}")
        return self.process.returncode, out, err

    def well(self) -> str:
        code, out, err = self.end()
        assert code == 0, err
        return out

    def complaint(self) -> tuple[int, list[str]]:
        code, _, err = self.end()
        return code, [line.removeprefix("hopfeed-launch: ") for line in err.splitlines() if line.startswith("hopfeed-launch: ")]

    def report(self) -> dict[str, object]:
        found: dict[str, object] = json.loads((self.folder / "report.json").read_text())
        return found

    def said(self, host: str, process: str) -> str:
        path = self.folder / "logs" / f"{host}.{process}.log"
        return path.read_text() if path.exists() else ""

    def wait_until(self, host: str, process: str, text: str) -> None:
        wait_for(lambda: text in self.said(host, process) or self.process.poll() is not None, f"{process} says {text}")
        if text not in self.said(host, process):
            pytest.fail(f"{process} of {host} did not say {text}: {self.end()}")


@pytest.fixture
def launch(hosts: SshHosts, cut: Path, tmp_path: Path) -> Iterator[Callable[..., Launched]]:
    """Starts hopfeed-launch; it does not survive the test."""
    started: list[Launched] = []

    def start(*command: object, **more: object) -> Launched:
        started.append(Launched(hosts, cut, tmp_path, *command, **more))  # type: ignore[arg-type]
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.communicate()


def digests_of(text: str) -> list[str]:
    """Lines of hopfeed-sample, without who said them, in the order of their batches."""
    found = [line.split(": ", 1)[1] for line in text.splitlines() if ": " in line]
    return sorted((line for line in found if line.split()[0].isdecimal() and len(line.split()) == 6), key=lambda line: int(line.split()[1]))


def batches_of(data: Path, world_size: int) -> list[str]:
    """The batches of so many trainers on one machine."""
    lines = []
    for rank in range(world_size):
        words = [program("hopfeed-sample"), data, *ARGUMENTS, "--num-workers", "0", "--rank", str(rank), "--world-size", str(world_size)]
        lines += subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    return digests_of("\n".join(f": {line}" for line in lines))


@pytest.fixture(scope="module")
def expected(small: Path) -> list[str]:
    return batches_of(small, 2)


# ---- what runs


def test_trainers_of_all_hosts_learn_of_each_other_and_of_their_run(launch: Callable[..., Launched], cut: Path) -> None:
    text = "echo rank $RANK of $WORLD_SIZE at $MASTER_ADDR; env | grep ^HOPFEED_; stat -c %a $HOPFEED_TOKEN_FILE $HOPFEED_TLS_CA; pwd; hostname; test -e $HOPFEED_TLS_CA"
    run = launch("sh", "-c", text, options=["--trainers", 2])
    out = run.well()
    for rank in range(4):
        host = f"node{1 + rank // 2}"
        said = run.said(host, f"trainer-{rank}").splitlines()
        assert said[0] == f"rank {rank} of 4 at node1" and said[-4:] == ["600", "600", str(run.folder), host]
        assert {f"HOPFEED_DATA={cut}", "HOPFEED_PEERS=node1:9470,node2:9470", "HOPFEED_RESTART=0"} < set(said)
        assert f"{host} trainer-{rank}: rank {rank} of 4 at node1" in out.splitlines()
    report = run.report()
    assert report["outcome"] == "done" and [one["pushed"] for one in report["hosts"]] == [[], []]  # type: ignore[index,union-attr]
    assert "listening on node2:9470" in run.said("node2", "server-0")


def test_partitions_are_copied_once_and_servers_answer_for_the_others(
    launch: Callable[..., Launched], hosts: SshHosts, expected: list[str]
) -> None:
    text = 'exec hopfeed-sample $HOPFEED_DATA --peers $HOPFEED_PEERS --peer-token-file $HOPFEED_TOKEN_FILE --peer-ca $HOPFEED_TLS_CA --rank $RANK --world-size $WORLD_SIZE "$@"'
    for pushed in ([[0, 2], [1]], [[], []]):
        run = launch("sh", "-c", text, "sh", *ARGUMENTS, options=["--remote-data", hosts.folder / "data/below/cut"])
        assert digests_of(run.well()) == expected and len(expected) == 26
        assert [one["pushed"] for one in run.report()["hosts"]] == pushed  # type: ignore[index,union-attr]
    have = [sorted(path.name for path in (host.folder / "data/below/cut").glob("part-*")) for host in hosts.all]
    assert have == [["part-0000", "part-0002"], ["part-0001"], [], []]


def test_servers_sample_where_they_are_asked_to_and_own_state(
    launch: Callable[..., Launched], expected: list[str], cut: Path
) -> None:
    text = 'echo $HOPFEED_OWNERS $HOPFEED_DATA; exec hopfeed-sample --servers $HOPFEED_SERVERS --token-file $HOPFEED_TOKEN_FILE --rank $RANK --world-size $WORLD_SIZE "$@"'
    run = launch("sh", "-c", text, "sh", *ARGUMENTS, options=["--sampling", "servers", "--no-tls", "--state", f"{cut}.state"])
    out = run.well()
    assert digests_of(out) == expected
    assert "node2 trainer-1: servers" in out.splitlines()  # and no folder


def test_without_servers_each_host_gets_the_whole_dataset(launch: Callable[..., Launched], hosts: SshHosts, expected: list[str]) -> None:
    text = 'exec hopfeed-sample $HOPFEED_DATA --rank $RANK --world-size $WORLD_SIZE "$@"'
    run = launch("sh", "-c", text, "sh", *ARGUMENTS, options=["--servers", 0, "--remote-data", hosts.folder / "data/whole"])
    assert digests_of(run.well()) == expected
    assert all(len(list((host.folder / "data/whole").glob("part-*"))) == 3 for host in hosts.all[:2])


def test_four_hosts_make_the_batches_of_one(hosts: SshHosts, small: Path, tmp_path: Path) -> None:
    four = tmp_path / "four"
    subprocess.run([program("hopfeed-partition"), "partition", small, four, "--parts", "4"], check=True, capture_output=True)
    text = (
        'exec hopfeed-sample $HOPFEED_DATA --peers $HOPFEED_PEERS --peer-token-file $HOPFEED_TOKEN_FILE --peer-ca $HOPFEED_TLS_CA '
        '--partitions $RANK --rank $RANK --world-size $WORLD_SIZE "$@"'
    )
    assert digests_of(Launched(hosts, four, tmp_path, "sh", "-c", text, "sh", *ARGUMENTS, names=4).well()) == batches_of(small, 4)


def test_torchrun_itself_forms_a_group_over_hosts(launch: Callable[..., Launched], hosts: SshHosts, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    (tmp_path / "ranks.py").write_text(
        "import os, torch, torch.distributed as dist\ndist.init_process_group('gloo')\nsum = torch.tensor([dist.get_rank() + 1])\n"
        "dist.all_reduce(sum)\nprint(sum.item(), os.environ['GLOO_SOCKET_IFNAME'], os.environ['OMP_NUM_THREADS'])\ndist.destroy_process_group()\n"
    )
    for host in hosts.all[:2]:
        host.install(fast_torchrun=False)
    out = launch(sys.executable, "ranks.py").well().splitlines()
    assert {f"node{rank + 1} trainer-{rank}: 3 eth0 1" for rank in range(2)} <= set(out)


def test_a_terminal_shows_one_screen_with_the_epoch(hosts: SshHosts, small: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os, time, hopfeed\nloader = hopfeed.Loader(os.environ['HOPFEED_DATA'], fanouts=[2], batch_size=20)\n"
        "for epoch in range(1000):\n    for batch in loader:\n        time.sleep(0.05)\n"
        "    print('\\x1b[2Jepoch', epoch, 'done')\n    if os.path.exists('enough'): break\n"
    )
    master, slave = os.openpty()
    words = ["--hosts", hosts.file("node1"), "--data", small, "--ssh", hosts.ssh(), "--logs", tmp_path / "logs", "--servers", 0]
    run = hosts.launcher(*words, "--", sys.executable, "train.py", folder=tmp_path, stderr=slave)
    os.close(slave)
    shown, until = "", time.monotonic() + DEADLINE
    try:
        while "batches/s" not in shown or "epoch 1 done" not in shown:
            assert time.monotonic() < until and run.poll() is None, shown
            shown += os.read(master, 1 << 16).decode()
        (tmp_path / "enough").touch()
        try:
            while True:
                shown += os.read(master, 1 << 16).decode()
        except OSError:  # the launcher has ended, and nobody has the terminal any more
            assert run.wait() == 0
    finally:
        run.kill()
        run.communicate()
        os.close(master)
    assert re.search(r"epoch [0-9]+ \[#* *\] [0-9]+%, [0-9]+ of 25 batches, [0-9.]+ batches/s\r\n", shown)
    assert "node1  training\r\n       trainer-0: epoch 1 done\r\n" in shown and "\x1b[2J" not in shown
    assert re.search(r"\x1b\[[0-9]+A\r\x1b\[J", shown)  # drawn where it stood


# ---- what ends with what


SLEEPS = ["sh", "-c", "echo begun; (setsid sleep 1000 &); trap 'echo asked; exit 3' TERM; while :; do sleep 0.1; done"]


@contextmanager
def somebody_else(hosts: SshHosts) -> Iterator[None]:
    """A process on node1 that no launcher has started, by a login of its own; it has to live until the end."""
    words = [*hosts.inside(), *hosts.ssh().split(), "node1", "exec", "sleep", "999"]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
        wait_for(lambda: hosts.all[0].numbers("999"), "somebody else's process")
        yield
        assert hosts.all[0].numbers("999") and process.poll() is None
        for pid in hosts.all[0].numbers("999"):
            os.kill(pid, signal.SIGKILL)


def test_ctrl_c_ends_everything_that_was_started_and_nothing_else(launch: Callable[..., Launched], hosts: SshHosts) -> None:
    with somebody_else(hosts):
        run = launch(*SLEEPS)
        run.wait_until("node1", "trainer-0", "begun")
        run.wait_until("node2", "trainer-1", "begun")
        run.process.send_signal(signal.SIGINT)
        code, lines = run.complaint()
        assert code == 130 and lines == ["interrupted; all that it started is ended"]
        assert "asked" in run.said("node1", "trainer-0") and "asked" in run.said("node2", "trainer-1")
        assert all(host.numbers("sleep 1000".replace(" ", "\0")) == [] for host in hosts.all[:2])


def test_a_second_ctrl_c_does_not_wait_for_trainers(launch: Callable[..., Launched]) -> None:
    run = launch("sh", "-c", "trap '' TERM; echo begun; while :; do sleep 0.1; done", options=["--grace", 30])
    for rank in range(2):
        run.wait_until(f"node{rank + 1}", f"trainer-{rank}", "begun")
    begin = time.monotonic()
    run.process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    run.process.send_signal(signal.SIGINT)
    assert run.complaint() == (130, ["interrupted; all that it started is ended"])
    assert time.monotonic() - begin < 30  # which trainers would have had


def test_all_ends_when_the_launcher_is_killed(launch: Callable[..., Launched]) -> None:
    run = launch(*SLEEPS)
    run.wait_until("node1", "trainer-0", "begun")
    run.process.kill()  # and nothing_is_left looks


@pytest.mark.parametrize("which", ["agent", "keeper"])
def test_all_ends_when_an_agent_is_killed_and_its_host_is_named(launch: Callable[..., Launched], hosts: SshHosts, which: str) -> None:
    run = launch(*SLEEPS)
    run.wait_until("node2", "trainer-1", "begun")
    processes = sorted(hosts.all[1].numbers("hopfeed.launch\0agent"))
    assert len(processes) == 2
    os.kill(processes[which == "agent"], signal.SIGKILL)  # the keeper comes first
    code, lines = run.complaint()
    said = {"agent": "node2: its agent has ended (", "keeper": "node2: its agent was told to end (SIGTERM)"}
    assert code == 1 and len(lines) == 1 and lines[0].startswith(said[which])


def test_a_host_that_dies_is_named_and_the_run_goes_on_when_it_is_back(launch: Callable[..., Launched], hosts: SshHosts) -> None:
    text = 'echo begun $HOPFEED_RESTART; test $HOPFEED_RESTART != 0 || sleep 1000'
    run = launch("sh", "-c", text, options=["--restarts", 1])
    run.wait_until("node2", "trainer-1", "begun 0")
    hosts.all[1].kill()
    wait_for(lambda: not hosts.all[0].numbers("sleep\x001000"), "trainers are ended")
    for left in hosts.all[1].files():  # what a power cut leaves, and a start cleans up
        subprocess.run(["rm", "-r", hosts.all[1].folder / "tmp" / left], check=True)
    hosts.all[1].start()
    code, out, err = run.end()
    assert code == 0, err
    assert "node2: it is lost: " in err and "beginning again (1 of 1 restarts)" in err
    assert "node1 trainer-0: begun 1" in out and "node2 trainer-1: begun 1" in out
    assert run.report()["begun_again"] == 1


def test_a_run_begins_again_where_a_trainer_fails(launch: Callable[..., Launched]) -> None:
    text = 'echo begun $HOPFEED_RESTART; echo run $HOPFEED_RUN; test $RANK = 0 && exec sleep 1; test $HOPFEED_RESTART = 2 && exit; echo out of luck; exit 7'
    code, out, err = launch("sh", "-c", text, options=["--restarts", 2]).end()
    assert code == 0, err
    assert err.count("node2: trainer-1 ended with exit code 7: out of luck") == 2
    assert [f"node2 trainer-1: begun {times}" in out for times in range(4)] == [True, True, True, False]
    names = re.findall(r"trainer-[01]: run ([0-9a-f]{32})$", out, re.MULTILINE)
    assert len(names) == 6 and len(set(names)) == 1
    run = launch("sh", "-c", text, options=["--restarts", 1])
    assert run.complaint() == (1, ["node2: trainer-1 ended with exit code 7: out of luck"])
    assert run.report()["restarts"] == 1 and run.report()["outcome"] == "failed"


def test_a_server_that_is_killed_is_started_again_under_its_trainers(launch: Callable[..., Launched], hosts: SshHosts) -> None:
    text = "echo begun $HOPFEED_RESTART; until test -e go; do sleep 0.05; done"
    run = launch("sh", "-c", text, options=["--restarts", 1])
    run.wait_until("node2", "trainer-1", "begun")
    for pid in hosts.all[1].numbers("hopfeed-server\0"):
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: run.said("node2", "server-0").count("listening on") == 2, "the server is back")
    (run.folder / "go").touch()
    code, out, err = run.end()
    assert code == 0, err
    assert "node2: server-0 was killed by SIGKILL" in err and out.count("begun") == 2
    assert run.report()["begun_again"] == 0 and run.report()["restarts"] == 1


def test_learned_rows_outlive_their_owner(launch: Callable[..., Launched], hosts: SshHosts, cut: Path, tmp_path: Path) -> None:
    """Ranks go back to their checkpoint when the server is there again, and end with the bits of a run that nobody disturbed."""
    pytest.importorskip("torch", reason="torch is not installed")
    from test_state_checkpoints import LOOP

    begin = """
import os, sys
os.environ["TORCHINDUCTOR_CACHE_DIR"] = sys.argv[1]  # Torch would leave a folder in TMPDIR
import json, numpy as np, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, arguments = dist.get_rank(), [os.environ["HOPFEED_DATA"], *sys.argv[1:]]
"""
    told = 'token_file=os.environ["HOPFEED_TOKEN_FILE"], tls_ca=os.environ["HOPFEED_TLS_CA"]'
    loop = LOOP.replace("connect(servers)", f'connect(os.environ["HOPFEED_PEERS"].split(","), {told})')
    (tmp_path / "learn.py").write_text(f"{begin}{loop}print('learned', json.dumps(result))\n")

    def learned(out: Path, *, disturbed: bool) -> dict[str, object]:
        out.mkdir()
        run = launch(sys.executable, "learn.py", out, 1, options=["--restarts", 1, "--state", out / "state"])
        if disturbed:
            wait_for(lambda: (out / "reached-0").exists() or run.process.poll() is not None, "ranks learn")
            for pid in hosts.all[1].numbers("hopfeed-server\0"):
                os.kill(pid, signal.SIGKILL)
        (out / "killed-0").touch()
        result: dict[str, object] = json.loads(next(line for line in run.well().splitlines() if "learned" in line).split("learned ")[1])
        assert (run.report()["restarts"], run.report()["begun_again"]) == (int(disturbed), 0)
        return result

    calm, killed = learned(tmp_path / "calm", disturbed=False), learned(tmp_path / "killed", disturbed=True)
    assert (calm["returns"], killed["returns"]) == (0, 1)
    assert killed["weights"] == calm["weights"] and killed["steps"] == calm["steps"]
    for rank in range(2):
        assert (tmp_path / f"killed/rows-{rank}.npy").read_bytes() == (tmp_path / f"calm/rows-{rank}.npy").read_bytes()


def test_a_server_that_is_killed_ends_a_run_without_restarts(launch: Callable[..., Launched], hosts: SshHosts) -> None:
    run = launch(*SLEEPS)
    run.wait_until("node2", "trainer-1", "begun")
    for pid in hosts.all[1].numbers("hopfeed-server\0"):
        os.kill(pid, signal.SIGKILL)
    code, lines = run.complaint()
    assert code == 1 and len(lines) == 1 and lines[0].startswith("node2: server-0 was killed by SIGKILL: ")


def test_output_that_nobody_reads_holds_trainers_and_loses_nothing(launch: Callable[..., Launched]) -> None:
    run = launch(sys.executable, "-c", "for i in range(20000): print('line', i, 'x' * 400)", names=1, options=["--servers", 0])
    time.sleep(1)  # nobody reads the launcher's standard output meanwhile
    out = run.well().splitlines()
    assert [line.split()[3] for line in out if " line " in line] == [str(number) for number in range(20000)]
    assert run.said("node1", "trainer-0").count("\n") == 20000


# ---- bad input: one line that names the host, everything else is ended


def only_line(run: Launched) -> str:
    code, lines = run.complaint()
    assert code != 0 and len(lines) == 1, lines
    return lines[0]


def test_a_host_twice(hosts: SshHosts, launch: Callable[..., Launched], tmp_path: Path) -> None:
    (tmp_path / "twice").write_text("node1\nnode2\nroot@node1\n")
    line = only_line(launch("true", options=["--hosts", tmp_path / "twice"]))
    assert line == f"--hosts: line 3 of {tmp_path}/twice names node1, and so does line 1; give each host once"


def test_a_host_that_is_not_reached(launch: Callable[..., Launched], tmp_path: Path) -> None:
    (tmp_path / "far").write_text(f"node1\n{NETWORK}.99\nnowhere.invalid\n")
    options = ["--hosts", tmp_path / "far", "--servers", 0]
    code, lines = launch("true", options=options).complaint()
    assert code == 2 and len(lines) == 2
    assert all(line.startswith(f"{name}: it does not answer: ssh: ") for line, name in zip(lines, (f"{NETWORK}.99", "nowhere.invalid")))


def test_a_host_with_an_unknown_key(hosts: SshHosts, launch: Callable[..., Launched]) -> None:
    known = hosts.folder / "known"
    text = known.read_text()
    try:
        known.write_text("".join(line + "\n" for line in text.splitlines() if not line.startswith("node2 ")))
        assert only_line(launch("true")).startswith("node2: its host key is not known here; compare it, then log in once by hand")
        strange = " ".join((hosts.folder / "strange_key.pub").read_text().split()[:2])
        known.write_text(text.splitlines()[0] + f"\nnode2 {strange}\n")
        assert only_line(launch("true", ssh=hosts.ssh() + " -o StrictHostKeyChecking=no")).startswith("node2: its host key has changed")
    finally:
        known.write_text(text)


def test_a_host_without_the_programs(hosts: SshHosts, launch: Callable[..., Launched]) -> None:
    (hosts.all[1].folder / "bin/hopfeed-launch").unlink()
    restarted(hosts.all[1], has_python=False)
    try:
        assert only_line(launch("true")).startswith("node2: there is no hopfeed-launch there (")
    finally:
        restarted(hosts.all[1])


def test_a_host_with_another_version(hosts: SshHosts, launch: Callable[..., Launched]) -> None:
    script = hosts.all[1].folder / "bin/hopfeed-launch"
    script.write_text('#!/bin/sh\necho Welcome\necho \'{"is":"hello","version":"0.0.9","protocol":1}\'\nexec cat >/dev/null\n')
    from hopfeed import __version__

    assert only_line(launch("true")) == f"node2: it has hopfeed 0.0.9, and here is {__version__}; install the same on all"


def restarted(host: SshHost, more: str = "", *, has_python: bool = True) -> None:
    host.kill()
    host.start(more, has_python=has_python)


def test_a_host_whose_disk_is_full(hosts: SshHosts, launch: Callable[..., Launched]) -> None:
    try:
        # Room for a lock and the token, and no more; for no partition.
        restarted(hosts.all[1], f"mount -t tmpfs -o size=8k tmpfs {hosts.all[1].folder}/tmp && mount -t tmpfs -o size=16k tmpfs {hosts.folder}/data")
        line = only_line(launch("true"))
        assert line.startswith(f"node2: begin failed: No space left on device: {hosts.all[1].folder}/tmp/hopfeed-")
        line = only_line(launch("true", options=["--servers", 0, "--remote-data", hosts.folder / "data/full"]))
        assert line.startswith(f"node2: its disk is full: {hosts.folder}/data/full needs 0.") and not (hosts.all[0].folder / "data/full").exists()
    finally:
        restarted(hosts.all[1])


def test_a_host_whose_port_is_taken(hosts: SshHosts, launch: Callable[..., Launched]) -> None:
    takers = []
    for host, port in (("node1", 29500), ("node2", 9470)):
        text = f"import socket, sys; s = socket.create_server(('', {port})); print(flush=True); sys.stdin.read()"
        words = [*hosts.inside(), *hosts.ssh().split(), host, f'{sys.executable} -c "{text}"']
        takers.append(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
    try:
        for taker in takers:
            assert taker.stdout is not None and taker.stdout.readline() == b"\n"
        _, lines = launch("true").complaint()
    finally:
        for taker in takers:
            taker.communicate()
    told = "is in use there; name another (--port, --meeting-port), or end who has it"
    assert lines == [f"node1: port 29500 {told}", f"node2: port 9470 {told}"]


def test_a_command_that_does_not_exist(launch: Callable[..., Launched]) -> None:
    code, lines = launch("no_such_program", "x").complaint()
    assert code == 2 and lines == [f"{host}: there is no program 'no_such_program'; it must be on every host, in PATH" for host in ("node1", "node2")]


def test_a_trainer_that_fails_at_once(launch: Callable[..., Launched]) -> None:
    run = launch("sh", "-c", "test $RANK = 1 || exec sleep 1000; echo what a pity >&2; exit 3")
    assert only_line(run) == "node2: trainer-1 ended with exit code 3: what a pity"
    assert run.report()["outcome"] == "failed"


def test_ctrl_c_while_a_failed_run_is_ending_loses_no_words(launch: Callable[..., Launched]) -> None:
    run = launch("sh", "-c", "test $RANK = 1 && exit 3; trap '' TERM; echo begun; while :; do sleep 0.1; done")
    run.wait_until("node1", "trainer-0", "begun")
    run.wait_until("node2", TRAINERS, "exitcode")
    time.sleep(1.5)  # the failure has settled, and trainer-0 has 3 s to end
    run.process.send_signal(signal.SIGINT)
    assert run.complaint() == (1, ["node2: trainer-1 ended with exit code 3: it said nothing"])
    assert run.report()["outcome"] == "failed"


def test_a_server_that_cannot_start(launch: Callable[..., Launched]) -> None:
    code, lines = launch("true", options=["--server-options", "--no-such-option"]).complaint()
    assert code != 0 and sorted(line.split(":")[0] for line in lines) == ["node1", "node2"] and "--no-such-option" in lines[0]


def test_ssh_that_asks_for_a_password(hosts: SshHosts, launch: Callable[..., Launched], tmp_path: Path) -> None:
    (tmp_path / "asks").write_text("node4\n")
    line = only_line(launch("true", options=["--hosts", tmp_path / "asks"], ssh=hosts.ssh("strange_key")))
    assert line == "node4: it asks for a password, and nobody answers here; put a key there (ssh-copy-id node4)"


def test_secrets_are_the_runs_alone(launch: Callable[..., Launched], hosts: SshHosts) -> None:
    run = launch(*SLEEPS)
    run.wait_until("node1", "trainer-0", "begun")
    (folder,) = (hosts.all[0].folder / "tmp").iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    token = (folder / "token").read_text().strip()
    for host in hosts.all[:2]:
        assert not any(token in command for command in host.processes())
    assert token not in Path(f"/proc/{run.process.pid}/cmdline").read_text()
    run.process.send_signal(signal.SIGINT)
    run.complaint()
    assert not any(token in path.read_text() for path in (run.folder / "logs").iterdir())
