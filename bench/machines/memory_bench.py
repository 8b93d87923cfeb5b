#!/usr/bin/env python3
"""What four machines hold and read of graphs of several sizes: whether anything grows with the whole graph. Machines are network
namespaces, each with a partition and a server; one of them samples. Prints JSON.

Usage: memory_bench.py --folder DIR [--bin FOLDER] [--nodes 20M,50M,200M] [--replicated 20M,50M] [--cut 20M] [--batches N]
                       [--json FILE]

  --folder DIR       for the datasets, one after the other; it is made, and must not be there. 200M takes 10 GB
  --nodes LIST       sizes with sharded ids, written by random_cut.py: 2 edges a node, cut at random, no attributes
  --replicated LIST  sizes with replicated ids beside these
  --cut LIST         sizes that hopfeed-partition generates and cuts beside these (2 edges a node, sharded ids, labels). It takes
                     70 bytes a node
  --batches N        of 1,024 given seeds, fanouts 15,10,5 (60)

Of each size and way, in bytes:
folder               of a machine, the largest; `disk`: as du counts
server_anonymous     of a machine's server once it listens, and `server_anonymous_after` the batches; the largest
sampler_anonymous    of the sampling program and its worker with the first of batches of one seed, always the same four, and
                     `sampler_anonymous_after` the batches; `shared_after`: what they share, with slots for batches
mapped_by_server     of the machine's files: what its server has looked at once it listens; `mapped_by_sampler`: the program and its worker
                     with that first batch
read_by_server       of the machine's files in memory once its server listens, of none before. The kernel reads ahead (`read_ahead` bytes
                     around each place that is looked at first)
server_seconds, sampler_seconds    until it listens, and until the first batch
slopes               from the last size but one to the last: bytes more for each node more of a machine (N / 4), of each way

The smallest of `--nodes` is verified whole. Namespaces are root's to make; the Python needs numpy and xxhash. Exit status 1:
something failed.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import numpy
from namespaces import Failed, Machines, last_line
from random_cut import take_fingerprint, write_random_cut

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS, PORT = 4, 9470
WITHIN = 300  # seconds, for batches
OF_SIZE = ("folder", "disk", "server_anonymous", "server_anonymous_after", "sampler_anonymous", "sampler_anonymous_after", "shared_after",
           "mapped_by_server", "mapped_by_sampler", "read_by_server")


def size_of(text):
    found = re.fullmatch(r"(\d+)([KMG]?)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"'{text}' is no size; give one like 20M")
    return int(found[1]) * {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}[found[2]]


def sizes(text):
    return [size_of(one) for one in text.split(",") if one]


def files_of(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def forget(folder):
    """Nothing of these files stays in memory."""
    for path in files_of(folder):
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def in_memory(folder):
    told = subprocess.run(["fincore", "--bytes", "--noheadings", "--output", "RES", *map(str, files_of(folder))], check=True, capture_output=True,
                          text=True, timeout=60)
    return sum(map(int, told.stdout.split()))


def read_ahead(folder):
    """Bytes; None where the disk does not say."""
    device = os.stat(folder).st_dev
    try:
        return int(pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/queue/read_ahead_kb").read_text()) << 10
    except OSError:
        return None


def family(pid):
    """A process and its children, whichever of its threads has them."""
    try:
        return [pid, *(int(child) for tasks in pathlib.Path(f"/proc/{pid}/task").glob("*/children") for child in tasks.read_text().split())]
    except OSError:
        return []


def memory_of(pids):
    """Anonymous and shared bytes, what several share counted once."""
    anonymous = shared = 0
    for pid in pids:
        text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
        values = {name: int(kb) << 10 for name, kb in re.findall(r"^(\w+): +(\d+) kB", text, re.M)}
        anonymous += values["Anonymous"]
        shared += values["Pss_Shmem"]
    return anonymous, shared


def mapped_of(pids, folder):
    """Bytes of a folder's files that these processes have looked at, and what lies beside it: 64 KiB at a time."""
    total = 0
    for pid in pids:
        ours = False
        for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
            if "-" in line.split(" ", 1)[0]:
                ours = str(folder) in line
            elif ours and line.startswith("Rss:"):
                total += int(line.split()[1]) << 10
    return total


