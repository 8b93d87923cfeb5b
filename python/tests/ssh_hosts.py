"""Hosts for tests and benches of hopfeed-launch: each has network, mounts, processes and a name of its own (namespaces), and an sshd.

They are joined by a bridge in a namespace of its own, so that nothing of this machine's network is touched. The launcher runs
there too, and knows them as node1, node2, ... Folders are this machine's. Whatever runs on a host ends with it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import hopfeed
from hopfeed.programs import program

NETWORK = "10.213.79"
STARTS_WITHIN = 60  # seconds
_SWITCH = """
set -e
ip link set lo up
ip link add bridge type bridge
ip link set bridge up
ip addr add {network}.1/24 dev bridge
mount --bind {hosts} /etc/hosts
echo ready
exec cat
"""
_HOST = """
set -e
hostname {name}
mount -t tmpfs tmpfs /run
mkdir /run/sshd
ip link set lo up
until ip link show eth0 >/dev/null 2>&1; do sleep 0.02; done
ip addr add {address}/24 dev eth0
mount --bind {folder}/data {shared}/data
ip link set eth0 up
{more}
exec {sshd} -D -e -f {config}
"""
_LAUNCH = '#!/bin/sh\nexec {python} -m hopfeed.launch "$@"\n'
# What tests need of torchrun, at a tenth of its start: ranks, the end of all where one fails, and its words about who failed.
_TORCHRUN = """#!{python}
import os, signal, subprocess, sys
told = dict(word[2:].split("=", 1) for word in sys.argv[1:] if word.startswith("--") and "=" in word)
command = sys.argv[sys.argv.index("--no-python") + 1 :]
node, each, nodes = int(told["node-rank"]), int(told["nproc-per-node"]), int(told["nnodes"])
def stop(number, frame):
    for one in running: one.terminate()
    for one in running: one.wait()
    sys.exit(128 + number)
running = []
signal.signal(signal.SIGTERM, stop)
for local in range(each):
    more = dict(RANK=node * each + local, LOCAL_RANK=local, WORLD_SIZE=nodes * each, MASTER_ADDR=told["master-addr"], MASTER_PORT=told["master-port"])
    running.append(subprocess.Popen(command, env=os.environ | {{name: str(value) for name, value in more.items()}}, start_new_session=True))
left = dict(enumerate(running))
while left:
    pid, status = os.wait()
    local = next((at for at, one in left.items() if one.pid == pid), None)
    if local is None: continue
    one, code = left.pop(local), os.waitstatus_to_exitcode(status)
    one.returncode = code
    if code != 0:
        for other in left.values(): other.terminate()
        for other in left.values(): other.wait()
        print(f"  rank      : {{node * each + local}} (local_rank: {{local}})\\n  exitcode  : {{code}} (pid: {{pid}})", flush=True)
        sys.exit(1)
