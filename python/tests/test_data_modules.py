"""hopfeed.pyg's data modules and loaders under Lightning's trainer."""

from __future__ import annotations

import gc
import pickle
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
lightning = pytest.importorskip("lightning", reason="lightning is not installed")

import torch_geometric.data.lightning as pyg  # noqa: E402
from lightning.pytorch.callbacks import BasePredictionWriter  # noqa: E402
from torch_geometric.data import Data, HeteroData  # noqa: E402
from torch_geometric.loader import ImbalancedSampler  # noqa: E402

import hopfeed  # noqa: E402
from hopfeed.pyg import LightningLinkData, LightningNodeData, LinkNeighborLoader, NeighborLoader  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning's advice: more workers, a logger


@pytest.fixture(scope="module")
def data() -> Data:
    torch.manual_seed(0)
    part = torch.randint(0, 4, (300,))
    return Data(
        x=torch.randn(300, 6), y=torch.randint(0, 3, (300,)), edge_index=torch.randint(0, 300, (2, 2000)),
        train_mask=part < 2, val_mask=part == 2, test_mask=part == 3,
    )  # fmt: skip


class Module(lightning.LightningModule):
    """Notes which positions each step was given."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(6, 3)
        self.trained: list[list[int]] = []
        self.seen: dict[str, list[int]] = {"validation": [], "test": [], "predict": []}

    def on_train_epoch_start(self) -> None:
        self.trained.append([])

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        self.trained[-1] += batch.input_id.tolist()
        return self.layer(batch.x).square().mean()

    def validation_step(self, batch: Any, _: int) -> None:
        self.seen["validation"] += batch.input_id.tolist()

    def test_step(self, batch: Any, _: int) -> None:
        self.seen["test"] += batch.input_id.tolist()

    def predict_step(self, batch: Any, _: int) -> torch.Tensor:
        self.seen["predict"] += batch.input_id.tolist()
        return batch.n_id

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


def trainer(folder: Path, **arguments: Any) -> lightning.Trainer:
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    return lightning.Trainer(accelerator="cpu", devices=1, default_root_dir=folder, num_sanity_val_steps=0, **quiet, **arguments)


def test_node_data_trains_validates_tests_and_predicts_each_node_once(data: Data, tmp_path: Path) -> None:
    module = Module()
    nodes = LightningNodeData(data, num_neighbors=[3, 2], batch_size=32, num_workers=1, input_pred_nodes=torch.arange(40, 90))
    assert isinstance(nodes, pyg.LightningNodeData)
    runner = trainer(tmp_path, max_epochs=2)
    runner.fit(module, nodes)
    runner.test(module, nodes)
    runner.predict(module, nodes)
    train, val, test = ([int(i) for i in mask.nonzero()] for mask in (data.train_mask, data.val_mask, data.test_mask))
    assert [sorted(epoch) for epoch in module.trained] == [train, train] and module.trained[0] != module.trained[1]
    assert module.seen == {"validation": val * 2, "test": test, "predict": list(range(50))}


def test_link_data_trains_and_validates_each_link_once(data: Data, tmp_path: Path) -> None:
    module = Module()
    links = LightningLinkData(
        data, input_train_edges=data.edge_index[:, :300], input_train_labels=torch.ones(300), input_val_edges=data.edge_index[:, 300:400],
        neg_sampling="binary", num_neighbors=[2], batch_size=64,
    )  # fmt: skip
    assert isinstance(links, pyg.LightningLinkData)
    trainer(tmp_path, max_epochs=1).fit(module, links)
    assert sorted(module.trained[0]) == list(range(300)) and module.seen["validation"] == list(range(100))


def test_loaders_of_a_data_module_have_its_arguments(data: Data) -> None:
    nodes = LightningNodeData(data, num_neighbors=[3], batch_size=32, eval_loader_kwargs={"num_neighbors": [-1], "batch_size": 50})
    train, val = nodes.train_dataloader(), nodes.val_dataloader()
    assert isinstance(train, NeighborLoader) and train.num_neighbors == [3] and train.batch_size == 32 and train.shuffle
    assert isinstance(val, NeighborLoader) and val.num_neighbors == [-1] and val.batch_size == 50 and not val.shuffle
    sampled = LightningNodeData(data, num_neighbors=[3], input_train_nodes=torch.arange(300), sampler=ImbalancedSampler(data.y))
    assert len(sampled.train_dataloader()) == 300 and "loader=neighbor" in pyg.datamodule.LightningData.__repr__(sampled)
    links = LightningLinkData(data, data.edge_index[:, :10], num_neighbors=[3])
    assert isinstance(links.train_dataloader(), LinkNeighborLoader) and len(links.train_dataloader()) == 10


def test_a_module_converts_its_graph_once_and_goes_to_other_processes(data: Data) -> None:
    nodes = LightningNodeData(data, num_neighbors=[3], batch_size=32)
    folder = nodes.train_dataloader()._options["dataset"]
    assert Path(folder).is_dir() and nodes.val_dataloader()._options["dataset"] == folder
    sent = pickle.loads(pickle.dumps(nodes))  # as ddp_spawn does
    assert len(sent.train_dataloader()) == len(nodes.train_dataloader())
    del nodes, sent
    gc.collect()
    assert not Path(folder).exists()


def test_lightning_is_told_which_positions_of_a_mask_each_prediction_is_of(data: Data, tmp_path: Path) -> None:
    told: list[list[int]] = []

    class Writer(BasePredictionWriter):
        def write_on_epoch_end(self, trainer: Any, module: Any, predictions: Any, batch_indices: Any) -> None:
            told.extend(batch_indices[0])

    runner = trainer(tmp_path, callbacks=[Writer("epoch")])
    predicted = runner.predict(Module(), LightningNodeData(data, num_neighbors=[2], batch_size=32, input_pred_nodes=data.test_mask))
    nodes = data.test_mask.nonzero().view(-1)
    assert len(predicted) == len(told) and sum(map(len, told)) == len(nodes)
    assert all(torch.equal(n_id[: len(positions)], nodes[positions]) for n_id, positions in zip(predicted, told))


def test_the_whole_graph_is_pygs_and_other_samplers_are_refused(data: Data) -> None:
    (whole,) = LightningNodeData(data, loader="full").train_dataloader()
    assert whole is data
    with pytest.raises(hopfeed.UnsupportedError, match="node_sampler .*PyG's LightningNodeData"):
        LightningNodeData(data, node_sampler=object())
    with pytest.raises(ValueError, match="loader"):
        LightningNodeData(data, loader="half")


def test_typed_graphs_and_folders_are_data_of_modules_too(small: Path, tmp_path: Path) -> None:
    typed = HeteroData()
    typed["a"].x, typed["b"].x = torch.rand(20, 2), torch.rand(30, 2)
    typed["b"].train_mask = torch.arange(30) < 12
    typed["a", "to", "b"].edge_index = torch.stack([torch.arange(20), torch.arange(20)])
    nodes = LightningNodeData(typed, num_neighbors=[2], batch_size=12)
    (batch,) = nodes.train_dataloader()
    assert sorted(batch["b"].input_id.tolist()) == list(range(12))
    folder = LightningNodeData(str(small), input_train_nodes=torch.arange(10), num_neighbors=[2], batch_size=10)
    (batch,) = folder.train_dataloader()
    assert sorted(batch.input_id.tolist()) == list(range(10))


@pytest.mark.parametrize("where", ["memory", "folder"])
def test_a_loader_that_lightning_makes_anew_has_all_arguments_of_the_first(data: Data, small: Path, tmp_path: Path, where: str) -> None:
    module, runner = Module(), trainer(tmp_path)
    given = {"batch_size": 20, "num_workers": 1, "seed": 3, "num_slots": 5, "edge_ids": False}
    loader = NeighborLoader(data if where == "memory" else str(small), [2], torch.arange(40, 90), **given)
    if where == "memory":
        loader.data.z = torch.arange(300)
    predicted = runner.predict(module, loader)
    anew = runner.predict_dataloaders
    assert isinstance(anew, NeighborLoader) and anew is not loader
    for name in ("seed", "shuffle", "seeds"):
        assert anew.spec[name] == loader.spec[name]
    assert module.seen["predict"] == list(range(50)) and [len(some) >= 10 for some in predicted] == [True] * 3
    assert anew.others["num_slots"] == 5 and not anew.edge_ids and anew.num_workers == 1
    for batch in anew:
        assert "e_id" not in batch and (where == "folder" or torch.equal(batch.z, batch.n_id))
