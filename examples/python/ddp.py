"""Trainers under torchrun: each takes its share of every epoch, and all make the same number of steps.

    hopfeed-partition import debian data/debian
    torchrun --standalone --nproc-per-node=2 examples/python/ddp.py --data data/debian
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from pyg_sage import Sage, accuracy
from torch.nn.parallel import DistributedDataParallel

from hopfeed import Dataset
from hopfeed.pyg import NeighborLoader


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, help="dataset folder")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--fanouts", type=int, nargs="+", default=[15, 10, 5])
    parser.add_argument("--batch-size", type=int, default=512, help="seeds of a batch of one trainer")
    parser.add_argument("--num-workers", type=int, default=1, help="sampling processes of each trainer")
    parser.add_argument("--checkpoint", type=Path, help="goes on from this file where it is there, and writes it after each epoch")
    arguments = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    dataset = Dataset(arguments.data)
    model = DistributedDataParallel(Sage(dataset.attr("x").shape[1], 256, dataset.num_classes(), len(arguments.fanouts)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    train = NeighborLoader(
        arguments.data,
        num_neighbors=arguments.fanouts,
        batch_size=arguments.batch_size,
        input_nodes=torch.from_numpy(dataset.split("train").copy()),
        shuffle=True,
        num_workers=arguments.num_workers,
        distributed=True,  # rank and world size of the process group
    )
    if arguments.checkpoint and arguments.checkpoint.exists():
        saved = torch.load(arguments.checkpoint, weights_only=True)
        model.module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        train.load_state_dict(saved["loader"])

    while train.epoch < arguments.epochs:
        epoch, total, steps = train.epoch, 0.0, 0
        for batch in train:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(batch), batch.y[: batch.batch_size])
            loss.backward()
            optimizer.step()
            total, steps = total + loss.item(), steps + 1
        if rank == 0:
            print(f"epoch {epoch + 1}: loss {total / steps:.4f} of {steps} steps of each trainer", flush=True)
            if arguments.checkpoint:
                state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "loader": train.state_dict()}
                torch.save(state, arguments.checkpoint)
        dist.barrier()
    train.close()
    if rank == 0:
        with NeighborLoader(
            arguments.data,
            num_neighbors=arguments.fanouts,
            batch_size=1024,
            input_nodes=torch.from_numpy(dataset.split("test").copy()),
        ) as test:
            print(f"test accuracy {accuracy(model.module, test):.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
