#!/usr/bin/env python3
"""Exact inference (node_classification --infer) over two machines, killed at random moments, and in little memory. Machines are
network namespaces joined by a wire, each with one core, a hopfeed-server --results and a run beside it. Prints one JSON line.

Usage: inference.py wire --data DIR --model FILE --folder DIR [--bin FOLDER] [--turns N]
       inference.py kills --data DIR --model FILE --folder DIR [--bin FOLDER] [--kills N] [--seed N]
       inference.py memory --data DIR --model FILE --folder DIR [--bin FOLDER] [--memory SIZE]

  --data DIR        a dataset of one node type; for wire and kills in two partitions, for wire with one edge type
  --model FILE      model.pt of node_classification, of such a dataset
  --folder DIR      where results and what everybody says go; it is made, and must not be there
  --limit SECONDS   a run that takes longer is ended, and is an error (900)

wire     --turns (3) times by turns with one machine that has the whole dataset, on one core too, of which both are used in turn.
         `bytes`: what a machine receives, as its interface counts, over distinct boundary rows times the bytes of a row of each
         table that was fetched, of the machine where it is more; `time` and `cpu`: seconds of the slower of two machines, of the
         program and of the CPU with its server's, over those of one machine times `share`, the larger partition's of the edges or
         the rows; medians of the turns. `equal`: whether all files of results are the same bytes
kills    of a server or a run, whichever comes (SIGKILL), started again at once, in run after run until there were --kills (100).
         `kills` by process; `different`: runs with other bytes than one machine's; `hangs`, the first of which is the last run;
         `left`: shards of layers behind all runs, and processes
memory   in a memory cgroup of --memory (512M) and 512 MiB, which files that are read count to, then without a limit; no file of
         the dataset is in memory before. `anonymous_bytes`: the most at a time; `seconds`, `seconds_without_limit`; `equal`

Namespaces and cgroups are root's to make; wire needs a Python that has NumPy. Exit status 1: bytes differ, something hung or was
left, or something failed.
"""
import argparse
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import threading
import time

from namespaces import Failed, Machine, ip, last_line

ROOT = pathlib.Path(__file__).resolve().parents[2]
PORT = 9471
POLL = 0.02  # seconds
BESIDE_ROWS = 512 << 20  # what a run may take beside --memory
LEAVES_WITHIN = 15  # seconds, for the last of a run's layers, and for processes of a killed server
FOOT = struct.Struct("<8s7Q")  # of a shard of a layer (docs/formats.md); the sixth is the bytes of a row


def bytes_of(text):
    found = re.fullmatch(r"(\d+)([KMG]?)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"'{text}' is no size; give one like 512M")
    return int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[found[2]]


def digests(*folders):
    """Of all arrays of results; a file that two folders have is in it twice."""
    found = []
    for folder in folders:
        for path in folder.rglob("*.npy"):
            found.append((str(path.relative_to(folder)), hashlib.sha256(path.read_bytes()).hexdigest()))
    if not found:
        raise Failed(f"there are no results in {folders[0]}")
    return sorted(found)


def inferring(options, folder):
    """Words of a run whose results and report go to this folder."""
    return [options.bin / "node_classification", "--data", options.data, "--infer", "--model", options.model, "--write",
            f"embeddings={folder}/embeddings,scores={folder}/scores", "--json", folder / "report.json"]


def results_of(*folders):
    return digests(*(folder / name for folder in folders for name in ("embeddings", "scores")))


def program_seconds(folder):
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))["inference"]["seconds"]