"""


def why_not() -> str:
    """Why this machine cannot have such hosts; empty where it can."""
    if os.geteuid() != 0:
        return "namespaces and sshd for them are root's to make"
    for name in ("ip", "unshare", "nsenter", "ssh", "ssh-keygen", "openssl", "rsync", "hostname"):
        if shutil.which(name) is None:
            return f"there is no program '{name}'"
    if _sshd() is None:
        return "there is no sshd (Debian: apt install openssh-server)"
    if subprocess.run(["unshare", "-n", "-m", "-p", "-u", "--fork", "--mount-proc", "true"], capture_output=True, check=False).returncode != 0:
        return "this machine lets nobody make namespaces (unshare -n -m -p -u)"
    return ""


def _sshd() -> str | None:
    return shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


class SshHost:
    """One of the hosts.

    Attributes:
        folder: what it has to itself: ``bin``, first in its PATH, ``home``, ``tmp``, its TMPDIR, and ``data``, which it sees as the
            folder ``data`` of all hosts.
    """

    def __init__(self, number: int, hosts: SshHosts) -> None:
        self.name, self.address, self.folder = f"node{number}", f"{NETWORK}.{10 + number}", hosts.folder / f"node{number}"
        self._number, self._hosts, self._link = number, hosts, f"02:00:00:00:00:{number:02x}"  # another start has the same
        self._process: subprocess.Popen[bytes] | None = None
        for name in ("bin", "home", "tmp", "data"):
            (self.folder / name).mkdir(parents=True)
        self.install()

    def install(self, *, fast_torchrun: bool = True) -> None:
        """What its PATH has: hopfeed-launch, and the tests' torchrun or torch's own."""
        python = sys.executable
        for name, text in {"hopfeed-launch": _LAUNCH, "torchrun": _TORCHRUN}.items():
            path = self.folder / "bin" / name
            path.unlink(missing_ok=True)
            if name != "torchrun" or fast_torchrun:
                path.write_text(text.format(python=python))
                path.chmod(0o755)

    def start(self, more: str = "", *, has_python: bool = True) -> None:
        """Starts it; ``more`` are commands that run there before its sshd. Without Python its PATH lacks the folder of this one, which
        has hopfeed-launch too where the wheel is installed."""
        path = f"{self.folder}/bin:" + (f"{os.path.dirname(sys.executable)}:" if has_python else "") + "/usr/bin:/bin"
        packages = Path(hopfeed.__file__).parent.parent
        config, keys = self.folder / "config", self._hosts.folder
        environment = {
            "PATH": path, "HOME": f"{self.folder}/home", "TMPDIR": f"{self.folder}/tmp",
            "PYTHONPATH": packages, "HOPFEED_BIN": os.path.dirname(os.path.abspath(program("hopfeed-worker"))),
        }  # fmt: skip
        config.write_text(
            f"HostKey {keys}/host_key\nAuthorizedKeysFile {keys}/key.pub\nStrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\n"
            f"PasswordAuthentication {'yes' if self.name in self._hosts.ask_passwords else 'no'}\nMaxStartups 100\nUseDNS no\n"
            f"SetEnv {' '.join(f'{name}={value}' for name, value in environment.items())}\n"
        )
        script = _HOST.format(name=self.name, address=self.address, config=config, sshd=_sshd(), folder=self.folder, shared=keys, more=more)
        with open(self.folder / "sshd.log", "ab") as log:
            self._process = subprocess.Popen(
                [*self._hosts.inside(), "unshare", "-n", "-m", "-p", "-u", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        first = self._first_process()
        run = [*self._hosts.inside(), "ip", "link"]
        subprocess.run([*run, "add", f"v{self._number}", "type", "veth", "peer", "name", "eth0", "address", self._link, "netns", str(first)], check=True)
        subprocess.run([*run, "set", f"v{self._number}", "master", "bridge", "up"], check=True)

    def _first_process(self) -> int:
        """Of its namespaces: the child of unshare, once it is in them."""
        assert self._process is not None
        until = time.monotonic() + STARTS_WITHIN
        ours = os.readlink(f"/proc/{self._hosts.switch}/ns/net")
        while time.monotonic() < until:
            found = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
            if found and os.readlink(f"/proc/{found[0]}/ns/net") != ours:
                return int(found[0])
            time.sleep(0.01)
        raise AssertionError(f"{self.name} does not start: {(self.folder / 'sshd.log').read_text()}")

    def processes(self) -> list[str]:
        """Commands of what runs there, beside its sshd and who is logged in."""
        assert self._process is not None
        space = os.readlink(f"/proc/{self._first_process()}/ns/pid")
        found = []
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{pid}/ns/pid") == space:
                    found.append(Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip())
            except OSError:
                pass
        return [command for command in found if command and not command.startswith("sshd:")]

    def numbers(self, word: str) -> list[int]:
        """Processes there, by a word of their command, as this machine numbers them."""
        space = os.readlink(f"/proc/{self._first_process()}/ns/pid")
        found = []
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{pid}/ns/pid") == space and word in Path(f"/proc/{pid}/cmdline").read_text():
                    found.append(int(pid))
            except OSError:
                pass
        return found

    def files(self) -> list[str]:
        """What lies in its TMPDIR."""
        return os.listdir(self.folder / "tmp")

    def kill(self) -> None:
        """As if its power were cut: nobody says goodbye."""
        if self._process is not None:
            subprocess.run([*self._hosts.inside(), "ip", "link", "del", f"v{self._number}"], check=False, capture_output=True)
            self._process.kill()
            self._process.wait()
            self._process = None


class SshHosts:
    """So many hosts, as a context.

    Args:
        folder: gets keys, and a folder for each host.
        ask_passwords: names of hosts that take passwords too.
    """

    def __init__(self, count: int, folder: Path, *, ask_passwords: Sequence[str] = ()) -> None:
        self.folder, self.ask_passwords = folder, ask_passwords
        (folder / "data").mkdir(parents=True)
        for key in ("host_key", "key", "strange_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
        names = [f"node{number}" for number in range(1, count + 1)]
        (folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{NETWORK}.{11 + at} {name}\n" for at, name in enumerate(names)))
        public = (folder / "host_key.pub").read_text().split()[:2]
        (folder / "known").write_text("".join(f"{name} {' '.join(public)}\n" for name in names))
        self._switch = subprocess.Popen(
            ["unshare", "-n", "-m", "sh", "-c", _SWITCH.format(network=NETWORK, hosts=folder / "hosts")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._switch.stdout is not None
        if self._switch.stdout.readline() != b"ready\n":
            raise AssertionError("the namespace of the hosts' bridge cannot be made")
        self.switch = self._switch.pid
        self.all = [SshHost(number, self) for number in range(1, count + 1)]
        try:
            for host in self.all:
                host.start()
            self._wait_for_ssh()
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> SshHosts:
        return self

    def __exit__(self, *_: object) -> None:
        for host in self.all:
            host.kill()
        assert self._switch.stdin is not None
        self._switch.stdin.close()
        self._switch.wait()

    def inside(self, folder: Path | None = None) -> list[str]:
        """Begins a command that runs where the launcher does, in this folder."""
        return ["nsenter", "-t", str(self.switch), "-n", "-m", f"--wd={folder or os.getcwd()}"]

    def ssh(self, key: str = "key") -> str:
        """What --ssh is given."""
        return f"ssh -F none -i {self.folder}/{key} -o IdentitiesOnly=yes -o UserKnownHostsFile={self.folder}/known"

    def file(self, *lines: str) -> Path:
        """A hosts file of these lines; of all hosts where there are none."""
        path = self.folder / "hosts_file"
        path.write_text("".join(f"{line}\n" for line in lines or [host.name for host in self.all]))
        return path

    def _wait_for_ssh(self) -> None:
        until = time.monotonic() + STARTS_WITHIN
        for host in self.all:
            words = [*self.inside(), *self.ssh().split(), "-o", "BatchMode=yes", host.name, "true"]
            while (done := subprocess.run(words, capture_output=True, text=True, check=False)).returncode != 0:
                if time.monotonic() > until:
                    raise AssertionError(f"{host.name} lets nobody in: {done.stderr} {(host.folder / 'sshd.log').read_text()}")
                time.sleep(0.05)

    def launcher(self, *arguments: object, folder: Path | None = None, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
        """hopfeed-launch with these arguments, in the bridge's namespace and in this folder."""
        environment = os.environ | {"PYTHONPATH": str(Path(hopfeed.__file__).parent.parent)}
        environment["HOPFEED_BIN"] = os.path.dirname(os.path.abspath(program("hopfeed-worker")))
        words = [*self.inside(folder), sys.executable, "-m", "hopfeed.launch", *map(str, arguments)]
        return subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True)
