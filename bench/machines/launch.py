#!/usr/bin/env python3
"""What hopfeed-launch adds to the start of a run, and whether its agents leave anything behind. Hosts are namespaces with an sshd
(python/tests/ssh_hosts.py), which are root's to make. Prints one JSON line.

Usage: launch.py first-batch --data DIR --folder DIR [--rounds N]
       launch.py agents --folder DIR [--agents N] [--rounds N]

  --data DIR     a dataset in two partitions
  --folder DIR   for what the hosts have to themselves; it is made, and must not be there

first-batch   two hosts, --rounds (5) times by turns: `launch`, seconds from hopfeed-launch to the first batch of the last trainer,
              and its own parts, each by itself: `login`, ssh until an agent answers; `server`, hopfeed-server until it listens;
              `trainers`, torchrun on both hosts beside servers that run, until the first batch. `more` is launch without the slowest part
agents        --agents (16) on this machine, each with a process that has left another one, --rounds (50) times; they end, in turn,
              as they are told, as their input ends, as they are killed, as their keepers are. `processes` and `files` that are left

Run it with the Python that has hopfeed. Exit status 1: something was left, or `more` is beyond 3 s in the median.
"""
import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python/tests"))

import hopfeed  # noqa: E402
from hopfeed.launch.processes import MARK  # noqa: E402
from ssh_hosts import SshHosts, why_not  # noqa: E402

ENDS_WITHIN = 300  # seconds
TRAINER = """
import os, time
import hopfeed
rank = int(os.environ["RANK"])
told = dict(dataset=os.environ["HOPFEED_DATA"], peers=os.environ["HOPFEED_PEERS"].split(","), partitions=[rank], peer_connect_timeout=30)
told |= dict(peer_token_file=os.environ["HOPFEED_TOKEN_FILE"]) if "HOPFEED_TOKEN_FILE" in os.environ else {}
told |= dict(peer_ca=os.environ["HOPFEED_TLS_CA"]) if "HOPFEED_TLS_CA" in os.environ else {}
with hopfeed.Loader(**told, fanouts=[5, 5], batch_size=64, rank=rank, world_size=int(os.environ["WORLD_SIZE"])) as loader:
    next(iter(loader))
    print("first batch", time.monotonic(), flush=True)
"""


def first_batch_of(text):
    """When the last trainer had its first; the clock is one on all hosts."""
    found = [float(line.split()[-1]) for line in text.splitlines() if "first batch" in line]
    if len(found) != 2:
        sys.exit(f"two trainers have not had their first batch: {text}")
    return max(found)


def on_host(hosts, host, command, environment=()):
    told = " ".join(f"{name}={value}" for name, value in environment)
    words = [*hosts.inside(), *hosts.ssh().split(), "-o", "BatchMode=yes", host.name, f"{told} exec {command}"]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def seconds_until(process, word, begin):
    for line in process.stdout:
        if word in line:
            return time.monotonic() - begin
    sys.exit(f"nobody said '{word}': {process.args[-1]}")


def parts(hosts, data, trainer):
    """Seconds that each part takes by itself."""
    begin = time.monotonic()
    agent = on_host(hosts, hosts.all[0], "hopfeed-launch agent")
    login = seconds_until(agent, "hello", begin)
    agent.communicate(timeout=ENDS_WITHIN)
    addresses = ",".join(f"{host.name}:9470" for host in hosts.all)
    servers, taken = [], []
    binaries = os.path.dirname(os.path.abspath(hopfeed.programs.program("hopfeed-server")))
    try:
        for number, host in enumerate(hosts.all):
            begin = time.monotonic()
            servers.append(on_host(hosts, host, f"{binaries}/hopfeed-server --data {data} --partitions {number} --peers {addresses} "
                                                f"--listen {host.name}:9470 --insecure"))
            taken.append(seconds_until(servers[-1], "listening on", begin))
        begin = time.monotonic()
        trainers = [on_host(hosts, host, f"torchrun --nnodes=2 --node-rank={number} --nproc-per-node=1 --master-addr=node1 --master-port=29500 "
                                         f"{trainer}", [("HOPFEED_DATA", data), ("HOPFEED_PEERS", addresses), ("OMP_NUM_THREADS", 1)])
                    for number, host in enumerate(hosts.all)]
        said = "".join(one.communicate(timeout=ENDS_WITHIN)[0] for one in trainers)
        return {"login": login, "server": max(taken), "trainers": first_batch_of(said) - begin}
    finally:
        for host in hosts.all:
            for pid in host.numbers("hopfeed-server\0"):
                os.kill(pid, signal.SIGTERM)
        for server in servers:
            server.communicate(timeout=ENDS_WITHIN)


