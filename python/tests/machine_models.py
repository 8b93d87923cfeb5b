"""A machine's part of test_infer_machines.py: infers with all models of a dataset, one behind the other.

Usage: machine_models.py WHICH FOLDER OUT [RESULTS PEERS]     models of which dataset: weighted, users or small
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch_geometric.nn import GAT, GCN, GATConv, GraphSAGE, HeteroConv, SAGEConv

import hopfeed
from hopfeed.results import plan

Call = tuple[Any, dict[str, Any]]  # layers, and other arguments of infer


def _typed() -> list[HeteroConv]:
    def one(user: int, item: int) -> HeteroConv:
        return HeteroConv({
            ("user", "likes", "item"): SAGEConv((user, item), 6),
            ("item", "liked", "user"): GATConv((item, user), 6, add_self_loops=False),
            ("user", "knows", "user"): SAGEConv(user, 6, aggr="max"),
        })  # fmt: skip

    return [one(5, 7), one(6, 6)]


MODELS: dict[str, dict[str, Callable[[], Call]]] = {
    "weighted": {
        "sage": lambda: (GraphSAGE(12, 16, 3, 4), {}),
        "jumping": lambda: (GraphSAGE(12, 16, 3, 4, jk="cat"), {}),
        "gcn": lambda: (GCN(12, 16, 2, 4), {"edge_weight": "w"}),
        "gcn-again": lambda: (GCN(12, 8, 2, 4, improved=True), {"edge_weight": "w", "nodes": range(0, 3000, 7)}),
        "gat": lambda: (GAT(12, 16, 2, 4, heads=2), {"memory": "16M"}),
        "wide": lambda: ([SAGEConv(12, 200), SAGEConv(200, 4, aggr="max")], {"memory": "1M"}),  # in slices of columns
        "double": lambda: (GraphSAGE(12, 16, 2, 4).double(), {"dtype": "float16"}),
    },
    "users": {"typed": lambda: (_typed(), {"act": torch.relu}), "one-type": lambda: (_typed(), {"node_type": "item"})},
    "small": {"sage": lambda: (GraphSAGE(8, 16, 3, 4), {})},
    "twice": {"one": lambda: (GraphSAGE(8, 16, 3, 4), {}), "two": lambda: (GraphSAGE(8, 24, 3, 4), {})},
    "one-way": {"sage": lambda: (GraphSAGE(4, 8, 3, 2), {}), "gcn": lambda: (GCN(4, 8, 2, 2), {})},
    "one-item": {"typed": lambda: (_typed(), {"act": torch.relu}), "again": lambda: (_typed(), {"act": torch.tanh})},
}


def call(which: str, name: str) -> Call:
    """The same layers each time."""
    torch.manual_seed(1)
    return MODELS[which][name]()


def main(which: str, folder: str, out: str, results: str = "", peers: str = "") -> None:
    torch.set_num_threads(1)
    plan.SHARD_BYTES, plan.BLOCK_BYTES = 4096, 1 << 15
    machines = {"results": results, "peers": peers.split(","), "peer_deadline": 60} if peers else {}
    for name in MODELS[which]:
        layers, arguments = call(which, name)
        hopfeed.infer(layers, folder, Path(out) / name, progress=False, check_finite=True, **{"memory": "1M", **arguments}, **machines)


if __name__ == "__main__":
    main(*sys.argv[1:])
