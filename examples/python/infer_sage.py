"""Trains a little, then writes every node's embedding, exact: each layer once for all nodes, from all their neighbours.

    hopfeed-partition import debian data/debian          # the package graph that apt knows
    python examples/python/infer_sage.py --data data/debian --out embeddings --show 0 17

The same call again reads what is there; one that was killed goes on where it was. What other models look like:

    --model gat        attention: PyG's model as it is; a node's in-edges are looked at together, so --memory has to hold them
    --model gcn        PyG's model as it is; --edge-weight w gives it an attribute of the edges
    --model hetero     a graph of several types: a list of HeteroConv, with act= between them (--weights, or untrained)
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch_geometric.nn import GAT, GCN, GraphSAGE, HeteroConv, SAGEConv

import hopfeed
from hopfeed.pyg import NeighborLoader

MODELS = {"sage": GraphSAGE, "gat": GAT, "gcn": GCN}


def typed_layers(dataset: hopfeed.Dataset, hidden: int, layers: int) -> torch.nn.ModuleList:
    """A SAGEConv for each edge type whose ends have rows."""
    widths = {}
    for name in dataset.node_types:
        try:
            widths[name] = dataset.attr("x", name).shape[1]
        except hopfeed.NotFoundError:
            continue  # rows of your own: hopfeed.infer(..., x={...})
    made = []
    for _ in range(layers):
        edges = [edge for edge in dataset.edge_types if edge[0] in widths and edge[2] in widths]
        made.append(HeteroConv({edge: SAGEConv((widths[edge[0]], widths[edge[2]]), hidden) for edge in edges}))
        widths = {edge[2]: hidden for edge in edges}
    return torch.nn.ModuleList(made)


def train(model: torch.nn.Module, head: torch.nn.Linear, data: Path, dataset: hopfeed.Dataset, epochs: int) -> None:
    """Embeddings from which a linear layer tells a node's class."""
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=0.003)
    nodes = torch.from_numpy(dataset.split("train").copy())
    options: dict[str, Any] = dict(num_neighbors=[10] * model.num_layers, batch_size=1024, shuffle=True, num_workers=1)
    with NeighborLoader(data, input_nodes=nodes, **options) as loader:
        for epoch in range(epochs):
            losses = []
            for batch in loader:
                rows = model(batch.x.float(), batch.edge_index)[: batch.batch_size]
                loss = F.cross_entropy(head(rows.relu()), batch.y[: batch.batch_size])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            print(f"epoch {epoch + 1}: loss {sum(losses) / len(losses):.4f}", flush=True)


def node(dataset: hopfeed.Dataset, node_type: str, word: str) -> int:
    """By its key where the dataset has keys, else by its id."""
    try:
        keys = dataset.keys(node_type)
        return int(keys.ids([int(word) if keys.kind == "int64" else word])[0])
    except hopfeed.NotFoundError:
        return int(word)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, help="dataset folder")
    parser.add_argument("--out", required=True, type=Path, help="folder of the embeddings")
    parser.add_argument("--model", choices=(*MODELS, "hetero"), default="sage")
    parser.add_argument("--weights", type=Path, help="a state_dict that torch.save has written; nothing is trained")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--edge-weight", help="attribute of the edges, for GCN")
    parser.add_argument("--format", choices=("npy", "parquet"), default="npy")
    parser.add_argument("--memory", default="4G")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--show", nargs="*", default=[], metavar="NODE", help="keys, or ids where the dataset has no keys")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    dataset = hopfeed.Dataset(arguments.data)
    typed = arguments.model == "hetero"
    head = None
    if typed:
        model = typed_layers(dataset, arguments.hidden, arguments.layers)
    else:
        model = MODELS[arguments.model](dataset.attr("x").shape[1], arguments.hidden, arguments.layers, arguments.hidden)
    if arguments.weights:
        model.load_state_dict(torch.load(arguments.weights, weights_only=True))
    elif not typed:
        head = torch.nn.Linear(arguments.hidden, dataset.num_classes())
        train(model, head, arguments.data, dataset, arguments.epochs)
    try:
        results = hopfeed.infer(
            model, dataset, arguments.out, act=torch.relu if typed else None, edge_weight=arguments.edge_weight, format=arguments.format,
            memory=arguments.memory, device=arguments.device,
        )  # fmt: skip
    except hopfeed.Error as error:
        raise SystemExit(str(error)) from None
    for node_type in results.node_types:
        print(f"{node_type}: {len(results.of(node_type)):,} rows of width {results.of(node_type).shape[1]} in {arguments.out}")
    if head is not None:
        nodes = dataset.split("test")
        right = head(torch.from_numpy(results[nodes]).relu()).argmax(1).numpy() == dataset.attr("y")[nodes]
        print(f"test accuracy {right.mean():.3f}, from all neighbours")
    results = hopfeed.read_results(arguments.out)  # as another program does, later
    for word in arguments.show:
        row = results[node(dataset, results.node_type, word)]
        print(f"{word}: {' '.join(f'{number:.4f}' for number in row[:4])} ...")


if __name__ == "__main__":
    main()
