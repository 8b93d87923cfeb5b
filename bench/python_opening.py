#!/usr/bin/env python3
"""What making a loader of a graph in memory takes, by turns with PyG's: seconds, the parts of ours, and many relations.

Usage: python_opening.py [--nodes N] [--edges N] [--features F] [--relations N ...] [--rounds N] [--json FILE]

Needs a Python that has hopfeed, torch and torch_geometric. Prints one JSON object (docs/benchmarks.md has its keys).
"""
from __future__ import annotations

import argparse
import gc
import json
import pathlib
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import contextmanager

import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import NeighborLoader as PygLoader

from hopfeed import conversion
from hopfeed.pyg import NeighborLoader

FANOUTS, BATCH_SIZE = [15, 10, 5], 1024
EDGES_OF_RELATION = 20


def graph(nodes: int, edges: int, features: int) -> Data:
    made = torch.Generator().manual_seed(1)
    return Data(
        x=torch.rand(nodes, features, generator=made),
        y=torch.randint(0, 40, (nodes,), generator=made),
        edge_index=torch.randint(0, nodes, (2, edges), generator=made),
        train_mask=torch.arange(nodes) % 10 == 0,
    )


def relations(count: int) -> HeteroData:
    made = torch.Generator().manual_seed(2)
    data = HeteroData()
    data["node"].x = torch.rand(1000, 16, generator=made)
    for number in range(count):
        data["node", f"r{number}", "node"].edge_index = torch.randint(0, 1000, (2, EDGES_OF_RELATION), generator=made)
    return data


def seconds_of(make: Callable[[], object]) -> float:
    """Of one loader, which is gone afterwards."""
    gc.collect()
    begin = time.perf_counter()
    loader = make()
    took = time.perf_counter() - begin
    del loader
    gc.collect()
    return took


class Parts:
    """Seconds of the steps of a conversion, as its progress tells them."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._step, self._since = "before", time.perf_counter()

    def at(self, step: str) -> None:
        now = time.perf_counter()
        self.seconds[self._step] = self.seconds.get(self._step, 0) + now - self._since
        self._step, self._since = step, now

    def of(self, make: Callable[[], object]) -> dict[str, float]:
        @contextmanager
        def shown(_: object):
            yield lambda step, percent: self.at(step)
            self.at("opening")

        before, conversion.shown_progress = conversion.shown_progress, shown
        try:
            make()
        finally:
            conversion.shown_progress = before
        self.at("")
        return {step: round(seconds, 3) for step, seconds in self.seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=20_000_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--relations", type=int, nargs="*", default=[237, 500, 1500])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")  # of PyG, that its sampler is not there: nothing is sampled here
    data = graph(arguments.nodes, arguments.edges, arguments.features)
    common = dict(num_neighbors=FANOUTS, batch_size=BATCH_SIZE, input_nodes=data.train_mask)
    makers: dict[str, Callable[[], object]] = {
        "pyg": lambda: PygLoader(data, **common),
        "no_workers": lambda: NeighborLoader(data, **common),
        "two_workers": lambda: NeighborLoader(data, num_workers=2, **common),
    }
    runs: dict[str, list[float]] = {name: [] for name in makers}
    for _ in range(arguments.rounds):
        for name, make in makers.items():
            runs[name].append(seconds_of(make))
            print(f"python_opening.py: {name}: {runs[name][-1]:.2f} s", file=sys.stderr, flush=True)
    medians = {name: statistics.median(made) for name, made in runs.items()}
    by_relations = {}
    for count in arguments.relations:
        typed = relations(count)
        seeds = ("node", torch.arange(100))
        by_relations[str(count)] = seconds_of(lambda: NeighborLoader(typed, [5, 5], input_nodes=seeds, batch_size=100))
        print(f"python_opening.py: {count} relations: {by_relations[str(count)]:.2f} s", file=sys.stderr, flush=True)
    report = {
        "bench": "python_opening",
        "nodes": arguments.nodes,
        "edges": arguments.edges,
        "features": arguments.features,
        "seconds": medians,
        "times_pyg": {name: medians[name] / medians["pyg"] for name in ("no_workers", "two_workers")},
        "runs": runs,
        "parts": {name: Parts().of(makers[name]) for name in ("no_workers", "two_workers")},
        "relations_seconds": by_relations,
    }
    text = json.dumps(report)
    print(text)
    if arguments.json:
        arguments.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
