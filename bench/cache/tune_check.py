#!/usr/bin/env python3
"""Holds what `hopfeed-partition tune` says of an epoch against real epochs of hopfeed-sample, in five settings: workers of this
machine with float32, with float16, with features in files, and a client of a server over loopback that holds nothing and a fifth.

Usage: bench/cache/tune_check.py [--bin DIR] [--dir DIR] [--rounds N] [--only NAME] [--nodes N] [--edges N]

By turns, so that all settings see the same hours; medians of the rounds. Of each run of --epochs the one counts that others
disturbed least (foreign_share: of the cores, by programs that are not ours), but for the first, which makes the pages of the
channel's memory; runs are made again until --patience is over or one was quiet.

Where others never rest, alone_seconds is what the clock says less what they had of the cores: what ran, and what idled, over all
cores. It stands for a run alone where the cores bind; where the disk does, the clock counts, and is taken for `ratio`. cpu_ratio holds the
model's sum of all stages against what that epoch took on the cores, of all processes. Prints one JSON object."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORES = len(os.sched_getaffinity(0))
QUIET = 0.05  # of the cores, that others may take


def machine_cpu():
    """Seconds that the cores were busy, with anything."""
    fields = [int(x) for x in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    user, nice, system, _, _, irq, softirq, steal = fields[:8]
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def tree_cpu(pid):
    """Of a process and all below it."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        below = [child for task in pathlib.Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    except OSError:  # it has ended
        return 0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + sum(tree_cpu(child) for child in below)


def wait_until_quiet(until):
    """Until nobody else has used the cores for two seconds, or the time has come."""
    while time.monotonic() < until:
        began, busy = time.monotonic(), machine_cpu()
        time.sleep(2)
        if (machine_cpu() - busy) / ((time.monotonic() - began) * CORES) <= QUIET:
            return


