"""A program that trains with Lightning and notes which seeds each rank is given. test_lightning.py runs it.

    lightning_ranks.py DATASET OUT STRATEGY fit|predict|overfit
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import BasePredictionWriter

from hopfeed.pyg import NeighborLoader

SEEDS = 497  # no multiple of ranks and batch size


class Noting(lightning.LightningModule):
    """A layer over the features, whose steps write what they were given to a file of their rank."""

    def __init__(self, folder: str, out: str) -> None:
        super().__init__()
        self.folder, self.out = folder, Path(out)
        self.layer = torch.nn.Linear(8, 1)

    def loader(self, shuffle: bool) -> NeighborLoader:
        return NeighborLoader(self.folder, [2], torch.arange(SEEDS), batch_size=50, shuffle=shuffle, num_workers=1)

    def train_dataloader(self) -> NeighborLoader:
        return self.loader(shuffle=True)

    def val_dataloader(self) -> NeighborLoader:
        return self.loader(shuffle=False)

    def predict_dataloader(self) -> NeighborLoader:
        return self.loader(shuffle=False)

    def note(self, step: str, values: Any) -> None:
        with open(self.out / f"{step}-{self.trainer.global_rank}.jsonl", "a") as file:
            file.write(json.dumps([self.current_epoch, values]) + "\n")

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        self.note("train", batch.input_id.tolist())
        return self.layer(batch.x[: batch.batch_size]).mean()

    def validation_step(self, batch: Any, _: int) -> None:
        self.note("validate", batch.input_id.tolist())

    def predict_step(self, batch: Any, _: int) -> torch.Tensor:
        self.note("predict", batch.input_id.tolist())
        return batch.input_id

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


class Writer(BasePredictionWriter):
    """Notes which positions Lightning believes each prediction to be of."""

    def write_on_batch_end(
        self, trainer: Any, module: Any, prediction: Any, batch_indices: Any, batch: Any, batch_idx: int, dataloader_idx: int
    ) -> None:
        module.note("written", [batch_indices, prediction.tolist()])


def main() -> None:
    folder, out, strategy, what = sys.argv[1:]
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=1 if strategy == "auto" else 2,
        strategy=strategy,
        max_epochs=2,
        overfit_batches=2 if what == "overfit" else 0.0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[Writer("batch")],
    )
    module = Noting(folder, out)
    if what == "predict":
        trainer.predict(module, return_predictions=False)
    else:
        trainer.fit(module)


if __name__ == "__main__":
    main()