def first_batch(options):
    data = options.data.resolve()
    with SshHosts(2, options.folder) as hosts:
        for host in hosts.all:
            host.install(fast_torchrun=False)
        trainer = options.folder / "trainer.py"
        trainer.write_text(TRAINER)
        rounds = []
        for _ in range(options.rounds):
            found = parts(hosts, data, trainer)
            begin = time.monotonic()
            run = hosts.launcher("--hosts", hosts.file(), "--data", data, "--ssh", hosts.ssh(), "--logs", options.folder / "logs", "--",
                                 sys.executable, trainer)
            out, err = run.communicate(timeout=ENDS_WITHIN)
            if run.returncode != 0:
                sys.exit(f"hopfeed-launch failed: {err}")
            found["launch"] = first_batch_of(out) - begin
            found["more"] = found["launch"] - max(found[name] for name in ("login", "server", "trainers"))
            rounds.append(found)
            print(json.dumps(found), file=sys.stderr, flush=True)
    median = {name: statistics.median(found[name] for found in rounds) for name in rounds[0]}
    return {"bench": "launch first-batch", "hosts": 2, "rounds": options.rounds, "median": median, "all": rounds}, median["more"] <= 3


def say(agent, **message):
    agent.stdin.write(json.dumps(message).encode() + b"\n")
    agent.stdin.flush()


def heard(agent, what):
    for line in agent.stdout:
        if json.loads(line)["is"] == what:
            return
    sys.exit(f"an agent has ended before it said '{what}'")


def ours(folder):
    """Processes that an agent of this bench holds, or that are one."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if f"{MARK}={folder}".encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes() or (
                    b"hopfeed.launch\0agent" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                    and f"TMPDIR={folder}".encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes()):
                found.append(int(pid))
        except OSError:
            pass
    return found


def agents(options):
    scratch = options.folder.resolve()
    scratch.mkdir(parents=True)
    environment = {**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": str(pathlib.Path(hopfeed.__file__).parents[1])}
    begin_message = {"do": "begin", "grace": 5, "cwd": "/", "defaults": {}, "programs": [], "ports": [], "interface": False, "address": "localhost",
                     "files": {"token": "x"}, "makes_folders": False, "data": "/"}
    processes = files = 0
    begin = time.monotonic()
    for number in range(options.rounds):
        started = [subprocess.Popen([sys.executable, "-m", "hopfeed.launch", "agent"], env=environment, stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE) for _ in range(options.agents)]
        for agent in started:
            say(agent, **begin_message)
            say(agent, do="start", name="trainers", command=["sh", "-c", "(setsid sleep 1000 &); echo up; sleep 1000"], environment={})
        for agent in started:
            heard(agent, "line")
            for other in started:  # on a busy machine the last is late, and nobody shall take this bench for dead
                say(other, do="ping")
        how = number % 4
        for agent in started:
            if how == 0:
                say(agent, do="end", grace=5)
            elif how == 1:
                agent.stdin.close()
            else:  # the agent is the keeper's only child
                inner = int(pathlib.Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()[0])
                os.kill(inner if how == 2 else agent.pid, signal.SIGKILL)
        for agent in started:
            agent.stdout.read()
            agent.wait(ENDS_WITHIN)
            agent.stdout.close()
            if not agent.stdin.closed:
                agent.stdin.close()
        until = time.monotonic() + 5
        while (left := ours(scratch)) and time.monotonic() < until:
            time.sleep(0.05)
        processes += len(left)
        files += len(list(scratch.iterdir()))
        print(f"round {number + 1}: {processes} processes and {files} files left, {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
    return {"bench": "launch agents", "agents": options.agents, "rounds": options.rounds, "processes": processes, "files": files,
            "seconds": time.monotonic() - begin}, processes == files == 0


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("bench", nargs="?", choices=("first-batch", "agents"))
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--agents", type=int, default=16)
    parser.add_argument("--help", "-h", action="store_true")
    options = parser.parse_args()
    if options.help or options.bench is None or options.folder is None or (options.bench == "first-batch" and options.data is None):
        sys.exit(__doc__.strip())
    if options.folder.exists():
        sys.exit(f"{options.folder} is there; name another folder")
    if options.bench == "first-batch" and (why := why_not()):
        sys.exit(why)
    options.rounds = options.rounds or {"first-batch": 5, "agents": 50}[options.bench]
    report, good = {"first-batch": first_batch, "agents": agents}[options.bench](options)
    print(json.dumps(report))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
