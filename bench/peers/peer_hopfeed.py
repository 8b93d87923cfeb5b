#!/usr/bin/env python3
"""hopfeed measured by its own programs, with the keys of the other loaders' programs: hopfeed-bench, and hopfeed-sample for a worker's death.

Usage: peer_hopfeed.py MEASURE --bin FOLDER --nodes N --edges N --features N --fanouts F --batch-size B --seconds S
The datasets are those that hopfeed-bench keeps in XDG_CACHE_HOME; settings: output=topology|batch of the sampler.
"""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

KILL_AFTER = 5    # batches taken when a worker is killed
NUM_BATCHES = 40  # at least, of a run in which one is


def bench(args, *arguments, batch_size=None):
    """The report of a benchmark."""
    command = [args.bin / "hopfeed-bench", *arguments, "--nodes", args.nodes, "--edges", args.edges, "--features", args.features, "--seconds", args.seconds,
               "--fanouts", args.fanouts, "--batch-size", batch_size or args.batch_size, "--huge-pages", args.settings.get("pages", "auto")]
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(result.stderr.strip().splitlines()[-1] if result.stderr.strip() else f"hopfeed-bench ended with {result.returncode}")
    return json.loads(result.stdout)


def sampler(kind):
    def run(args):
        # A quarter as many links, with one negative each: as many ends.
        batch_size = max(1, args.batch_size // 4) if kind == "link" else args.batch_size
        report = bench(args, "sampler", "--kind", kind, "--output", args.settings.get("output", "topology"), batch_size=batch_size)
        return {"edges_per_cpu_s": 1e3 * report["edges_per_batch"] / report["ms_per_batch"]} | {
            key: report[key] for key in ("edges_per_s", "edges_per_batch", "nodes_per_batch", "ms_per_batch", "cpu_share")}

    return run


def loader(args):
    report = bench(args, "loader", "--num-workers", args.workers)
    return {key: report[key] for key in ("batches_per_s", "bytes_per_s", "bytes_per_batch")}


def handover(args):
    report = bench(args, "channel")
    return {"handover_us": report["handover_us_median"], "handover_us_longest": report["handover_us_p99"], "bytes_per_batch": report["bytes_per_batch"],
            "handovers": report["handovers"]}


def lines_of(command, victim=None):
    """The lines that hopfeed-sample prints, and the longest wait for one after `victim`, a worker by its place, was killed."""
    sampling = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines, longest, last = [], 0.0, None
    for line in sampling.stdout:
        now = time.monotonic()
        if last is not None:
            longest = max(longest, now - last)
            last = now
        lines.append(line)
        if victim is not None and len(lines) == KILL_AFTER:
            workers = pathlib.Path(f"/proc/{sampling.pid}/task").glob("*/children")
            pids = sorted(int(pid) for children in workers for pid in children.read_text().split())
            os.kill(pids[victim], signal.SIGKILL)
            last = time.monotonic()
    error = sampling.stderr.read().strip()
    return sampling.wait(), lines, longest, error.splitlines()[-1] if error else ""


def kill(args):
    """The batches of an epoch with a worker killed, against those of one that nobody disturbs, by their digests."""
    dataset = max(pathlib.Path(os.environ["XDG_CACHE_HOME"], "hopfeed-bench").glob(f"generated-*-{args.nodes}-{args.edges}-{args.features}"))
    seeds = json.loads((dataset / "meta.json").read_text())["node_types"][0]["splits"]["train"]
    command = ["stdbuf", "-oL", str(args.bin / "hopfeed-sample"), str(dataset), "--fanouts", args.fanouts, "--batch-size", str(args.batch_size), "--num-workers",
               str(args.workers), "--epochs", str(-(-NUM_BATCHES * args.batch_size // seeds))]
    undisturbed = lines_of(command)[1]
    status, lines, longest, error = lines_of(command, victim=0)
    if status != 0:
        return {"outcome": "error", "seconds": longest, "message": error, "batches_after": len(lines) - KILL_AFTER, "expected_after": len(undisturbed) - KILL_AFTER}
    outcome = "all batches, byte for byte" if lines == undisturbed else "other batches"
    return {"outcome": outcome, "seconds": longest, "batches_after": len(lines) - KILL_AFTER, "expected_after": len(undisturbed) - KILL_AFTER}


MEASURES = {"node": sampler("uniform"), "link": sampler("link"), "weighted": sampler("weighted"), "labor": sampler("labor"), "hetero": sampler("hetero"),
            "loader": loader, "handover": handover, "kill": kill}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("measure", choices=MEASURES)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    for name, default in (("nodes", 2_449_029), ("edges", 123_718_280), ("features", 100), ("batch-size", 1024), ("workers", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--fanouts", default="15,10,5")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE: a setting")
    args = parser.parse_args()
    args.settings = dict(pair.split("=", 1) for pair in args.set)
    print(json.dumps(MEASURES[args.measure](args)))


if __name__ == "__main__":
    main()
