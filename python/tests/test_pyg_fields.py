"""Graphs that have tensors named as fields of batches: each field is what PyG's own loader makes of the same sample."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

import torch_geometric.transforms as T  # noqa: E402
from torch_geometric.data import Data, HeteroData  # noqa: E402
from torch_geometric.loader import LinkLoader, NodeLoader  # noqa: E402
from torch_geometric.nn import SAGEConv  # noqa: E402
from torch_geometric.sampler import BaseSampler, HeteroSamplerOutput, NegativeSampling, SamplerOutput  # noqa: E402

from hopfeed.pyg import LinkNeighborLoader, NeighborLoader  # noqa: E402

NODES, EDGES = 200, 1500
NAMES = (
    "batch", "num_sampled_nodes", "num_sampled_edges", "input_id", "seed_time", "batch_size", "edge_label_index", "edge_label",
    "edge_label_time", "src_index", "dst_pos_index", "dst_neg_index", "n_id", "e_id", "seed_index", "walks",
)  # fmt: skip
SHAPES = {
    "a row for each node": lambda nodes, edges: torch.arange(nodes) + 5000,
    "a row for each edge": lambda nodes, edges: torch.arange(edges) + 5000,
    "two rows for each edge": lambda nodes, edges: torch.arange(2 * edges).view(2, edges) + 5000,
    "of the graph": lambda nodes, edges: torch.arange(7),
    "a text": lambda nodes, edges: "the graph's",
}


class Unused(BaseSampler):
    """PyG's loaders want one, though samples are made elsewhere."""

    def sample_from_nodes(self, *_: Any) -> Any:
        raise AssertionError

    sample_from_edges = sample_from_nodes

    @property
    def edge_permutation(self) -> None:
        return None


def plain() -> Data:
    torch.manual_seed(0)
    made = Data(x=torch.randn(NODES, 3), edge_index=torch.randint(0, NODES, (2, EDGES)))
    made.time = torch.randint(0, 100, (NODES,))
    return made


def plain_typed() -> HeteroData:
    torch.manual_seed(1)
    made = HeteroData()
    made["a"].x, made["b"].x = torch.randn(NODES, 3), torch.randn(NODES, 2)
    made["a"].time, made["b"].time = torch.randint(0, 100, (NODES,)), torch.randint(0, 100, (NODES,))
    made["a", "to", "b"].edge_index = torch.randint(0, NODES, (2, EDGES))
    made["b", "rev_to", "a"].edge_index = made["a", "to", "b"].edge_index.flip(0)
    made["a", "likes", "a"].edge_index = torch.randint(0, NODES, (2, EDGES))
    return made


def with_names(data: Any, shape: Any) -> Any:
    """The graph with a value of each name, in each of its stores."""
    data = data.clone()
    for store in data.stores if isinstance(data, Data) else data.node_stores + data.edge_stores:
        for name in NAMES:
            store[name] = shape(NODES, EDGES)
    return data


def pygs_batch(loader: Any, sample: Any, key: Any, triplets: bool) -> Any:
    """What PyG's ``loader`` makes of a sample that is told as a batch of a graph without such names."""

    def field(store: Any, name: str) -> Any:
        return store[name] if name in store else None

    typed = isinstance(sample, HeteroData)
    inputs = sample[key] if typed else sample
    if isinstance(loader, NodeLoader):
        metadata = (inputs.input_id, field(inputs, "seed_time"))
    elif triplets:
        src, dst = (sample[key[0]], sample[key[2]]) if typed else (sample, sample)
        metadata = (inputs.input_id, src.src_index, dst.dst_pos_index, dst.dst_neg_index, field(src, "seed_time"))
    else:
        metadata = (inputs.input_id, *(field(inputs, name) for name in ("edge_label_index", "edge_label", "edge_label_time")))
    if not typed:
        row, col = sample.edge_index
        out = SamplerOutput(
            node=sample.n_id, row=row, col=col, edge=field(sample, "e_id"), batch=field(sample, "batch"), metadata=metadata,
            num_sampled_nodes=field(sample, "num_sampled_nodes"), num_sampled_edges=field(sample, "num_sampled_edges"),
        )  # fmt: skip
        return loader.filter_fn(out)

    def dicts(name: str, keys: Any) -> Any:
        return {key: sample[key][name] for key in keys} if all(name in sample[key] for key in keys) else None

    out = HeteroSamplerOutput(
        node=dicts("n_id", sample.node_types), row={key: sample[key].edge_index[0] for key in sample.edge_types},
        col={key: sample[key].edge_index[1] for key in sample.edge_types}, edge={key: field(sample[key], "e_id") for key in sample.edge_types},
        batch=dicts("batch", sample.node_types), num_sampled_nodes=dicts("num_sampled_nodes", sample.node_types),
        num_sampled_edges=dicts("num_sampled_edges", sample.edge_types), metadata=metadata,
    )  # fmt: skip
    return loader.filter_fn(out)


