"""Trainers under Ray Train: what ddp.py does under torchrun, with the losses that it prints there.

    pip install 'hopfeed[pyg,ray]'
    hopfeed-partition import debian data/debian
    python examples/python/ray_train.py --data data/debian --trainers 2

Without more it starts Ray on this machine; RAY_ADDRESS names a cluster, whose nodes all see the dataset and --out. A trainer takes a
CPU of Ray for itself and one for each of its sampling processes. After each epoch rank 0 keeps model, optimizer and loader; where a
trainer or a node dies, Ray starts all of them again, up to --failures times, and they go on from there.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import ray.train
import torch
import torch.distributed as dist
import torch.nn.functional as F
from pyg_sage import Sage
from ray.train.torch import TorchConfig, TorchTrainer
from torch.nn.parallel import DistributedDataParallel

from hopfeed import Dataset
from hopfeed.pyg import NeighborLoader


def train(arguments: dict[str, Any]) -> None:
    """On each trainer; Ray has made the process group."""
    torch.manual_seed(0)
    dataset = Dataset(arguments["data"])
    model = DistributedDataParallel(Sage(dataset.attr("x").shape[1], 256, dataset.num_classes(), len(arguments["fanouts"])))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    loader = NeighborLoader(
        arguments["data"],
        num_neighbors=arguments["fanouts"],
        batch_size=arguments["batch_size"],
        input_nodes=torch.from_numpy(dataset.split("train").copy()),
        shuffle=True,
        num_workers=arguments["num_workers"],
        distributed=True,  # rank and world size of the process group
    )
    losses: list[float] = []
    if (checkpoint := ray.train.get_checkpoint()) is not None:
        with checkpoint.as_directory() as folder:
            saved = torch.load(Path(folder) / "state.pt", weights_only=True)
        model.module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
        losses = saved["losses"]

    while loader.epoch < arguments["epochs"]:
        total = steps = 0.0
        for batch in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(batch), batch.y[: batch.batch_size])
            loss.backward()
            optimizer.step()
            total, steps = total + loss.item(), steps + 1
        losses.append(total / steps)
        state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "loader": loader.state_dict(), "losses": losses}
        report(losses, state)
    loader.close()


def report(losses: list[float], state: dict[str, Any]) -> None:
    """All trainers report; rank 0 keeps the state."""
    metrics = {"epoch": len(losses), "loss": losses[-1], "losses": losses}
    if dist.get_rank() != 0:
        ray.train.report(metrics)
        return
    print(f"epoch {len(losses)}: loss {losses[-1]:.4f}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        torch.save(state, os.path.join(folder, "state.pt"))
        ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, help="dataset folder, which all nodes see")
    parser.add_argument("--trainers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--fanouts", type=int, nargs="+", default=[15, 10, 5])
    parser.add_argument("--batch-size", type=int, default=512, help="seeds of a batch of one trainer")
    parser.add_argument("--num-workers", type=int, default=1, help="sampling processes of each trainer")
    parser.add_argument("--cpus", type=float, help="of Ray for each trainer; default: one, and one for each sampling process")
    parser.add_argument("--out", type=Path, default=Path("ray_train"), help="folder for checkpoints, which all nodes see")
    parser.add_argument("--failures", type=int, default=3, help="times that trainers are started again")
    parser.add_argument("--json", type=Path, help="write the losses to this file")
    arguments = parser.parse_args()

    cpus = arguments.cpus if arguments.cpus is not None else 1 + arguments.num_workers
    config = {"data": str(arguments.data.absolute()), **{name: getattr(arguments, name) for name in ("epochs", "fanouts", "batch_size", "num_workers")}}
    trainer = TorchTrainer(
        train,
        train_loop_config=config,
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ray.train.ScalingConfig(num_workers=arguments.trainers, resources_per_worker={"CPU": cpus}),
        run_config=ray.train.RunConfig(
            name="hopfeed",
            storage_path=str(arguments.out.absolute()),
            checkpoint_config=ray.train.CheckpointConfig(num_to_keep=2),
            failure_config=ray.train.FailureConfig(max_failures=arguments.failures),
        ),
    )
    losses = trainer.fit().metrics["losses"]
    print(f"losses {' '.join(f'{loss:.4f}' for loss in losses)}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"losses": losses}))


if __name__ == "__main__":
    main()
