"""The same model in Lightning: the loaders are given to the trainer as they are.

    hopfeed-partition import debian data/debian
    python examples/python/lightning_sage.py --data data/debian
"""

from __future__ import annotations

import argparse
from pathlib import Path

import lightning
import torch
import torch.nn.functional as F
from pyg_sage import Sage

from hopfeed import Dataset
from hopfeed.pyg import NeighborLoader


class SageModule(lightning.LightningModule):
    """GraphSAGE with its losses and accuracies."""

    def __init__(self, width: int, classes: int, layers: int) -> None:
        super().__init__()
        self.model = Sage(width, 256, classes, layers)

    def training_step(self, batch, _: int) -> torch.Tensor:
        loss = F.cross_entropy(self.model(batch), batch.y[: batch.batch_size])
        self.log("loss", loss, prog_bar=True, batch_size=batch.batch_size)
        return loss

    def validation_step(self, batch, _: int) -> None:
        right = (self.model(batch).argmax(dim=-1) == batch.y[: batch.batch_size]).float().mean()
        self.log("accuracy", right, prog_bar=True, batch_size=batch.batch_size)

    test_step = validation_step

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.003)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, help="dataset folder")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--fanouts", type=int, nargs="+", default=[15, 10, 5])
    parser.add_argument("--num-workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("lightning_logs"), help="where Lightning writes")
    arguments = parser.parse_args()

    dataset = Dataset(arguments.data)

    def loader(split: str, shuffle: bool) -> NeighborLoader:
        return NeighborLoader(
            arguments.data,
            num_neighbors=arguments.fanouts,
            batch_size=1024,
            input_nodes=torch.from_numpy(dataset.split(split).copy()),
            shuffle=shuffle,
            num_workers=arguments.num_workers,
        )

    lightning.seed_everything(0)
    module = SageModule(dataset.attr("x").shape[1], dataset.num_classes(), len(arguments.fanouts))
    trainer = lightning.Trainer(max_epochs=arguments.epochs, accelerator="auto", devices=1, default_root_dir=arguments.out)
    trainer.fit(module, loader("train", True), loader("valid", False))
    trainer.test(module, loader("test", False))


if __name__ == "__main__":
    main()