def make_by_hopfeed(options, folder, nodes):
    """Returns the cut, as `generate` and `partition` make it."""
    for words in (["generate", folder / "whole", "--nodes", nodes, "--edges", 2 * nodes, "--features", 0, "--classes", 40, "--seed", 1,
                   "--no-edge-ids"],
                  ["partition", folder / "whole", folder / "cut", "--parts", PARTS, "--method", "random", "--ids", "sharded"]):
        subprocess.run([options.bin / "hopfeed-partition", *map(str, words)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    shutil.rmtree(folder / "whole")


def verify(options, cut):
    """The fingerprint is what verify finds once all else is right."""
    def run():
        return subprocess.run([options.bin / "hopfeed-partition", "verify", cut], capture_output=True, text=True, check=False)
    found = re.search(r"the content's fingerprint is ([0-9a-f]{32})", run().stderr)
    if found:
        take_fingerprint(cut, found[1])
    if (told := run()).returncode:
        raise Failed(f"verify refuses what random_cut.py wrote: {told.stderr.strip()}")


def lay_out(cut, machines):
    """Each machine gets its partition, and what every one needs."""
    for machine in machines.all:
        data = machine.folder / "data"
        data.mkdir()
        (cut / f"part-{machine.number:04}").rename(data / f"part-{machine.number:04}")
        for path in cut.iterdir():
            if path.name != "meta.json" and not path.name.startswith("part-"):
                shutil.copytree(path, data / path.name, copy_function=os.link)
        shutil.copy(cut / "meta.json", data)
    shutil.rmtree(cut)


class Sampler:
    """hopfeed-sample on a machine; its lines go to a file as they come."""

    def __init__(self, options, machine, peers, seeds, *more):
        self.out = machine.folder / "sample.log"
        self.out.unlink(missing_ok=True)
        self.begin = time.monotonic()
        self.process = machine.start(["stdbuf", "-oL", options.bin / "hopfeed-sample", machine.folder / "data", "--partitions", machine.number,
                                      "--peers", peers, "--seeds", seeds, "--num-workers", 1, *more], self.out.name)

    def batches(self):
        return len(re.findall(rb"^\d+ \d+ \d+ \d+ \d+ [0-9a-f]{16}$", self.out.read_bytes(), re.M))

    def until(self, batches):
        """Returns the seconds since it was started."""
        while self.batches() < batches:
            if self.process.poll() is not None or time.monotonic() > self.begin + WITHIN:
                raise Failed(f"hopfeed-sample does not come to {batches} batches: {last_line(self.out)}")
            time.sleep(0.01)
        return time.monotonic() - self.begin

    def memory(self):
        return memory_of(family(self.process.pid))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(timeout=30)


def servers_memory(machines):
    return max(memory_of(family(machine.server.pid))[0] for machine in machines.all)


def measure(options, machines, nodes):
    """All machines have their folders; returns the figures."""
    found = {"folder": max(sum(path.stat().st_size for path in files_of(machine.folder / "data")) for machine in machines.all),
             "disk": max(sum(path.stat().st_blocks * 512 for path in files_of(machine.folder / "data")) for machine in machines.all)}
    peers = machines.addresses(PORT)
    for machine in machines.all:
        forget(machine.folder / "data")
    left = max(in_memory(machine.folder / "data") for machine in machines.all)
    seconds = []
    for machine in machines.all:
        begin = time.monotonic()
        machine.serve([options.bin / "hopfeed-server", "--data", machine.folder / "data", "--partitions", machine.number, "--peers", peers,
                       "--listen", f"{machine.address}:{PORT}", "--insecure", "--num-workers", 1, "--max-memory", "256M"])
        seconds.append(time.monotonic() - begin)
    time.sleep(2)  # they find each other
    found |= {"server_seconds": max(seconds), "server_anonymous": servers_memory(machines),
              "mapped_by_server": max(mapped_of(family(machine.server.pid), machine.folder / "data") for machine in machines.all),
              "read_by_server": max(in_memory(machine.folder / "data") for machine in machines.all) - left}
    first, seeds = machines.all[0], machines.all[0].folder / "seeds.npy"
    numpy.save(seeds, numpy.random.default_rng(7).integers(0, nodes, (options.batches + 20) * 1024))
    few = machines.all[0].folder / "few.npy"
    numpy.save(few, numpy.arange(4))
    with Sampler(options, first, peers, few, "--fanouts", 1, "--batch-size", 1, "--epochs", 10**6) as sampler:
        found["sampler_seconds"] = sampler.until(1)
        found["sampler_anonymous"] = sampler.memory()[0]
        found["mapped_by_sampler"] = mapped_of(family(sampler.process.pid), first.folder / "data")
    with Sampler(options, first, peers, seeds, "--fanouts", "15,10,5", "--batch-size", 1024, "--epochs", 1000) as sampler:
        sampler.until(options.batches)
        found["sampler_anonymous_after"], found["shared_after"] = sampler.memory()
        found["server_anonymous_after"] = servers_memory(machines)
    return found


def run(options, nodes, way):
    """Makes a dataset, measures it and takes it away."""
    cut, begin = options.folder / "cut", time.monotonic()
    if way == "cut":
        make_by_hopfeed(options, options.folder, nodes)
    else:
        write_random_cut(cut, nodes, parts=PARTS, sharded=way == "sharded")
        if way == "sharded" and nodes == min(options.nodes):
            verify(options, cut)
    made = time.monotonic() - begin
    with Machines(PARTS, f"hs{os.getpid()}", options.folder) as machines:
        lay_out(cut, machines)
        found = {"nodes": nodes, "ids": way, "made_seconds": made, **measure(options, machines, nodes)}
    for number in range(PARTS):
        shutil.rmtree(options.folder / f"machine-{number}")
    print(json.dumps(found), file=sys.stderr, flush=True)
    return found


def slopes(runs):
    """Of each way with two sizes or more, by its two largest."""
    of = {}
    for way in dict.fromkeys(one["ids"] for one in runs):
        same = sorted((one for one in runs if one["ids"] == way), key=lambda one: one["nodes"])[-2:]
        if len(same) == 2:
            more = (same[1]["nodes"] - same[0]["nodes"]) / PARTS
            of[way] = {name: (same[1][name] - same[0][name]) / more for name in OF_SIZE}
    return of


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--nodes", type=sizes, default=sizes("20M,50M,200M"))
    parser.add_argument("--replicated", type=sizes, default=sizes("20M,50M"))
    parser.add_argument("--cut", type=sizes, default=sizes("20M"))
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--help", "-h", action="store_true")
    options = parser.parse_args()
    if options.help or options.folder is None:
        sys.exit(__doc__.strip())
    if options.folder.exists():
        sys.exit(f"{options.folder} is there; name another folder")
    options.folder = options.folder.resolve()
    options.folder.mkdir(parents=True)
    try:
        runs = [run(options, nodes, way) for way, of in (("sharded", options.nodes), ("replicated", options.replicated), ("cut", options.cut))
                for nodes in of]
        ahead = read_ahead(options.folder)
    except Failed as error:
        sys.exit(f"memory_bench.py: {error}")
    finally:
        shutil.rmtree(options.folder)
    told = json.dumps({"bench": "memory", "machines": PARTS, "batches": options.batches, "read_ahead": ahead,
                       "slopes": slopes(runs), "all": runs}, indent=1)
    if options.json:
        options.json.write_text(told + "\n", encoding="utf-8")
    print(told)


if __name__ == "__main__":
    main()
