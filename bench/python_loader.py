#!/usr/bin/env python3
"""The loaders of the Python package beside PyG's and GraphBolt's, by turns on one graph: batches/s with features.

Usage: python_loader.py PEERS [--rounds N] [--seconds S] [--workers N] [--json FILE]
  PEERS    the folder of bench/peers.sh (build/peers): its graph, its environments, and the settings that were best there

The package's seeds are distinct nodes, drawn from all: its PyG batches have a row for each draw, and copies of repeated seeds
are not what is measured. The other loaders repeat the train split until an epoch is as long. A graph of fewer nodes has shorter epochs.

Needs a Python that has hopfeed, torch and torch_geometric, and a run of bench/peers.sh --measure loader before. Prints one
JSON object: the median of each, all runs, and how many times as many batches as each other loader.
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "peers"))
from measure import Unmeasured, run_program  # noqa: E402
from peers import MEMORY_KEPT, PEERS, program_of  # noqa: E402

WARM_BATCHES, BATCHES_PER_EPOCH = 8, 200  # as bench/peers/common.py has them
FANOUTS, BATCH_SIZE = [15, 10, 5], 1024
OURS = ("hopfeed.pyg", "hopfeed.torch")


def our_rate(kind: str, dataset: str, workers: int, seconds: float) -> dict[str, float]:
    """One of the package's loaders in this process."""
    import numpy as np
    import torch

    torch.set_num_threads(1)
    nodes = json.loads((pathlib.Path(dataset) / "meta.json").read_text())["node_types"][0]["count"]
    seeds = np.random.default_rng(1).permutation(nodes)[:BATCHES_PER_EPOCH * BATCH_SIZE]
    if kind == "hopfeed.pyg":
        from hopfeed.pyg import NeighborLoader

        loader = NeighborLoader(dataset, FANOUTS, input_nodes=torch.from_numpy(seeds), batch_size=BATCH_SIZE, shuffle=True, num_workers=workers, edge_ids=False)
        tensors = lambda batch: (value for value in batch.to_dict().values() if isinstance(value, torch.Tensor))  # noqa: E731
    else:
        from hopfeed.torch import Loader

        loader = Loader(dataset, fanouts=FANOUTS, seeds=seeds, batch_size=BATCH_SIZE, num_workers=workers)
        tensors = lambda batch: (value for _, store in batch for value in store.values() if isinstance(value, torch.Tensor))  # noqa: E731
    taken = batches = size = 0
    begin = 0.0
    while True:
        for batch in loader:
            taken += 1
            if taken == WARM_BATCHES:
                begin = time.perf_counter()
            elif taken > WARM_BATCHES:
                batches, size = batches + 1, size + sum(value.numel() * value.element_size() for value in tensors(batch))
                if (took := time.perf_counter() - begin) >= seconds:
                    loader.close()
                    return {"batches_per_s": batches / took, "bytes_per_batch": size / batches}


def peer_rate(peer: str, setting: str, folder: pathlib.Path, workers: int, seconds: float) -> dict[str, float]:
    """A loader's program at one of its settings."""
    chosen = next(one for one in PEERS[peer].settings["loader"] if one.name == setting)
    environment = {"DGLBACKEND": "pytorch", "PYTHONDONTWRITEBYTECODE": "1"} | (MEMORY_KEPT if chosen.memory_kept else {})
    command = [folder / peer / "bin/python", "-W", "ignore", HERE / "peers" / program_of(peer), "loader", "--graphs", folder / "graphs",
               "--workers", workers, "--seconds", seconds, *chosen.arguments]
    return run_program(command, environment, 900)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--only", choices=OURS, help=argparse.SUPPRESS)  # in a process of its own
    arguments = parser.parse_args()
    spec = json.loads((arguments.peers / "graphs/plain/graph.json").read_text())
    dataset = str(pathlib.Path(spec["features"]).parents[3])
    if arguments.only:
        print(json.dumps(our_rate(arguments.only, dataset, arguments.workers, arguments.seconds)))
        return
    results = json.loads((arguments.peers / "results.json").read_text())
    best = {peer: results["peers"][peer]["measures"]["loader"]["setting"] for peer in ("pyglib", "pyg", "graphbolt")
            if "setting" in results["peers"].get(peer, {}).get("measures", {}).get("loader", {})}
    runs: dict[str, list[dict[str, float]]] = {}
    for _ in range(arguments.rounds):
        for kind in OURS:
            command = [sys.executable, __file__, arguments.peers, "--only", kind, "--seconds", arguments.seconds, "--workers", arguments.workers]
            done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True, env=os.environ)
            runs.setdefault(kind, []).append(json.loads(done.stdout.strip().splitlines()[-1]))
        for peer, setting in best.items():
            try:
                runs.setdefault(peer, []).append(peer_rate(peer, setting, arguments.peers, arguments.workers, arguments.seconds))
            except Unmeasured as error:
                print(f"python_loader.py: {peer}: {error}", file=sys.stderr)
    medians = {name: statistics.median(run["batches_per_s"] for run in made) for name, made in runs.items() if made}
    report = {
        "batches_per_s": medians,
        "times": {f"{kind} / {peer}": medians[kind] / medians[peer] for kind in OURS for peer in best if peer in medians},
        "runs": {name: [run["batches_per_s"] for run in made] for name, made in runs.items()},
        "bytes_per_batch": {name: made[-1].get("bytes_per_batch") for name, made in runs.items() if made},
        "settings": best,
    }
    text = json.dumps(report, indent=1)
    print(text)
    if arguments.json:
        arguments.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