def cpu_of_ended(process):
    """None while it runs."""
    pid, status, usage = os.wait4(process.pid, os.WNOHANG)
    if pid == 0:
        return None
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def cpu_of(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def alone(options, folder, core=None, **more):
    """One machine with the whole dataset, on a core or on all. Ends with it whatever happens."""
    folder.mkdir(parents=True)
    pinned = [] if core is None else ["taskset", "-c", core]
    log, begin = folder / "run.log", time.monotonic()
    with open(log, "wb") as out:
        process = subprocess.Popen([str(word) for word in [*pinned, *inferring(options, folder)]], stdout=out, stderr=out,
                                   stdin=subprocess.DEVNULL, start_new_session=True, **more)
    try:
        while (cpu := cpu_of_ended(process)) is None:
            if time.monotonic() > begin + options.limit:
                raise Failed(f"one machine's run has not ended within {options.limit} s; see {log}")
            time.sleep(POLL)
    finally:
        if process.returncode is None:
            process.kill()
            process.wait(timeout=30)
    if process.returncode:
        raise Failed(f"one machine's run ended with {process.returncode}: {last_line(log)}")
    return {"seconds": time.monotonic() - begin, "program": program_seconds(folder), "cpu": cpu}


class Pair:
    """Two machines; all that is of them goes at the end."""

    def __init__(self, options):
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            raise Failed("two machines need a core each, and this process may use one")
        self.options, self.cores = options, cores[:2]
        self.all = [Machine(number, f"hi{os.getpid()}", options.folder) for number in range(2)]

    def __enter__(self):
        try:
            for machine in self.all:
                machine.make()
            self.all[0].join_machine(self.all[1])
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        for machine in self.all:
            machine.end()

    def beside(self, machine, folder):
        """What a server and its run are both told."""
        return ["--partitions", machine.number, "--peers", ",".join(f"{m.address}:{PORT}" for m in self.all), "--results",
                self.layers(machine, folder)]

    def layers(self, machine, folder):
        return folder / f"layers-{machine.number}"

    def out(self, machine, folder):
        return folder / f"out-{machine.number}"

    def server(self, machine, folder):
        return ["taskset", "-c", self.cores[machine.number], self.options.bin / "hopfeed-server", "--data", self.options.data, "--listen",
                f"{machine.address}:{PORT}", "--insecure", "--num-workers", 1, "--max-memory", "256M", *self.beside(machine, folder)]

    def run(self, machine, folder):
        out = self.out(machine, folder)
        out.mkdir(parents=True, exist_ok=True)
        return ["taskset", "-c", self.cores[machine.number], *inferring(self.options, out), *self.beside(machine, folder)]

    def results(self, folder):
        return results_of(*(self.out(machine, folder) for machine in self.all))


def boundaries(options, meta):
    """Of each partition the nodes elsewhere that its edges come from, counted in its file of edges."""
    try:
        import numpy
    except ImportError as error:
        raise Failed("wire needs a Python that has NumPy") from error
    (node_type,), (edge_type,) = meta["node_types"], meta["edge_types"]
    offsets, found = node_type["partition_offsets"], []
    for part in range(2):
        folder = options.data / f"part-{part:04}/edges/{edge_type['src']}__{edge_type['rel']}__{edge_type['dst']}"
        sources = numpy.unique(numpy.load(folder / "indices.npy", mmap_mode="r"))
        found.append(int(((sources < offsets[part]) | (sources >= offsets[part + 1])).sum()))
    if 0 in found:
        raise Failed(f"no edge of {options.data} joins its partitions, so there is nothing to fetch")
    return found


def look_for_tables(layers, row_bytes):
    """Adds tables whose rows of the other machine are here, by name; a table lies there from its first shard to its last use."""
    for shard in (layers / "boundary").glob("*/*/*.rows"):
        if shard.parts[-3] not in row_bytes:
            try:
                row_bytes[shard.parts[-3]] = FOOT.unpack(shard.read_bytes()[-FOOT.size:])[5]
            except FileNotFoundError:
                pass


def received(machine):
    told = subprocess.run(["ip", "-n", machine.name, "-s", "-j", "link", "show", "dev", "eth0"], capture_output=True, check=True,
                          timeout=30)
    return json.loads(told.stdout)[0]["stats64"]["rx"]["bytes"]


def answered(pair, machine):
    """Rows of layers that its server has given to the other machine."""
    told = subprocess.run(["ip", "netns", "exec", machine.name, pair.options.bin / "hopfeed-server", "status",
                           f"{machine.address}:{PORT}"], capture_output=True, text=True, timeout=60, check=True)
    return json.loads(told.stdout)["results"]["rows"]


def together(pair, folder, row_bytes):
    """A run on each machine; of each its seconds, CPU with its server's, bytes received, and rows of layers given."""
    for machine in pair.all:
        machine.serve(pair.server(machine, folder))
    before = [(cpu_of(machine.server.pid), received(machine)) for machine in pair.all]
    running = {machine.number: machine.start(pair.run(machine, folder), "run.log") for machine in pair.all}
    cpu, until = [0.0, 0.0], time.monotonic() + pair.options.limit
    while running:
        for number, process in list(running.items()):
            took = cpu_of_ended(process)
            if took is None:
                continue
            if process.returncode:
                raise Failed(f"the run of machine {number} failed: {last_line(pair.all[number].folder / 'run.log')}")
            cpu[number] = took
            del running[number]
        for machine in pair.all:
            look_for_tables(pair.layers(machine, folder), row_bytes)
        if time.monotonic() > until:
            raise Failed(f"two machines have not ended within {pair.options.limit} s; see {pair.options.folder}")
        time.sleep(POLL)
    found = [{"program": program_seconds(pair.out(machine, folder)), "cpu": cpu[machine.number] + cpu_of(machine.server.pid) - server_cpu,
              "received": received(machine) - bytes_before, "rows_given": answered(pair, machine)}
             for machine, (server_cpu, bytes_before) in zip(pair.all, before)]
    for machine in pair.all:
        machine.kill_server()
    return found


def wire(options, meta):
    boundary, row_bytes, turns, equal = boundaries(options, meta), {}, [], True
    offsets, edges = meta["node_types"][0]["partition_offsets"], meta["edge_types"][0]["partition_edges"]
    rows = [end - begin for begin, end in zip(offsets, offsets[1:])]
    share = max(max(rows) / sum(rows), max(edges) / sum(edges))
    with Pair(options) as pair:
        for turn in range(options.turns):
            folder = options.folder / f"turn-{turn}"
            one = alone(options, folder / "one", pair.cores[turn % 2])
            two = together(pair, folder, row_bytes)
            equal = equal and pair.results(folder) == results_of(folder / "one")
            turns.append({"one": one, "two": two, "load": os.getloadavg()[0],
                          "time": max(machine["program"] for machine in two) / one["program"] / share,
                          "cpu": max(machine["cpu"] for machine in two) / one["cpu"] / share})
            print(json.dumps(turns[-1]), file=sys.stderr, flush=True)
            shutil.rmtree(folder)
    layers = set(row_bytes) - {attr["name"] for attr in meta["node_types"][0]["attrs"]}  # who gives features counts them elsewhere
    given = {round(turn["two"][part]["rows_given"] / boundary[1 - part]) for turn in turns for part in range(2)}
    if given != {len(layers)}:
        raise Failed(f"{len(layers)} layers were seen in the folders, and {sorted(given)} given; use a larger dataset")
    for turn in turns:
        turn["bytes"] = max(machine["received"] / (there * sum(row_bytes.values())) for machine, there in zip(turn["two"], boundary))
    return {"bench": "inference wire", "data": meta["name"], "partition_rows": rows, "partition_edges": edges,
            "edges_cut": meta.get("cut", {}).get("edges_cut"), "boundary_rows": boundary, "row_bytes": row_bytes, "share": share,
            **{key: statistics.median(turn[key] for turn in turns) for key in ("bytes", "time", "cpu")}, "equal": equal,
            "turns": turns}, equal


class Killer:
    """Counts kills by process, and says when the next is due."""

    def __init__(self, options, pause):
        self.draw, self.pause, self.most, self.kills = random.Random(options.seed), pause, options.kills, {}
        self.due = self.next()

    def next(self):
        return time.monotonic() + self.draw.uniform(0.1, self.pause)

    def over(self):
        return sum(self.kills.values()) >= self.most

    def kill_one(self, running):
        """Returns who is to be started again, or None where nobody was killed."""
        name = self.draw.choice(sorted(running))
        running[name].kill()
        running[name].wait(timeout=30)
        self.due = self.next()
        if running[name].returncode != -signal.SIGKILL:
            return None  # it had just ended by itself
        self.kills[name] = self.kills.get(name, 0) + 1
        return name


def with_kills(pair, folder, killer):
    """Both machines' runs to their end, among kills; returns the servers, or None where the runs hung."""
    commands = {f"{what}-{machine.number}": (machine, words, what + ".log") for machine in pair.all
                for what, words in {"server": pair.server(machine, folder), "run": pair.run(machine, folder)}.items()}

    def start(name):
        machine, words, log = commands[name]
        return machine.start(words, log)

    running, until = {name: start(name) for name in commands}, time.monotonic() + pair.options.limit
    while any(name.startswith("run") for name in running):
        for name, process in list(running.items()):
            code = process.poll()
            if code == 0 and name.startswith("run"):
                del running[name]
            elif code is not None:
                machine, _, log = commands[name]
                raise Failed(f"{name} has ended by itself, with {code}: {last_line(machine.folder / log)}")
        if time.monotonic() > until:
            return None
        if time.monotonic() >= killer.due and not killer.over() and (name := killer.kill_one(running)):
            running[name] = start(name)
        time.sleep(POLL / 2)
    return running


def soon(found):
    """How much is still there after a while of what should not be."""
    until = time.monotonic() + LEAVES_WITHIN
    while (left := found()) and time.monotonic() < until:
        time.sleep(POLL)
    return len(left)


def left_behind(pair, folder, servers):
    """Ends the servers; returns how many shards and processes have not gone by themselves."""
    shards = soon(lambda: [path for machine in pair.all for path in pair.layers(machine, folder).rglob("*.rows")])
    for server in servers.values():
        server.kill()
        server.wait(timeout=30)
    return shards + soon(lambda: [pid for machine in pair.all for pid in machine.processes()])


def kills(options, meta):
    one = alone(options, options.folder / "one")
    expected = results_of(options.folder / "one")
    killer = Killer(options, max(0.2, min(2, one["seconds"] / 2)))
    runs, unhurt, found = 0, 0, {"different": 0, "hangs": 0, "left": 0}
    with Pair(options) as pair:
        while not killer.over() and not found["hangs"]:
            folder, before = options.folder / f"run-{runs}", sum(killer.kills.values())
            servers = with_kills(pair, folder, killer)
            runs += 1
            if servers is None:
                found["hangs"] += 1
            else:
                found["different"] += pair.results(folder) != expected
                found["left"] += left_behind(pair, folder, servers)
                shutil.rmtree(folder)
            unhurt = 0 if sum(killer.kills.values()) > before else unhurt + 1
            if unhurt == 20:
                raise Failed("20 runs have ended before a kill came; give a larger dataset")
            print(json.dumps({"runs": runs, "kills": killer.kills, **found}), file=sys.stderr, flush=True)
    return {"bench": "inference kills", "data": meta["name"], "nodes": meta["node_types"][0]["count"], "runs": runs,
            "kills": dict(sorted(killer.kills.items())), **found, "seconds_of_one_machine": one["seconds"]}, not any(found.values())


class MemoryCgroup:
    """A cgroup with a limit, of version 1 or 2, whichever has the memory; it goes at the end."""

    def __init__(self, limit):
        lines = [line.split(":", 2) for line in pathlib.Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()]
        name = f"hopfeed-inference-{os.getpid()}"
        if (old := next((path for _, controllers, path in lines if "memory" in controllers.split(",")), None)) is not None:
            root, self.key = pathlib.Path("/sys/fs/cgroup/memory"), "total_rss"
            limits = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"]
            parents = [root / old.lstrip("/"), root]
        else:
            root, self.key = pathlib.Path("/sys/fs/cgroup"), "anon"
            limits = ["memory.max", "memory.swap.max"]
            parents = [parent for parent in (root / lines[-1][2].lstrip("/"), root)
                       if "memory" in (parent / "cgroup.subtree_control").read_text(encoding="utf-8").split()]
        parents = [parent for parent in parents if parent.is_dir()]
        if not parents:
            raise Failed("no cgroup here passes the memory on to those below it (cgroup.subtree_control)")
        self.folder = parents[0] / name
        self.folder.mkdir()
        try:
            (self.folder / limits[0]).write_text(str(limit), encoding="utf-8")
            if (self.folder / limits[1]).exists():  # none where the kernel counts no swap
                (self.folder / limits[1]).write_text("0" if self.key == "anon" else str(limit), encoding="utf-8")
        except BaseException:
            self.folder.rmdir()
            raise
        self.anonymous, self.over, self.watch = 0, threading.Event(), threading.Thread(target=self.look)

    def look(self):
        while not self.over.wait(POLL):
            stat = dict(line.split() for line in (self.folder / "memory.stat").read_text(encoding="utf-8").splitlines())
            self.anonymous = max(self.anonymous, int(stat[self.key]))

    def enter(self):
        (self.folder / "cgroup.procs").write_text(str(os.getpid()), encoding="utf-8")

    def __enter__(self):
        self.watch.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.watch.join(30)
        until = time.monotonic() + 30
        while True:
            try:
                return self.folder.rmdir()
            except OSError:  # busy, until the kernel has seen the last process go
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)


