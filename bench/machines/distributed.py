#!/usr/bin/env python3
"""Whether one script trains the same alone and on several hosts: examples/python/distributed_sage.py by itself, and launched by
hopfeed-launch on hosts that are namespaces with an sshd (python/tests/ssh_hosts.py), which are root's to make. Prints one JSON line.

Usage: distributed.py --data DIR... --folder DIR [--epochs N] [--batch-size N] [--seeds N]

  --data DIR...  the same graph cut into 2, 4, ... partitions: one host for each
  --folder DIR   for what the hosts have to themselves; it is made, and must not be there
  --epochs N     15
  --batch-size N seeds of a step, over all trainers (1000)
  --seeds N      runs of each, by --seed 0, 1, ...; accuracies are means over them (1)

Each host has a server and a trainer, and only its own partition. `digests` says whether each rank had the batches that the script
alone goes through for that rank's seeds, `apart` how far the test accuracy is from the script's alone, in points.
Run it with the Python that has hopfeed. Exit status 1: other batches, or more than 0.3 points apart.
"""
import argparse
import json
import os
import pathlib
import statistics
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


def launched(options, data, count, seed):
    with SshHosts(count, options.folder / f"hosts{count}-{seed}") as hosts:
        for host in hosts.all:
            host.install(fast_torchrun=False)
        run = hosts.launcher("--hosts", hosts.file(), "--data", data, "--remote-data", hosts.folder / "data/cut", "--ssh", hosts.ssh(),
                             "--logs", hosts.folder / "logs", "--", sys.executable, EXAMPLE, "--digests",
                             "--epochs", options.epochs, "--batch-size", options.batch_size, "--seed", seed)
        out, err = run.communicate(timeout=ENDS_WITHIN)
    if run.returncode != 0:
        sys.exit(f"hopfeed-launch failed: {err}")
    told = [line[line.index("{"):] for line in out.splitlines() if '"test_accuracy"' in line]
    return json.loads(told[-1])


def words(options, seed):
    return "--epochs", options.epochs, "--batch-size", options.batch_size, "--seed", seed


def compared(options, data, by_itself):
    count = len(list(data.glob("part-*")))
    batches, same, reached = 0, True, []
    for seed in range(options.seeds):
        found = launched(options, data, count, seed)
        reached.append(found["test_accuracy"])
        for rank, told in enumerate(found["ranks"]):
            replayed = alone(data, "--replay", f"{rank}/{count}", *words(options, seed))["ranks"][0]
            same = same and replayed["digests"] == told["digests"]
            batches += sum(map(len, told["digests"]))
        print(json.dumps({"hosts": count, "seed": seed, "test_accuracy": reached[-1], "alone": by_itself[seed]}), file=sys.stderr, flush=True)
    apart = 100 * abs(statistics.mean(reached) - statistics.mean(by_itself))
    return {"hosts": count, "digests": same, "batches": batches, "test_accuracy": reached, "apart": apart}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, nargs="+", required=True)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    options.folder.mkdir(parents=True)
    by_itself = [alone(options.data[0].resolve(), "--digests", *words(options, seed))["test_accuracy"] for seed in range(options.seeds)]
    runs = [compared(options, data, by_itself) for data in map(pathlib.Path.resolve, options.data)]
    print(json.dumps({"bench": "distributed", "epochs": options.epochs, "alone": by_itself, "runs": runs}))
    return 0 if all(run["digests"] and run["apart"] <= 0.3 for run in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
