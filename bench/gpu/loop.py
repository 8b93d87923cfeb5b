#!/usr/bin/env python3
"""PyG's training loop on a card, with hopfeed.pyg's loader or PyG's own: steps/s, and what the loader adds to a step.

Prints one JSON object: `loader_batches_per_s` without a model, `steps_per_s` with one, `own_step_ms` of the same step repeated on
one batch that lies on the device, `step_ms` in the loop, and `step_over_own`, what the loop's step takes of its own time.
"""
from __future__ import annotations

import argparse
import cProfile
import itertools
import json
import pstats
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
import torch_geometric.typing
from torch_geometric.nn import SAGEConv

from hopfeed import Dataset, to_pyg

WARM = 20  # batches


class Sage(torch.nn.Module):
    def __init__(self, width: int, hidden: int, classes: int, layers: int) -> None:
        super().__init__()
        widths = [width, *[hidden] * (layers - 1), classes]
        self.layers = torch.nn.ModuleList(SAGEConv(before, after) for before, after in zip(widths, widths[1:]))

    def forward(self, x, edge_index):
        for i, layer in enumerate(self.layers):
            x = layer(x, edge_index)
            if i + 1 < len(self.layers):
                x = F.dropout(x.relu(), p=0.5, training=self.training)
        return x


def make_loader(arguments, dataset):
    seeds = torch.from_numpy(dataset.split("train").copy())
    common = {"input_nodes": seeds, "batch_size": arguments.batch_size, "shuffle": True, "num_workers": arguments.workers}
    if arguments.loader == "pyg":
        torch.ops.load_library(str(arguments.pyg_lib))
        for flag in ("PYG_LIB", "WEIGHTED_NEIGHBOR_SAMPLE", "EDGE_TIME_NEIGHBOR_SAMPLE"):
            setattr(torch_geometric.typing, f"WITH_{flag}", True)
        from torch_geometric.loader import NeighborLoader

        data = to_pyg(dataset)
        return NeighborLoader(data, arguments.fanouts, **common, persistent_workers=arguments.workers > 0, pin_memory=arguments.device != "cpu")
    from hopfeed.pyg import NeighborLoader

    places = {} if arguments.place == "cpu" else {"graph_mode": arguments.place, "device_batches": arguments.device_batches}
    return NeighborLoader(arguments.data, arguments.fanouts, **common, edge_ids=False, pin_slots=arguments.device != "cpu" and not arguments.device_batches, **places)


def parts_of_a_step(loader, device) -> dict[str, float]:
    """Median milliseconds of the calling thread: to take a batch, to move it, to let it go."""
    times: dict[str, list[float]] = {"taking_ms": [], "moving_ms": [], "letting_go_ms": []}
    batches = iter(loader)
    for _ in range(60):
        begin = time.perf_counter()
        batch = next(batches, None)
        if batch is None:
            break
        taken = time.perf_counter()
        moved = batch.to(device, non_blocking=True)
        there = time.perf_counter()
        del batch, moved
        end = time.perf_counter()
        for name, seconds in zip(times, (taken - begin, there - taken, end - there)):
            times[name].append(1e3 * seconds)
    return {name: statistics.median(all_of[len(all_of) // 3 :]) for name, all_of in times.items() if all_of}


def profile(loader, device, path: Path) -> None:
    """Writes where the calling thread's time goes, by Python's functions and by CUDA's calls, of 60 batches that nobody computes on."""
    with path.open("w", encoding="utf-8") as file, torch.profiler.profile() as traced:
        profiler = cProfile.Profile()
        profiler.enable()
        for batch in itertools.islice(loader, 60):
            batch.to(device, non_blocking=True)
        profiler.disable()
        pstats.Stats(profiler, stream=file).sort_stats("tottime").print_stats(25)
    with path.open("a", encoding="utf-8") as file:
        file.write(traced.key_averages().table(sort_by="self_cpu_time_total", row_limit=25, max_name_column_width=40))


def tell(report: dict, path: Path | None) -> None:
    print(json.dumps(report))
    if path:
        path.write_text(json.dumps(report) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="hopfeed folder with attributes x and y and a split train")
    parser.add_argument("--loader", choices=("hopfeed", "pyg"), default="hopfeed")
    parser.add_argument("--pyg-lib", type=Path, help="with --loader pyg: its library of operators")
    parser.add_argument("--place", choices=("cpu", "uva", "cuda"), default="cpu", help="where hopfeed samples")
    parser.add_argument("--device-batches", action="store_true")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--fanouts", type=int, nargs="+", default=[15, 10, 5])
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--profile", type=Path, help="file for the times of the calling thread's functions and CUDA calls; the loop is then not measured")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    device = torch.device(arguments.device)
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    dataset = Dataset(arguments.data)
    begin = time.perf_counter()
    loader = make_loader(arguments, dataset)
    batches = (batch.to(device, non_blocking=True) for batch in itertools.chain.from_iterable(itertools.repeat(loader)))
    first = next(batches)
    wait()
    report = {"opening_seconds": time.perf_counter() - begin, "loader": arguments.loader, "place": arguments.place,
              "device_batches": arguments.device_batches, "workers": arguments.workers, "lies_on": str(first.x.device)}

    def rate(step) -> float:
        for batch in itertools.islice(batches, WARM):
            step(batch)
        wait()
        done, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < arguments.seconds:
            step(next(batches))
            done += 1
        wait()
        return done / (time.perf_counter() - begin)

    report["loader_batches_per_s"] = rate(lambda batch: None)
    report |= parts_of_a_step(loader, device)
    if arguments.profile:
        profile(loader, device, arguments.profile)
        tell(report, arguments.json)
        return
    model = Sage(first.x.shape[1], 256, dataset.num_classes(), len(arguments.fanouts)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003, fused=device.type == "cuda")
    losses = []

    def step(batch) -> None:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch.x, batch.edge_index)[: batch.batch_size], batch.y[: batch.batch_size])
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())

    report["steps_per_s"] = rate(step)
    report["first_loss"], report["last_loss"] = losses[0].item(), torch.stack(losses[-50:]).mean().item()
    held = first.clone()
    repeats = max(5, int(arguments.seconds * report["steps_per_s"] / 4))
    for _ in range(5):
        step(held)
    wait()
    begin = time.perf_counter()
    for _ in range(repeats):
        step(held)
    wait()
    report["own_step_ms"] = 1e3 * (time.perf_counter() - begin) / repeats
    report["step_ms"] = 1e3 / report["steps_per_s"]
    report["step_over_own"] = report["step_ms"] / report["own_step_ms"]
    if hasattr(loader, "close"):
        loader.close()
    tell(report, arguments.json)


if __name__ == "__main__":
    sys.exit(main())