def forget(folder):
    """Leaves nothing of the files in memory, so that whoever reads them next is charged."""
    for path in folder.rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def memory(options, meta):
    limit = options.memory + BESIDE_ROWS
    forget(options.data)
    with MemoryCgroup(limit) as cgroup:
        limited = alone(options, options.folder / "limited", preexec_fn=cgroup.enter)
    print(json.dumps({"limited": limited, "anonymous_bytes": cgroup.anonymous}), file=sys.stderr, flush=True)
    forget(options.data)
    free = alone(options, options.folder / "free")
    equal = results_of(options.folder / "limited") == results_of(options.folder / "free")
    return {"bench": "inference memory", "data": meta["name"],
            "feature_bytes": sum(path.stat().st_size for path in options.data.rglob("x.npy")), "memory_bytes": options.memory,
            "limit_bytes": limit, "anonymous_bytes": cgroup.anonymous, "seconds": limited["seconds"],
            "seconds_without_limit": free["seconds"], "equal": equal}, equal


def parse():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--help", "-h", action="store_true")
    parser.add_argument("what", choices=["wire", "kills", "memory"], nargs="?")
    for name, default in {"data": None, "model": None, "folder": None, "bin": ROOT / "build/release/bin"}.items():
        parser.add_argument("--" + name, type=pathlib.Path, default=default)
    for name, default in {"turns": 3, "kills": 100, "seed": 1, "limit": 900}.items():
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--memory", type=bytes_of, default="512M")
    options = parser.parse_args()
    if options.help or not (options.what and options.data and options.model and options.folder):
        sys.exit(__doc__.strip())
    if min(options.turns, options.kills, options.limit) < 1:
        sys.exit("inference.py: --turns, --kills and --limit are at least 1")
    for path in (options.data / "meta.json", options.model, options.bin / "node_classification", options.bin / "hopfeed-server"):
        if not path.is_file():
            sys.exit(f"inference.py: there is no {path}")
    if options.folder.exists():
        sys.exit(f"inference.py: {options.folder} is there; name another folder")
    return options


