#!/usr/bin/env python3
"""Three trainings as PyG's examples have them (reddit.py, a typed graph, links), each with PyG's loader and with hopfeed's,
by turns: accuracy and seconds an epoch.

Usage: PYTHON python_examples.py PACKAGES --links FOLDER [--epochs N] [--rounds N] [--json FILE]
  PYTHON     of the environment that bench/peers.sh made for PyG (build/peers/pyg/bin/python), with hopfeed on PYTHONPATH
  PACKAGES   a folder with datasets homogeneous and typed (hopfeed-partition import debian, with and without --hetero)
  --links    a dataset of users and artists (hopfeed-partition import ogb, LastFM)

PyG samples with torch-sparse's sampler, which is what PyPI has. Everything but the loader's class is the same.
"""
from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import sys
import time

import torch
import torch.nn.functional as F
import torch_geometric.typing

torch.ops.load_library(str(pathlib.Path(sys.prefix) / "neighbor_sample.so"))
torch_geometric.typing.WITH_TORCH_SPARSE = True
import torch_geometric.loader as pyg  # noqa: E402
from torch_geometric.nn import SAGEConv, to_hetero  # noqa: E402

import hopfeed  # noqa: E402
import hopfeed.pyg  # noqa: E402

LOADERS = {"pyg": pyg, "hopfeed": hopfeed.pyg}
WORKERS = 2


class Sage(torch.nn.Module):
    """Two layers, each with its own width; lazy, so that types of any width will do."""

    def __init__(self, hidden: int, out: int) -> None:
        super().__init__()
        self.first, self.second = SAGEConv((-1, -1), hidden), SAGEConv((-1, -1), out)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


def train(model, batches, loss_of) -> float:
    """Seconds of one epoch."""
    optimizer = train.optimizer
    begin = time.perf_counter()
    for batch in batches:
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        optimizer.step()
    return time.perf_counter() - begin


def run(model, loss_of, metric_of, batches, held_out, epochs: int) -> dict[str, float]:
    with torch.no_grad():
        loss_of(model, next(iter(held_out)))  # lazy layers take their widths
    train.optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    seconds = [train(model, batches, loss_of) for _ in range(epochs)]
    with torch.no_grad():
        parts = [metric_of(model, batch) for batch in held_out]
    return {"epoch_seconds": statistics.median(seconds), "metric": sum(p for p, _ in parts) / sum(n for _, n in parts)}


def node(module, folder: pathlib.Path, epochs: int) -> dict[str, float]:
    data = hopfeed.to_pyg(folder / "homogeneous")
    loader = lambda mask, shuffle: module.NeighborLoader(data, [25, 10], input_nodes=mask, batch_size=1024, shuffle=shuffle, num_workers=WORKERS)  # noqa: E731

    def logits(model, batch):
        return model(batch.x, batch.edge_index)[: batch.batch_size], batch.y[: batch.batch_size]

    return run(Sage(128, int(data.y.max()) + 1), lambda m, b: F.cross_entropy(*logits(m, b)), lambda m, b: hits(*logits(m, b)),
               loader(data.train_mask, True), loader(data.test_mask, False), epochs)


def hits(out, labels):
    return float((out.argmax(-1) == labels).sum()), len(labels)


def typed(module, folder: pathlib.Path, epochs: int) -> dict[str, float]:
    data = hopfeed.to_pyg(folder / "typed")
    loader = lambda mask, shuffle: module.NeighborLoader(data, [10, 5], input_nodes=("package", mask), batch_size=1024, shuffle=shuffle, num_workers=WORKERS)  # noqa: E731
    model = to_hetero(Sage(64, int(data["package"].y.max()) + 1), data.metadata())

    def logits(model, batch):
        size = batch["package"].batch_size
        return model(batch.x_dict, batch.edge_index_dict)["package"][:size], batch["package"].y[:size]

    return run(model, lambda m, b: F.cross_entropy(*logits(m, b)), lambda m, b: hits(*logits(m, b)),
               loader(data["package"].train_mask, True), loader(data["package"].test_mask, False), epochs)


def link(module, folder: pathlib.Path, epochs: int) -> dict[str, float]:
    data = hopfeed.to_pyg(folder)
    width = 32
    for store in data.node_stores:  # no features there: rows that are learned would do better, the same for both
        store.x = torch.randn(store.num_nodes, width, generator=torch.Generator().manual_seed(1))
    key = max(data.edge_types, key=lambda edge: data[edge].num_edges)
    edges = data[key].edge_index
    order = torch.randperm(edges.size(1), generator=torch.Generator().manual_seed(2))
    cut = len(order) // 10
    loader = lambda links, shuffle: module.LinkNeighborLoader(data, [10, 5], edge_label_index=(key, links), neg_sampling_ratio=1.0, batch_size=1024,  # noqa: E731
                                                              shuffle=shuffle, num_workers=WORKERS)
    model = to_hetero(Sage(64, 64), data.metadata())

    def scores(model, batch):
        out = model(batch.x_dict, batch.edge_index_dict)
        src, dst = batch[key].edge_label_index
        return (out[key[0]][src] * out[key[2]][dst]).sum(-1), batch[key].edge_label

    def auc(model, batch):
        score, label = scores(model, batch)
        rank = score.argsort().argsort().double()
        positive = label == 1
        n, m = int(positive.sum()), int((~positive).sum())
        return float((rank[positive].sum() - n * (n - 1) / 2) / (n * m)) * len(label), len(label)

    return run(model, lambda m, b: F.binary_cross_entropy_with_logits(*scores(m, b)), auc, loader(edges[:, order[cut:]], True), loader(edges[:, order[:cut]], False), epochs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", type=pathlib.Path)
    parser.add_argument("--links", type=pathlib.Path, required=True)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    report: dict[str, dict[str, dict[str, float]]] = {}
    for name, task, folder in (("node", node, arguments.packages), ("typed", typed, arguments.packages), ("link", link, arguments.links)):
        made: dict[str, list[dict[str, float]]] = {loader: [] for loader in LOADERS}
        for turn in range(arguments.rounds):
            for loader, module in LOADERS.items():
                torch.manual_seed(turn)
                made[loader].append(task(module, folder, arguments.epochs))
                print(f"{name}, {loader}: {made[loader][-1]}", file=sys.stderr, flush=True)
        report[name] = {loader: {key: statistics.median(run[key] for run in runs) for key in runs[0]} for loader, runs in made.items()}
    text = json.dumps(report, indent=1)
    print(text)
    if arguments.json:
        arguments.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
