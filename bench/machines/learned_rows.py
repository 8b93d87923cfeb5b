#!/usr/bin/env python3
"""Four trainers whose learned rows lie at owners on several machines: the losses of whole rows to the last bit while owners are
killed, and the rate on interactions. Machines are network namespaces, each with a server that keeps state. Prints one JSON line.

Usage: learned_rows.py bits --data DIR --folder DIR [--bin FOLDER] [--machines 1,2,4] [--kills N] [--epochs N]
       learned_rows.py interactions --data DIR --folder DIR [--bin FOLDER] [--batches N] [--batch-size N] [--hidden N]
                                    [--kills N] [--pause SECONDS]

  --folder DIR        where partitions, checkpoints and what everybody says go; it is made, and must not be there
  --edge-type NAME    whose links are learned (bits: listens, interactions: interacts); neighbours come by co_occurs
                      and by its reverse
  --torchrun PROGRAM  that of .venv
  --limit SECONDS     a run that takes longer is ended, and is an error (900)

bits           a dataset of any cut, in as many partitions as there are machines, in turn. `equal`: whether the loss and the AUC
               of each of --epochs (5) are those of four trainers with whole rows, to the last bit; `kills` of owners
               (SIGKILL, started again at once), at least --kills (10) or it is an error; `returns` to a checkpoint,
               `batches_again` that these cost
interactions   a dataset in partitions, a machine with an owner and a trainer for each, no whole rows anywhere. `batches_per_s`
               of --batches (500); `learned_rows`, of `rows`; `state_bytes` of each owner; `checkpoint_seconds`: from the
               first file at an owner to the commit, of the empty one before the first batch, of one in the middle and of
               that at the end; with --kills (0) of owners, the first --pause (60) seconds after the empty checkpoint, also
               `returns` and `batches_again`, which `batches_per_s` leaves out; `peak_bytes`: `own` (shared memory once) and `all`, with mapped files
               in memory, of all processes, and `of_a_server`, `of_a_trainer` and its worker the most

Network namespaces are root's to make. Exit status 1: a loss differs, there were too few kills, or something failed.
"""
import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

import namespaces
from namespaces import Failed, ip

ROOT = pathlib.Path(__file__).resolve().parents[2]
RANKS = 4
PORT, MEETING_PORT = 9470, 29500


class Machines(namespaces.Machines):
    def __init__(self, count, folder, options):
        self.options, self.folder = options, folder
        super().__init__(count, f"hl{os.getpid()}", folder)

    def addresses(self):
        return super().addresses(PORT)

    def serve(self, machine, data, memory):
        peers = ["--partitions", machine.number, "--peers", self.addresses()] if len(self.all) > 1 else []
        machine.serve([self.options.bin / "hopfeed-server", "--data", data, "--listen", f"{machine.address}:{PORT}", "--insecure",
                       "--num-workers", 1, "--max-memory", "256M", "--state", machine.folder / "state", "--state-memory", memory,
                       *peers])

    def batches_of(self, machine, data):
        """Each reads its own partition, and asks the others for the rest."""
        if len(self.all) == 1:
            return ["--data", data, "--owners", self.addresses()]
        return ["--data", data, "--partitions", machine.number, "--peers", self.addresses(), "--owners", "peers"]

    def train(self, out, command_of, beside):
        """Four trainers over the machines, which meet at the first. Calls `beside` until they have ended; returns the summary."""
        each = RANKS // len(self.all)
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth0"}
        running = []
        for m in self.all:
            cores = [] if each > 1 else ["--cores", m.number % os.cpu_count()]
            running.append(m.start(
                [self.options.torchrun, f"--nnodes={len(self.all)}", f"--nproc-per-node={each}", "--no-python", "--rdzv-backend=c10d",
                 f"--rdzv-endpoint={self.all[0].address}:{MEETING_PORT}", "--rdzv-id=" + out.name, f"--local-addr={m.address}",
                 f"--rdzv-conf=is_host={int(m.number == 0)},join_timeout=120", self.options.bin / "link_prediction", "--out", out,
                 "--no-baseline", *cores, *command_of(m)], "trainer.log", env=environment))
        until = time.monotonic() + self.options.limit
        while any(one.poll() is None for one in running):
            if time.monotonic() > until:
                raise Failed(f"the trainers have not ended within {self.options.limit} s; see {self.folder}")
            if failed := [m for m, one in zip(self.all, running) if one.poll()]:
                time.sleep(5)  # for what the others say
                raise Failed(f"a trainer of machine {failed[0].number} failed, see {failed[0].folder}/trainer.log")
            beside()
        if failed := [m for m, one in zip(self.all, running) if one.returncode]:
            raise Failed(f"a trainer of machine {failed[0].number} failed, see {failed[0].folder}/trainer.log")
        return json.loads((out / "summary.json").read_text(encoding="utf-8"))

    def status(self, machine):
        told = subprocess.run(["ip", "netns", "exec", machine.name, self.options.bin / "hopfeed-server", "status",
                               f"{machine.address}:{PORT}"], capture_output=True, text=True, timeout=60, check=True)
        return json.loads(told.stdout)


