"""hopfeed.pyg against the graph itself: every field of every batch says what the graph says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

from torch_geometric.data import Data, HeteroData  # noqa: E402
from torch_geometric.loader import ImbalancedSampler  # noqa: E402
from torch_geometric.sampler import NegativeSampling, NumNeighbors  # noqa: E402
from torch_geometric.utils import k_hop_subgraph  # noqa: E402

import hopfeed  # noqa: E402
from hopfeed import keywords  # noqa: E402
from hopfeed.pyg import LinkNeighborLoader, NeighborLoader  # noqa: E402


@pytest.fixture(scope="module")
def data() -> Data:
    torch.manual_seed(0)
    made = Data(
        x=torch.randn(500, 6),
        y=torch.randint(0, 4, (500,)),
        edge_index=torch.randint(0, 500, (2, 4000)),
        edge_attr=torch.randn(4000, 3),
        train_mask=torch.rand(500) < 0.5,
        name="a graph",
    )
    made.cube = torch.randn(500, 2, 2)  # which hopfeed does not store
    made.weight = torch.rand(4000) + 0.1
    made.when = torch.randint(0, 1000, (4000,))
    return made


@pytest.fixture(scope="module")
def hetero() -> HeteroData:
    torch.manual_seed(1)
    made = HeteroData()
    made["paper"].x, made["paper"].y = torch.randn(300, 4), torch.randint(0, 3, (300,))
    made["author"].x = torch.randn(100, 2)
    made["venue"].num_nodes = 20
    made["author", "writes", "paper"].edge_index = torch.stack([torch.randint(0, 100, (900,)), torch.randint(0, 300, (900,))])
    made["author", "writes", "paper"].weight = torch.rand(900)
    made["paper", "rev_writes", "author"].edge_index = made["author", "writes", "paper"].edge_index.flip(0)
    made["paper", "in", "venue"].edge_index = torch.stack([torch.arange(300), torch.randint(0, 20, (300,))])
    made["venue", "rev_in", "paper"].edge_index = made["paper", "in", "venue"].edge_index.flip(0)
    return made


def check(batch: Data, data: Data) -> None:
    for name in ("x", "y", "train_mask", "cube"):
        assert batch[name].dtype == data[name].dtype and torch.equal(batch[name], data[name][batch.n_id])
    for name in ("edge_attr", "weight", "when"):
        assert batch[name].dtype == data[name].dtype and torch.equal(batch[name], data[name][batch.e_id])
    assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
    assert batch.name == data.name and batch.num_nodes == len(batch.n_id)
    assert sum(batch.num_sampled_nodes) == len(batch.n_id) and sum(batch.num_sampled_edges) == len(batch.e_id)


def same(a: Any, b: Any) -> bool:
    return all(
        torch.equal(value, b_store[name]) if isinstance(value, torch.Tensor) else value == b_store[name]
        for a_store, b_store in zip(a.stores, b.stores)
        for name, value in a_store.items()
    )


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_what_the_graph_says(data: Data, workers: int) -> None:
    loader = NeighborLoader(data, [4, 3], input_nodes=data.train_mask, batch_size=32, shuffle=True, num_workers=workers)
    assert len(loader) == -(-int(data.train_mask.sum()) // 32)
    seen = []
    for batch in loader:
        check(batch, data)
        assert torch.equal(batch.input_id, batch.n_id[: batch.batch_size])  # of a mask: the nodes
        degree = torch.bincount(batch.edge_index[1], minlength=len(batch.n_id))
        assert degree[: batch.batch_size].max() <= 4
        seen.append(batch.input_id)
    assert torch.equal(torch.cat(seen).sort().values, data.train_mask.nonzero().view(-1))


def test_the_same_arguments_give_the_same_batches_and_each_epoch_others(data: Data) -> None:
    def epochs(**arguments: Any) -> list[list[Data]]:
        with NeighborLoader(data, [4, 3], batch_size=64, shuffle=True, **arguments) as loader:
            return [list(loader), list(loader)]

    one, two, other = epochs(), epochs(num_workers=2), epochs(seed=1)
    assert all(same(a, b) for x, y in zip(one, two) for a, b in zip(x, y))
    assert not same(one[0][0], one[1][0]) and not same(one[0][0], other[0][0])


def test_all_neighbours_are_the_k_hop_subgraph(data: Data) -> None:
    seeds = torch.tensor([3, 77, 401])
    (batch,) = NeighborLoader(data, [-1, -1], input_nodes=seeds, batch_size=3)
    nodes, *_ = k_hop_subgraph(seeds, 2, data.edge_index, num_nodes=500)
    assert torch.equal(batch.n_id.sort().values, nodes)
    (batch,) = NeighborLoader(data, [-1, -1], input_nodes=seeds, batch_size=3, subgraph_type="induced")
    _, edges, _, mask = k_hop_subgraph(seeds, 2, data.edge_index, num_nodes=500)
    assert int(mask.sum()) <= batch.edge_index.size(1)
    inside = torch.isin(data.edge_index, batch.n_id).all(0)
    assert torch.equal(batch.e_id.sort().values, inside.nonzero().view(-1))


def test_data_edited_after_construction_is_followed(data: Data) -> None:
    loader = NeighborLoader(data, [-1], batch_size=100)
    del loader.data.x, loader.data.edge_attr
    loader.data.n_id = torch.arange(500) * 10
    loader.data.y = data.y + 1
    for batch in loader:
        assert "x" not in batch and "edge_attr" not in batch
        assert torch.equal(batch.y, data.y[batch.n_id // 10] + 1) and torch.equal(batch.cube, data.cube[batch.n_id // 10])
    assert "x" in data
    loader.data.edge_index = data.edge_index.clone()
    with pytest.raises(hopfeed.InvalidError, match="edge_index was replaced"):
        iter(loader)


def test_a_call_gives_the_batch_of_positions(data: Data) -> None:
    seeds = torch.tensor([9, 8, 7, 6])
    loader = NeighborLoader(data, [2], input_nodes=seeds, batch_size=2)
    batch = loader([3, 1])
    check(batch, data)
    assert batch.n_id[:2].tolist() == [6, 8] and batch.input_id.tolist() == [3, 1]
    masked = NeighborLoader(data, [2], input_nodes=data.train_mask)
    nodes = data.train_mask.nonzero().view(-1)
    assert masked(torch.tensor([5])).input_id.tolist() == [int(nodes[5])]
    with pytest.raises(hopfeed.InvalidError, match="index"):
        loader([4])


def test_transforms_and_imbalanced_samplers(data: Data) -> None:
    loader = NeighborLoader(data, [2], batch_size=50, transform=lambda batch: batch.n_id.sum())
    assert all(value.dim() == 0 for value in loader)
    rare = torch.zeros(500, dtype=torch.long)
    rare[:25] = 1
    sampler = ImbalancedSampler(rare)
    drawn = torch.cat([rare[batch.n_id[: len(batch.input_id)]] for batch in NeighborLoader(data, [2], batch_size=100, sampler=sampler)])
    assert len(drawn) > 0 and 0.3 < float(rare[torch.cat([b.input_id for b in NeighborLoader(data, [2], batch_size=100, sampler=sampler)])].float().mean()) < 0.7
    with pytest.raises(hopfeed.UnsupportedError, match="SubsetRandomSampler"):
        NeighborLoader(data, [2], sampler=torch.utils.data.SubsetRandomSampler(range(500)))


def test_weights_and_times_decide_who_is_drawn(data: Data) -> None:
    heavy = data.clone()
    heavy.weight = torch.zeros(4000)
    first = torch.unique(data.edge_index[1], return_inverse=True)[1]
    keep = torch.full((int(first.max()) + 1,), 4000).scatter_reduce(0, first, torch.arange(4000), "amin")
    heavy.weight[keep] = 1.0  # one edge of each row
    for batch in NeighborLoader(heavy, [3], batch_size=100, weight_attr="weight"):
        assert torch.isin(batch.e_id, keep).all()
    light = data.clone()
    light.weight = torch.where(data.edge_index[1] < 100, 0.0, data.weight)  # these nodes have no neighbours to draw
    for replace in (False, True):
        loader = NeighborLoader(light, [3, -1], batch_size=100, input_nodes=torch.arange(200), shuffle=False, weight_attr="weight", replace=replace)
        first, second = loader
        assert first.num_edges == 0 and torch.equal(first.n_id, torch.arange(100))
        assert second.num_edges > 0 and (second.n_id[second.edge_index[1]] >= 100).all()
    times = torch.full((500,), 400)
    for batch in NeighborLoader(data, [5, 5], batch_size=50, input_time=times, time_attr="when"):
        assert (batch.when <= 400).all() and (batch.seed_time == 400).all() and len(batch.batch) == len(batch.n_id)
    with pytest.raises(hopfeed.InvalidError, match="input_time"):
        NeighborLoader(data, [5], input_time=times)


def test_typed_graphs(hetero: HeteroData) -> None:
    fanouts = {key: [3, 2] for key in hetero.edge_types}
    for chosen in ([3, 2], fanouts, NumNeighbors({"author__writes__paper": [1, 1]}, default=[3, 2])):
        loader = NeighborLoader(hetero, chosen, input_nodes=("paper", torch.arange(100, 200)), batch_size=20, num_workers=1)
        for batch in loader:
            assert batch.node_types == hetero.node_types and batch.edge_types == hetero.edge_types
            for key in ("paper", "author"):
                assert torch.equal(batch[key].x, hetero[key].x[batch[key].n_id])
            assert batch["venue"].num_nodes == len(batch["venue"].n_id)
            for src, rel, dst in batch.edge_types:
                edges = torch.stack([batch[src].n_id[batch[src, rel, dst].edge_index[0]], batch[dst].n_id[batch[src, rel, dst].edge_index[1]]])
                assert torch.equal(edges, hetero[src, rel, dst].edge_index[:, batch[src, rel, dst].e_id])
            assert torch.equal(batch["author", "writes", "paper"].weight, hetero["author", "writes", "paper"].weight[batch["author", "writes", "paper"].e_id])
            assert batch["paper"].batch_size == 20 and "batch_size" not in batch["author"]
    (small,) = NeighborLoader(hetero, NumNeighbors({"author__writes__paper": [0]}, default=[2]), input_nodes=("paper", torch.arange(9)), batch_size=9)
    assert small["author", "writes", "paper"].edge_index.size(1) == 0


@pytest.mark.parametrize("negatives", [None, NegativeSampling("binary", 2), NegativeSampling("triplet", 2)])
def test_links(data: Data, negatives: NegativeSampling | None) -> None:
    links = torch.randint(0, 500, (2, 200))
    labels = torch.rand(200) if negatives is None or negatives.is_binary() else None
    for batch in LinkNeighborLoader(data, [3], edge_label_index=links, edge_label=labels, neg_sampling=negatives, batch_size=40, shuffle=True):
        check(batch, data)
        want = links[:, batch.input_id]
        if negatives is not None and negatives.is_triplet():
            assert torch.equal(batch.n_id[batch.src_index], want[0]) and torch.equal(batch.n_id[batch.dst_pos_index], want[1])
            assert batch.dst_neg_index.shape == (40, 2) and "edge_label_index" not in batch
        else:
            assert torch.equal(batch.n_id[batch.edge_label_index[:, :40]], want)
            assert torch.equal(batch.edge_label[:40], labels[batch.input_id])
            assert batch.edge_label_index.size(1) == (40 if negatives is None else 120) and not batch.edge_label[40:].any()


def test_links_of_all_edges_and_what_message_passing_sees(hetero: HeteroData) -> None:
    key = ("author", "writes", "paper")
    for name in (key, ("author", "paper"), (key, None), (key, hetero[key].edge_index)):
        loader = LinkNeighborLoader(hetero, [2], edge_label_index=name, batch_size=100, exclude="reverse", neg_sampling_ratio=1.0)
        assert len(loader) == 9
        for batch in loader:
            store, back = batch[key], batch["paper", "rev_writes", "author"]
            assert torch.equal(
                torch.stack([batch["author"].n_id[store.edge_label_index[0, :100]], batch["paper"].n_id[store.edge_label_index[1, :100]]]),
                hetero[key].edge_index[:, store.input_id],
            )
            held_out = {(int(a), int(p)) for a, p in store.edge_label_index[:, :100].t()}
            assert not held_out & {(int(a), int(p)) for a, p in store.edge_index.t()}
            assert not held_out & {(int(a), int(p)) for p, a in back.edge_index.t()}


def test_states_ranks_and_data_loaders(data: Data) -> None:
    arguments: dict[str, Any] = dict(num_neighbors=[3], batch_size=50, shuffle=True)
    with NeighborLoader(data, **arguments) as loader:
        whole = [batch.n_id for batch in loader]
        batches = iter(loader)
        next(batches)
        state = loader.state_dict()
        rest = [batch.n_id for batch in batches]
    with NeighborLoader(data, **arguments) as resumed:
        resumed.load_state_dict(state)
        assert all(torch.equal(a, b.n_id) for a, b in zip(rest, resumed)) and len(rest) == 9
    halves = [[batch.n_id for batch in NeighborLoader(data, rank=rank, world_size=2, **arguments)] for rank in range(2)]
    assert all(torch.equal(a, b) for a, b in zip(whole, [half[i] for i in range(5) for half in halves]))
    wrapped = torch.utils.data.DataLoader(NeighborLoader(data, **arguments), batch_size=None)
    assert all(torch.equal(a, b.n_id) for a, b in zip(whole, wrapped)) and len(wrapped) == 10


@pytest.mark.parametrize("workers", [0, 1])
def test_a_type_without_nodes_comes_without_rows(hetero: HeteroData, tmp_path: Path, workers: int) -> None:
    made = hetero.clone()
    made["none"].x, made["none"].y = torch.empty(0, 8), torch.empty(0, dtype=torch.int64)
    made["none", "cites", "paper"].edge_index = torch.empty(2, 0, dtype=torch.int64)
    made["paper", "cited_by", "none"].edge_index = torch.empty(2, 0, dtype=torch.int64)
    made["none", "cites", "paper"].edge_attr = torch.empty(0, 3)
    for disjoint in (False, True):
        loader = NeighborLoader(made, [3, 3], input_nodes="paper", batch_size=100, shuffle=False, num_workers=workers, disjoint=disjoint)
        for batch in loader:
            assert batch["none"].x.shape == (0, 8) and batch["none"].y.shape == (0,) and batch["none"].n_id.shape == (0,)
            assert batch["none"].num_sampled_nodes == [0, 0, 0] and batch["paper"].num_nodes > 0
            assert batch["none", "cites", "paper"].edge_index.shape == (2, 0) and batch["none", "cites", "paper"].edge_attr.shape == (0, 3)
            assert batch["paper", "cited_by", "none"].edge_index.shape == (2, 0)
    with pytest.raises(hopfeed.InvalidError, match="input_nodes is of the node type 'none', which has no nodes"):
        NeighborLoader(made, [3], input_nodes="none")
    hopfeed.from_pyg(made, tmp_path / "made")
    back = hopfeed.to_pyg(tmp_path / "made")
    assert back["none"].x.shape == (0, 8) and back["none"].num_nodes == 0 and back["paper", "cited_by", "none"].edge_index.shape == (2, 0)


def test_folders_and_servers_stand_in_for_a_graph_in_memory(data: Data, tmp_path: Path) -> None:
    from test_servers import server

    hopfeed.from_pyg(data, tmp_path / "graph")
    arguments: dict[str, Any] = dict(num_neighbors=[4, 3], batch_size=100, shuffle=True, seed=5)
    plain = data.clone()
    del plain.cube
    memory = list(NeighborLoader(plain, input_nodes=torch.arange(500), **arguments))
    folder = list(NeighborLoader(tmp_path / "graph", num_workers=1, **arguments))
    with server(tmp_path / "graph", f"unix:{tmp_path}/socket"):
        remote = list(NeighborLoader(None, servers=f"unix:{tmp_path}/socket", **arguments))
    for a, b, c in zip(memory, folder, remote):
        for name in ("n_id", "edge_index", "e_id", "x", "y", "edge_attr", "train_mask"):
            assert torch.equal(a[name], b[name]) and torch.equal(a[name], c[name])
    assert len(memory) == len(folder) == len(remote) == 5


NEVER_NONE = ("batch_size", "num_workers", "drop_last", "replace", "disjoint", "directed", "subgraph_type", "temporal_strategy")
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"num_neighbors": 5}, "num_neighbors is 5"),
    ({"num_neighbors": [-2]}, r"num_neighbors is \[-2\]; give whole numbers"),
    ({"num_neighbors": [2, 2.5]}, r"num_neighbors is \[2, 2.5\]; give whole numbers"),
    ({"num_neighbors": [None]}, r"num_neighbors is \[None\]; give whole numbers"),
    ({"num_neighbors": [True]}, r"num_neighbors is \[True\]; give whole numbers"),
    ({"num_neighbors": ["2"]}, r"num_neighbors is \['2'\]; give whole numbers"),
    ({"num_neighbors": torch.tensor([1.5])}, r"num_neighbors is \[1.5\]; give whole numbers"),
    ({"num_neighbors": torch.tensor([True])}, r"num_neighbors is \[True\]; give whole numbers"),
    ({"num_neighbors": None}, "num_neighbors is "),
    *(({name: None}, f"{name} is None; give a value, or leave it out") for name in NEVER_NONE),
    ({"num_neighbors": {("node", "to", "node"): [2]}}, "num_neighbors is a dict"),
    ({"input_nodes": torch.ones(7, dtype=torch.bool)}, "input_nodes is a mask of 7; the type has 500"),
    ({"input_nodes": torch.tensor([500])}, "input_nodes has 500"),
    ({"input_nodes": torch.tensor([0.5])}, "input_nodes is float32"),
    ({"input_nodes": "paper"}, "input_nodes names the node type 'paper'"),
    ({"batch_size": 0}, "batch_size"),
    ({"batch_size": "x"}, "batch_size is 'x'"),
    *(({name: True}, f"{name} is True .bool.; give a number") for name in ("batch_size", "num_workers", "seed", "cache_limit", "num_slots")),
    ({"subgraph_type": "half"}, "subgraph_type is 'half'"),
    ({"temporal_strategy": "sometimes"}, "sometimes"),
    ({"time_attr": "then"}, "time_attr is 'then'"),
    ({"weight_attr": "mass"}, "weight_attr is 'mass'"),
    ({"transform": 3}, "transform is 3"),
    ({"generator": torch.Generator()}, "generator cannot be honoured: .* seed="),
    ({"batch_sampler": [[1]]}, "batch_sampler"),
    ({"transform_sampler_output": print}, "transform_sampler_output"),
    ({"neighbor_sampler": object()}, "neighbor_sampler"),
    ({"worker_init_fn": print}, "worker_init_fn"),
    ({"num_workrs": 2}, "no option 'num_workrs'"),
    ({"rank": 0}, "rank and world_size"),
    ({"servers": ["127.0.0.1:1"]}, "data and servers"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[message[:24] for _, message in WRONG])
def test_a_wrong_argument_is_one_error_that_names_it(data: Data, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(hopfeed.Error, match=message):
        NeighborLoader(data, **({"num_neighbors": [2]} | arguments))


def test_wrong_graphs_and_links_are_named(data: Data, hetero: HeteroData) -> None:
    for wrong, message in (
        ("/no/such/folder", "no/such/folder"),
        (5, "data is int"),
        ((None, None), "pair of stores"),
        (Data(x=torch.rand(3, 2), edge_index=torch.tensor([[0], [3]])), "edge_index of data has the destination 3"),
        (Data(x=torch.rand(3, 2), edge_index=torch.rand(3)), "edge_index is"),
    ):
        with pytest.raises(hopfeed.Error, match=message):
            NeighborLoader(wrong, [2])
    with pytest.raises(hopfeed.InvalidError, match="input_nodes names no node type"):
        NeighborLoader(hetero, [2])
    with pytest.raises(hopfeed.InvalidError, match="no number for the edge type"):
        NeighborLoader(hetero, {("author", "writes", "paper"): [2]}, input_nodes="paper")
    for arguments, message in (
        ({"edge_label_index": torch.zeros(3, 5, dtype=torch.long)}, r"edge_label_index is \[3, 5\]"),
        ({"edge_label": torch.ones(7)}, "edge_label has 7"),
        ({"edge_label_index": ("a", "b", "c")}, "edge_label_index names the edge type"),
        ({"neg_sampling": "sometimes"}, "neg_sampling is 'sometimes'"),
        ({"neg_sampling": "triplet", "edge_label": torch.ones(4000)}, "edge_label is given with triplet"),
        ({"time_attr": "when"}, "'edge_label_time' is not set"),
        ({"exclude": "all"}, "all"),
    ):
        with pytest.raises(hopfeed.Error, match=message):
            LinkNeighborLoader(data, [2], **arguments)


def test_none_is_the_default_of_pyg(data: Data) -> None:
    plain = list(NeighborLoader(data, [2]))
    nothing = dict.fromkeys((
        "input_nodes", "input_time", "time_attr", "weight_attr", "transform", "transform_sampler_output", "is_sorted", "filter_per_worker",
        "neighbor_sampler", "shuffle", "seed", "edge_ids", "rank", "world_size", "distributed", "servers", "cache_dir", "cache_limit", "progress",
        "sampler", "batch_sampler", "generator", "worker_init_fn", "prefetch_factor", "timeout", "pin_memory", "num_slots", "labor",
    ))  # fmt: skip
    given = NeighborLoader(data, [2], **nothing)
    assert len(given) == 500 and given.num_workers == 0 and given.batch_size == 1
    assert all(same(a, b) for a, b in zip(plain, given, strict=True)) and [int(batch.input_id) for batch in given] == list(range(500))
    links = torch.randint(0, 500, (2, 20))
    nothing = dict.fromkeys((*nothing, "edge_label", "edge_label_time", "neg_sampling", "neg_sampling_ratio", "strict", "exclude"))
    del nothing["input_nodes"], nothing["input_time"]
    with LinkNeighborLoader(data, [2], links) as plain_links, LinkNeighborLoader(data, [2], links, **nothing) as given_links:
        assert given_links.spec == plain_links.spec and all(same(a, b) for a, b in zip(plain_links, given_links, strict=True))


@pytest.mark.parametrize("workers", [0, 1])
def test_fewer_seeds_than_a_batch_are_no_batch_where_the_last_is_dropped(data: Data, workers: int) -> None:
    loader = NeighborLoader(data, [2], torch.arange(3), batch_size=4, drop_last=True, num_workers=workers)
    assert len(loader) == 0 and list(loader) == list(loader) == []
    links = LinkNeighborLoader(data, [2], torch.zeros(2, 3, dtype=torch.long), batch_size=4, drop_last=True, neg_sampling="binary", num_workers=workers)
    assert len(links) == 0 and list(links) == []


def test_a_hop_of_fanout_zero_draws_nothing(data: Data, hetero: HeteroData) -> None:
    (batch,) = NeighborLoader(data, [3, 0], torch.arange(40), batch_size=40)
    check(batch, data)
    assert batch.num_sampled_nodes[2] == batch.num_sampled_edges[1] == 0 < batch.num_sampled_edges[0]
    for fanouts in ([0], torch.tensor([0]), np.array([0, 4]), {key: [0, 1] for key in hetero.edge_types}):
        graph = hetero if isinstance(fanouts, dict) else data
        (batch,) = NeighborLoader(graph, fanouts, ("paper", torch.arange(40)) if graph is hetero else torch.arange(40), batch_size=40)
        assert all(store.edge_index.size(1) == 0 for store in batch.edge_stores)
        assert sum(store.n_id.numel() for store in batch.node_stores) == 40


def test_what_changes_speed_alone_is_taken(data: Data) -> None:
    loader = NeighborLoader(
        data, [2], batch_size=100, persistent_workers=True, prefetch_factor=4, filter_per_worker=True, is_sorted=True, pin_memory=True, timeout=5,
        drop_last=True,
    )  # fmt: skip
    assert len(list(loader)) == len(loader) == 5 and repr(loader) == "NeighborLoader()"


def test_nodes_without_features_and_without_edges() -> None:
    (batch,) = NeighborLoader(Data(num_nodes=4), [2], batch_size=4)
    assert batch.n_id.tolist() == [0, 1, 2, 3] and batch.edge_index.shape == (2, 0) and batch.num_nodes == 4
    doubles = Data(x=torch.arange(12.0, dtype=torch.float64).view(4, 3), edge_index=torch.tensor([[0, 1], [1, 2]]))
    (batch,) = NeighborLoader(doubles, [2], batch_size=4)
    assert batch.x.dtype == torch.float64 and torch.equal(batch.x, doubles.x[batch.n_id])


@pytest.mark.parametrize(
    ("raised", "expected", "positions"), [(KeyboardInterrupt, [0, 1, 2, 3], [1, 1, 2, 3, 0]), (KeyError, [0, 2, 3], [1, 2, 3, 0])]
)
def test_what_a_transform_raises_costs_its_batch_and_an_interrupt_none(
    data: Data, raised: type[BaseException], expected: list[int], positions: list[int]
) -> None:
    calls: list[int] = []

    def transform(batch: Data) -> Data:
        calls.append(int(batch.input_id))
        if len(calls) == 2:
            raise raised
        return batch

    with NeighborLoader(data, [2], torch.arange(4), batch_size=1, transform=transform) as loader:
        batches, got, states = iter(loader), list[int](), list[int]()
        while len(got) < len(expected):
            try:
                got.append(int(next(batches).input_id))
            except raised:
                pass
            states.append(loader.state_dict()["position"])
        assert got == expected and next(batches, None) is None
        assert states == positions


def test_time_start_leaves_out_what_is_older_also_at_zero_and_below(tmp_path: Path) -> None:
    times = torch.arange(-6, 10)  # of the edges 0 <- 1, 0 <- 2, ..., by index
    edges = torch.stack([torch.arange(1, 17), torch.zeros(16, dtype=torch.long)])
    data = Data(num_nodes=17, edge_index=edges, time=times)
    for start in (-6, -3, 0, 5, 9, 10):
        arguments: dict[str, Any] = dict(num_neighbors=[-1], input_nodes=torch.tensor([0]), input_time=torch.tensor([7]), time_attr="time")
        with NeighborLoader(data, time_start=start, **arguments) as loader:
            batch = next(iter(loader))
            assert sorted(times[batch.e_id].tolist()) == list(range(start, 8))
        with NeighborLoader(data, time_start=start, time_window=4, **arguments) as loader:
            batch = next(iter(loader))
            assert sorted(times[batch.e_id].tolist()) == list(range(max(start, 4), 8))
    with pytest.raises(hopfeed.InvalidError, match="time_start needs times"):
        NeighborLoader(data, [2], time_start=0)


def test_keywords_beside_pygs_arguments_are_typed() -> None:
    import inspect

    known = {keyword.name for keyword in keywords.KEYWORDS}
    assert keywords.OF_PYG <= known
    for loader in (NeighborLoader, LinkNeighborLoader):
        own = set(inspect.signature(loader.__init__).parameters)
        assert not own & ((known - keywords.OF_PYG) | set(keywords.OF_TORCH))
