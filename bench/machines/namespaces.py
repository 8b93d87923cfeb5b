"""Machines for benchmarks: network namespaces, which are root's to make, each with a server of hopfeed's."""
import os
import signal
import subprocess
import time

STARTS_WITHIN = 120  # seconds, for a server


class Failed(Exception):
    pass


def ip(*words):
    subprocess.run(["ip", *words], check=True, timeout=30)


def last_line(path):
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return lines[-1] if lines else "nothing"


class Machine:
    """A namespace with a folder of its own. `prefix` begins its name, so that several benchmarks may run."""

    def __init__(self, number, prefix, folder):
        self.name, self.address = f"{prefix}m{number}", f"10.213.78.{10 + number}"
        self.number, self.folder, self.server = number, folder / f"machine-{number}", None

    def make(self):
        self.folder.mkdir(parents=True)
        ip("netns", "add", self.name)
        ip("-n", self.name, "link", "set", "lo", "up")

    def join(self, bridge):
        ip("link", "add", "v" + self.name, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        ip("link", "set", "v" + self.name, "master", bridge, "up")
        self.take_address()

    def join_machine(self, other):
        """A wire between the two, and nothing else."""
        ip("link", "add", "eth0", "netns", self.name, "type", "veth", "peer", "name", "eth0", "netns", other.name)
        self.take_address()
        other.take_address()

    def take_address(self):
        ip("-n", self.name, "addr", "add", self.address + "/24", "dev", "eth0")
        ip("-n", self.name, "link", "set", "eth0", "up")

    def start(self, command, log, **more):
        """`ip netns exec` becomes the command, so the process is the command's."""
        with open(self.folder / log, "ab") as out:
            return subprocess.Popen(["ip", "netns", "exec", self.name, *map(str, command)], stdout=out, stderr=out,
                                    stdin=subprocess.DEVNULL, start_new_session=True, **more)

    def serve(self, command):
        """Starts the server, and returns once it answers."""
        log = self.folder / "server.log"
        before = log.stat().st_size if log.exists() else 0
        self.server = self.start(command, log.name)
        until = time.monotonic() + STARTS_WITHIN
        while b"listening on " not in log.read_bytes()[before:]:
            if self.server.poll() is not None or time.monotonic() > until:
                raise Failed(f"the server of machine {self.number} does not start: {last_line(log)}")
            time.sleep(0.02)

    def kill_server(self):
        self.server.kill()
        self.server.wait(timeout=30)

    def processes(self):
        """Ids of all processes of this machine, which are ours."""
        told = subprocess.run(["ip", "netns", "pids", self.name], capture_output=True, text=True, timeout=30, check=False)
        return [int(pid) for pid in told.stdout.split()]

    def end(self):
        until = time.monotonic() + 30
        while (left := self.processes()) and time.monotonic() < until:
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.05)
        subprocess.run(["ip", "netns", "del", self.name], check=False, timeout=30)


class Machines:
    """So many of them on a bridge, which is named as they are; all of it goes at the end."""

    def __init__(self, count, prefix, folder):
        self.bridge, self.all = prefix, []
        ip("link", "add", self.bridge, "type", "bridge")
        try:
            ip("link", "set", self.bridge, "up")
            for number in range(count):
                self.all.append(Machine(number, prefix, folder))
                self.all[-1].make()
                self.all[-1].join(self.bridge)
        except BaseException:
            self.end()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        for machine in self.all:
            # With the namespace alone it would go some time later, and the name with it.
            subprocess.run(["ip", "link", "del", "v" + machine.name], check=False, timeout=30, stderr=subprocess.DEVNULL)
            machine.end()
        subprocess.run(["ip", "link", "del", self.bridge], check=False, timeout=30)

    def addresses(self, port):
        return ",".join(f"{machine.address}:{port}" for machine in self.all)
