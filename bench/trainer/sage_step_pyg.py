#!/usr/bin/env python3
"""The step of hopfeed-bench-trainer with PyG's layers: the same batches, the same first parameters, the same optimizer.
Prints one JSON line with the keys of that program, for each way to hand a batch to PyG:

  full       model(x, edge_index): every layer computes all nodes of the batch
  trim       trim_to_layer before each layer, as PyG's own examples do
  bipartite  a layer's sources and destinations apart, as by hand: conv((x, x[:n]), edge_index) for the n nodes that the next layer reads
  csr        bipartite, with the sampler's sorted edges as a torch.sparse CSR matrix, which skips the messages
  edge_index bipartite, with the same edges as a torch_geometric.EdgeIndex that knows its order

FOLDER is what --dump of hopfeed-bench-trainer made
"""
import argparse
import json
import pathlib
import statistics
import sys
import time

import numpy as np
import torch
import torch_geometric
from torch_geometric.nn import SAGEConv
from torch_geometric.utils import trim_to_layer

PARTS = ("forward", "loss", "backward", "optimizer")


class Batch:
    """A stored batch, as PyG's loader would give it."""

    def __init__(self, path):
        arrays = np.load(path)
        self.x, self.y = torch.from_numpy(arrays["x"]), torch.from_numpy(arrays["y"].astype(np.int64))
        self.edge_index = torch.from_numpy(arrays["edge_index"])
        self.batch_size = int(arrays["batch_size"].item())
        self.seed_index = torch.from_numpy(arrays["seed_index"]) if "seed_index" in arrays else None
        self.num_nodes = arrays["num_sampled_nodes"].tolist()
        self.num_edges = arrays["num_sampled_edges"].tolist()

    def at_seeds(self, values):
        return values[: self.batch_size] if self.seed_index is None else values[self.seed_index]


def csr(edge_index, num_sources, num_rows):
    rowptr = torch.zeros(num_rows + 1, dtype=torch.int64)
    torch.cumsum(torch.bincount(edge_index[1], minlength=num_rows), 0, out=rowptr[1:])
    return torch.sparse_csr_tensor(rowptr, edge_index[0], torch.ones(edge_index.size(1)), size=(num_rows, num_sources), check_invariants=False)


def sorted_edges(edge_index, num_sources, num_rows):
    return torch_geometric.EdgeIndex(edge_index, sparse_size=(num_sources, num_rows), sort_order="col")


class GraphSage(torch.nn.Module):
    def __init__(self, widths, dropout):
        super().__init__()
        self.convs = torch.nn.ModuleList(SAGEConv(*pair, aggr="mean") for pair in zip(widths, widths[1:]))
        self.dropout = dropout

    def forward(self, batch, way):
        x, edge_index = batch.x, batch.edge_index
        hops = len(self.convs)
        for layer, conv in enumerate(self.convs):
            if way == "trim":
                x, edge_index, _ = trim_to_layer(layer, batch.num_nodes, batch.num_edges, x, edge_index)
            if way in ("full", "trim"):
                x = conv(x, edge_index)
            else:
                rows = sum(batch.num_nodes[: hops - layer])
                edges = batch.edge_index[:, : sum(batch.num_edges[: hops - layer])]
                if way != "bipartite":
                    edges = (csr if way == "csr" else sorted_edges)(edges, x.size(0), rows)
                x = conv((x, x[:rows]), edges, size=(x.size(0), rows))
            if layer + 1 < hops:
                x = torch.nn.functional.dropout(x.relu(), self.dropout, self.training)
        return x


def load_model(folder, dropout):
    parameters = {p.stem: torch.from_numpy(np.load(p)) for p in folder.glob("layer*.npy")}
    hops = 1 + max(int(name.split(".")[0].removeprefix("layer")) for name in parameters)
    widths = [parameters["layer0.lin_l.weight"].size(1)] + [parameters[f"layer{i}.lin_l.weight"].size(0) for i in range(hops)]
    model = GraphSage(widths, dropout)
    model.load_state_dict({name.replace("layer", "convs.", 1): value for name, value in parameters.items()})
    return model


def take_step(model, optimizer, batch, way):
    """The loss before the step; and CPU and wall milliseconds of each part."""
    costs = []
    before = (time.process_time(), time.perf_counter())

    def lap():
        nonlocal before
        after = (time.process_time(), time.perf_counter())
        costs.append([1e3 * (a - b) for a, b in zip(after, before)])
        before = after

    logits = batch.at_seeds(model(batch, way))
    lap()
    loss = torch.nn.functional.cross_entropy(logits, batch.at_seeds(batch.y), ignore_index=-1)
    lap()
    loss.backward()
    lap()
    optimizer.step()
    optimizer.zero_grad()
    lap()
    return loss.item(), costs


def measure(folder, batches, way, args):
    model = load_model(folder, args.dropout)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003, fused=True)
    losses = [take_step(model, optimizer, batch, way)[0] for batch in batches]
    steps, begin = [], time.perf_counter()
    while time.perf_counter() - begin < args.seconds or not steps:
        steps += [take_step(model, optimizer, batch, way)[1] for batch in batches]
    report = {"bench": "trainer-pyg", "way": way, "label": args.label, "threads": args.threads, "dropout": args.dropout, "torch": torch.__version__,
              "pyg": torch_geometric.__version__, "steps": len(steps), "losses": losses}
    for unit, name in enumerate(("cpu_ms", "wall_ms")):
        report[name] = statistics.median(sum(part[unit] for part in step) for step in steps)
        for i, part in enumerate(PARTS):
            report[f"{part}_{name}"] = statistics.median(step[i][unit] for step in steps)
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--ways", default="full,trim,bipartite,csr,edge_index")
    parser.add_argument("--label", default="", help="put into the line, to tell runs in different environments apart")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--dropout", type=float, default=0)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    paths = sorted(args.folder.glob("batch-*.npz"))
    if not paths:
        sys.exit(f"sage_step_pyg: no batch-*.npz in {args.folder}; make them with hopfeed-bench-trainer --dump")
    batches = [Batch(path) for path in paths]
    for way in args.ways.split(","):
        print(json.dumps(measure(args.folder, batches, way, args)), flush=True)


if __name__ == "__main__":
    main()
