"""hopfeed-launch without hosts: the hosts file, the plan, what ssh's end means, the command line, the screen."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hopfeed.launch import messages, screen
from hopfeed.launch.command_line import parse
from hopfeed.launch.cut import Cut, read_cut
from hopfeed.launch.errors import LaunchError, RunFailed, all_of
from hopfeed.launch.host_checks import dataset_at
from hopfeed.launch.hosts import MAX_FILE_BYTES, MAX_HOSTS, Host, read_hosts
from hopfeed.launch.machine import Machine, ending
from hopfeed.launch.output import MOST_WAITING, Writer
from hopfeed.launch.plan import TRAINERS, Plan, RunOptions, describe, make_plan
from hopfeed.launch.pushes import missing_there, require_room
from hopfeed.launch.report import require_writable
from hopfeed.launch.run import Reaching, Run
from hopfeed.launch.run_secrets import make_secrets
from hopfeed.launch.session import agent_words, ssh_words, why_no_agent

HOSTS = [Host("node1", "node1", 9470), Host("alice@node2", "10.0.0.2", 9480)]
CUT = Cut("/data/cut", 5, "abc")


def plan(cut: Cut = CUT, hosts: list[Host] = HOSTS, **options: object) -> Plan:
    return make_plan(hosts, cut, RunOptions(command=("train", "--epochs", "2"), **options))  # type: ignore[arg-type]


def environments(found: Plan) -> list[dict[str, str]]:
    return [found.trainer_environment(host, folder="/run", run="a1", restart=3) for host in found.hosts]


# ---- the hosts file


def test_a_hosts_file_names_hosts_ports_and_addresses(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("# ours\n\nnode1\n  alice@node2 9480   # the large one\ngpu3 address=10.0.1.3\nfd00::4 9481 address=fd00::4\n")
    assert read_hosts(str(path), port=9470) == [
        Host("node1", "node1", 9470), Host("alice@node2", "node2", 9480), Host("gpu3", "10.0.1.3", 9470), Host("fd00::4", "fd00::4", 9481),
    ]  # fmt: skip
    assert HOSTS[1].at(9480) == "10.0.0.2:9480" and Host("fd00::4", "fd00::4", 1).at(2) == "[fd00::4]:2"


def test_the_ip_config_of_dgl_is_a_hosts_file(tmp_path: Path) -> None:
    path = tmp_path / "ip_config.txt"
    path.write_text("172.31.19.1 30050\n172.31.23.205\n")
    assert [(host.address, host.port) for host in read_hosts(str(path), port=9470)] == [("172.31.19.1", 30050), ("172.31.23.205", 9470)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("node1\nnode2\nnode1\n", "line 3 of {path} names node1, and so does line 1"),
        ("node1\nalice@NODE1\n", "line 2 of {path} names node1, and so does line 1"),
        ("a address=10.0.0.1\n10.0.0.1\n", "line 2 of {path} names 10.0.0.1"),
        ("node1 0\n", "'0' is neither a port"),
        ("node1 9470 2\n", "'2' is neither a port"),
        ("node1 65536\n", "'65536' is neither a port"),
        ("node1 port=3\n", "'port=3' is neither a port"),
        ("-oProxyCommand=x\n", "'-oProxyCommand=x' is no host"),
        ("node1;ls\n", "'node1;ls' is no host"),
        ("node1 address=-x\n", "'address=-x' is neither"),
        ("# nobody\n", "{path} names no host"),
    ],
)
def test_a_hosts_file_that_cannot_be_served_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "hosts"
    path.write_text(text)
    with pytest.raises(LaunchError) as caught:
        read_hosts(str(path), port=9470)
    (line,) = caught.value.lines
    assert line.startswith("--hosts: ") and said.format(path=path) in line


def test_a_hosts_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=f"--hosts: cannot read {tmp_path}/none: No such file"):
        read_hosts(f"{tmp_path}/none", port=9470)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("".join(f"n{number}\n" for number in range(MAX_HOSTS + 1)), f"names {MAX_HOSTS + 1} hosts, and {MAX_HOSTS} are the most"),
        ("node1" + "\n" * (MAX_FILE_BYTES - 4), f"has more than {MAX_FILE_BYTES} bytes"),
    ],
    ids=["hosts", "bytes"],
)
def test_one_above_the_limits_of_a_hosts_file_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "hosts"
    path.write_text(text)
    with pytest.raises(LaunchError, match=said):
        read_hosts(str(path), port=9470)
    path.write_text(text.removesuffix("\n").removesuffix(f"n{MAX_HOSTS}"))  # one less
    read_hosts(str(path), port=9470)


# ---- the plan


def test_each_partition_has_one_host_and_one_server() -> None:
    found = plan(servers=2)
    assert [host.partitions for host in found.hosts] == [(0, 2, 4), (1, 3)]
    assert [[(s.address, s.partitions) for s in host.servers] for host in found.hosts] == [
        [("node1:9470", (0, 4)), ("node1:9471", (2,))],
        [("10.0.0.2:9480", (1,)), ("10.0.0.2:9481", (3,))],
    ]


def test_a_server_is_told_its_partitions_its_peers_and_where_its_state_goes() -> None:
    found = plan(state="/state", server_options=("--row-cache", "4G"))
    host = found.hosts[1]
    words = found.server_command(host, host.servers[0], program="hopfeed-server", folder="/run/x", listen="0.0.0.0:9480", cores=8)
    told = dict(zip(words[1::2], words[2::2]))
    assert told == {
        "--data": "/data/cut", "--listen": "0.0.0.0:9480", "--num-workers": "1", "--token-file": "/run/x/token", "--tls-cert": "/run/x/cert.pem",
        "--tls-key": "/run/x/key.pem", "--partitions": "1,3", "--peers": "node1:9470,10.0.0.2:9480", "--peer-token-file": "/run/x/token",
        "--peer-ca": "/run/x/cert.pem", "--state": "/state", "--row-cache": "4G",
    }  # fmt: skip


def test_workers_of_servers_that_sample_share_the_cores_of_their_host() -> None:
    found = plan(sampling="servers", servers=2, tls=False)
    words = found.server_command(found.hosts[0], found.hosts[0].servers[0], program="s", folder="/r", listen="node1:9470", cores=9)
    assert words[words.index("--num-workers") + 1] == "4" and "--insecure" in words and "--tls-cert" not in words and "--peer-ca" not in words


def test_one_server_alone_has_no_peers() -> None:
    found = plan(Cut("/data/one", 1, "abc"), HOSTS[:1])
    words = found.server_command(found.hosts[0], found.hosts[0].servers[0], program="s", folder="/r", listen="node1:9470", cores=1)
    assert "--peers" not in words and "--partitions" not in words


def test_trainers_learn_of_their_run_from_the_environment() -> None:
    common = {"HOPFEED_RUN": "a1", "HOPFEED_RESTART": "3", "HOPFEED_TOKEN_FILE": "/run/token", "HOPFEED_TLS_CA": "/run/cert.pem"}
    peers = {"HOPFEED_DATA": "/there", "HOPFEED_PEERS": "node1:9470,10.0.0.2:9480"}
    assert environments(plan(remote_data="/there")) == 2 * [common | peers]
    assert environments(plan(remote_data="/there", state="/s")) == 2 * [common | peers | {"HOPFEED_OWNERS": "peers"}]
    servers = {"HOPFEED_SERVERS": "node1:9470,10.0.0.2:9480"}
    assert environments(plan(sampling="servers")) == 2 * [common | servers]
    assert environments(plan(sampling="servers", state="/s")) == 2 * [common | servers | {"HOPFEED_OWNERS": "servers"}]
    assert environments(plan(servers=0)) == 2 * [{"HOPFEED_RUN": "a1", "HOPFEED_RESTART": "3", "HOPFEED_DATA": "/data/cut"}]
    assert all("HOPFEED_TLS_CA" not in told and "HOPFEED_TOKEN_FILE" in told for told in environments(plan(tls=False)))


def test_trainers_of_all_hosts_meet_at_the_first() -> None:
    found = plan(trainers=3, meeting_port=29501)
    words = found.trainer_command(found.hosts[1], folder="/run/x")
    assert words[0] == "torchrun" and {"--nnodes=2", "--node-rank=1", "--nproc-per-node=3", "--master-addr=node1", "--master-port=29501"} < set(words)
    assert words[-4:] == ["/run/x", "train", "--epochs", "2"]
    assert found.hosts[1].pipes == ("trainer-3", "trainer-4", "trainer-5")
    assert found.ports_of(found.hosts[0]) == [9470, 29501] and found.ports_of(found.hosts[1]) == [9480]


def test_without_servers_each_host_has_all_partitions() -> None:
    assert [host.partitions for host in plan(servers=0).hosts] == 2 * [(0, 1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"servers": 3}, "/data/cut has 5 partitions, and 6 servers want one each"),
        ({"servers": 0, "sampling": "servers"}, "--sampling servers wants servers"),
        ({"servers": 0, "state": "/s"}, "--state wants servers"),
        ({"meeting_port": 9470}, "node1: port 9470 is that of --meeting-port and of a server"),
    ],
)
def test_options_that_contradict_each_other_are_one_line(options: dict[str, object], said: str) -> None:
    with pytest.raises(LaunchError) as caught:
        plan(**options)
    (line,) = caught.value.lines
    assert said in line


def test_a_port_beyond_the_last_is_refused_with_its_host() -> None:
    with pytest.raises(LaunchError, match="node1: its server 1 would listen on port 65536"):
        plan(hosts=[Host("node1", "node1", 65535)], servers=2)


def test_what_a_host_lacks_is_what_is_copied() -> None:
    host = plan().hosts[0]
    assert missing_there(host, CUT, "abc", [0, 1, 2, 3, 4]) == ()
    assert missing_there(host, CUT, "abc", [1, 2]) == (0, 4)
    assert missing_there(host, CUT, "another", [0, 1, 2, 3, 4]) == missing_there(host, CUT, None, []) == (0, 2, 4)


def test_what_does_not_fit_is_said_before_it_is_sent() -> None:
    host, sized = plan().hosts[0], Cut("/data/cut", 5, "abc", (10, 20, 30, 40, 50, 7_000_000))
    require_room(host, sized, (0, 2), {}, 7_000_040)
    require_room(host, sized, (0, 2), {"0": 10, "2": 25, "1": 9_000_000}, 7_000_005)  # a push that goes on; partition 1 was there
    with pytest.raises(LaunchError, match="needs 7.0 MB more"):
        require_room(host, sized, (0, 2), {"0": 10, "2": 25, "1": 9_000_000}, 7_000_004)
    with pytest.raises(LaunchError, match=r"node1: its disk is full: /data/cut needs 7.0 MB more, and 1.5 MB are free; make room"):
        require_room(host, sized, (0, 2), {}, 1_500_000)


def test_an_agent_tells_what_each_partition_holds(tmp_path: Path) -> None:
    for path, size in (("part-0002/n/x", 3), ("part-0002/y", 4), ("part-0010/x", 5), ("splits/x", 6), ("meta.json", 7)):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(b"x" * size)
    found = dataset_at(str(tmp_path))
    assert found["held"] == {"2": 7, "10": 5, "-1": 13} and found["partitions"] == [2, 10]
    assert dataset_at(str(tmp_path / "none"))["held"] == {"-1": 0}


def test_a_dataset_is_read_as_its_manifest_says(cut: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = read_cut(str(cut))
    assert (found.folder, found.partitions, len(found.sha256)) == (str(cut), 3, 64)
    on_disk = [sum(path.stat().st_size for path in (cut / f"part-000{p}").rglob("*") if path.is_file()) for p in range(3)]
    assert list(found.bytes_of[:3]) == on_disk and found.bytes_of[3] > 0
    with pytest.raises(LaunchError, match=f"--data: {tmp_path}/none has no meta.json that can be read .No such file"):
        read_cut(f"{tmp_path}/none")
    for text in ("", "[]", "{}", '{"partitions": "3"}', '{"partitions": 0}'):
        (tmp_path / "meta.json").write_text(text)
        with pytest.raises(LaunchError, match=f"{tmp_path}/meta.json is damaged"):
            read_cut(str(tmp_path))
    monkeypatch.setattr("hopfeed.launch.cut.MAX_MANIFEST_BYTES", 16)
    assert len(text) == 17
    with pytest.raises(LaunchError, match=f"{tmp_path} has no meta.json that can be read .it has more than 16 bytes"):
        read_cut(str(tmp_path))


def test_the_description_shows_each_host_and_no_secret() -> None:
    text = describe(plan(sampling="servers", state="/s"))
    assert "alice@node2: partitions 1,3 in /data/cut" in text and "--num-workers CORES" in text
    assert "HOPFEED_SERVERS=node1:9470,10.0.0.2:9480" in text and text.endswith("--no-python train --epochs 2")


# ---- ssh


def test_ssh_asks_nothing_and_checks_keys_whatever_it_is_told() -> None:
    words = ssh_words("ssh -p 2222 -i 'a key' -o StrictHostKeyChecking=no", 7)
    assert words[0] == "ssh" and {"-p", "2222", "a key", "ControlMaster=no", "ConnectTimeout=7"} < set(words)
    assert words.index("BatchMode=yes") < words.index("StrictHostKeyChecking=yes") < words.index("StrictHostKeyChecking=no")  # ssh takes the first
    for command, said in (("", "--ssh is empty"), ("ssh 'x", "--ssh is 'ssh 'x'")):
        with pytest.raises(LaunchError, match=said):
            ssh_words(command, 7)


def test_the_remote_command_has_nothing_to_quote() -> None:
    assert agent_words("/opt/venv-3.11/bin/hopfeed-launch") == "/opt/venv-3.11/bin/hopfeed-launch agent"
    for program in ("", "a b", "a;b", "$(x)", "a'b"):
        with pytest.raises(LaunchError, match="--agent is"):
            agent_words(program)


@pytest.mark.parametrize(
    ("code", "said", "was_there", "line"),
    [
        (255, "ssh: connect to host n port 22: Connection refused", False, "it does not answer: ssh: connect to host n port 22: Connection refused"),
        (255, "No ED25519 host key is known\nHost key verification failed.", False, "its host key is not known here"),
        (255, "REMOTE HOST IDENTIFICATION HAS CHANGED!\nHost key verification failed.", False, "its host key has changed"),
        (255, "n: Permission denied (publickey,password).", False, "it asks for a password, and nobody answers here"),
        (255, "n: Permission denied (publickey).", False, "it lets nobody in"),
        (127, "bash: line 1: hopfeed-launch: command not found", False, "there is no hopfeed-launch there"),
        (1, "ModuleNotFoundError: x", False, "its agent does not start (exit code 1): ModuleNotFoundError: x"),
        (255, "Timeout, server n not responding.", True, "it is lost: Timeout, server n not responding."),
        (1, "", True, "its agent has ended (exit code 1): it gave no reason"),
        (-9, "", True, "its agent has ended (signal 9)"),
        (0, "", True, "its agent has ended, because its input has; what --ssh starts has to pass input on"),
    ],
)
def test_the_end_of_ssh_is_one_line(code: int, said: str, was_there: bool, line: str) -> None:
    assert why_no_agent("n", "ssh", code, said.splitlines(), was_there=was_there).startswith(line)


def test_complaints_of_hosts_come_together() -> None:
    all_of([])
    with pytest.raises(RunFailed) as caught:
        all_of([RunFailed("a"), RunFailed("b")])
    assert caught.value.lines == ("a", "b") and caught.value.code == 1
    with pytest.raises(LaunchError) as mixed:
        all_of([RunFailed("a"), LaunchError("b")])
    assert not isinstance(mixed.value, RunFailed) and mixed.value.code == 2
    with pytest.raises(KeyError):
        all_of([RunFailed("a"), KeyError("b")])


# ---- messages


def test_lines_are_the_same_however_their_bytes_come() -> None:
    generator = random.Random(1)
    text = b"\n".join(bytes(generator.choices(b"ab\r", k=generator.randrange(12))) for _ in range(200)) + b"\nrest"
    for breaks in (b"\n", b"\r\n"):
        whole = messages.Lines(1000, breaks)
        expected = b"\n".join([*whole.add(text), *whole.rest()])
        for size in (1, 2, 3, 7, 64):
            lines = messages.Lines(1000, breaks)
            found = [line for at in range(0, len(text), size) for line in lines.add(text[at : at + size])]
            assert [line for line in [*found, *lines.rest()] if line] == [line for line in expected.split(b"\n") if line]


def test_a_line_without_an_end_is_cut() -> None:
    lines = messages.Lines(4)
    assert list(lines.add(b"abcdefghi")) == [b"abcd", b"efgh"] and list(lines.rest()) == [b"i"]


def test_what_is_no_message_is_passed_over() -> None:
    assert messages.decode(b"Welcome to node1\n") is None and messages.decode(b"[1]") is None and messages.decode(b"[" * 100_000) is None
    assert messages.decode(messages.encode({"is": "line", "text": "\n\u2028"})) == {"is": "line", "text": "\n\u2028"}


# ---- a machine


def machine(lines: list[str]) -> Machine:
    found = Machine(plan(trainers=2).hosts[1], "1.2.3", lambda name, text: lines.append(f"{name}: {text}"), lambda: None)
    found.hear({"is": "hello", "version": "1.2.3", "protocol": messages.PROTOCOL})
    return found


@pytest.mark.parametrize(("version", "protocol"), [("1.2.4", messages.PROTOCOL), ("1.2.3", messages.PROTOCOL + 1)])
def test_an_agent_of_another_release_is_refused(version: str, protocol: int) -> None:
    found = machine([])
    found.hear({"is": "hello", "version": version, "protocol": protocol})
    failure = found.failure()
    assert failure is not None and failure.lines[0].startswith("node2: it has hopfeed 1.2.") and "here is 1.2.3" in failure.lines[0]


@pytest.mark.parametrize("message", [{"is": "hello"}, {"is": "ready", "name": "nobody"}, {"is": "ended", "name": "nobody", "code": 0}, {"is": "line"}])
def test_an_agent_that_says_what_none_does_is_refused(message: dict[str, object]) -> None:
    found = machine([])
    found.hear(message)
    failure = found.failure()
    assert failure is not None and failure.lines[0] == "node2: its agent says what no agent of this release does"


def test_a_trainer_that_fails_is_named_with_its_last_words() -> None:
    lines: list[str] = []
    found = machine(lines)
    for name, text in (
        ("trainer-2", "fine"), ("trainer-3", "out of luck"), (TRAINERS, "Root Cause (first observed failure):"),
        (TRAINERS, "  rank      : 3 (local_rank: 1)"), (TRAINERS, "  exitcode  : -11 (pid: 77)"), (TRAINERS, "======"),
    ):  # fmt: skip
        found.hear({"is": "line", "name": name, "text": text})
    found.hear({"is": "ended", "name": TRAINERS, "code": 1})
    failure = found.trainer_failure()
    assert failure is not None and failure.lines == ("node2: trainer-3 was killed by SIGSEGV: out of luck",)
    assert lines[:2] == ["trainer-2: fine", "trainer-3: out of luck"]
    assert [found.processes[name].code for name in found.plan.pipes] == [None, -11]
    assert [ending(code) for code in (None, 3, -9, -77)] == ["has ended", "ended with exit code 3", "was killed by SIGKILL", "was killed by signal 77"]


def test_a_run_that_is_stopped_waits_for_no_lost_host() -> None:
    async def stopped() -> bool:
        run = Run(
            plan(), Reaching(ssh=["ssh"], agent="agent"), {}, "1.2.3", on_line=lambda *_: None, tell=lambda _: None, watched=False, held=lambda: False
        )
        hangs = asyncio.create_task(asyncio.sleep(1000))
        waiting = asyncio.create_task(run._finished([hangs]))
        await asyncio.sleep(0)
        run.stop()
        await asyncio.wait([waiting, hangs], timeout=60)
        return waiting.cancelled() and hangs.cancelled()

    assert asyncio.run(stopped())


def test_the_screen_shows_each_host_and_moves_nothing() -> None:
    found = machine([])
    found.state = "training"
    found.hear({"is": "progress", "epoch": 3, "taken": 5, "steps": 10, "batches_per_s": 12.34})
    found.hear({"is": "line", "name": "trainer-2", "text": "\x1b[31mred\x07 \u202eback"})
    assert screen.picture([found]) == ["epoch 3 [##############              ] 50%, 5 of 10 batches, 12.3 batches/s", "node2  training", "       trainer-2: red back"]


def test_what_happened_stays_above_the_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    with open(tmp_path / "out", "w") as out, open(tmp_path / "err", "w") as err:
        shown = screen.Screen(out, err)
        for text in ("node1: it is lost: \x1b[1A" + "x" * 60, "beginning again"):
            shown.tell(text)
        found = machine([])
        shown.draw([found])
        shown.line(found, "trainer-2", "a word")
        shown.tell("the last word")
        shown.close(60)
    assert (tmp_path / "err").read_bytes().decode() == f"\r\x1b[Jnode1: it is lost: {'x' * 60}\nbeginning again\nnode2  connected\nthe last word\n"
    assert (tmp_path / "out").read_text() == "node2 trainer-2: a word\n"


# ---- what the launcher writes


def test_a_report_that_cannot_be_written_is_said_before_anything_is_started(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text("of another run")
    require_writable(str(report))
    assert not list(tmp_path.iterdir())
    for path, said in ((tmp_path / "none" / "report", "No such file or directory"), (tmp_path, "is there, and no file"), ("/dev/null", "is there, and no file")):
        with pytest.raises(LaunchError, match=f"^--json: .*{path}.*{said}"):
            require_writable(str(path))


def test_who_does_not_read_stops_nobody_and_gets_all_later() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", encoding="ascii") as file, os.fdopen(reading, "rb") as reader:
        writer, text, lines = Writer(file), "\u2588" * 9999 + "\n", 0
        while not writer.full:
            writer.write(text)
            lines += 1
        assert lines > MOST_WAITING // len(text) and not writer.close(0.2)
        for _ in range(lines):
            assert reader.readline() == b"?" * 9999 + b"\n"
        assert writer.close(60) and not writer.full


def test_output_that_cannot_be_written_is_told_once() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    told: list[str] = []
    with os.fdopen(writing, "w") as file:
        writer = Writer(file, told.append)
        for _ in range(3):
            writer.write("x\n")
            assert writer.close(60)
        writer._thread.join(60)
    assert told == ["Broken pipe"]


# ---- the token and the certificate


def test_the_certificate_names_all_hosts() -> None:
    if shutil.which("openssl") is None:
        pytest.skip("there is no program 'openssl'")
    files = make_secrets(["node1", "10.0.0.2", "fd00::3"], tls=True)
    shown = subprocess.run(["openssl", "x509", "-noout", "-text"], input=files["cert.pem"], capture_output=True, text=True, check=True).stdout
    assert "DNS:node1, IP Address:10.0.0.2, IP Address:FD00:0:0:0:0:0:0:3" in shown and "CA:TRUE" in shown
    assert files["key.pem"].startswith("-----BEGIN PRIVATE KEY-----") and len(files["token"]) == 65
    many = make_secrets([f"node{number}.a-rather-long-name-of-a-cluster.example" for number in range(MAX_HOSTS)], tls=True)  # no command line has room
    assert len(many["cert.pem"]) > 100 * 1024
    others = make_secrets(["node1"], tls=False)
    assert set(others) == {"token"} and others["token"] != files["token"]


def test_without_openssl_the_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LaunchError, match="there is no openssl here.*--no-tls"):
        make_secrets(["node1"], tls=True)


# ---- the command line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--hosts", "h", "--data", "d"], "name the trainers' command behind --"),
        (["--hosts", "h", "--data", "d", "train"], "'train' is no option"),
        (["--hosts", "h", "--", "train"], "--data"),
        (["--hosts", "h", "--data", "d", "--servers", "-1", "--", "train"], "--servers"),
        (["--hosts", "h", "--data", "d", "--trainers", "0", "--", "train"], "'0' is no whole number from 1 to 1024"),
        (["--hosts", "h", "--data", "d", "--port", "x", "--", "train"], "'x' is no whole number from 1 to 65535"),
        (["--hosts", "h", "--data", "d", "--grace", "31", "--", "train"], "'31' is no whole number from 0 to 30"),
        (["--hosts", "h", "--data", "d", "--server-options", "'x", "--", "train"], "--server-options"),
        (["--hosts", "h", "--data", "d", "--unknown", "--", "train"], "--unknown"),
    ],
)
def test_a_command_line_that_cannot_be_served_is_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(arguments)
    (line,) = capsys.readouterr().err.splitlines()
    assert caught.value.code == 2 and line.startswith("hopfeed-launch: ") and said in line


def test_what_stands_behind_the_dashes_is_the_trainers() -> None:
    found = parse(["--hosts", "h", "--data", "d", "--server-options", "--row-cache 4G", "--", "train", "--hosts", "x", "--", "y"])
    assert found.command == ["train", "--hosts", "x", "--", "y"] and found.server_options == ["--row-cache", "4G"]
    assert parse(["--hosts", "h", "--data", "d", "--server-options", "--insecure", "--", "train"]).server_options == ["--insecure"]


def launch(environment: dict[str, str], *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "hopfeed.launch", *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=120)


def test_a_dry_run_shows_what_would_run_where_and_asks_nobody(cut: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "hosts").write_text("nobody1\nnobody2 9480\n")
    done = launch(environment, "--hosts", tmp_path / "hosts", "--data", cut, "--logs", tmp_path / "logs", "--dry-run", "--", "train", "a b")
    assert (done.returncode, done.stderr) == (0, "") and not (tmp_path / "logs").exists()
    assert f"nobody1: partitions 0,2 in {cut}" in done.stdout and "--listen nobody2:9480" in done.stdout and "train 'a b'" in done.stdout


def test_an_agent_whose_input_is_a_file_ends_with_it(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "ping").write_bytes(messages.encode({"do": "ping"}))
    for path, answers in ((os.devnull, ["hello", "bye"]), (tmp_path / "ping", ["hello", "alive", "bye"])):
        with open(path) as file:
            done = subprocess.run([sys.executable, "-m", "hopfeed.launch", "agent"], env=environment, stdin=file, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr, [json.loads(line)["is"] for line in done.stdout.splitlines()]) == (0, "", answers)


def test_ssh_that_passes_no_input_on_is_one_line(cut: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "hosts").write_text("node1\n")
    (tmp_path / "agent").write_text(f'#!/bin/sh\nexec {sys.executable} -m hopfeed.launch "$@"\n')
    (tmp_path / "ssh").write_text('#!/bin/sh\nfor last; do :; done\nexec $last < /dev/null\n')
    for program in ("agent", "ssh"):
        (tmp_path / program).chmod(0o755)
    reaching = ("--ssh", tmp_path / "ssh", "--agent", tmp_path / "agent", "--no-tls")
    done = launch(environment, "--hosts", tmp_path / "hosts", "--data", cut, *reaching, "--", "true")
    assert (done.returncode, done.stderr) == (2, "hopfeed-launch: node1: its agent has ended, because its input has; what --ssh starts has to pass input on (without -n)\n")


def test_input_that_cannot_be_served_is_one_line_of_the_program(cut: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "hosts").write_text("node1\nnode1\n")
    for more, said in (
        (["--data", cut], f"--hosts: line 2 of {tmp_path}/hosts names node1"),
        (["--data", cut, "--state", "here"], "--state is 'here'; give an absolute path"),
    ):
        report = tmp_path / "report.json"
        report.write_text("of another run")
        done = launch(environment, "--hosts", tmp_path / "hosts", *more, "--json", report, "--", "train")
        (line,) = done.stderr.splitlines()
        assert done.returncode == 2 and line.startswith(f"hopfeed-launch: {said}")
        found = json.loads(report.read_text())
        assert (found["outcome"], found["errors"]) == ("failed", [line.removeprefix("hopfeed-launch: ")])
    done = launch(environment, "--help")
    assert done.returncode == 0 and "--sampling" in done.stdout and "HOPFEED_OWNERS" in done.stdout
