"""hopfeed.infer gives what a forward over the whole graph gives, for every layer, cut and memory."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hopfeed
from conftest import partition

torch = pytest.importorskip("torch")
pyg = pytest.importorskip("torch_geometric")

from torch_geometric.nn import (  # noqa: E402
    GAT,
    GCN,
    GIN,
    GATConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    GINEConv,
    GraphConv,
    GraphSAGE,
    HeteroConv,
    SAGEConv,
    TAGConv,
    to_hetero,
)

from hopfeed.results import plan, reductions, slices  # noqa: E402

SMALL = "1M"  # blocks of some thousand edges


@pytest.fixture(scope="session")
def weighted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3,000 nodes and 30,000 edges with loops and parallel edges, a node with 12,000 in-edges, nodes with none, weights and
    attributes of edges, in three partitions."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(5)
    edges = rng.integers(0, 3000, (2, 30000))
    edges[1] = edges[1] % 2900  # the last hundred nodes have no in-edges
    edges[:, :200] = edges[0, :200] % 2900  # loops
    edges[1, 1000:13000] = 7
    np.save(folder / "index.npy", edges)
    np.save(folder / "x.npy", rng.standard_normal((3000, 12), np.float32))
    np.save(folder / "w.npy", rng.random(30000, np.float32))
    np.save(folder / "e.npy", rng.random((30000, 3), np.float32))
    (folder / "graph.json").write_text(
        '{"name": "weighted", "nodes": [{"name": "node", "features": "x.npy"}],'
        ' "edges": [{"src": "node", "rel": "to", "dst": "node", "index": "index.npy", "attrs": {"w": "w.npy", "e": "e.npy"}}]}'
    )
    partition("import", "numpy", folder / "one", "--hetero", folder / "graph.json")
    partition("partition", folder / "one", folder / "three", "--parts", 3)
    return folder / "three"


@pytest.fixture(scope="session")
def users(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Users and items, rows of both, edges of three types, in two partitions."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(6)
    np.save(folder / "user.npy", rng.standard_normal((900, 5), np.float32))
    np.save(folder / "item.npy", rng.standard_normal((400, 7), np.float32))
    for name, sources, destinations in (("likes", 900, 400), ("liked", 400, 900), ("knows", 900, 900)):
        np.save(folder / f"{name}.npy", np.stack([rng.integers(0, sources, 9000), rng.integers(0, destinations, 9000)]))
    (folder / "graph.json").write_text(
        '{"name": "users", "nodes": [{"name": "user", "features": "user.npy"}, {"name": "item", "features": "item.npy"}],'
        ' "edges": [{"src": "user", "rel": "likes", "dst": "item", "index": "likes.npy"},'
        ' {"src": "item", "rel": "liked", "dst": "user", "index": "liked.npy"},'
        ' {"src": "user", "rel": "knows", "dst": "user", "index": "knows.npy"}]}'
    )
    partition("import", "numpy", folder / "one", "--hetero", folder / "graph.json")
    partition("partition", folder / "one", folder / "two", "--parts", 2)
    return folder / "two"


MILLION = 1_000_000


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2,000 nodes, one of them with a million in-edges, all with some; weights of edges."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(9)
    edges = rng.integers(0, 2000, (2, MILLION + 10000))
    edges[1, :MILLION] = 1234
    np.save(folder / "index.npy", edges)
    np.save(folder / "x.npy", rng.standard_normal((2000, 12), np.float32))
    np.save(folder / "w.npy", rng.random(MILLION + 10000, np.float32))
    (folder / "graph.json").write_text(
        '{"name": "hub", "nodes": [{"name": "node", "features": "x.npy"}],'
        ' "edges": [{"src": "node", "rel": "to", "dst": "node", "index": "index.npy", "attrs": {"w": "w.npy"}}]}'
    )
    partition("import", "numpy", folder / "one", "--hetero", folder / "graph.json")
    partition("partition", folder / "one", folder / "two", "--parts", 2)
    return folder / "two"


def whole(folder: Path) -> tuple[torch.Tensor, torch.Tensor]:
    dataset = hopfeed.Dataset(folder)
    return torch.from_numpy(dataset.attr("x")[:]), torch.from_numpy(dataset.edge_index())


def edge_attr(folder: Path, name: str) -> torch.Tensor:
    """By the place of the edge in the import."""
    return torch.from_numpy(np.load(folder.parent / f"{name}.npy"))


def whole_typed(folder: Path) -> tuple[dict, dict]:
    dataset = hopfeed.Dataset(folder)
    return (
        {name: torch.from_numpy(dataset.attr("x", name)[:]) for name in dataset.node_types},
        {edge: torch.from_numpy(dataset.edge_index(edge)) for edge in dataset.edge_types},
    )


def assert_close(found: torch.Tensor, wanted: torch.Tensor) -> None:
    wanted = wanted.detach()
    torch.testing.assert_close(found, wanted, rtol=2e-4, atol=max(2e-5, 4e-6 * float(wanted.abs().max())))


def layer(name: str) -> torch.nn.Module:
    torch.manual_seed(3)
    return {
        "sage-mean": lambda: SAGEConv(12, 6),
        "sage-max": lambda: SAGEConv(12, 6, aggr="max"),
        "sage-min": lambda: SAGEConv(12, 6, aggr="min"),
        "sage-sum": lambda: SAGEConv(12, 6, aggr="sum", normalize=True),
        "sage-add": lambda: SAGEConv(12, 6, aggr="add", root_weight=False),
        "gcn": lambda: GCNConv(12, 6),
        "gcn-improved": lambda: GCNConv(12, 6, improved=True),
        "gcn-no-loops": lambda: GCNConv(12, 6, add_self_loops=False),
        "gcn-plain": lambda: GCNConv(12, 6, normalize=False),
        "gin": lambda: GINConv(torch.nn.Sequential(torch.nn.Linear(12, 6), torch.nn.ReLU(), torch.nn.Linear(6, 6)), train_eps=True),
        "graph": lambda: GraphConv(12, 6, aggr="mean"),
        "gat": lambda: GATConv(12, 3, heads=2, dropout=0.5),
        "gat-pair": lambda: GATConv((12, 12), 3, heads=2, concat=False, residual=True),
        "gat-no-loops": lambda: GATConv(12, 3, add_self_loops=False),
        "gatv2": lambda: GATv2Conv(12, 3, heads=2),
        "gatv2-shared": lambda: GATv2Conv(12, 3, share_weights=True),
    }[name]().eval()


PIECES = ["sage-mean", "sage-max", "sage-min", "sage-sum", "sage-add", "gcn", "gcn-improved", "gcn-no-loops", "gcn-plain", "gin", "graph"]
AT_ONCE = ["gat", "gat-pair", "gat-no-loops", "gatv2", "gatv2-shared"]


@pytest.mark.parametrize("name", PIECES + AT_ONCE)
def test_LayersOfEveryKind_AsOverTheWholeGraph(weighted: Path, name: str) -> None:
    x, edges = whole(weighted)
    conv = layer(name)
    wanted = conv(x, edges)
    assert_close(hopfeed.infer([conv], weighted, memory="40M" if name in AT_ONCE else "1G", progress=False), wanted)
    if name in PIECES:  # the node of 12,000 edges does not fit into a block
        assert_close(hopfeed.infer([conv], weighted, memory=SMALL, progress=False), wanted)


@pytest.mark.parametrize("name", ["sage-mean", "gcn", "gat", "gin"])
def test_BlocksOfAFewRows_AsOverTheWholeGraph(small: Path, cut: Path, name: str) -> None:
    torch.manual_seed(0)
    conv = {"sage-mean": SAGEConv, "gcn": GCNConv, "gat": GATConv}.get(name, lambda a, b: GINConv(torch.nn.Linear(a, b)))(8, 300).eval()
    x, edges = whole(small)
    wanted = conv(x, edges)
    for folder in (small, cut):
        assert_close(hopfeed.infer([conv], folder, memory="4M", progress=False), wanted)


@pytest.mark.parametrize("element", ["float32", "float16"])
@pytest.mark.parametrize("name", ["sage-mean", "sage-max", "gcn", "gcn-plain", "graph"])
def test_NodeOfAMillionNeighbours_WithinTheSmallestMemory(hub: Path, tmp_path: Path, name: str, element: str) -> None:
    x, edges = whole(hub)
    weights = edge_attr(hub, "w")
    conv, folder, given = layer(name), hub, {"edge_weight": "w"} if name in ("gcn", "gcn-plain", "graph") else {}
    if element == "float16":  # is made float32 piece by piece
        folder = tmp_path / "half"
        partition("convert", hub, folder, "--attr", "x=float16")
        x = x.half().float()
    limits, block = [], reductions._reduce

    def noting(*arguments: object) -> None:
        limits.append(int(arguments[5][-1] - arguments[5][0]))  # type: ignore[index]
        block(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reductions, "_reduce", noting)
        found = hopfeed.infer([conv], folder, memory=SMALL, progress=False, **given)
    wanted = conv.double()(x.double(), edges, *([weights.double()] if given else [])).float().detach()
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5 * float(wanted.abs().max()))
    if given or element == "float16":
        assert max(limits) < 5000 < MILLION < sum(limits)  # pieces that fit


def test_NodeOfAMillionNeighbours_AttentionSaysWhatToRaise(hub: Path) -> None:
    refused(hopfeed.NoSpaceError, r"node 1234 of 'node' has 1,000,\d+ in-edges of .*, which layer 1 \(GATConv\) must have at once; give memory='\d+M' at least \(it is 64M\)", [GATConv(12, 3)], hub, memory="64M")


@pytest.mark.parametrize("improved", [False, True])
@pytest.mark.parametrize("memory", [SMALL, "1G"])
def test_GcnWithEdgeWeights_AsOverTheWholeGraph(weighted: Path, improved: bool, memory: str) -> None:
    torch.manual_seed(1)
    x, edges = whole(weighted)
    conv, weights = GCNConv(12, 6, improved=improved), edge_attr(weighted, "w")
    loops = edges[0] == edges[1]
    several = torch.bincount(edges[0, loops], minlength=len(x)).max()
    assert loops.sum() > 100 and several >= 1
    assert_close(hopfeed.infer([conv], weighted, edge_weight="w", memory=memory, progress=False), conv(x, edges, weights))


def test_LayersWithEdgeArguments_GetTheirEdges(weighted: Path) -> None:
    torch.manual_seed(1)
    x, edges = whole(weighted)
    weights, attributes = edge_attr(weighted, "w"), edge_attr(weighted, "e")
    graph = GraphConv(12, 6)
    for memory in (SMALL, "1G"):
        assert_close(hopfeed.infer([graph], weighted, edge_weight="w", memory=memory, progress=False), graph(x, edges, weights))
    gine = GINEConv(torch.nn.Linear(12, 4), edge_dim=3)
    assert_close(hopfeed.infer([gine], weighted, edge_attr="e", progress=False), gine(x, edges, attributes))
    for kind in (GATConv, GATv2Conv):
        gat = kind(12, 4, edge_dim=3)
        assert_close(hopfeed.infer([gat], weighted, edge_attr="e", progress=False), gat(x, edges, attributes))


@pytest.mark.parametrize("jk", [None, "last", "cat", "max", "lstm"])
@pytest.mark.parametrize("kind", [GraphSAGE, GCN, GAT, GIN])
def test_ModelsOfPyg_AsTheirForward(small: Path, cut: Path, kind: type, jk: str | None) -> None:
    torch.manual_seed(2)
    model = kind(8, 16, 3, 5, dropout=0.5, jk=jk, norm="batch_norm", act_first=jk == "max")
    x, edges = whole(small)
    for norm in model.norms:
        if hasattr(norm, "module"):
            norm.module.running_mean.uniform_()
    model.eval()
    wanted = model(x, edges)
    model.train()
    for folder in (small, cut):
        assert_close(hopfeed.infer(model, folder, memory=SMALL, progress=False), wanted)
    assert model.training and model.dropout.training


def test_ListOfLayers_ActBetweenThem(small: Path) -> None:
    torch.manual_seed(2)
    one, two = SAGEConv(8, 16), SAGEConv(16, 3)
    x, edges = whole(small)
    wanted = two(one(x, edges).relu(), edges)
    assert_close(hopfeed.infer([one, two], small, act=torch.relu, progress=False), wanted)
    given = [lambda pair, edges: one(pair, edges).relu(), two]
    assert_close(hopfeed.infer(given, small, progress=False), wanted)
    with pytest.raises(AssertionError):
        assert_close(hopfeed.infer([one, two], small, progress=False), wanted)


def largest(x_source: torch.Tensor, x_own: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
    """The largest of each row's own and its sources'."""
    return x_own.clone().scatter_reduce(0, edge_index[1].view(-1, 1).expand(-1, x_own.shape[1]), x_source[edge_index[0]], "amax")


def test_FunctionOfSourcesRowsAndEdges_IsALayer(cut: Path) -> None:
    x, edges = whole(cut)
    wanted = x
    for _ in range(2):
        wanted = largest(wanted, wanted, edges)
    found = hopfeed.infer([largest, largest], cut, memory="4M", progress=False)
    assert torch.equal(found, wanted) and not torch.equal(found, x)


def test_FunctionOfEdgesWithAttributes_GetsThem(weighted: Path) -> None:
    x, edges = whole(weighted)

    def spread(x_source: torch.Tensor, x_own: torch.Tensor, edge_index: torch.Tensor, edge_attr: torch.Tensor) -> torch.Tensor:
        rows = x_source[edge_index[0]] * edge_attr.sum(1, keepdim=True)
        return torch.zeros_like(x_own).index_add_(0, edge_index[1], rows)

    wanted = spread(x, x, edges, edge_attr(weighted, "e"))
    assert_close(hopfeed.infer([spread], weighted, edge_attr="e", memory="40M", progress=False), wanted)


def test_FloatingTypeOfTheModel_IsThatOfTheRows(cut: Path) -> None:
    x, edges = whole(cut)
    for kind, rtol in ((torch.float64, 1e-6), (torch.bfloat16, 5e-2)):
        for conv in (SAGEConv(8, 4), GCNConv(8, 4), GATConv(8, 4)):
            conv = conv.to(kind)
            wanted = conv(x.to(kind), edges).float().detach()
            found = hopfeed.infer([conv], cut, memory=SMALL if kind == torch.bfloat16 else "2M", progress=False)
            torch.testing.assert_close(found, wanted, rtol=rtol, atol=rtol * float(wanted.abs().max()))


def slices_of(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many columns there were of each reduction that was done slice by slice."""
    made: list[int] = []
    init = slices.Slices.__init__

    def noting(self: slices.Slices, *arguments: Any) -> None:
        made.append(arguments[4])
        init(self, *arguments)

    monkeypatch.setattr(slices.Slices, "__init__", noting)
    return made


