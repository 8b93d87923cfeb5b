"""Seeds that repeat in a batch of hopfeed.pyg: each draw has a row, with all in-edges of its node, and no edge is false."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

from torch_geometric.data import Data, HeteroData  # noqa: E402
from torch_geometric.loader import ImbalancedSampler  # noqa: E402
from torch_geometric.nn import SAGEConv  # noqa: E402
from torch_geometric.utils import trim_to_layer  # noqa: E402

import hopfeed  # noqa: E402
import hopfeed.torch  # noqa: E402
from hopfeed.pyg import LinkNeighborLoader, NeighborLoader  # noqa: E402

N, E = 120, 500


@pytest.fixture(scope="module")
def data() -> Iterator[Data]:
    torch.manual_seed(0)
    made = Data(x=torch.randn(N, 4), edge_index=torch.randint(0, N, (2, E)), edge_attr=torch.randn(E, 2), w=torch.rand(E) + 0.1)
    made.cube = torch.randn(N, 2, 2)  # which Python reads
    made.bond = torch.randn(E, 2, 2)
    with NeighborLoader(made, [1]), NeighborLoader(made, [1], weight_attr="w"):  # whose folders the tests' loaders share
        yield made


@pytest.fixture(scope="module")
def hetero() -> Iterator[HeteroData]:
    torch.manual_seed(1)
    made = HeteroData()
    made["a"].x, made["b"].x = torch.randn(N, 4), torch.randn(N, 3)
    for key in (("a", "to", "b"), ("b", "rev_to", "a"), ("a", "likes", "a"), ("b", "likes", "b")):
        made[key].edge_index, made[key].w = torch.randint(0, N, (2, E)), torch.rand(E) + 0.1
    made["b", "rev_to", "a"].edge_index = made["a", "to", "b"].edge_index.flip(0)
    with NeighborLoader(made, [1], "a"), NeighborLoader(made, [1], "a", weight_attr="w"):
        yield made


KINDS: dict[str, dict[str, Any]] = {
    "directional": {},
    "induced": {"subgraph_type": "induced"},
    "bidirectional": {"subgraph_type": "bidirectional"},
    "bidirectional with the drawn edges": {"subgraph_type": "bidirectional", "keep_orig_edges": True},
    "by weight": {"weight_attr": "w"},
    "with replacement": {"replace": True},
    "layer-dependent": {"labor": True},
    "three hops, one of them empty": {"num_neighbors": [2, 0, 2]},
    "all neighbours": {"num_neighbors": [-1, -1]},
}


def seeds_with_repeats(number: int) -> torch.Tensor:
    chosen = random.Random(number)
    return torch.tensor([chosen.randrange(number + 2) for _ in range(12)])


def in_edges(edges: torch.Tensor, source_ids: torch.Tensor, row: int) -> Counter[int]:
    """Ids of the sources of a row's in-edges."""
    return Counter(source_ids[edges[0, edges[1] == row]].tolist())


def check_rows(nodes: Any, drawn: torch.Tensor, count: int) -> None:
    assert nodes.batch_size == count == len(nodes.input_id)
    assert torch.equal(nodes.n_id[:count], drawn[nodes.input_id])
    others = nodes.n_id[count:]
    assert len(others.unique()) == len(others) and not torch.isin(others, drawn[nodes.input_id]).any()
    if len(drawn[nodes.input_id].unique()) < count:
        assert torch.equal(nodes.seed_index, torch.arange(count))
    else:
        assert "seed_index" not in nodes


def check_edges(edges: torch.Tensor, src: Any, dst: Any, drawn: Any) -> None:
    """Copies have the same in-edges and no out-edges."""
    first: dict[int, int] = {}
    for row, node in enumerate(dst.n_id[: drawn].tolist()):
        same_as = first.setdefault(node, row)
        assert in_edges(edges, src.n_id, row) == in_edges(edges, src.n_id, same_as)


def copies_of(nodes: Any) -> torch.Tensor:
    """Rows that are a later draw of their node."""
    ids = nodes.n_id.tolist()
    return torch.tensor([row for row, node in enumerate(ids) if ids.index(node) < row], dtype=torch.long)


def check_hops(edges: torch.Tensor, src: Any, dst: Any, num_edges: list[int]) -> None:
    begin = 0
    for hop, count in enumerate(num_edges):
        source, destination = edges[:, begin : begin + count]
        assert (destination.diff() >= 0).all()
        assert (source < sum(src.num_sampled_nodes[: hop + 2])).all()
        assert (destination >= sum(dst.num_sampled_nodes[:hop])).all() and (destination < sum(dst.num_sampled_nodes[: hop + 1])).all()
        begin += count
    assert begin == edges.size(1)


