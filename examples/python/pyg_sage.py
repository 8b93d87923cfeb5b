"""GraphSAGE on one machine, written as PyG's examples are: the loader's import is the only line of hopfeed.

    hopfeed-partition import debian data/debian          # the package graph that apt knows
    python examples/python/pyg_sage.py --data data/debian
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch_geometric.nn import SAGEConv

from hopfeed import Dataset
from hopfeed.pyg import NeighborLoader  # was: from torch_geometric.loader import NeighborLoader


class Sage(torch.nn.Module):
    """Layers of mean aggregation, each narrowed to the nodes that the next one reads."""

    def __init__(self, width: int, hidden: int, classes: int, layers: int) -> None:
        super().__init__()
        widths = [width, *[hidden] * (layers - 1), classes]
        self.layers = torch.nn.ModuleList(SAGEConv(before, after) for before, after in zip(widths, widths[1:]))

    def forward(self, batch) -> torch.Tensor:
        x, edge_index = batch.x.float(), batch.edge_index  # a folder may have bfloat16
        for i, layer in enumerate(self.layers):
            x = layer(x, edge_index)
            if i + 1 < len(self.layers):
                x = F.dropout(x.relu(), p=0.5, training=self.training)
        return x[: batch.batch_size]


def train_epoch(model: Sage, loader: NeighborLoader, optimizer: torch.optim.Optimizer) -> float:
    """The mean loss of an epoch."""
    model.train()
    total = seeds = 0.0
    for batch in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch), batch.y[: batch.batch_size])
        loss.backward()
        optimizer.step()
        total += loss.item() * batch.batch_size
        seeds += batch.batch_size
    return total / seeds


@torch.no_grad()
def accuracy(model: Sage, loader: NeighborLoader) -> float:
    """Of the nodes that the loader gives."""
    model.eval()
    right = seeds = 0
    for batch in loader:
        right += int((model(batch).argmax(dim=-1) == batch.y[: batch.batch_size]).sum())
        seeds += batch.batch_size
    return right / seeds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, help="dataset folder")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--fanouts", type=int, nargs="+", default=[15, 10, 5])
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--num-workers", type=int, default=2, help="sampling processes; 0: the trainer samples itself")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()

    torch.manual_seed(arguments.seed)
    dataset = Dataset(arguments.data)

    def loader(split: str, shuffle: bool) -> NeighborLoader:
        return NeighborLoader(
            arguments.data,
            num_neighbors=arguments.fanouts,
            batch_size=arguments.batch_size,
            input_nodes=torch.from_numpy(dataset.split(split).copy()),
            shuffle=shuffle,
            num_workers=arguments.num_workers,
            seed=arguments.seed,
        )

    model = Sage(dataset.attr("x").shape[1], arguments.hidden, dataset.num_classes(), len(arguments.fanouts))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    with loader("train", True) as train, loader("valid", False) as valid, loader("test", False) as test:
        seconds, losses = [], []
        for epoch in range(arguments.epochs):
            begin = time.perf_counter()
            losses.append(train_epoch(model, train, optimizer))
            seconds.append(time.perf_counter() - begin)
            print(f"epoch {epoch + 1}: loss {losses[-1]:.4f}, {seconds[-1]:.2f} s, valid {accuracy(model, valid):.3f}", flush=True)
        reached = accuracy(model, test)
        print(f"test accuracy {reached:.3f}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"losses": losses, "epoch_seconds": seconds, "test_accuracy": reached}) + "\n")


if __name__ == "__main__":
    main()
