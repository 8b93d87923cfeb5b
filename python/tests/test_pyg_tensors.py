"""Tensors of a graph that change after the loader was made, or that gradients flow to."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

from torch_geometric.data import Data, HeteroData  # noqa: E402
from torch_geometric.sampler import NegativeSampling  # noqa: E402

import hopfeed  # noqa: E402
from hopfeed.pyg import LinkNeighborLoader, NeighborLoader  # noqa: E402


def graph() -> Data:
    torch.manual_seed(0)
    made = Data(x=torch.randn(100, 4), y=torch.randint(0, 3, (100,)), edge_index=torch.randint(0, 100, (2, 400)), edge_attr=torch.randn(400, 2))
    made.weight, made.when = torch.rand(400) + 0.1, torch.randint(0, 9, (400,))
    return made


@pytest.mark.parametrize("workers", [0, 1])
def test_rows_that_were_written_to_are_those_of_the_next_epoch(workers: int) -> None:
    data = graph()
    with NeighborLoader(data, [3], batch_size=30, num_workers=workers) as loader:
        for write in (
            lambda: data.x.add_(1), lambda: loader.data.x.fill_(5), lambda: data.y.zero_(), lambda: data.edge_attr.mul_(2), lambda: data.x[3:5].zero_()
        ):  # fmt: skip
            for batch in loader:
                assert torch.equal(batch.x, data.x[batch.n_id]) and torch.equal(batch.y, data.y[batch.n_id])
                assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
            write()
        data.x += 1
        assert torch.equal(loader([7]).x, data.x[loader([7]).n_id])


def test_rows_of_one_type_that_were_written_to_leave_the_others_where_they_are() -> None:
    data = HeteroData()
    data["a"].x, data["b"].x = torch.zeros(20, 2), torch.zeros(30, 2)
    data["a", "to", "b"].edge_index = torch.randint(0, 20, (2, 60))
    loader = NeighborLoader(data, [2], ("b", None), batch_size=30)
    data["a"].x += 1
    (batch,) = loader
    assert (batch["a"].x == 1).all() and (batch["b"].x == 0).all()


def test_what_draws_go_by_may_not_be_written_to() -> None:
    writes: list[tuple[str, dict[str, Any]]] = [
        ("edge_index", {}), ("weight", {"weight_attr": "weight"}), ("when", {"time_attr": "when", "input_time": torch.full((100,), 9)})
    ]  # fmt: skip
    for name, arguments in writes:
        data = graph()
        loader = NeighborLoader(data, [3], batch_size=30, **arguments)
        assert len(list(loader)) == 4
        data[name][..., 0] = 1
        for ask in (lambda: iter(loader), lambda: loader([1])):
            with pytest.raises(hopfeed.InvalidError, match=f"loader.data.{name} was written to") as raised:
                ask()
            assert "\n" not in str(raised.value)
    data = graph()
    loader = NeighborLoader(data, [3], batch_size=30, weight_attr="weight")
    loader.data.weight = torch.ones(400)
    with pytest.raises(hopfeed.InvalidError, match="loader.data.weight was replaced, and weight_attr draws by what it was"):
        iter(loader)


@pytest.mark.parametrize("workers", [0, 1])
def test_attributes_that_negatives_are_drawn_by_are_there_whoever_reads_the_rows(workers: int) -> None:
    data = graph()
    data.liked = torch.zeros(100)
    data.liked[:5] = 1.0
    drawn = NegativeSampling("binary", 2, dst_weight="liked")
    links = torch.randint(50, 100, (2, 20))
    plain = LinkNeighborLoader(data, [2], links, num_workers=workers)  # whose folder need not have it
    with plain, LinkNeighborLoader(data, [2], links, neg_sampling=drawn, batch_size=20, num_workers=workers) as loader:
        (batch,) = loader
        assert (batch.n_id[batch.edge_label_index[1, 20:]] < 5).all() and torch.equal(batch.liked, data.liked[batch.n_id])
        data.liked += 1
        with pytest.raises(hopfeed.InvalidError, match="loader.data.liked was written to, and dst_weight draws by what it was"):
            iter(loader)


def test_seeds_and_links_that_were_written_to_are_named_and_masks_are_not() -> None:
    data = graph()
    seeds, times, links = torch.arange(10), torch.zeros(10, dtype=torch.long), torch.zeros(2, 10, dtype=torch.long)
    mask = torch.ones(100, dtype=torch.bool)
    by_name = NeighborLoader(data, [1], seeds, times, time_attr="when", batch_size=10)
    of_links = LinkNeighborLoader(data, [1], links, batch_size=10)
    masked = NeighborLoader(data, [1], mask, batch_size=100)
    times += 1
    with pytest.raises(hopfeed.InvalidError, match="input_time was written to"):
        iter(by_name)
    links += 1
    with pytest.raises(hopfeed.InvalidError, match="edge_label_index was written to"):
        iter(of_links)
    mask.fill_(False)
    assert sum(batch.batch_size for batch in masked) == 100


def test_links_of_all_edges_are_the_graphs_own_where_another_of_the_same_content_has_changed() -> None:
    data, same = graph(), graph()
    with NeighborLoader(data, [1]):
        data.edge_index.zero_()
        (batch,) = LinkNeighborLoader(same, [1], batch_size=400)
        assert torch.equal(batch.n_id[batch.edge_label_index], same.edge_index)


def test_tensors_without_a_version_are_read_as_they_were() -> None:
    with torch.inference_mode():
        data = graph()
    loader = NeighborLoader(data, [3], batch_size=100)
    (before,) = loader
    (after,) = loader
    assert torch.equal(before.x, data.x[before.n_id]) and torch.equal(after.x, data.x[after.n_id])


@pytest.mark.parametrize("workers", [0, 1])
def test_gradients_reach_what_requires_them(workers: int) -> None:
    edges = torch.randint(0, 30, (2, 90))
    embedding = torch.nn.Embedding(30, 4)
    bonds = torch.randn(90, 3, requires_grad=True)
    for x in (torch.nn.Parameter(torch.randn(30, 4)), torch.randn(30, 4).requires_grad_(), embedding.weight):
        data = Data(x=x, edge_index=edges, edge_attr=bonds)
        bonds.grad = None
        for batch in NeighborLoader(data, [2], torch.arange(7), batch_size=7, num_workers=workers):
            assert torch.equal(batch.x, x[batch.n_id]) and torch.equal(batch.edge_attr, bonds[batch.e_id])
            (batch.x.sum() + batch.edge_attr.sum()).backward()
            touched = torch.zeros(30, 4)
            touched[batch.n_id] = 1
            assert torch.equal(x.grad, touched)
            assert int(bonds.grad.sum()) == 3 * len(batch.e_id)


def test_a_parameter_that_an_optimizer_moves_is_followed_within_the_epoch() -> None:
    x = torch.nn.Parameter(torch.zeros(20, 2))
    optimizer = torch.optim.SGD([x], lr=1.0)
    for number, batch in enumerate(NeighborLoader(Data(x=x, edge_index=torch.randint(0, 20, (2, 40))), [0], torch.tensor([4, 4, 4]), batch_size=1)):
        assert (batch.x == -number).all()
        optimizer.zero_grad()
        batch.x.sum().backward()
        optimizer.step()


def test_weights_that_require_gradients_are_drawn_by_and_carry_them() -> None:
    data = graph()
    data.weight.requires_grad_()
    (batch,) = NeighborLoader(data, [2], torch.arange(5), batch_size=5, weight_attr="weight")
    batch.weight.sum().backward()
    assert float(data.weight.grad.sum()) == len(batch.e_id)


def test_a_folder_made_of_a_graph_has_the_values_of_what_requires_gradients(tmp_path: Any) -> None:
    data = graph()
    values = data.x.clone()
    data.x = torch.nn.Parameter(data.x)
    hopfeed.from_pyg(data, tmp_path / "graph")
    for batch in NeighborLoader(tmp_path / "graph", [2], batch_size=50):
        assert torch.equal(batch.x, values[batch.n_id]) and not batch.x.requires_grad
