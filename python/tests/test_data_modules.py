"""hopfeed.pyg's data modules and loaders under Lightning's trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
lightning = pytest.importorskip("lightning", reason="lightning is not installed")

import torch_geometric.data.lightning as pyg  # noqa: E402
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
        self.seen: dict[str, list[int]] = {"validation": [], "test": []}

    def on_train_epoch_start(self) -> None:
        self.trained.append([])

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        self.trained[-1] += batch.input_id.tolist()
        return self.layer(batch.x).square().mean()

    def validation_step(self, batch: Any, _: int) -> None:
        self.seen["validation"] += batch.input_id.tolist()

    def test_step(self, batch: Any, _: int) -> None:
        self.seen["test"] += batch.input_id.tolist()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


def trainer(folder: Path, **arguments: Any) -> lightning.Trainer:
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    return lightning.Trainer(accelerator="cpu", devices=1, default_root_dir=folder, num_sanity_val_steps=0, **quiet, **arguments)


def test_node_data_trains_validates_and_tests_each_node_once(data: Data, tmp_path: Path) -> None:
    module = Module()
    nodes = LightningNodeData(data, num_neighbors=[3, 2], batch_size=32, num_workers=1)
    assert isinstance(nodes, pyg.LightningNodeData)
    runner = trainer(tmp_path, max_epochs=2)
    runner.fit(module, nodes)
    runner.test(module, nodes)
    train, val, test = ([int(i) for i in mask.nonzero()] for mask in (data.train_mask, data.val_mask, data.test_mask))
    assert [sorted(epoch) for epoch in module.trained] == [train, train] and module.trained[0] != module.trained[1]
    assert module.seen == {"validation": val * 2, "test": test}


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