def meta_of(options):
    meta = json.loads((options.data / "meta.json").read_text(encoding="utf-8"))
    if options.what != "memory" and meta["partitions"] != 2:
        raise Failed(f"{options.data} has {meta['partitions']} partitions; cut it in two (hopfeed-partition partition --parts 2)")
    if options.what == "wire" and (len(meta["node_types"]) != 1 or len(meta["edge_types"]) != 1):
        raise Failed(f"{options.data} has several types; give one of one node type and one edge type")
    return meta


def stop(number, _):
    for other in (signal.SIGINT, signal.SIGTERM):
        signal.signal(other, signal.SIG_IGN)  # what is of ours is removed first
    sys.exit(f"inference.py: ended by {signal.Signals(number).name}")


def main():
    options = parse()
    if os.geteuid() != 0:
        sys.exit("inference.py: network namespaces and cgroups are root's to make; run this as root, or in a container that may "
                 "make them")
    for name in ("data", "model", "folder"):
        setattr(options, name, getattr(options, name).resolve())
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    try:
        meta = meta_of(options)
        options.folder.mkdir(parents=True)
        report, good = {"wire": wire, "kills": kills, "memory": memory}[options.what](options, meta)
    except (Failed, OSError, subprocess.SubprocessError) as error:
        sys.exit(f"inference.py: {error}")
    print(json.dumps(report))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
