"""GraphSAGE of PyG learns to tell the nodes' classes, by hopfeed's loader; hopfeed.infer then writes the embedding of every node.

    python examples/python/sage_embeddings.py --data dataset --out embeddings
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from torch_geometric.nn import GraphSAGE

import hopfeed
from hopfeed.pyg import NeighborLoader


class Classifier(torch.nn.Module):
    """The layers whose output are the embeddings, and a linear one that guesses the class from them."""

    def __init__(self, width: int, hidden: int, layers: int, classes: int) -> None:
        super().__init__()
        self.embed = GraphSAGE(width, hidden, layers, hidden, dropout=0.3)
        self.classify = torch.nn.Linear(hidden, classes)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return self.classify(self.embed(x, edge_index).relu())


def train_epoch(model: Classifier, loader: NeighborLoader, optimizer: torch.optim.Optimizer) -> float:
    """The mean loss of a seed."""
    model.train()
    total = seeds = 0.0
    for batch in loader:
        scores, labels = model(batch.x.float(), batch.edge_index)[: batch.batch_size], batch.y[: batch.batch_size]
        loss = F.cross_entropy(scores, labels, ignore_index=-1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total, seeds = total + loss.item() * batch.batch_size, seeds + batch.batch_size
    return total / seeds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, help="dataset folder, with the attribute x, labels, and splits train and test")
    parser.add_argument("--out", required=True, type=Path, help="folder that gets the embeddings; what an earlier run has left there goes")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--fanouts", type=int, nargs="+", default=[10, 5])
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--hidden", type=int, default=128, help="width of an embedding")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    dataset = hopfeed.Dataset(arguments.data)
    model = Classifier(dataset.attr("x").shape[1], arguments.hidden, len(arguments.fanouts), dataset.num_classes())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    seeds = torch.from_numpy(dataset.split("train").copy())
    with NeighborLoader(arguments.data, num_neighbors=arguments.fanouts, batch_size=arguments.batch_size, input_nodes=seeds, shuffle=True, num_workers=1) as loader:
        for epoch in range(arguments.epochs):
            print(f"epoch {epoch + 1}: loss {train_epoch(model, loader, optimizer):.4f}", flush=True)
    results = hopfeed.infer(model.embed, arguments.data, arguments.out, overwrite=True)

    test = dataset.split("test")
    with torch.no_grad():
        guessed = model.classify(torch.from_numpy(results[test]).relu()).argmax(1)
    right = guessed == torch.from_numpy(dataset.attr("y")[test].copy())
    print(f"{arguments.out}: {len(results):,} embeddings of width {results.shape[1]}; they tell the class of {right.float().mean():.1%} of the test nodes")


if __name__ == "__main__":
    main()