def learning(options, batch_size, *more):
    """Neighbours are those of the tutorial's two towers: co-occurring items, and a user's items."""
    none = ";".join(f"{name}=0,0" for name in options.without)
    return ["--edge-type", options.edge_type, "--fanouts", "8,4", "--edge-fanouts", none, "--batch-size", batch_size, "--lr", "0.01",
            "--embedding-lr", "0.01", "--hidden", options.hidden, *more]


class Killer:
    """Kills an owner, starts it again at once, and does so again once the trainers had `pause` seconds to come further."""

    def __init__(self, start, machines, out, pause, most=None):
        self.start, self.machines, self.checkpoint, self.pause, self.most = start, machines, out / "model.checkpoint", pause, most
        self.random, self.kills, self.next = random.Random(1), 0, None

    def __call__(self):
        if self.next is None and self.checkpoint.exists():
            self.next = time.monotonic() + self.pause
        if self.next is None or time.monotonic() < self.next or self.kills == self.most:
            return time.sleep(0.02)
        machine = self.random.choice(self.machines.all)
        machine.kill_server()
        self.start(machine)
        self.kills += 1
        self.next = time.monotonic() + self.random.uniform(0.4, 2) * self.pause


def learned(summary):
    """What has to be equal of every epoch."""
    return [[row["loss"], row["valid_auc"]] for row in summary["epoch_rows"]]


def cut(options, parts):
    folder = options.folder / f"cut-{parts}"
    subprocess.run([options.bin / "hopfeed-partition", "partition", options.data, folder, "--parts", str(parts)], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=options.limit)
    return folder


def with_kills(options, count, command, expected):
    data, folder = cut(options, count), options.folder / f"machines-{count}"
    with Machines(count, folder, options) as machines:
        def start(machine):
            machines.serve(machine, data, "256M")
        for machine in machines.all:
            start(machine)
        killer = Killer(start, machines, folder / "out", pause=0.6)
        begin = time.monotonic()
        found = machines.train(folder / "out", lambda m: [*machines.batches_of(m, data), *command], killer)
    return {"machines": count, "equal": learned(found) == expected, "kills": killer.kills, "returns": found["returns"],
            "batches_again": found["batches_again"], "learned_rows": found["learned_rows"], "seconds": time.monotonic() - begin,
            **({} if learned(found) == expected else {"loss_and_auc": learned(found)})}


def bits(options):
    command = learning(options, options.batch_size or 256, "--epochs", options.epochs, "--checkpoint-every", 5)
    with Machines(1, options.folder / "whole", options) as machine:
        whole = machine.train(options.folder / "whole/out", lambda _: ["--data", options.data, *command], lambda: time.sleep(0.05))
    expected = learned(whole)
    runs = []
    for count in options.machines:
        runs.append(with_kills(options, count, command, expected))
        print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
    good = all(run["equal"] and run["kills"] >= (10 if options.kills is None else options.kills) for run in runs)
    return {"bench": "learned_rows bits", "trainers": RANKS, "epochs": options.epochs, "batches": sum(
        row["batches"] for row in whole["epoch_rows"]), "loss_and_auc": expected, "runs": runs}, good


class Watch:
    """What processes of the machines have in memory, and when checkpoints are written, beside the training."""
    FIELDS = {"Pss:": "all", "Pss_Anon:": "own", "Pss_Shmem:": "own"}

    def __init__(self, machines, out):
        self.machines, self.commit = machines, out / "model.checkpoint"
        self.peak = {"own": 0, "all": 0, "of_a_server": 0, "of_a_trainer": 0, "of_a_worker": 0}
        self.begin, self.committed, self.checkpoints, self.tables, self.there = None, None, [], {}, self.folders()
        self.over, self.thread = threading.Event(), threading.Thread(target=self.look)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join(120)

    def look(self):
        last = False
        while not last:
            last = self.over.wait(3)
            self.memory()
            for number, machine in enumerate(self.machines.all):
                try:
                    self.tables[number] = self.machines.status(machine)["state"]["tables"] or self.tables.get(number, [])
                except subprocess.SubprocessError:
                    pass  # it ends, or is too busy to say

    def memory(self):
        sums = {"own": 0, "all": 0}
        for pid in [pid for m in self.machines.all for pid in m.processes()]:
            try:
                name = pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
                fields = [line.split() for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()]
            except (FileNotFoundError, ProcessLookupError):
                continue
            own = {"own": 0, "all": 0}
            for field in fields:
                if field[0] in self.FIELDS:
                    own[self.FIELDS[field[0]]] += 1024 * int(field[1])
            for key, value in own.items():
                sums[key] += value
            role = {"hopfeed-server": "of_a_server", "link_prediction": "of_a_trainer", "hopfeed-worker": "of_a_worker"}.get(name)
            if role:
                self.peak[role] = max(self.peak[role], own["own"])
        for key, value in sums.items():
            self.peak[key] = max(self.peak[key], value)

    def folders(self):
        return {path for m in self.machines.all for path, _, _ in os.walk(m.folder / "state")}

    def checkpoint(self):
        """A folder that was not there begins one; the renamed file of the trainers ends it."""
        time.sleep(0.01)
        there = self.folders()
        if self.begin is None and there - self.there:
            self.begin = time.monotonic()
        self.there = there
        committed = self.commit.stat().st_mtime_ns if self.commit.exists() else None
        if committed != self.committed and self.begin is not None:
            self.checkpoints.append(time.monotonic() - self.begin)
            self.begin = None
        self.committed = committed