@pytest.mark.parametrize(
    ("name", "element"), [("mean", "float32"), ("sum", "float16"), ("max", "float64"), ("gcn", "float32"), ("edges", "float32"), ("edges", "float16")]
)
def test_RowsLargerThanTheMemory_AreReducedSliceBySlice_WithTheSameBits(weighted: Path, monkeypatch: pytest.MonkeyPatch, name: str, element: str) -> None:
    torch.manual_seed(1)
    conv = GCNConv(200, 120) if name == "gcn" else GraphConv(200, 120) if name == "edges" else SAGEConv(200, 120, aggr=name)
    dtype = torch.float64 if element == "float64" else torch.float32
    x = torch.randn(3000, 200).half().to(getattr(torch, element))
    weights = {"edge_weight": "w"} if name == "edges" else {}
    layers = [conv.to(dtype), SAGEConv(120, 3).to(dtype)]
    made = slices_of(monkeypatch)
    found = hopfeed.infer(layers, weighted, x=x.numpy(), memory=SMALL, progress=False, **weights)
    assert made == [(1 << 20) // (3000 * dtype.itemsize)] * 2
    _, edges = whole(weighted)
    wanted = conv(x.to(dtype), edges, *([edge_attr(weighted, "w").to(dtype)] if weights else []))
    assert_close(found, layers[1](wanted, edges).float())
    monkeypatch.setattr(plan.Costs, "columns", lambda *_: 0)
    where_they_lie = hopfeed.infer(layers, weighted, x=x.numpy(), memory=SMALL, progress=False, **weights)
    assert len(made) == 2
    if element == "float16":  # is added piece by piece there
        assert_close(found, where_they_lie)
    else:
        assert torch.equal(found, where_they_lie)


def test_RowsLargerThanTheMemory_AKilledRunGoesOnToTheSameBits(weighted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    x, conv = torch.randn(3000, 200).numpy(), SAGEConv(200, 700)
    whole_run = hopfeed.infer(conv, weighted, tmp_path / "whole", x=x, memory=SMALL, progress=False).array()
    monkeypatch.setattr(plan, "SHARD_BYTES", 1 << 20)
    written, of = [], slices.Slices.of

    def failing(self: slices.Slices, block: plan.Rows) -> torch.Tensor:
        written.append(block)
        if len(written) == 40:
            raise InterruptedError
        return of(self, block)

    with monkeypatch.context() as patch:
        patch.setattr(slices.Slices, "of", failing)
        with pytest.raises(InterruptedError):
            hopfeed.infer(conv, weighted, tmp_path / "out", x=x, memory=SMALL, progress=False)
    assert list((tmp_path / "out").rglob("part-*.json")), "no shard was whole"
    left, made = [], slices_of(monkeypatch)
    monkeypatch.setattr(slices.Slices, "of", lambda self, block: (left.append(block), of(self, block))[1])
    found = hopfeed.infer(conv, weighted, tmp_path / "out", x=x, memory=SMALL, progress=False).array()
    assert len(made) == 1 and left and written[0] not in left
    assert (found == whole_run).all()


def test_NotEvenAColumnFits_RowsAreReadWhereTheyLie() -> None:
    assert plan.Costs(64, [64], 1 << 19).columns(1 << 19, 12, 4) == 0
    assert plan.Costs(64, [64], 1 << 19).columns(1 << 18, 12, 4) == 1
    assert plan.Costs(64, [64], 1 << 19).columns(0, 12, 4) == 0


def test_RowsOfTheCallersOwn_ByOriginalId(cut: Path) -> None:
    torch.manual_seed(2)
    conv, x = SAGEConv(3, 2), torch.randn(2000, 3)
    assert_close(hopfeed.infer([conv], cut, x=x, progress=False), conv(x, whole(cut)[1]))


def hetero(aggr: str) -> list[HeteroConv]:
    torch.manual_seed(4)
    return [
        HeteroConv(
            {
                ("user", "likes", "item"): SAGEConv((first, second), 6),
                ("item", "liked", "user"): SAGEConv((second, first), 6, aggr="max"),
                ("user", "knows", "user"): GCNConv(first, 6),
            },
            aggr=aggr,
        ).eval()
        for first, second in ((5, 7), (12 if aggr == "cat" else 6, 6))
    ]


def test_HeteroConvOfAttention_AsOverTheWholeGraph(users: Path) -> None:
    torch.manual_seed(4)
    layer = HeteroConv(
        {
            ("user", "likes", "item"): GATConv((5, 7), 3, heads=2, add_self_loops=False),
            ("item", "liked", "user"): GATv2Conv((7, 5), 6, add_self_loops=False),
            ("user", "knows", "user"): GATConv(5, 6),
        }
    ).eval()
    wanted = layer(*whole_typed(users))
    found = hopfeed.infer(layer, users, memory="4M", progress=False)
    for name in wanted:
        assert_close(found[name], wanted[name])


@pytest.mark.parametrize("aggr", ["sum", "mean", "max", "cat"])
def test_HeteroConv_AsOverTheWholeGraph(users: Path, aggr: str) -> None:
    layers = hetero(aggr)
    x, edges = whole_typed(users)
    between = {name: rows.relu() for name, rows in layers[0](x, edges).items()}
    wanted = layers[1](between, edges)
    found = hopfeed.infer(layers, users, act=torch.relu, memory=SMALL, progress=False)
    assert set(found) == {"user", "item"}
    for name in found:
        assert_close(found[name], wanted[name])
    alone = hopfeed.infer(layers, users, act=torch.relu, node_type="item", progress=False)
    assert set(alone) == {"item"}
    assert_close(alone["item"], wanted["item"])


class Skipping(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before = torch.nn.Linear(6, 8)
        self.one, self.two = SAGEConv((8, 8), 8), SAGEConv((8, 8), 8)
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        x = self.before(x).relu()
        x = self.dropout(self.one(x, edge_index).relu()) + x
        return self.two(x, edge_index)


@pytest.mark.parametrize("make", [lambda: GraphSAGE((-1, -1), 8, 2, 4), lambda: GraphSAGE((-1, -1), 8, 3, 4, jk="cat", norm="layer_norm", norm_kwargs={"mode": "node"})])
def test_ToHetero_AsOverTheWholeGraph(users: Path, make: object) -> None:
    torch.manual_seed(5)
    x, edges = whole_typed(users)
    model = to_hetero(make(), (list(x), list(edges)), aggr="mean").eval()  # type: ignore[operator]
    wanted = model(x, edges)
    found = hopfeed.infer(model, users, memory=SMALL, progress=False)
    for name in wanted:
        assert_close(found[name], wanted[name])
    assert set(found) == set(wanted)


def test_ToHeteroWithSkipConnections_AsOverTheWholeGraph(users: Path) -> None:
    torch.manual_seed(5)
    x, edges = whole_typed(users)
    x = {name: rows[:, :5] @ torch.randn(5, 6) for name, rows in x.items()}
    model = to_hetero(Skipping(), (list(x), list(edges))).eval()
    wanted = model(x, edges)
    found = hopfeed.infer(model, users, x=x, memory=SMALL, progress=False)
    for name in wanted:
        assert_close(found[name], wanted[name])


@pytest.mark.parametrize("element", ["float16", "bfloat16", "int8", "int4"])
def test_RowsOfOtherTypes_AreTheirValues(small: Path, tmp_path: Path, element: str) -> None:
    partition("convert", small, tmp_path / "other", "--attr", f"x={element}")
    stored = hopfeed.Dataset(tmp_path / "other")
    rows = hopfeed.infer([lambda pair, edges: pair[1]], stored, progress=False)
    near = torch.from_numpy(hopfeed.Dataset(small).attr("x")[:])
    limit = near.abs().max(1, keepdim=True).values / {"float16": 1000, "bfloat16": 120, "int8": 250, "int4": 13.9}[element]
    assert ((rows - near).abs() <= limit + 1e-6).all()
    assert element == "float16" or (rows != near).any()  # what is generated is exact in float16


# What cannot be, each in one line.


def refused(kind: type, match: str, *arguments: object, **options: object) -> None:
    with pytest.raises(kind, match=match) as caught:
        hopfeed.infer(*arguments, **{"progress": False, **options})
    assert "\n" not in str(caught.value)


def test_NodeOfMoreEdgesThanABlock_NamesItAndTheMemoryThatItNeeds(weighted: Path) -> None:
    conv = GATConv(12, 3)
    refused(hopfeed.NoSpaceError, r"node 7 of 'node' has 12,\d+ in-edges .* layer 1 \(GATConv\) must have at once; give memory='\d+M'", [conv], weighted, memory=SMALL)
    with pytest.raises(hopfeed.NoSpaceError) as caught:
        hopfeed.infer([conv], weighted, memory=SMALL, progress=False)
    enough = str(caught.value).split("memory='")[1].split("'")[0]
    assert_close(hopfeed.infer([conv], weighted, memory=enough, progress=False), conv(*whole(weighted)))


def test_LayersThatCannotBe_AreNamed(small: Path, users: Path) -> None:
    refused(hopfeed.InvalidError, r"layer 2 \(SAGEConv\) cannot be called .* width 6: ", [SAGEConv(8, 6), SAGEConv(5, 6)], small)
    refused(hopfeed.InvalidError, r"layer 1 \(<lambda>\) gives \[3, 8\] for 2 rows", [lambda pair, edges: pair[0]], small)
    refused(hopfeed.InvalidError, r"layer 1 \(<lambda>\) gives list", [lambda pair, edges: [1]], small)
    refused(hopfeed.InvalidError, r"layer 1 \(TAGConv\) cannot be called", [TAGConv(8, 4)], small)
    refused(hopfeed.InvalidError, r"layer 1 \(<lambda>\) cannot be called on \(x_source, x_own, edge_index\) with rows of width 8: ", [lambda a, b, c: a + 1 / 0], small)
    refused(hopfeed.UnsupportedError, r"layer 1 \(GCNConv\) has aggr='max'; give a GCNConv that adds", [GCNConv(8, 4, aggr="max")], small)
    refused(hopfeed.InvalidError, "layer 1 .int. is int", [3], small)
    refused(hopfeed.InvalidError, "layers is empty", [], small)
    refused(hopfeed.InvalidError, "parameters without values", [SAGEConv(-1, 4)], small)
    refused(hopfeed.UnsupportedError, "GraphNorm, which looks at all rows at once", GraphSAGE(8, 4, 2, norm="graph_norm"), small)
    refused(hopfeed.UnsupportedError, "LayerNorm, which looks at all rows", GraphSAGE(8, 4, 2, norm="layer_norm"), small)
    refused(hopfeed.UnsupportedError, "target_to_source", [SAGEConv(8, 4, flow="target_to_source")], small)
    refused(hopfeed.InvalidError, "give layers of several types", [SAGEConv(8, 4)], users)
    refused(hopfeed.InvalidError, "act is for a list of layers", GraphSAGE(8, 4, 2), small, act=torch.relu)

    class Own(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convs = torch.nn.ModuleList([SAGEConv(8, 4)])

    refused(hopfeed.UnsupportedError, "what Own does between its layers is not known", Own(), small)


def test_ArgumentsThatCannotBe_AreNamed(small: Path, users: Path, weighted: Path, tmp_path: Path) -> None:
    conv = [SAGEConv(8, 4)]
    refused(hopfeed.NotFoundError, "node type 'node' has no attribute 'z'; it has", conv, small, x="z")
    refused(hopfeed.NotFoundError, "has no attribute 'z'; it has", [GCNConv(12, 4)], weighted, edge_weight="z")
    refused(hopfeed.InvalidError, r"edge_weight='e' has 3 numbers for each edge, and layer 1 \(GCNConv\) takes one", [GCNConv(12, 4)], weighted, edge_weight="e")
    refused(hopfeed.InvalidError, "edge_weight='w' is given, and no layer has an argument", [SAGEConv(12, 4)], weighted, edge_weight="w")
    refused(hopfeed.InvalidError, r"x is float32 \[5, 8\]; 'node' has 2000 nodes", conv, small, x=torch.zeros(5, 8))
    refused(hopfeed.InvalidError, "device is 'gpu'", conv, small, device="gpu")
    refused(hopfeed.InvalidError, "device is 'cuda:99', and torch sees", conv, small, device="cuda:99")
    refused(hopfeed.InvalidError, "device is 'mps'", conv, small, device="mps")
    refused(hopfeed.InvalidError, "memory is '1X'", conv, small, memory="1X")
    refused(hopfeed.InvalidError, "memory is 5; give 1M at least", conv, small, memory=5)
    refused(hopfeed.InvalidError, "memory is True", conv, small, memory=True)
    refused(hopfeed.InvalidError, "format is 'csv'; give one of npy, parquet", conv, small, format="csv")
    refused(hopfeed.InvalidError, "dtype is 'int8'", conv, small, dtype="int8")
    refused(hopfeed.InvalidError, "name is '../x'", conv, small, name="../x")
    refused(hopfeed.InvalidError, "ids has 2000", conv, small, nodes=[2000])
    refused(hopfeed.NotFoundError, "there is no node type 'z'", conv, small, node_type="z")
    refused(hopfeed.InvalidError, "nodes is no dict, and there are results of", hetero("sum"), users, nodes=[1])
    refused(hopfeed.NotFoundError, "nodes has 'z'", hetero("sum"), users, nodes={"z": [1]})
    refused(hopfeed.NotFoundError, "is no dataset", conv, tmp_path)
    refused(hopfeed.NotFoundError, "x has no 'item'", hetero("sum"), users, x={"user": "x"})


def test_NanInARow_NamesTheNodeAndTheLayer(small: Path) -> None:
    x, edges = whole(small)
    x = x.clone()
    x[1234, 3] = float("nan")
    refused(hopfeed.InvalidError, r"layer 1 \(<lambda>\) gives NaN or infinity for node 1234 of 'node'", [lambda pair, edges: pair[1]], small, x=x, check_finite=True)
    assert torch.isnan(hopfeed.infer([lambda pair, edges: pair[1]], small, x=x, progress=False)).sum() == 1


def test_WrongNumberOfRowsInABlock_IsNamedAndNothingLooksFinished(cut: Path, tmp_path: Path) -> None:
    def layer(pair: tuple[torch.Tensor, torch.Tensor], edges: torch.Tensor) -> torch.Tensor:
        return pair[1] if len(pair[1]) == 2 else pair[1][1:]

    refused(hopfeed.InvalidError, r"layer 1 \(layer\) gives \[\d+, 8\] for \d+ rows; a layer gives a row for each destination", [layer], cut, out=tmp_path / "out")
    with pytest.raises(hopfeed.NotFoundError):
        hopfeed.read_results(tmp_path / "out")


class Broken(Exception):
    pass


def test_LayerThatFailsInABlock_SaysSoItself(cut: Path, tmp_path: Path) -> None:
    def layer(pair: tuple[torch.Tensor, torch.Tensor], edges: torch.Tensor) -> torch.Tensor:
        if len(pair[1]) > 2:
            raise Broken("at block")
        return pair[1]

    with pytest.raises(Broken, match="at block"):
        hopfeed.infer([layer], cut, tmp_path / "out", progress=False)
    assert not (tmp_path / "out" / "manifest.json").exists()


@pytest.mark.parametrize("shown", [True, False])
def test_Progress_TellsRowsASecondAndTheTimeLeft(small: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, shown: bool) -> None:
    pytest.importorskip("tqdm")
    monkeypatch.setattr(plan, "BLOCK_BYTES", 1 << 17)

    def slow(pair: tuple[torch.Tensor, torch.Tensor], edges: torch.Tensor) -> torch.Tensor:
        time.sleep(0.02)
        return pair[1]

    hopfeed.infer([slow, slow], small, progress=shown)
    bars = capfd.readouterr().err.replace("\r", "\n").split("\n")
    lines = [line for line in bars if line.startswith("infer: ")]
    if not shown:
        assert not lines
        return
    assert re.search(r"100%\|.*\| 4\.00k/4\.00k \[\d\d:\d\d<00:00, [\d.]+[kM]? rows/s\]", lines[-1]), lines[-1]
    assert any(re.search(r" [1-9]\d?%\|.* \[\d\d:\d\d<\d\d:\d\d, [\d.]+[kM]? rows/s\]", line) for line in lines), lines


def test_NoPackageForTheBar_ComputesWithoutIt(small: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    assert len(hopfeed.infer([SAGEConv(8, 4)], small)) == 2000
    assert capfd.readouterr().err == ""


def test_DamagedDataset_IsNamed(small: Path, tmp_path: Path) -> None:
    import shutil

    for file, change in (("indices", lambda array: array.__setitem__(5, 1 << 30)), ("rows", lambda array: array["offset"].__setitem__(3, 1 << 40))):
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        shutil.copytree(small, tmp_path / "copy")
        path = next((tmp_path / "copy").glob(f"part-0000/edges/*/{file}.npy"))
        array = np.load(path, mmap_mode="r+")
        change(array)
        array.flush()
        del array
        refused(hopfeed.CorruptError, "indices.npy: .*; run hopfeed-partition verify", [SAGEConv(8, 4)], tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "part-0000")
    refused(hopfeed.NotFoundError, "has no partition 0", [SAGEConv(8, 4)], tmp_path / "copy")


def test_NoTorch_HopfeedIsImported(environment: dict[str, str]) -> None:
    code = "import sys; sys.modules['torch'] = None; import hopfeed; print(hopfeed.infer.__name__, hopfeed.read_results.__name__)"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "infer read_results\n"), done.stderr