class Bench:
    def __init__(self, options):
        self.options, self.bin, self.dir = options, pathlib.Path(options.bin), pathlib.Path(options.dir)

    def tool(self, *words):
        subprocess.run([self.bin / "hopfeed-partition", *map(str, words)], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)

    def data(self):
        """Graphs of ogbn-products' size."""
        size = ["--nodes", self.options.nodes, "--edges", self.options.edges, "--classes", 47, "--seed", 1]
        for name, features, train in (("p32", 100, 0.08), ("files", 128, 0.02)):
            if not (self.dir / name / "meta.json").exists():
                self.tool("generate", self.dir / name, *size, "--features", features, "--train-fraction", train)
        if not (self.dir / "p16" / "meta.json").exists():
            self.tool("convert", self.dir / "p32", self.dir / "p16", "--attr", "x=float16")

    def report(self, command):
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            subprocess.run([*map(str, command), "--json", file.name], check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
            return json.load(open(file.name, encoding="utf-8"))

    def predict(self, setting):
        began = time.monotonic()
        said = self.report([self.bin / "hopfeed-partition", "tune", self.dir / setting["data"], "--policies", "stored",
                            "--digest", *setting["sampling"], "--num-workers", 2, *setting["tune"]])
        # A curve of the row cache may come first; what is held is that of the stored order.
        points = [p for p in said["curve"] if p["policy"] == "stored"]
        point = min(points, key=lambda p: abs(p["ratio"] - setting["held"]))
        return {"seconds": point["epoch_seconds"], "batches": said["epoch_batches"], "hit_rate": point["hit_rate"], "binds": point["binds"],
                "cpu_seconds": point["stages"]["cores"] * CORES,
                "command_seconds": time.monotonic() - began}

    def run(self, setting, batches):
        """Epochs as rows: seconds, hit_rate, cpu_seconds, foreign_share."""
        sample = [self.bin / "hopfeed-sample", *setting["sampling"], "--epochs", self.options.epochs]
        if not setting["remote"]:
            return self.watch([*sample, self.dir / setting["data"], "--num-workers", 2, *setting["sample"]], [], batches)
        server = subprocess.Popen([self.bin / "hopfeed-server", "--data", self.dir / setting["data"], "--listen", "127.0.0.1:0",
                                   "--num-workers", "2"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            for line in server.stdout:
                if line.startswith("listening on "):
                    return self.watch([*sample, "--servers", line.split()[-1], "--cache", setting["held"]], [server.pid], batches)
            sys.exit("the server does not start")
        finally:
            server.terminate()
            server.wait()

    def watch(self, command, beside, batches):
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            marks = []
            with subprocess.Popen([*map(str, command), "--json", file.name], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL) as process:
                # A line for each batch, flushed with each epoch.
                for number, _ in enumerate(process.stdout, 1):
                    if number % batches == 0:
                        own = sum(map(tree_cpu, [process.pid, *beside]))
                        marks.append((time.monotonic(), machine_cpu(), own))
            if process.returncode != 0:
                sys.exit(f"{' '.join(map(str, command))} has failed")
            rows = json.load(open(file.name, encoding="utf-8"))["epoch_rows"]
        for row, before, after in zip(rows[1:], marks, marks[1:]):
            wall, busy, own = (b - a for a, b in zip(before, after))
            row.update(cpu_seconds=own, foreign_share=max(0, busy - own) / (wall * CORES))
        return rows

    def measure(self, setting, batches):
        best, until = None, time.monotonic() + self.options.patience
        while True:
            wait_until_quiet(until)
            rows = self.run(setting, batches)
            for row in rows[1:]:
                if best is None or row["foreign_share"] < best["foreign_share"]:
                    best = {**row, "first_seconds": rows[0]["seconds"],
                            "alone_seconds": row["seconds"] * (1 - row["foreign_share"])}
            if best["foreign_share"] <= QUIET or time.monotonic() > until:
                return best


def settings():
    deep, flat = ["--fanouts", "15,10,5", "--batch-size", "1024"], ["--fanouts", "10,5", "--batch-size", "1024"]
    return {
        "memory-float32": {"data": "p32", "sampling": deep, "tune": [], "sample": [], "remote": False, "held": 0},
        "memory-float16": {"data": "p16", "sampling": deep, "tune": [], "sample": [], "remote": False, "held": 0},
        "file": {"data": "files", "sampling": flat, "tune": ["--features-from", "file"], "sample": ["--features-from", "file"],
                 "remote": False, "held": 0},
        "loopback": {"data": "p32", "sampling": deep, "tune": ["--link", "loopback"], "remote": True, "held": 0},
        "loopback-held": {"data": "p32", "sampling": deep, "tune": ["--link", "loopback"], "remote": True, "held": 0.2},
    }


def enter_limited_network(rate):
    """Starts this script again within a namespace of its own."""
    if "HOPFEED_LIMITED_NETWORK" in os.environ:
        return
    os.environ["HOPFEED_LIMITED_NETWORK"] = "1"
    limit = f"ip link set lo up && tc qdisc add dev lo root tbf rate {8 * rate}gbit burst 8mb latency 100ms"
    os.execvp("unshare", ["unshare", "--map-root-user", "--net", "sh", "-c", f'{limit} && exec "$0" "$@"', sys.executable, *sys.argv])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=ROOT / "build/release/bin")
    parser.add_argument("--dir", default=ROOT / "build/tune-check", help="where the graphs are made and kept: 5 GB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=6, help="of each run")
    parser.add_argument("--patience", type=float, default=180, help="seconds that each measurement waits for a quiet moment")
    parser.add_argument("--only", action="append", choices=list(settings()), help="this setting alone; may be given again")
    parser.add_argument("--link", type=float, help="GB a second that servers and clients have between them, in a network namespace whose "
                                                   "loopback is limited to that (tc); the settings of servers alone")
    parser.add_argument("--nodes", type=int, default=2_449_029)
    parser.add_argument("--edges", type=int, default=61_859_140)
    options = parser.parse_args()
    if options.link:
        enter_limited_network(options.link)
    bench = Bench(options)
    bench.dir.mkdir(parents=True, exist_ok=True)
    bench.data()
    chosen = {name: setting for name, setting in settings().items()
              if (not options.only or name in options.only) and (setting["remote"] or not options.link)}
    for setting in chosen.values():
        if options.link:
            setting["tune"] = ["--link", f"{options.link * 1e9:.0f}"]
    said, seen = {name: [] for name in chosen}, {name: [] for name in chosen}
    for number in range(options.rounds):
        for name, setting in chosen.items():
            wait_until_quiet(time.monotonic() + options.patience)
            said[name].append(bench.predict(setting))
            seen[name].append(bench.measure(setting, said[name][-1]["batches"]))
            print(f"round {number + 1}, {name}: said {said[name][-1]['seconds']:.2f} s, measured {seen[name][-1]['seconds']:.2f} s, "
                  f"alone {seen[name][-1]['alone_seconds']:.2f} s; "
                  f"on cores {said[name][-1]['cpu_seconds']:.2f} and {seen[name][-1]['cpu_seconds']:.2f} s; "
                  f"first {seen[name][-1]['first_seconds']:.2f} s (others {100 * seen[name][-1]['foreign_share']:.0f}%)", file=sys.stderr)
    middle = lambda rows, key: statistics.median(row[key] for row in rows)
    report = {"bench": "tune_check", "cores": CORES, "rounds": options.rounds, "settings": {}}
    for name in chosen:
        predicted, measured = middle(said[name], "seconds"), middle(seen[name], "seconds")
        counts = "seconds" if said[name][-1]["binds"] == "read" else "alone_seconds"
        report["settings"][name] = {
            "predicted_seconds": predicted, "measured_seconds": measured, "alone_seconds": middle(seen[name], "alone_seconds"),
            "ratio": predicted / middle(seen[name], counts),
            "ratios": [a["seconds"] / b[counts] for a, b in zip(said[name], seen[name])],
            "clock_ratio": predicted / measured,
            "cpu_ratio": middle(said[name], "cpu_seconds") / middle(seen[name], "cpu_seconds"),
            "predicted_cpu_seconds": middle(said[name], "cpu_seconds"), "measured_cpu_seconds": middle(seen[name], "cpu_seconds"),
            "first_epoch_seconds": middle(seen[name], "first_seconds"), "binds": said[name][-1]["binds"],
            "predicted_hit_rate": middle(said[name], "hit_rate"), "measured_hit_rate": middle(seen[name], "hit_rate"),
            "foreign_share": middle(seen[name], "foreign_share"),
            "command_seconds": max(row["command_seconds"] for row in said[name])}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