def as_sets(edges: torch.Tensor, src: torch.Tensor, dst: torch.Tensor) -> Counter[tuple[int, int]]:
    return Counter(zip(src[edges[0]].tolist(), dst[edges[1]].tolist()))


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_each_draw_is_a_row_with_the_in_edges_of_its_node(data: Data, kind: dict[str, Any]) -> None:
    for number in range(12):
        drawn = seeds_with_repeats(number)
        arguments: dict[str, Any] = {"num_neighbors": [3, 2], "batch_size": 7, "seed": number} | kind
        (first, second) = NeighborLoader(data, input_nodes=drawn, **arguments)
        for batch in (first, second):
            check_rows(batch, drawn, 7 if batch is first else 5)
            for name in ("x", "cube"):
                assert torch.equal(batch[name], data[name][batch.n_id])
            for name in ("edge_attr", "w", "bond"):
                assert torch.equal(batch[name], data[name][batch.e_id])
            ends = batch.n_id[batch.edge_index]
            stored = data.edge_index[:, batch.e_id]
            forwards = (ends == stored).all(0)
            assert (forwards | (kind.get("subgraph_type") == "bidirectional") & (ends == stored.flip(0)).all(0)).all()
            check_edges(batch.edge_index, batch, batch, batch.batch_size)
            assert not torch.isin(batch.edge_index[0], copies_of(batch)).any()
            if kind.get("subgraph_type") is None:
                check_hops(batch.edge_index, batch, batch, batch.num_sampled_edges)
            if "num_sampled_nodes" in batch:
                assert sum(batch.num_sampled_nodes) == batch.num_nodes == len(batch.n_id)
            if "_orig_edge_index" in batch:
                check_edges(batch["_orig_edge_index"], batch, batch, batch.batch_size)
                check_hops(batch["_orig_edge_index"], batch, batch, batch.num_sampled_edges)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_without_the_copies_it_is_the_batch_of_distinct_seeds(data: Data, kind: dict[str, Any], tmp_path: Any) -> None:
    hopfeed.from_pyg(data, tmp_path / "graph", weight="w")
    arguments: dict[str, Any] = {"batch_size": 12} | {key: value for key, value in kind.items() if key not in ("subgraph_type", "weight_attr")}
    other = {"subgraph": kind.get("subgraph_type", "directional"), "weight": kind.get("weight_attr")}
    fanouts = arguments.pop("num_neighbors", [3, 2])
    for number in range(6):
        drawn = seeds_with_repeats(number)
        with hopfeed.torch.Loader(tmp_path / "graph", fanouts=fanouts, seeds=drawn, shuffle=False, num_workers=0, seed=number, **arguments, **other) as loader:
            (block,) = loader
        (batch,) = NeighborLoader(tmp_path / "graph", fanouts, drawn, seed=number, weight_attr=other["weight"], subgraph_type=other["subgraph"], **arguments)
        kept = ~torch.isin(batch.edge_index[1], copies_of(batch))
        assert as_sets(batch.edge_index[:, kept], batch.n_id, batch.n_id) == as_sets(block.edge_index, block.n_id, block.n_id)
        assert torch.equal(batch.n_id[12:], block.n_id[block.batch_size :]) and torch.equal(batch.input_id, block.input_id)
        if "num_sampled_nodes" in batch:
            assert batch.num_sampled_nodes[1:] == block.num_sampled_nodes.tolist()[1:]


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_typed_graphs_have_rows_for_draws_too(hetero: HeteroData, kind: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {"num_neighbors": [2, 2], "batch_size": 12} | kind
    if kind.get("subgraph_type") == "bidirectional":
        arguments["edge_ids"] = False
    for number in range(6):
        drawn = seeds_with_repeats(number)
        (batch,) = NeighborLoader(hetero, input_nodes=("a", drawn), seed=number, **arguments)
        check_rows(batch["a"], drawn, 12)
        for key in ("a", "b"):
            assert torch.equal(batch[key].x, hetero[key].x[batch[key].n_id])
        assert len(batch["b"].n_id.unique()) == len(batch["b"].n_id)
        for src, rel, dst in hetero.edge_types:
            store, ends = batch[src, rel, dst], (batch[src], batch[dst])
            edges = torch.stack([ends[0].n_id[store.edge_index[0]], ends[1].n_id[store.edge_index[1]]])
            if "e_id" in store:
                assert torch.equal(edges, hetero[src, rel, dst].edge_index[:, store.e_id])
                assert torch.equal(store.w, hetero[src, rel, dst].w[store.e_id])
            check_edges(store.edge_index, *ends, 12 if dst == "a" else 0)
            assert src != "a" or not torch.isin(store.edge_index[0], copies_of(batch["a"])).any()
            if kind.get("subgraph_type") is None:
                check_hops(store.edge_index, *ends, store.num_sampled_edges)


def test_a_model_says_of_each_draw_what_it_says_of_the_node(data: Data) -> None:
    torch.manual_seed(0)
    layers = [SAGEConv(4, 4), SAGEConv(4, 4)]
    whole = data.x
    for layer in layers:
        whole = layer(whole, data.edge_index)
    for drawn in (torch.tensor([5, 5, 9, 5, 9, 1]), torch.zeros(6, dtype=torch.long), torch.arange(6)):
        (batch,) = NeighborLoader(data, [-1, -1], drawn, batch_size=6)
        out, edges = batch.x, batch.edge_index
        for number, layer in enumerate(layers):
            out, edges, _ = trim_to_layer(number, batch.num_sampled_nodes, batch.num_sampled_edges, out, edges)
            out = layer(out, edges)
        assert torch.allclose(out[: batch.batch_size], whole[drawn], atol=1e-5)


def test_an_imbalanced_samplers_batches_are_balanced_in_their_first_rows() -> None:
    torch.manual_seed(0)
    graph = Data(x=torch.randn(2000, 2), y=torch.zeros(2000, dtype=torch.long), edge_index=torch.randint(0, 2000, (2, 8000)))
    graph.y[torch.randperm(2000)[:10]] = 1
    for sampler in (ImbalancedSampler(graph), torch.utils.data.WeightedRandomSampler(torch.where(graph.y == 1, 199.0, 1.0), 2000)):
        labels = []
        for batch in NeighborLoader(graph, [3], sampler=sampler, batch_size=200, num_workers=1):
            assert batch.batch_size == len(batch.input_id) == 200 and torch.equal(batch.seed_index, torch.arange(200))
            assert torch.equal(batch.n_id[:200], batch.input_id)
            labels.append(batch.y[: batch.batch_size])
        assert 0.4 < float(torch.cat(labels).float().mean()) < 0.6


def test_disjoint_batches_links_and_blocks_stay_as_they_are(data: Data) -> None:
    drawn = torch.tensor([3, 3, 8])
    (trees,) = NeighborLoader(data, [2], drawn, batch_size=3, disjoint=True)
    assert trees.batch_size == 3 and trees.n_id[:3].tolist() == [3, 3, 8] and trees.batch[:3].tolist() == [0, 1, 2]
    assert "seed_index" not in trees and len(set(zip(trees.n_id.tolist(), trees.batch.tolist()))) == len(trees.n_id)
    (links,) = LinkNeighborLoader(data, [2], torch.tensor([[3, 3, 8], [8, 8, 3]]), batch_size=3)
    assert links.num_sampled_nodes[0] == 2 and len(links.n_id.unique()) == len(links.n_id)


def test_a_call_with_a_position_twice_has_a_row_for_each(data: Data) -> None:
    batch = NeighborLoader(data, [-1], torch.tensor([9, 8, 7]))(np.array([2, 0, 2]))
    assert batch.n_id[:3].tolist() == [7, 9, 7] and batch.input_id.tolist() == [2, 0, 2] and batch.batch_size == 3
    assert in_edges(batch.edge_index, batch.n_id, 0) == in_edges(batch.edge_index, batch.n_id, 2)


def test_walks_start_at_the_row_of_their_draw(data: Data) -> None:
    drawn = torch.tensor([4, 7, 4, 4])
    (batch,) = NeighborLoader(data, None, drawn, batch_size=4, sampler="walk", walk_length=3, walks_per_seed=2)
    assert batch.walks[:, 0].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    edges = as_sets(data.edge_index, torch.arange(N), torch.arange(N))
    for walk in batch.walks.tolist():
        steps = [row for row in walk if row >= 0]
        assert all((int(batch.n_id[later]), int(batch.n_id[row])) in edges for row, later in zip(steps, steps[1:]))
    assert not torch.isin(batch.walks[:, 1:], copies_of(batch)).any()
    check_edges(batch.edge_index, batch, batch, 4)
