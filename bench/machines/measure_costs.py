"""Measures what batches over machines cost, for cost_model.py: machines are network namespaces on one bridge, of which the first makes all
batches and asks the servers of the others."""
import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import numpy
from cost_model import Deployment, Shape
from memory_bench import family, memory_of
from namespaces import Failed, Machines, ip, last_line

PORT, WITHIN = 9470, 300
UNDER_WAY = 4  # batches of a worker (--worker-concurrency)
# Batches: fanouts, seeds, whether they have features, how many are measured. The small ones show what a question costs, the others what
# rows and edges do, and those without features what these do.
SHAPES = {"three hops": ((15, 10, 5), 1024, True, 48), "a quarter": ((15, 10, 5), 256, True, 128), "no features": ((15, 10, 5), 512, False, 160),
          "two hops": ((10, 10), 1024, True, 128), "one hop": ((8,), 1024, True, 640), "small": ((4, 2), 64, True, 3000)}
LABEL = "y"  # the attribute that batches without features have
FEW = 8  # batches of a run that shows how long a start takes


@dataclasses.dataclass
class Setup:
    """Partitions of a dataset over machines: `own` on the first, which makes all batches; all others dealt out evenly to so many servers, of
    which each other machine has as many as the next."""
    data: pathlib.Path
    parts: int
    own: int
    machines: int
    servers: int = 0  # as many as there are other machines

    def served(self):
        """(machine, port, partitions) of each server."""
        count = self.servers or self.machines - 1
        of = [list(range(self.own + s, self.parts, count)) for s in range(count)]
        return [(1 + s % (self.machines - 1), PORT + s // (self.machines - 1), parts) for s, parts in enumerate(of)]


def cpu_of(pid):
    """Seconds of a process and its children that live."""
    def ticks(one):
        fields = pathlib.Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])
    return sum(map(ticks, family(pid))) / os.sysconf("SC_CLK_TCK")


class Cluster:
    """The machines of a setup and its servers."""

    def __init__(self, options, setup):
        self.options, self.setup, self.servers = options, setup, {}  # address -> (machine, process)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="hopfeed-costs-"))
        self.machines = Machines(setup.machines, f"hc{os.getpid()}", self.folder)

    def __enter__(self):
        try:
            for number, port, own in self.setup.served():
                machine = self.machines.all[number]
                address = f"{machine.address}:{port}"
                machine.serve([self.options.bin / "hopfeed-server", "--data", self.setup.data, "--partitions", ",".join(map(str, own)), "--listen",
                               address, "--insecure", "--num-workers", 1, "--max-memory", "256M"])
                self.servers[address] = machine, machine.server
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.machines.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def first(self):
        return self.machines.all[0]

    def cpu(self):
        """Of all servers."""
        return sum(cpu_of(process.pid) for _, process in self.servers.values())

    def counts(self):
        """Of all servers together."""
        total = {}
        for address, (machine, _) in self.servers.items():
            told = subprocess.run(["ip", "netns", "exec", machine.name, self.options.bin / "hopfeed-server", "status", address],
                                  capture_output=True, text=True, timeout=60, check=True)
            for key, value in json.loads(told.stdout)["peers"].items():
                total[key] = total.get(key, 0) + value
        return total

    def sample(self, fanouts, batch_size, features, batches, peers=None):
        """A run: of each batch CPU seconds of all processes from the first quarter to the last eighth, when as many are under way as before, and
        counts of the servers; batches/s; the most anonymous memory of the program and its worker meanwhile."""
        seeds = self.folder / f"seeds-{batch_size * batches}.npy"
        if not seeds.exists():
            numpy.save(seeds, seeds_of(self.options, batch_size * batches))
        report, log = self.folder / "report.json", self.folder / "machine-0/sample.log"
        log.unlink(missing_ok=True)
        words = ["stdbuf", "-oL", self.options.bin / "hopfeed-sample", self.setup.data, "--fanouts", ",".join(map(str, fanouts)), "--batch-size",
                 batch_size, "--seeds", seeds, "--num-workers", 1, "--json", report, *([] if features else ["--attrs", LABEL])]
        if self.setup.machines > 1:
            words += ["--partitions", ",".join(map(str, range(self.setup.own))), "--peers", peers or ",".join(self.servers)]
        before = self.counts()
        process = self.first.start(words, log.name)
        cpu, anonymous = self.watch(process, log, batches)
        if process.wait(timeout=30):
            raise Failed(f"hopfeed-sample ended with {process.returncode}: {last_line(log)}")
        told = json.loads(report.read_text(encoding="utf-8"))
        return {"cpu": cpu, "anonymous": anonymous, "rate": told["batches"] / told["seconds"],
                **{key: (value - before[key]) / batches for key, value in self.counts().items()}}

    def watch(self, process, log, batches):
        """Until a run ends: CPU seconds of a batch, and the most anonymous memory."""
        marks, most, until = [], 0, time.monotonic() + WITHIN
        while process.poll() is None:
            if time.monotonic() > until:
                process.kill()
                process.wait(timeout=30)
                raise Failed(f"hopfeed-sample has not ended within {WITHIN} s")
            done = log.read_bytes().count(b"\n")
            try:
                if len(marks) < 2 and done >= batches * (1, 3.5)[len(marks)] / 4:
                    marks.append((done, self.cpu() + cpu_of(process.pid)))
                    most = max(most, memory_of(family(process.pid))[0])
            except (OSError, KeyError, IndexError):  # it ends
                pass
            time.sleep(0.01)
        if len(marks) < 2 or marks[0][0] == marks[1][0]:
            return 0.0, most  # too short a run to say
        return (marks[1][1] - marks[0][1]) / (marks[1][0] - marks[0][0]), most

    def start(self):
        """Of a program and its worker whose batches are of one seed: anonymous memory, and the seconds of a whole run of a few."""
        begin = time.monotonic()
        self.sample((1,), 1, False, FEW)
        return {"seconds": time.monotonic() - begin, "anonymous": self.sample((1,), 1, False, 4096)["anonymous"]}