def assert_same(ours: Any, pygs: Any) -> None:
    for mine, theirs in zip(ours.stores, pygs.stores, strict=True):
        assert set(mine.keys()) == set(theirs.keys()), theirs._key
        for name, value in theirs.items():
            same = torch.equal(mine[name], value) if isinstance(value, torch.Tensor) else mine[name] == value
            assert same, f"{theirs._key}: {name} is {mine[name]} and not {value}"


KINDS: dict[str, dict[str, Any]] = {
    "directional": {},
    "bidirectional": {"subgraph_type": "bidirectional"},
    "disjoint": {"disjoint": True},
    "temporal": {"time_attr": "time"},
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("make", [plain, plain_typed])
def test_batches_of_nodes_have_the_fields_that_pyg_writes_and_else_the_graphs(make: Any, kind: dict[str, Any], shape: Any) -> None:
    data = make()
    graph, key = with_names(data, shape), None if isinstance(data, Data) else "a"
    seeds = torch.arange(40, 60)
    arguments: dict[str, Any] = {"num_neighbors": [3, 2], "input_nodes": seeds if key is None else (key, seeds), "batch_size": 10} | kind
    if "time_attr" in kind:
        arguments["input_time"] = torch.full((20,), 50)
    pygs = NodeLoader(graph, Unused(), input_nodes=arguments["input_nodes"], batch_size=10)
    ours = NeighborLoader(graph, **arguments)
    for batch, sample in zip(ours, NeighborLoader(data, **arguments), strict=True):
        expected = pygs_batch(pygs, sample, key, triplets=False)
        assert_same(batch, expected)
    assert_same(ours([3, 1]), pygs_batch(pygs, NeighborLoader(data, **arguments)([3, 1]), key, triplets=False))


@pytest.mark.parametrize("shape", list(SHAPES.values())[::2], ids=list(SHAPES)[::2])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("negatives", [None, "labels", "binary", "triplet"])
@pytest.mark.parametrize("make", [plain, plain_typed])
def test_batches_of_links_have_the_fields_that_pyg_writes_and_else_the_graphs(
    make: Any, negatives: str | None, kind: dict[str, Any], shape: Any
) -> None:
    data = make()
    graph, key = with_names(data, shape), None if isinstance(data, Data) else ("a", "to", "b")
    links = torch.randint(0, NODES, (2, 20))
    arguments: dict[str, Any] = {"num_neighbors": [3, 2], "edge_label_index": links if key is None else (key, links), "batch_size": 10} | kind
    if "time_attr" in kind:
        arguments["edge_label_time"] = torch.full((20,), 50)
    if negatives == "labels":
        arguments["edge_label"] = torch.arange(20)
    elif negatives is not None:
        arguments["neg_sampling"] = NegativeSampling(negatives, 2)
    pygs = LinkLoader(graph, Unused(), edge_label_index=arguments["edge_label_index"], neg_sampling=arguments.get("neg_sampling"), batch_size=10)
    ours = LinkNeighborLoader(graph, **arguments)
    for batch, sample in zip(ours, LinkNeighborLoader(data, **arguments), strict=True):
        expected = pygs_batch(pygs, sample, key, triplets=negatives == "triplet")
        assert_same(batch, expected)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("make", [plain, plain_typed])
def test_the_drawn_edges_of_a_bidirectional_batch_are_the_loaders(make: Any, shape: Any) -> None:
    """A batch that has them may be the graph of another loader. PyG's loader writes them last, where it keeps them."""
    data = make()
    graph, inputs = data.clone(), torch.arange(20) if isinstance(data, Data) else ("a", torch.arange(20))
    for store in graph.stores if isinstance(graph, Data) else graph.edge_stores:
        store["_orig_edge_index"] = shape(NODES, EDGES)
    links = torch.arange(40).view(2, 20)
    arguments = {"num_neighbors": [3, 2], "batch_size": 10, "subgraph_type": "bidirectional", "keep_orig_edges": True}
    for loader, given in (
        (NeighborLoader, {"input_nodes": inputs}),
        (LinkNeighborLoader, {"edge_label_index": links if isinstance(data, Data) else (("a", "to", "b"), links)}),
    ):
        for batch, expected in zip(loader(graph, **given, **arguments), loader(data, **given, **arguments), strict=True):
            for store, other in zip(batch.edge_stores, expected.edge_stores, strict=True):
                assert torch.equal(store._orig_edge_index, other._orig_edge_index)
                assert sum(store.num_sampled_edges) == store._orig_edge_index.size(1)
    for batch in NeighborLoader(graph, [3, 2], inputs, batch_size=10):
        assert all("_orig_edge_index" in store for store in batch.edge_stores)  # nothing else is written there: the graph's own


@pytest.mark.parametrize("make", [plain, plain_typed])
def test_batches_without_edge_ids_differ_by_these_alone(make: Any) -> None:
    graph = with_names(make(), SHAPES["a row for each edge"])
    for store in graph.edge_stores if isinstance(graph, HeteroData) else graph.stores:
        del store["e_id"]
    inputs = ("a", torch.arange(20)) if isinstance(graph, HeteroData) else torch.arange(20)
    for with_ids, without in zip(*(NeighborLoader(graph, [3], inputs, batch_size=10, edge_ids=ids) for ids in (True, False)), strict=True):
        for store in with_ids.edge_stores:
            assert store.pop("e_id") is not None
        assert_same(without, with_ids)


def test_what_is_of_the_batch_as_a_whole_lies_on_the_batch() -> None:
    data = plain_typed()
    data.note = "kept"
    walks: dict[str, Any] = dict(sampler="walk", walk_length=2, batch_size=3)
    for loader in (
        NeighborLoader(data, input_nodes=("b", torch.arange(3)), metapath=["a__to__b", "b__rev_to__a"], **walks),
        NeighborLoader(data, input_nodes=("b", torch.tensor([1, 1, 0])), metapath=["a__to__b", "b__rev_to__a"], **walks),
    ):
        batch = next(iter(loader))
        assert batch.walks.shape == (3, 3) and batch.note == "kept" and "walks" not in loader.data
        assert not any("walks" in store for store in batch.node_stores + batch.edge_stores)
        edges = {tuple(edge) for edge in data["a", "to", "b"].edge_index.T.tolist()}
        seeds = batch["b"].n_id[batch.walks[:, 0]].tolist()
        assert seeds == batch["b"].n_id[:3].tolist()
        assert all((source, seed) in edges for source, seed in zip(batch["a"].n_id[batch.walks[:, 1]].tolist(), seeds))
    data.walks = "the graph's"
    batch = next(iter(NeighborLoader(data, input_nodes=("b", torch.arange(3)), metapath=["a__to__b", "b__rev_to__a"], **walks)))
    assert batch.walks == "the graph's"
    alone = plain()
    batch = next(iter(NeighborLoader(alone, **walks)))
    assert batch.walks.shape == (3, 3) and batch.walks[:, 0].tolist() == [0, 1, 2]
    alone.walks = torch.arange(NODES)
    batch = next(iter(NeighborLoader(alone, **walks)))
    assert torch.equal(batch.walks, batch.n_id)


def test_seeds_without_times_have_no_seed_time_though_neighbours_are_drawn_by_time() -> None:
    data = plain()
    for batch in NeighborLoader(data, [3], batch_size=50, time_attr="time"):
        assert "seed_time" not in batch and torch.equal(batch.time, data.time[batch.n_id])
        source, destination = batch.edge_index
        assert (batch.time[source] <= batch.time[destination]).all()  # of one hop: the seed's own time bounds it
    with_own = with_names(data, SHAPES["a row for each node"])
    assert all("seed_time" not in batch for batch in NeighborLoader(with_own, [3], batch_size=50, time_attr="time"))


def test_a_link_prediction_on_what_random_link_split_returns_learns_to_predict() -> None:
    torch.manual_seed(0)
    groups = torch.arange(300) % 12
    pairs = torch.randint(0, 300, (2, 36_000))
    pairs = pairs[:, (groups[pairs[0]] == groups[pairs[1]]) & (pairs[0] < pairs[1])].unique(dim=1)
    x = torch.nn.functional.one_hot(groups, 12) + 0.3 * torch.randn(300, 12)
    data = T.ToUndirected()(Data(x=x, edge_index=pairs))
    train, _, test = T.RandomLinkSplit(num_val=0.1, num_test=0.2, is_undirected=True, add_negative_train_samples=False)(data)
    assert "edge_label_index" in train and "edge_label" in train
    loader = LinkNeighborLoader(
        train, [10], edge_label_index=train.edge_label_index, edge_label=train.edge_label, neg_sampling="binary", batch_size=256, shuffle=True
    )
    model = SAGEConv(12, 16)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(8):
        for batch in loader:
            assert batch.edge_label_index.size(1) == batch.edge_label.numel() == 2 * batch.input_id.numel()
            assert torch.equal(batch.n_id[batch.edge_label_index[:, : batch.input_id.numel()]], train.edge_label_index[:, batch.input_id])
            out = model(batch.x, batch.edge_index)
            scores = (out[batch.edge_label_index[0]] * out[batch.edge_label_index[1]]).sum(-1)
            loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, batch.edge_label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        out = model(test.x, test.edge_index)
        scores = (out[test.edge_label_index[0]] * out[test.edge_label_index[1]]).sum(-1)
    true, false = scores[test.edge_label == 1], scores[test.edge_label == 0]
    assert float((true[:, None] > false[None, :]).float().mean()) > 0.9  # ROC-AUC; 0.5 is chance
