"""Learned rows in the place of features: a row for each node, at the servers that own the graph's partitions.

    hopfeed-server --data data/cut --listen 127.0.0.1:9470 --state state &
    HOPFEED_SERVERS=127.0.0.1:9470 python examples/python/distributed_rows.py
    HOPFEED_SERVERS=127.0.0.1:9470 torchrun --standalone --nproc-per-node=2 examples/python/distributed_rows.py
"""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F
from distributed_sage import Sage, begin, end, parallel, summed

from hopfeed.distributed import DistEmbedding, DistGraph, DistNodeDataLoader, NeighborSampler, exit_client, node_split, optim


@torch.no_grad()
def accuracy(model: Sage, emb: DistEmbedding, loader: DistNodeDataLoader, world: int) -> float:
    """Of all nodes of a split, each of which one rank has."""
    model.eval()
    right = seen = 0
    for input_nodes, seeds, blocks in loader:
        predicted = model(blocks, emb.weight[input_nodes]).argmax(dim=-1)
        right, seen = right + int((predicted == blocks[-1].dstdata["y"]).sum()), seen + len(seeds)
    right, seen = summed([right, seen], world)
    return right / seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--fanouts", type=int, nargs="+", default=[10, 25], help="as DGL has them: the last is of the seeds' own neighbours")
    parser.add_argument("--batch-size", type=int, default=1000, help="seeds of a step, over all trainers")
    parser.add_argument("--dim", type=int, default=64, help="numbers of a learned row")
    parser.add_argument("--name", default="distributed_rows", help="of the table at its owners")
    arguments = parser.parse_args()

    rank, world = begin()
    g = DistGraph()
    book = g.get_partition_book()
    sampler = NeighborSampler.from_dgl(arguments.fanouts, prefetch_labels="y")  # features stay where they are
    train = node_split(g.ndata["train_mask"], book, force_even=True)
    test = node_split(g.ndata["test_mask"], book, force_even=False)

    torch.manual_seed(0)
    model = Sage(arguments.dim, 256, g.num_classes(), len(arguments.fanouts))
    trained = parallel(model, world)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    emb = DistEmbedding(g.num_nodes(), arguments.dim, arguments.name)
    rows = optim.SparseAdam([emb], lr=0.01)  # it runs at the owners

    batch_size = max(arguments.batch_size // world, 1)
    with DistNodeDataLoader(g, train, sampler, batch_size=batch_size, shuffle=True) as loader:
        for epoch in range(arguments.epochs):
            trained.train()
            total = 0.0
            for input_nodes, _, blocks in loader:
                loss = F.cross_entropy(trained(blocks, emb(input_nodes)), blocks[-1].dstdata["y"])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                rows.step()
                total += loss.item()
            if rank == 0:
                print(f"epoch {epoch + 1}: loss {total / len(loader):.4f} of {len(loader)} steps", flush=True)
    with DistNodeDataLoader(g, test, sampler, batch_size=1000) as loader:
        reached = accuracy(model, emb, loader, world)
    if rank == 0:
        print(f"test accuracy {reached:.4f}", flush=True)
    exit_client()
    end(world)


if __name__ == "__main__":
    main()