def connect(address, fingerprint):
    """A connection that has asked a server for its partitions, as processes of other machines do (docs/protocol.md, version 1)."""
    host, port = address.rsplit(":", 1)
    made = socket.create_connection((host, int(port)), timeout=30)

    def send(kind, request, payload):
        made.sendall(struct.pack("<4sHHQQ", b"HPF1", kind, 0, request, len(payload)) + payload)

    def receive():
        head = made.recv(24, socket.MSG_WAITALL)
        _, kind, _, _, size = struct.unpack("<4sHHQQ", head)
        return kind, made.recv(size, socket.MSG_WAITALL)
    send(1, 0, struct.pack("<HH32s", 1, 1, os.urandom(32)) + b"connections")
    receive()
    send(3, 0, bytes(32))
    receive()
    send(50, 1, fingerprint.encode())
    if (answer := receive())[0] != 51:
        raise Failed(f"{address} does not say its partitions: {answer}")
    return made


def connection_memory(options, count=900):
    """Anonymous bytes that a server has for each connection of a process of another machine, which asks nothing."""
    setup = Setup(options.folder / "cut-2", 2, 1, 2)
    fingerprint = json.loads((setup.data / "meta.json").read_text(encoding="utf-8"))["fingerprint"]
    with Cluster(options, setup) as cluster, here_too(cluster):
        (address, (_, server)), = cluster.servers.items()
        made = [connect(address, fingerprint) for _ in range(20)]
        before = memory_of([server.pid])[0]
        made += [connect(address, fingerprint) for _ in range(count)]
        after = memory_of([server.pid])[0]
        for one in made:
            one.close()
    return {"connections": count, "bytes_of_one": (after - before) / count}


@contextlib.contextmanager
def here_too(cluster):
    """This namespace is on the bridge meanwhile; gives its address there."""
    host = "10.213.78.1"
    ip("addr", "add", host + "/24", "dev", cluster.machines.bridge)
    try:
        yield host
    finally:
        ip("addr", "del", host + "/24", "dev", cluster.machines.bridge)


def seeds_of(options, count):
    """Training nodes, over and over."""
    train = numpy.load(options.whole / "splits/node/train.npy")
    return numpy.resize(numpy.random.default_rng(3).permutation(train), count)


def shape_of(options, fanouts, batch_size, of=6):
    """What batches have, the mean of some, of one machine that has all; and who knows their nodes."""
    nodes, rows, edges, known = [], [], [], numpy.zeros(0)
    to = known_by(options.whole)
    with tempfile.TemporaryDirectory(prefix="hopfeed-shape-") as folder:
        seeds, dump = f"{folder}/seeds.npy", f"{folder}/batch.npz"
        numpy.save(seeds, seeds_of(options, batch_size * of))
        for i in range(of):
            subprocess.run([options.bin / "hopfeed-sample", options.whole, "--fanouts", ",".join(map(str, fanouts)), "--batch-size", str(batch_size),
                            "--seeds", seeds, "--at", f"0,{i * batch_size},{batch_size}", "--dump", dump], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=WITHIN)
            with numpy.load(dump) as batch:
                ids, per_hop = batch["n_id"], batch["num_sampled_nodes"]
                rows.append(per_hop[:-1])
                edges.append(batch["num_sampled_edges"])
                nodes.append(len(ids))
                found = numpy.bincount(to[ids])
                known = numpy.pad(known, (0, max(0, len(found) - len(known)))) + numpy.pad(found, (0, max(0, len(known) - len(found))))
    return Shape(seeds=batch_size, rows=numpy.mean(rows, 0).tolist(), edges=numpy.mean(edges, 0).tolist(), nodes=float(numpy.mean(nodes)),
                 known_by={k: n / known.sum() for k, n in enumerate(known.tolist()) if n})


