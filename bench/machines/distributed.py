#!/usr/bin/env python3
"""Whether one script trains the same alone and on several hosts: examples/python/distributed_sage.py by itself, and launched by
hopfeed-launch on hosts that are namespaces with an sshd (python/tests/ssh_hosts.py), which are root's to make. Prints one JSON line.

Usage: distributed.py --data DIR... --folder DIR [--epochs N] [--batch-size N]

  --data DIR...  the same graph cut into 2, 4, ... partitions: one host for each
  --folder DIR   for what the hosts have to themselves; it is made, and must not be there
  --epochs N     15
  --batch-size N seeds of a step, over all trainers (1000)

Each host has a server and a trainer, and only its own partition. `digests` says whether each rank had the batches that the script
alone goes through for that rank's seeds, `apart` how far the test accuracy is from the script's alone, in points.
Run it with the Python that has hopfeed. Exit status 1: other batches, or more than 0.3 points apart.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python/tests"))

from ssh_hosts import SshHosts  # noqa: E402

EXAMPLE = ROOT / "examples/python/distributed_sage.py"
ENDS_WITHIN = 1800  # seconds


def alone(data, *words):
    """What the script prints last, without a launcher."""
    environment = {**os.environ, "HOPFEED_DATA": str(data), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, EXAMPLE, *map(str, words)], env=environment, capture_output=True, text=True, timeout=ENDS_WITHIN)
    if done.returncode != 0:
        sys.exit(f"{EXAMPLE.name} failed alone: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def launched(options, data, count):
    with SshHosts(count, options.folder / f"hosts{count}") as hosts:
        for host in hosts.all:
            host.install(fast_torchrun=False)
        run = hosts.launcher("--hosts", hosts.file(), "--data", data, "--remote-data", hosts.folder / "data/cut", "--ssh", hosts.ssh(),
                             "--logs", hosts.folder / "logs", "--", sys.executable, EXAMPLE, "--digests",
                             "--epochs", options.epochs, "--batch-size", options.batch_size)
        out, err = run.communicate(timeout=ENDS_WITHIN)
    if run.returncode != 0:
        sys.exit(f"hopfeed-launch failed: {err}")
    told = [line[line.index("{"):] for line in out.splitlines() if '"test_accuracy"' in line]
    return json.loads(told[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, nargs="+", required=True)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=1000)
    options = parser.parse_args()
    options.folder.mkdir(parents=True)
    common = ("--epochs", options.epochs, "--batch-size", options.batch_size)
    by_itself = alone(options.data[0].resolve(), "--digests", *common)["test_accuracy"]
    runs = []
    for data in map(pathlib.Path.resolve, options.data):
        count = len(list(data.glob("part-*")))
        found = launched(options, data, count)
        same = [alone(data, "--replay", f"{rank}/{count}", *common)["ranks"][0]["digests"] == found["ranks"][rank]["digests"] for rank in range(count)]
        runs.append({"hosts": count, "digests": all(same), "batches": sum(len(epoch) for rank in found["ranks"] for epoch in rank["digests"]),
                     "test_accuracy": found["test_accuracy"], "apart": 100 * abs(found["test_accuracy"] - by_itself)})
        print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
    print(json.dumps({"bench": "distributed", "epochs": options.epochs, "alone": by_itself, "runs": runs}))
    return 0 if all(run["digests"] and run["apart"] <= 0.3 for run in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
