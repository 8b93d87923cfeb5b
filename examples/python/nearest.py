"""Learns where nodes lie from the links between them, embeds every node by all its neighbours, layer by layer, and prints those
nearest to one, by the keys of the tables that the dataset was imported from.

    python examples/python/nearest.py --data dataset --near vim
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch_geometric.nn import SAGEConv

import hopfeed
from hopfeed.pyg import LinkNeighborLoader

TEMPERATURE = 0.1
TESTED = 1000  # links that nobody trains on


class Encoder(torch.nn.Module):
    """Layers of mean aggregation."""

    def __init__(self, width: int, hidden: int, layers: int) -> None:
        super().__init__()
        widths = [width, *[hidden] * layers]
        self.layers = torch.nn.ModuleList(SAGEConv(before, after) for before, after in zip(widths, widths[1:]))

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = F.dropout(layer(x, edge_index).relu(), p=0.2, training=self.training)
        return x


def train_epoch(model: Encoder, loader: LinkNeighborLoader, optimizer: torch.optim.Optimizer) -> float:
    """Each link's ends are to lie nearer to each other than to the ends of the batch's other links. Gives the mean loss."""
    model.train()
    losses = []
    for batch in loader:
        ends = F.normalize(model(batch.x.float(), batch.edge_index)[batch.edge_label_index], dim=-1)
        loss = F.cross_entropy(ends[0] @ ends[1].T / TEMPERATURE, torch.arange(ends.shape[1]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return float(np.mean(losses))


def embeddings(model: Encoder, data: Path) -> torch.Tensor:
    """Of every node, by original id, of length 1: each layer is computed for all nodes before the next."""
    return F.normalize(hopfeed.infer(model.layers, data, act=torch.relu).relu(), dim=-1)


def found_in_ten(ends: torch.Tensor) -> float:
    """How often the other end of a link is among the ten nearest of all these ends: float [2, links, width]."""
    scores = ends[0] @ ends[1].T
    return float(((scores > scores.diagonal()[:, None]).sum(1) < 10).float().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, help="dataset folder, with keys and the attribute x")
    parser.add_argument("--near", required=True, metavar="KEY")
    parser.add_argument("--count", type=int, default=10, help="how many of the nearest")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--links", type=int, default=100_000, help="to train on, drawn from all")
    parser.add_argument("--fanouts", type=int, nargs="+", default=[10, 5])
    parser.add_argument("--hidden", type=int, default=128)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    dataset = hopfeed.Dataset(arguments.data)
    try:
        keys = dataset.keys()
        (near,) = keys.ids([int(arguments.near) if keys.kind == "int64" else arguments.near])
    except (hopfeed.Error, ValueError) as error:
        raise SystemExit(f"--near {arguments.near}: {error}") from None
    x, edges = torch.from_numpy(dataset.attr("x")[:]), torch.from_numpy(np.array(dataset.edge_index()))
    drawn = edges[:, torch.randperm(edges.shape[1])[: arguments.links + TESTED]]
    model = Encoder(x.shape[1], arguments.hidden, len(arguments.fanouts))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    options = dict(num_neighbors=arguments.fanouts, batch_size=1000, shuffle=True, num_workers=1)
    with LinkNeighborLoader(arguments.data, edge_label_index=drawn[:, TESTED:], **options) as links:
        for epoch in range(arguments.epochs):
            print(f"epoch {epoch + 1}: loss {train_epoch(model, links, optimizer):.4f}", flush=True)
    found = embeddings(model, arguments.data)
    print(f"of {TESTED:,} links that were not trained on, the other end is among the ten nearest in {found_in_ten(found[drawn[:, :TESTED]]):.1%}")
    cosine = found @ found[near]
    cosine[near] = -2
    nearest = cosine.topk(min(arguments.count, len(cosine) - 1))
    print(f"nearest to {arguments.near}:")
    for distance, at in zip(*(column.tolist() for column in nearest)):
        print(f"  {distance:.3f}  {keys[at]}")


if __name__ == "__main__":
    main()
