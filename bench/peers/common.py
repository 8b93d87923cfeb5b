"""What the programs of all loaders share: the exported graph, the clock, the loop over a loader, a worker's death, one JSON line.

A loader's program is called with a measure and prints one JSON object with that measure's keys, which docs/benchmarks.md lists.
"""
import argparse
import json
import os
import pathlib
import select
import signal
import statistics
import sys
import time

import numpy as np
import torch

from measure import remove_segments_of

WARM_STEPS = 2
WARM_BATCHES = 8         # of a loader: caches, pages and the workers' first batches
KILL_AFTER = 5           # batches taken when a worker is killed
KILL_BATCHES = 40        # of the epoch in which one is
BATCHES_PER_EPOCH = 200  # at least: how long an epoch takes to begin is not what is measured


class Graph:
    """What export.py wrote."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        spec = json.loads((self.folder / "graph.json").read_text())
        self.node_types, self.edge_types, self.seed_type = spec["node_types"], spec["edge_types"], spec["seed_type"]
        self.num_nodes = self.node_types[self.seed_type]
        self.spec = spec

    def load(self, name):
        """An array that this process owns, on no page of the file."""
        return torch.from_numpy(np.load(self.folder / name))

    def indptr(self, edge_type=0):
        return self.load(self.edge_types[edge_type]["indptr"])

    def indices(self, edge_type=0, dtype=torch.int64):
        return self.load(self.edge_types[edge_type]["indices"]).to(dtype)

    def weight(self):
        return self.load(self.edge_types[0]["weight"]).reshape(-1)

    def seeds(self):
        return self.load(self.spec["seeds"])

    def links(self):
        return self.load(self.spec["links"])

    def features(self):
        return self.load(self.spec["features"])[:, : self.spec["feature_width"]].contiguous()

    def triple(self, edge_type):
        edge = self.edge_types[edge_type]
        return edge["src"], edge["rel"], edge["dst"]


def batches_of(items, size):
    """Batches of the last dimension's items without end, shuffled anew for each epoch; incomplete ones are left out."""
    count = items.size(-1)
    size = min(size, count)
    random = torch.Generator().manual_seed(1)
    while True:
        order = torch.randperm(count, generator=random)
        for first in range(0, count - size + 1, size):
            yield items[..., order[first : first + size]]


