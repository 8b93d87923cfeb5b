"""PyG's loaders of no nodes, or of no links: what a rank's share may be, or a graph without test nodes."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

from torch.utils.data import DataLoader  # noqa: E402
from torch_geometric.data import Data, HeteroData  # noqa: E402

import hopfeed  # noqa: E402
from hopfeed.pyg import LinkNeighborLoader, NeighborLoader  # noqa: E402


@pytest.fixture(scope="module")
def data() -> Data:
    torch.manual_seed(0)
    return Data(x=torch.randn(500, 4), edge_index=torch.randint(0, 500, (2, 2000)))


@pytest.mark.parametrize("nodes", [[], torch.empty(0, dtype=torch.long), torch.empty(0), torch.zeros(500, dtype=torch.bool)])
@pytest.mark.parametrize("arguments", [{}, {"shuffle": True}, {"num_workers": 1}, {"drop_last": True}], ids=str)
def test_no_input_nodes_are_epochs_without_a_batch(data: Data, nodes: Any, arguments: dict[str, Any]) -> None:
    loader = NeighborLoader(data, [2], input_nodes=nodes, batch_size=10, **arguments)
    assert len(loader) == len(loader.dataset) == 0 and list(loader) == [] and list(DataLoader(loader, batch_size=None)) == []
    with pytest.raises(hopfeed.InvalidError, match="index has 0; there are 0 positions"):
        loader([0])


def test_a_mask_without_nodes_may_have_fewer_entries_than_there_are_ranks() -> None:
    graph = Data(x=torch.rand(2, 2), edge_index=torch.tensor([[0], [1]]))
    loader = NeighborLoader(graph, [2], input_nodes=torch.zeros(2, dtype=torch.bool), rank=1, world_size=4)
    assert len(loader) == len(loader.dataset) == 0 and list(loader) == []


def test_a_ratio_of_negatives_is_no_switch(data: Data) -> None:
    for name, value in (("neg_sampling_ratio", True), ("neg_sampling_ratio", False), ("prefetch_factor", True)):
        with pytest.raises(hopfeed.InvalidError, match=f"^{name} is {value} .bool.; give a number"):
            LinkNeighborLoader(data, [2], **{name: value})


def test_seeds_of_a_type_without_nodes_are_refused_by_its_name() -> None:
    graph = HeteroData({"a": {"x": torch.rand(3, 2)}, "b": {"num_nodes": 0}, ("a", "to", "b"): {"edge_index": torch.empty(2, 0, dtype=torch.long)}})
    for nodes in ("b", ("b", []), ("b", [0])):
        with pytest.raises(hopfeed.InvalidError, match="input_nodes is of the node type 'b', which has no nodes"):
            NeighborLoader(graph, [2], input_nodes=nodes)
    assert list(NeighborLoader(graph, [2], input_nodes=("a", []))) == []


def test_no_links_are_epochs_without_a_batch(data: Data) -> None:
    none = torch.empty(2, 0, dtype=torch.long)
    for given in ({"edge_label_index": none}, {"edge_label_index": none, "edge_label": torch.empty(0)}, {"edge_label_index": none, "neg_sampling": "binary"}):
        loader = LinkNeighborLoader(data, [2], **given)
        assert len(loader) == 0 and list(loader) == []
    assert list(LinkNeighborLoader(Data(x=torch.rand(3, 2), edge_index=none), [2])) == []
