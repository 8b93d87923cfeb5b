#!/usr/bin/env python3
"""One column of digests: the same batches sampled on the CPU, on a card that reads the graph in place or has a copy of it, and laid
out in the card's memory. The kinds are those of tests/determinism/compare.py.

Usage: digests.py BIN [--places PLACE,...] [--jobs N]

Prints a row for each kind, and for each place how many of its batches the card sampled. Exits 1 where a row holds two digests,
where a run fails, and where the card sampled no batch at all.
"""
from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests/determinism"))
import compare  # noqa: E402

# Epochs of hopfeed-sample. The CPU samples while a card comes up, so what the card has made of a run is its end, and the run
# must be long; batches in the card's memory are the card's from the first on.
EPOCHS, EPOCHS_ON_CARD = 400, 12
LONG_KINDS = (0, 1, 3, 6, 8, 9, 19)   # of the cases: those that are run so long
PLACES = {
    "cpu": [],
    "uva": ["--graph-mode", "uva"],
    "cuda": ["--graph-mode", "cuda"],
    "uva-batches": ["--graph-mode", "uva", "--device-batches"],
    "cuda-batches": ["--graph-mode", "cuda", "--device-batches"],
}
NODES, EDGES = 3000, 30000


def edges_of(graph: str) -> list[tuple[int, int]] | None:
    rng = random.Random(graph)
    pick = lambda: int(NODES * rng.random() ** 3)  # noqa: E731
    if graph == "typed":
        return None
    if graph == "star":
        return [(v, 0) for v in range(1, NODES)] + [(0, v) for v in range(1, NODES, 2)]
    if graph == "duplicate":
        few = [(pick(), pick()) for _ in range(EDGES // 5)]
        return [edge for edge in few for _ in range(1 + edge[0] % 9)]
    return [(pick(), pick()) for _ in range(EDGES)]


def cases() -> list[tuple[str, compare.Kind]]:
    """Each kind on a graph of several types where it can be, else on one of one type."""
    chosen = [("typed" if not kind.graphs or "typed" in kind.graphs else kind.graphs[0], kind) for kind in compare.KINDS if "--plugin" not in kind.options]
    return chosen + [("power-law", compare.KINDS[0]), ("int8-rows", compare.KINDS[0]), ("int4-rows", compare.KINDS[1])]


def make_dataset(program: Path, graph: str, folder: Path, parts: int) -> tuple[Path, Path]:
    arrays, target = folder / graph, folder / f"{graph}-data"
    edges = edges_of(graph)
    options = compare.write_typed_arrays(arrays, NODES) if edges is None else compare.write_arrays(arrays, NODES, edges)
    compare.make_datasets(program, "", options, target, NODES, compare.MADE_ANEW.get(graph))
    return arrays, target / f"parts{parts}"


def sample(program: Path, arrays: Path, dataset: Path, kind: compare.Kind, place: str, epochs: int, report: Path) -> dict:
    options = [option.replace("ARRAYS", str(arrays)) for option in kind.options]
    command = [program / "hopfeed-sample", dataset, "--batch-size", 64, "--epochs", epochs, "--seed", 9, "--num-workers", 1, *options, *PLACES[place],
               "--json", report]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=140)
    if done.returncode != 0:
        return {"digest": "failed", "why": done.stderr.strip().splitlines()[-1:] or [str(done.returncode)]}
    told = json.loads(report.read_text())
    short = "".join(line + "\n" for line in done.stdout.splitlines() if int(line.split()[0]) < EPOCHS_ON_CARD)
    return {"digest": hashlib.sha256(short.encode()).hexdigest()[:8], "whole": hashlib.sha256(done.stdout.encode()).hexdigest()[:8],
            "batches": done.stdout.count("\n"), "seconds": told.get("gpu_setup_seconds"),
            "on_gpu": told.get("gpu_batches")}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin", type=Path)
    parser.add_argument("--places", default=",".join(PLACES))
    parser.add_argument("--jobs", type=int, default=max(1, os.cpu_count() // 2))
    arguments = parser.parse_args()
    places, program = arguments.places.split(","), arguments.bin.resolve()
    unequal, failures, made_there = [], [], 0
    with tempfile.TemporaryDirectory(prefix="hopfeed-digests-") as scratch, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        folder = Path(scratch)
        graphs = sorted({graph for graph, _ in cases()})
        data = dict(zip(graphs, pool.map(lambda graph: make_dataset(program, graph, folder, 3), graphs)))
        jobs = {}
        for number, (graph, kind) in enumerate(cases()):
            for place in places:
                long = number in LONG_KINDS and not place.endswith("batches")
                if place == "cpu" or place.endswith("batches") or long:
                    epochs = EPOCHS if long else EPOCHS_ON_CARD
                    jobs[number, place] = pool.submit(sample, program, *data[graph], kind, place, epochs, folder / f"{number}-{place}.json")
        for number, (graph, kind) in enumerate(cases()):
            found = {place: jobs[number, place].result() for place in places if (number, place) in jobs}
            name = f"{graph} {' '.join(kind.options)}".replace("ARRAYS/", "")
            wholes = {one.get("whole") for one in found.values() if one.get("batches") == max(each.get("batches", 0) for each in found.values())}
            if len({one["digest"] for one in found.values()}) != 1 or len(wholes) != 1:
                unequal.append(name)
            failures += [f"{name} ({place}): {one['why']}" for place, one in found.items() if "why" in one]
            made_there += sum(one.get("on_gpu") or 0 for one in found.values())
            cells = " ".join(f"{place} {one['digest']}" + (f" ({one['on_gpu']} of {one['batches']})" if one.get("on_gpu") is not None else "")
                             for place, one in found.items())
            print(f"{name}: {cells}", flush=True)
            if number == 0:
                print({place: one.get("seconds") for place, one in found.items()}, flush=True)
    if places != ["cpu"] and made_there == 0:
        failures.append("the card sampled no batch")
    print("\n".join(failures))
    print(json.dumps({"kinds": len(cases()), "places": places, "all_equal": not unequal, "unequal": unequal, "failed": len(failures), "batches_of_the_card": made_there}))
    return 1 if unequal or failures else 0


if __name__ == "__main__":
    sys.exit(main())