def epoch_of_seeds(seeds, batch_size):
    """The seeds, so often that an epoch has many batches."""
    times = max(1, -(-BATCHES_PER_EPOCH * batch_size // len(seeds)))
    return seeds.repeat(times)


def sampling_rate(step, seconds):
    """Of a sampler on one thread: step() makes one batch and gives its numbers of edges and nodes."""
    for _ in range(WARM_STEPS):
        step()
    edges = nodes = batches = 0
    begin, cpu_begin = time.perf_counter(), time.process_time()
    while (now := time.perf_counter()) - begin < seconds or batches == 0:
        of_batch = step()
        edges, nodes, batches = edges + of_batch[0], nodes + of_batch[1], batches + 1
    now = time.perf_counter()
    cpu = time.process_time() - cpu_begin
    return {"edges_per_cpu_s": edges / cpu, "edges_per_s": edges / (now - begin), "edges_per_batch": edges / batches, "nodes_per_batch": nodes / batches,
            "ms_per_batch": 1e3 * cpu / batches, "batches": batches}


def loader_rate(epoch, bytes_of, seconds):
    """epoch() begins an epoch and gives its iterator; bytes_of(batch) counts what a trainer got."""
    taken = batches = size = 0
    begin = None
    while True:
        for batch in epoch():
            taken += 1
            if taken == WARM_BATCHES:
                begin = time.perf_counter()
            elif begin is not None:
                batches, size = batches + 1, size + bytes_of(batch)
                if time.perf_counter() - begin >= seconds:
                    took = time.perf_counter() - begin
                    return {"batches_per_s": batches / took, "bytes_per_s": size / took, "bytes_per_batch": size / batches, "batches": batches}


def handover_times(stamps):
    """stamps: (finished in the worker, had by the trainer, bytes) of each batch that the trainer was waiting for, in nanoseconds of the monotonic clock."""
    micros = sorted(1e-3 * (had - finished) for finished, had, _ in stamps)
    return {"handover_us": statistics.median(micros), "handover_us_longest": micros[-1], "bytes_per_batch": statistics.mean(size for *_, size in stamps),
            "handovers": len(micros)}


def children():
    """Processes that this one started."""
    found = []
    for task in os.listdir("/proc/self/task"):
        found += pathlib.Path(f"/proc/self/task/{task}/children").read_text().split()
    return [int(pid) for pid in found]


def descendants(pid):
    """Processes below one, the deepest first."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in task.read_text().split():
                found += [*descendants(int(child)), int(child)]
        except OSError:
            pass  # ended meanwhile
    return found


def kill_worker(batches, worker, expected):
    """Takes some batches, kills a worker, goes on. worker() names its process; `expected` are the epoch's batches. Prints what it
    sees as it comes, for watched() to read: a loader that hangs may hold the interpreter's lock, so nothing here can tell it."""
    taken = 0

    def tell(**seen):
        print(json.dumps({"at": time.monotonic(), "taken": taken, **seen}), flush=True)

    try:
        for _ in batches:
            taken += 1
            tell()
            if taken == KILL_AFTER:
                os.kill(worker(), signal.SIGKILL)
                tell(killed=True)
    except Exception as error:  # whatever the loader throws is what its user sees
        tell(error=str(error).strip().splitlines()[0][:200])
    tell(expected=expected)
    os._exit(0)  # nobody waits for workers


def outcome_of(lines, patience):
    """From what kill_worker told: what happened after the death. Lines that end before the last one are those of a loader that hangs."""
    killed = next((line for line in lines if line.get("killed")), None)
    if killed is None:
        why = next((line["error"] for line in lines if "error" in line), "it did not come to the fifth batch")
        sys.exit(f"no worker was killed: {why}")
    after = lines[lines.index(killed) + 1 :]
    report = {"batches_after": max([line["taken"] for line in after], default=killed["taken"]) - killed["taken"], "expected_after": KILL_BATCHES - killed["taken"]}
    error = next((line for line in after if "error" in line), None)
    if error:
        return {"outcome": "error", "seconds": error["at"] - killed["at"], "message": error["error"], **report}
    if not after or "expected" not in after[-1]:
        return {"outcome": "hangs", "seconds": patience, **report}
    times = [killed["at"], *(line["at"] for line in after[:-1])]
    longest = max((later - earlier for earlier, later in zip(times, times[1:])), default=0)
    return {"outcome": "all batches" if after[-1]["taken"] == after[-1]["expected"] else "batches lost", "seconds": longest, **report}


def watched(run, patience):
    """Runs what calls kill_worker in a process of its own and gives the outcome; ends it where a killed worker's loader is silent for `patience` seconds."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(write_end, 1)
        os.close(read_end)
        try:
            run()
        finally:
            os._exit(1)
    os.close(write_end)
    text = b""
    try:
        while True:
            # Until the worker is killed, the graph and the loader take as long as they take.
            if not select.select([read_end], [], [], patience if b"killed" in text else None)[0]:
                break
            part = os.read(read_end, 1 << 16)
            text += part
            if not part or b"expected" in text:
                break
    finally:
        for pid in [*descendants(child), child]:
            try:
                # The tracker ends when the others have, and removes their semaphores.
                if b"resource_tracker" not in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)
            except OSError:
                pass  # ended meanwhile
        os.waitpid(child, 0)
        remove_segments_of(child)
    lines = [line for line in text.decode().splitlines() if line.startswith('{"at"')]
    return outcome_of([json.loads(line) for line in lines], patience)


def parse(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("measure")
    parser.add_argument("--graphs", type=pathlib.Path, required=True, help="folder with the exports plain, weighted and hetero")
    parser.add_argument("--fanouts", type=lambda text: [int(number) for number in text.split(",")], default=[15, 10, 5])
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--bytes", type=int, default=152_000_000, help="of the batch that is handed over")
    parser.add_argument("--patience", type=float, default=30, help="seconds without a batch after which a loader hangs")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE: a setting of the loader")
    args = parser.parse_args(argv)
    args.settings = dict(pair.split("=", 1) for pair in args.set)
    args.link_batch = max(1, args.batch_size // 4)  # with one negative each, as many ends as a batch of nodes has seeds
    args.hetero_fanouts = [(fanout + 1) // 2 for fanout in args.fanouts]  # two edge types end at each node type
    return args


def main(measures, versions):
    """Runs the measure that the command line names; prints its one line."""
    args = parse()
    torch.set_num_threads(int(args.settings.get("threads", 1)))
    if args.measure not in measures:
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: no measure '{args.measure}'; there are {', '.join(measures)}")
    run = measures[args.measure]
    report = watched(lambda: run(args), args.patience) if args.measure == "kill" else run(args)
    print(json.dumps({**report, "versions": versions}), flush=True)
