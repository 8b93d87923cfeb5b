"""GraphSAGE over a graph on several machines: the loop of DGL's guide to distributed training, with hopfeed.distributed.

What it is told comes from the environment, so the same script runs alone, and on machines that hopfeed-launch or torchrun starts:

    HOPFEED_DATA=data/debian python examples/python/distributed_sage.py
    HOPFEED_DATA=data/cut torchrun --standalone --nproc-per-node=2 examples/python/distributed_sage.py
    HOPFEED_SERVERS=node0:9470,node1:9470 torchrun ... examples/python/distributed_sage.py
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.nn import SAGEConv

from hopfeed.distributed import (
    Block,
    DistGraph,
    DistNodeDataLoader,
    MultiLayerFullNeighborSampler,
    NeighborSampler,
    initialize,
    node_split,
    seed_of_rank,
)


class Sage(torch.nn.Module):
    """A layer of mean aggregation for each block."""

    def __init__(self, width: int, hidden: int, out: int, layers: int) -> None:
        super().__init__()
        widths = [width, *[hidden] * (layers - 1), out]
        self.layers = torch.nn.ModuleList(SAGEConv(before, after) for before, after in zip(widths, widths[1:]))

    def forward(self, blocks: Sequence[Block], x: torch.Tensor) -> torch.Tensor:
        x = x.float()  # a folder may have bfloat16
        for i, (layer, block) in enumerate(zip(self.layers, blocks)):
            x = layer((x, x[: block.num_dst_nodes()]), block.edge_index, size=block.size)
            if i + 1 < len(self.layers):
                x = F.dropout(x.relu(), p=0.5, training=self.training)
        return x


def begin() -> tuple[int, int]:
    """(rank, world size). A process that torchrun started joins the others; one that it did not is alone."""
    initialize()
    if "RANK" not in os.environ:
        return 0, 1
    dist.init_process_group("gloo")
    return dist.get_rank(), dist.get_world_size()


def end(world: int) -> None:
    """Leaves the other ranks, once all have come so far: what one of them still waits for is not to go away under it."""
    if world > 1:
        dist.barrier()
        dist.destroy_process_group()


def parallel(model: torch.nn.Module, world: int) -> torch.nn.Module:
    """The model, whose gradients are averaged where there are several ranks."""
    return DistributedDataParallel(model) if world > 1 else model


def summed(numbers: Sequence[float], world: int) -> list[float]:
    """Over all ranks."""
    tensor = torch.tensor(numbers, dtype=torch.float64)
    if world > 1:
        dist.all_reduce(tensor)
    return tensor.tolist()


def keep(path: str, state: dict[str, Any]) -> None:
    """As a file, whole or not at all."""
    torch.save(state, f"{path}.new")
    os.replace(f"{path}.new", path)


def kept(path: str, rank: int, world: int) -> dict[str, Any] | None:
    """What rank 0 has kept, at all ranks; None where there is nothing yet."""
    found = [torch.load(path, weights_only=True) if rank == 0 and os.path.exists(path) else None]
    if world > 1:
        dist.broadcast_object_list(found)
    return found[0]


@torch.no_grad()
def accuracy(model: Sage, loader: DistNodeDataLoader, world: int) -> float:
    """Of all nodes of a split: each rank has some of them, and not each as many, so the model is no parallel one."""
    model.eval()
    right = seen = 0
    for _, seeds, blocks in loader:
        predicted = model(blocks, blocks[0].srcdata["x"]).argmax(dim=-1)
        right, seen = right + int((predicted == blocks[-1].dstdata["y"]).sum()), seen + len(seeds)
    right, seen = summed([right, seen], world)
    return right / seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--fanouts", type=int, nargs="+", default=[10, 25], help="as DGL has them: the last is of the seeds' own neighbours")
    parser.add_argument("--batch-size", type=int, default=1000, help="seeds of a step, over all trainers")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", metavar="FILE", help="kept after each epoch; a run that was begun again goes on from its own")
    parser.add_argument("--resume", action="store_true", help="go on from --checkpoint, where there is one, in the first run too")
    parser.add_argument("--digests", action="store_true", help="print the digests of each rank's batches, and the accuracy, as a line of JSON")
    parser.add_argument("--replay", metavar="RANK/WORLD", help="alone: go through that rank's batches only, and print their digests")
    arguments = parser.parse_args()

    rank, world = begin()
    if arguments.replay:
        rank, world = map(int, arguments.replay.split("/"))
    g = DistGraph()
    book, sampler = g.get_partition_book(), NeighborSampler.from_dgl(arguments.fanouts)
    train = node_split(g.ndata["train_mask"], book, rank=rank, world_size=world, force_even=True)
    batch_size = max(arguments.batch_size // world, 1)
    digests: list[list[str]] = []
    if arguments.replay:  # by that rank's seed: this is rank 0
        with DistNodeDataLoader(g, train, sampler, batch_size=batch_size, shuffle=True, seed=seed_of_rank(arguments.seed, rank)) as loader:
            digests = [[f"{batch.batch.digest():016x}" for batch in loader] for _ in range(arguments.epochs)]
        print(json.dumps({"ranks": [{"rank": rank, "seeds": len(train), "digests": digests}]}))
        return

    torch.manual_seed(arguments.seed)
    model = Sage(g.ndata["x"].shape[1], arguments.hidden, g.num_classes(), len(arguments.fanouts))
    trained = parallel(model, world)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    begun, again, run = 0, os.environ.get("HOPFEED_RESTART", "0") != "0", os.environ.get("HOPFEED_RUN")
    state = kept(arguments.checkpoint, rank, world) if arguments.checkpoint and (again or arguments.resume) else None
    if state and (arguments.resume or state.get("run") == run):  # an earlier run's is none of a run that was begun again
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        begun = state["epoch"]

    def evaluation(split: str, sampler: NeighborSampler) -> DistNodeDataLoader:
        return DistNodeDataLoader(g, node_split(g.ndata[split], book, force_even=False), sampler, batch_size=500)

    with (
        DistNodeDataLoader(g, train, sampler, batch_size=batch_size, shuffle=True, seed=arguments.seed, epoch=begun) as loader,
        evaluation("val_mask", sampler) as valid,
        evaluation("test_mask", MultiLayerFullNeighborSampler(len(arguments.fanouts))) as test,
    ):
        for epoch in range(begun, arguments.epochs):
            trained.train()
            torch.manual_seed(seed_of_rank(arguments.seed, world * epoch + rank))  # what is dropped: a run that goes on drops the same
            total, of_epoch = 0.0, []
            for batch in loader:
                _, _, blocks = batch
                loss = F.cross_entropy(trained(blocks, blocks[0].srcdata["x"]), blocks[-1].dstdata["y"])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
                if arguments.digests:
                    of_epoch.append(f"{batch.batch.digest():016x}")
            digests.append(of_epoch)
            reached = accuracy(model, valid, world)
            if rank == 0:
                print(f"epoch {epoch + 1}: loss {total / len(loader):.4f} of {len(loader)} steps, valid {reached:.4f}", flush=True)
                if arguments.checkpoint:
                    keep(arguments.checkpoint, {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch + 1, "run": run})
        reached = accuracy(model, test, world)
    mine = {"rank": rank, "seeds": len(train), "digests": digests}
    told = [mine] * world
    if arguments.digests and world > 1:
        dist.all_gather_object(told, mine)
    if rank == 0:
        print(f"test accuracy {reached:.4f}", flush=True)
        if arguments.digests:
            print(json.dumps({"test_accuracy": reached, "ranks": told}), flush=True)
    end(world)


if __name__ == "__main__":
    main()
