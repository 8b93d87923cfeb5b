"""Links over a graph on several machines: GraphSAGE tells edges that were held out from pairs that are drawn.

    hopfeed-partition split-links data/debian data/links --is-undirected --num-val 0.1 --num-test 0.1
    HOPFEED_DATA=data/links python examples/python/distributed_links.py
    HOPFEED_DATA=data/links torchrun --standalone --nproc-per-node=2 examples/python/distributed_links.py
"""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F
from distributed_sage import Sage, begin, end, parallel, summed

from hopfeed.distributed import DistEdgeDataLoader, DistGraph, NeighborSampler, Pairs, Uniform, as_edge_prediction_sampler, edge_split


def scores(nodes: torch.Tensor, pairs: Pairs) -> torch.Tensor:
    """Of pairs, by the representations of their ends."""
    sources, destinations = pairs.edges()
    return (nodes[sources] * nodes[destinations]).sum(dim=-1)


@torch.no_grad()
def above(model: Sage, loader: DistEdgeDataLoader, world: int) -> float:
    """How often a link scores above a pair of the same source that was drawn: the area under the ROC curve of such pairs."""
    model.eval()
    right = seen = 0.0
    for _, links, drawn, blocks in loader:
        nodes = model(blocks, blocks[0].srcdata["x"])
        right, seen = right + float((scores(nodes, links) > scores(nodes, drawn)).sum()), seen + links.num_edges()
    right, seen = summed([right, seen], world)
    return right / seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--fanouts", type=int, nargs="+", default=[5, 10], help="as DGL has them: the last is of the links' ends")
    parser.add_argument("--batch-size", type=int, default=2000, help="links of a step, over all trainers")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--etype", help="edge type of the links; default: the only one")
    arguments = parser.parse_args()

    rank, world = begin()
    g = DistGraph()
    book = g.get_partition_book()
    splits = g.edata if arguments.etype is None else g.edges[arguments.etype].data
    train = edge_split(splits["train_mask"], book, force_even=True)
    held_out, labels = splits["test_mask"].pairs(), splits["test_mask"].labels()
    test = edge_split(held_out if labels is None else held_out[:, labels == 1], book, arguments.etype, force_even=False)
    # No message goes along the links of the batch, neither way; a destination is drawn for each source.
    sampler = as_edge_prediction_sampler(NeighborSampler.from_dgl(arguments.fanouts), exclude="reverse", negative_sampler=Uniform(1))

    torch.manual_seed(0)
    model = Sage(g.ndata["x"].shape[1], arguments.hidden, arguments.hidden, len(arguments.fanouts))
    trained = parallel(model, world)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    batch_size = max(arguments.batch_size // world, 1)
    with DistEdgeDataLoader(g, train, sampler, batch_size=batch_size, shuffle=True) as loader:
        for epoch in range(arguments.epochs):
            trained.train()
            total = 0.0
            for _, links, drawn, blocks in loader:
                nodes = trained(blocks, blocks[0].srcdata["x"])
                told = torch.cat([scores(nodes, links), scores(nodes, drawn)])
                truth = torch.cat([torch.ones(links.num_edges()), torch.zeros(drawn.num_edges())])
                loss = F.binary_cross_entropy_with_logits(told, truth)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
            if rank == 0:
                print(f"epoch {epoch + 1}: loss {total / len(loader):.4f} of {len(loader)} steps", flush=True)
    with DistEdgeDataLoader(g, test, sampler, batch_size=1000) as loader:
        reached = above(model, loader, world)
    if rank == 0:
        print(f"test links above drawn pairs {reached:.4f}", flush=True)
    end(world)


if __name__ == "__main__":
    main()