@functools.cache
def known_by(whole):
    """Of each node, by original id: how many other nodes its edges go to."""
    rows = numpy.load(whole / "part-0000/edges/node__to__node/rows.npy")
    sources = numpy.load(whole / "part-0000/edges/node__to__node/indices.npy").astype(numpy.int64)
    count = len(rows) - 1
    ends = numpy.repeat(numpy.arange(count), numpy.diff(rows["offset"]))
    pairs = numpy.unique(sources * count + ends)
    pairs = pairs[pairs // count != pairs % count]
    out = numpy.zeros(count, numpy.int64)
    out[rows["original_id"][:-1]] = numpy.bincount(pairs // count, minlength=count)
    return out


def deployment_of(setup, features):
    """What the dataset of a setup says of it, and of batches with features or without."""
    meta = json.loads((setup.data / "meta.json").read_text(encoding="utf-8"))
    widths = {"float32": 4, "int64": 8, "float16": 2, "uint8": 1}
    size = {a["name"]: widths[a["element_type"]] * int(numpy.prod(a["shape"])) for a in meta["node_types"][0]["attrs"]}
    return Deployment(machines=setup.parts, here=setup.own, sharded=meta.get("ids") == "sharded",
                      id_bytes=4 if meta["node_types"][0]["new_id_type"] == "int32" else 8,
                      feature_bytes=tuple(b for name, b in size.items() if name == LABEL or features), servers=len(setup.served()))


def prepare(options, parts_of=(2, 3, 4)):
    """The graph whole and in so many partitions with sharded ids, cut at random, below options.folder."""
    options.whole = options.folder / "whole"
    made = options.folder / "made"
    tool = options.bin / "hopfeed-partition"

    def run(*words):
        told = subprocess.run([tool, *map(str, words)], capture_output=True, text=True, check=False)
        if told.returncode:
            raise Failed(told.stderr.strip().splitlines()[-1])
    if not options.whole.exists():
        if options.data:
            options.whole.symlink_to(options.data.resolve())
        else:
            run("generate", made, "--nodes", options.nodes, "--edges", options.edges, "--features", options.features, "--classes", 40, "--seed", 1,
                "--no-edge-ids")
            made.rename(options.whole)
    for parts in parts_of:
        if not (options.folder / f"cut-{parts}").exists():
            run("partition", options.whole, options.folder / f"cut-{parts}", "--parts", parts, "--method", "random", "--ids", "sharded")


def setups(options):
    """On one machine, and on two with a third, a half and two thirds of the partitions elsewhere, these also at two servers."""
    of = {"one": Setup(options.whole, 1, 1, 1)}
    for parts, own, servers in ((3, 2, 1), (2, 1, 1), (3, 1, 1), (3, 1, 2)):
        of[f"{parts - own} of {parts} at {servers}"] = Setup(options.folder / f"cut-{parts}", parts, own, 2, servers)
    return of


def four(options):
    return Setup(options.folder / "cut-4", 4, 1, 4)


def measure_rounds(options, wanted, rounds):
    """Of rounds, each of all setups and batches by turns, medians; of CPU seconds the least, since what else runs on these cores only adds to
    them. `wanted` has setups by name."""
    found = {}
    for number in range(rounds):
        for where, setup in wanted.items():
            with Cluster(options, setup) as cluster:
                start = cluster.start()
                for name, kind in SHAPES.items():
                    one = cluster.sample(*kind)
                    one |= {"batch_memory": (one["anonymous"] - start["anonymous"]) / UNDER_WAY, "start_seconds": start["seconds"],
                            "start_anonymous": start["anonymous"]}
                    found.setdefault((name, where), []).append(one)
                    print(number, where, name, json.dumps(one), file=sys.stderr, flush=True)
    return {key: {name: (min if name == "cpu" else statistics.median)(one[name] for one in runs) for name in runs[0]}
            for key, runs in found.items()}