def interactions(options):
    meta = json.loads((options.data / "meta.json").read_text(encoding="utf-8"))
    if meta["partitions"] != RANKS:
        raise Failed(f"{options.data} has {meta['partitions']} partitions; cut it into {RANKS} (hopfeed-partition partition)")
    command = learning(options, options.batch_size or 1024, "--epochs", 1, "--max-batches", options.batches, "--checkpoint-every",
                       options.batches // RANKS // 2 + 1, "--channel-size", "256M")
    with Machines(RANKS, options.folder / "machines", options) as machines:
        def start(machine):
            machines.serve(machine, options.data, options.state_memory)
        for machine in machines.all:
            start(machine)
        killer = Killer(start, machines, options.folder / "out", options.pause, options.kills or 0)
        begin = time.monotonic()
        with Watch(machines, options.folder / "out") as watch:
            def beside():
                watch.checkpoint()
                killer()
            found = machines.train(options.folder / "out", lambda m: [*machines.batches_of(m, options.data), *command], beside)
        seconds = time.monotonic() - begin
    row = found["epoch_rows"][0]
    owners = [{"tables": [{key: table[key] for key in ("name", "rows", "written", "bytes", "held_bytes")} for table in tables],
               "bytes": sum(table["bytes"] for table in tables)} for _, tables in sorted(watch.tables.items())]
    return {"bench": "learned_rows interactions", "data": meta["name"], "trainers": RANKS, "batches": row["batches"],
            "batch_size": options.batch_size or 1024, "hidden": options.hidden, "batches_per_s": row["batches_per_s"],
            "loss": row["loss"], "valid_auc": row["valid_auc"],
            "rows": sum(table["rows"] for owner in owners for table in owner["tables"]),
            "learned_rows": found["learned_rows"],
            "kills": killer.kills, "returns": found["returns"],
            "batches_again": found["batches_again"], "state_bytes": [owner["bytes"] for owner in owners],
            "owners": owners, "checkpoint_seconds": watch.checkpoints, "peak_bytes": watch.peak, "seconds": seconds}, True


def parse():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--help", "-h", action="store_true")
    parser.add_argument("what", choices=["bits", "interactions"], nargs="?")
    for name, default in {"data": None, "folder": None, "bin": ROOT / "build/release/bin",
                          "torchrun": ROOT / ".venv/bin/torchrun"}.items():
        parser.add_argument("--" + name, type=pathlib.Path, default=default)
    for name, default in {"kills": None, "pause": 60, "epochs": 5, "batches": 500, "batch_size": 0, "hidden": 64,
                          "limit": 900}.items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=default)
    parser.add_argument("--machines", default="1,2,4")
    parser.add_argument("--edge-type")
    parser.add_argument("--state-memory", default="2G")
    options = parser.parse_args()
    if options.help or not (options.what and options.data and options.folder):
        sys.exit(__doc__.strip())
    options.machines = [int(count) for count in options.machines.split(",")]
    if any(count not in (1, 2, 4) for count in options.machines):
        sys.exit("--machines takes 1, 2 and 4, over which four trainers can be dealt")
    if not (options.data / "meta.json").is_file():
        sys.exit(f"learned_rows.py: {options.data} is no dataset; it has no meta.json")
    options.edge_type = options.edge_type or {"bits": "listens", "interactions": "interacts"}[options.what]
    relations = [edge_type["rel"] for edge_type in json.loads((options.data / "meta.json").read_text(encoding="utf-8"))["edge_types"]]
    options.without = [name for name in relations if name not in ("co_occurs", "rev_" + options.edge_type)]
    return options


def main():
    options = parse()
    if os.geteuid() != 0:
        sys.exit("learned_rows.py: network namespaces are root's to make; run this as root, or in a container that may make them")
    options.folder = options.folder.resolve()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    try:
        options.folder.mkdir(parents=True)
        report, good = {"bits": bits, "interactions": interactions}[options.what](options)
    except (Failed, OSError, subprocess.SubprocessError) as error:
        sys.exit(f"learned_rows.py: {error}")
    print(json.dumps(report))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
