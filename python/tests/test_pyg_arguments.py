"""Arguments of hopfeed.pyg that hopfeed and PyG both have a word for: honoured, or one line in PyG's words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

from torch.utils.data import BatchSampler, DistributedSampler, RandomSampler, SequentialSampler, WeightedRandomSampler  # noqa: E402
from torch_geometric.data import Data, HeteroData  # noqa: E402
from torch_geometric.loader import ImbalancedSampler  # noqa: E402
from torch_geometric.sampler import NegativeSampling, NumNeighbors  # noqa: E402

import hopfeed  # noqa: E402
import hopfeed.torch  # noqa: E402
from conftest import partition  # noqa: E402
from hopfeed.pyg import LinkNeighborLoader, NeighborLoader  # noqa: E402
from machines import machines  # noqa: E402

N, E = 100, 500


@pytest.fixture(scope="module")
def data() -> Data:
    """100 nodes, 500 edges; every other node is one to train with."""
    torch.manual_seed(0)
    train = torch.arange(N) % 2 == 0
    made = Data(x=torch.rand(N, 2), y=torch.arange(N), edge_index=torch.randint(0, N, (2, E)), train_mask=train, test_mask=~train)
    made.cube, made.weight, made.when = torch.rand(N, 2, 2), torch.rand(E) + 0.1, torch.arange(E)  # hopfeed stores no cubes
    made.group = torch.arange(N) // 10
    return made


@pytest.fixture(scope="module")
def hetero() -> HeteroData:
    torch.manual_seed(1)
    made = HeteroData()
    made["a"].x, made["b"].x = torch.rand(30, 2), torch.rand(20, 2)
    made["b"].train_mask = torch.arange(20) < 8
    made["a", "r", "b"].edge_index = torch.stack([torch.randint(0, 30, (90,)), torch.randint(0, 20, (90,))])
    return made


def refused(loader: Any, message: str, *given: Any, **arguments: Any) -> None:
    """By one line that the message matches."""
    with pytest.raises(hopfeed.Error, match=message) as raised:
        loader(*given, **arguments)
    assert "\n" not in str(raised.value) and "/hopfeed-" not in str(raised.value)


class Backwards(SequentialSampler):
    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source) - 1, -1, -1))


class Half(RandomSampler):
    def __len__(self) -> int:
        return super().__len__() // 2


class Odd(DistributedSampler[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(1, N, 2))


class First(WeightedRandomSampler):
    def __iter__(self) -> Iterator[int]:
        return iter([0] * N)


class Named(SequentialSampler):
    """In the order of its base."""

    name = "named"


def test_samplers_that_iterate_otherwise_than_torchs_are_refused(data: Data) -> None:
    for sampler in (Backwards(range(N)), Half(range(N)), Odd(range(N), 2, 0), First(torch.ones(N), N)):
        refused(NeighborLoader, f"sampler is {type(sampler).__name__}; hopfeed knows torch's own", data, [2], sampler=sampler)
    loader = NeighborLoader(data, [2], batch_size=N, sampler=Named(range(N)))
    assert next(iter(loader)).input_id.tolist() == list(range(N))
    weights = ImbalancedSampler(torch.arange(N) // 90)  # a subclass of torch's, with its order
    assert len(NeighborLoader(data, [2], batch_size=N, sampler=weights)) == 1


def seeds_of(loader: Any) -> list[int]:
    return torch.cat([batch.input_id.clone() for batch in loader]).tolist()


def test_what_decides_the_draws_is_said_once_and_by_seed(data: Data) -> None:
    weights = torch.ones(N, dtype=torch.float64)
    mine = torch.Generator().manual_seed(3)
    nodes = {"num_neighbors": [2], "input_nodes": torch.arange(N), "num_workers": 0}
    for sampler in (
        WeightedRandomSampler(weights, N, generator=mine),
        RandomSampler(range(N), replacement=True, generator=mine),
        RandomSampler(range(N), generator=mine),
    ):
        with pytest.raises(hopfeed.UnsupportedError, match="sampler has a generator; the order comes from seed="):
            NeighborLoader(data, sampler=sampler, **nodes)
    with pytest.raises(hopfeed.InvalidError, match="^seed_weights and sampler=ImbalancedSampler both say how seeds are drawn"):
        NeighborLoader(data, sampler=ImbalancedSampler(torch.arange(N) // 90), seed_weights=weights, **nodes)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_split_says_which_nodes_are_seeds(data: Data, tmp_path: Path, workers: int) -> None:
    from test_servers import server

    hopfeed.from_pyg(data, tmp_path / "graph")
    arguments: dict[str, Any] = dict(num_neighbors=[3], batch_size=20, shuffle=True, seed=3)
    with server(tmp_path / "graph", f"unix:{tmp_path}/socket"):
        places: list[dict[str, Any]] = [{"data": data}, {"data": tmp_path / "graph"}, {"data": None, "servers": f"unix:{tmp_path}/socket"}]
        for split in ("train", "test"):
            nodes = data[f"{split}_mask"].nonzero().view(-1)
            wanted = [batch.n_id for batch in NeighborLoader(data, input_nodes=nodes, **arguments)]
            for place in places:
                here = {} if "servers" in place else {"num_workers": workers}
                with NeighborLoader(split=split, **place, **here, **arguments) as loader:
                    batches = list(loader)
                    assert len(loader) == len(batches) == 3 and all(torch.equal(a, b.n_id) for a, b in zip(wanted, batches))
                    assert torch.cat([batch.n_id[: batch.batch_size] for batch in batches]).sort().values.equal(nodes)
                    if "servers" not in place:
                        assert loader([4]).n_id[0] == nodes[4]
        with NeighborLoader(split="train", **places[1], num_workers=workers, **arguments) as here:  # its state moves to servers, and back
            batches = iter(here)
            next(batches)
            state, rest = here.state_dict(), [batch.n_id for batch in batches]
        for place in places[1:]:
            with NeighborLoader(split="train", **place, **arguments) as loader:
                loader.load_state_dict(state)
                assert all(torch.equal(a, batch.n_id) for a, batch in zip(rest, loader, strict=True))
        with NeighborLoader(split="test", sampler=SequentialSampler(range(50)), **places[2], num_neighbors=[2], batch_size=50) as remote:
            assert torch.equal(next(iter(remote)).n_id[:50], data.test_mask.nonzero().view(-1))
            refused(remote, "a batch of positions of split='test' cannot be made here; give the loader input_nodes=", [4])
        clusters: dict[str, Any] = dict(sampler="cluster", cluster="group", subgraph_type="induced", batch_size=2)
        refused(NeighborLoader, "split is of seeds that lie on other machines, .* give input_nodes=", **places[2], split="train", **clusters)
    for place in places[:2]:
        batch = next(iter(NeighborLoader(split="train", **place, **clusters)))
        assert batch.input_id.tolist() == [0, 1] and sorted(batch.n_id.tolist()) == list(range(10))  # the cluster of nodes 0 and 2
        refused(NeighborLoader, r"split is 'valid', and there are \['test', 'train'\]; .*input_nodes=", **place, num_neighbors=[2], split="valid")
        refused(NeighborLoader, "split and input_nodes are given", **place, num_neighbors=[2], split="train", input_nodes=data.train_mask)


def test_a_split_whose_ids_lie_on_several_machines_is_read_there(small: Path, tmp_path: Path) -> None:
    arguments: dict[str, Any] = dict(num_neighbors=[3], split="train", batch_size=100, shuffle=True, attrs=[])
    with machines(small, tmp_path / "machines", ids="sharded") as two:
        wanted = [batch.n_id.clone() for batch in NeighborLoader(two.whole, **arguments)]
        with NeighborLoader(two.folders[0], peers=two.addresses, num_workers=1, **arguments) as loader:
            batches = list(loader)
            assert len(loader.dataset) == 500 and len(batches) == 5 and all(torch.equal(a, b.n_id) for a, b in zip(wanted, batches))
            refused(loader, "a batch of positions of split='train' cannot be made here", [4])


def test_a_split_of_several_types_is_that_of_the_type_that_has_it(hetero: HeteroData) -> None:
    for named in ({}, {"node_type": "b"}):
        (batch,) = NeighborLoader(hetero, [2], split="train", batch_size=8, **named)
        assert batch["b"].n_id[:8].tolist() == list(range(8)) and batch["b"].batch_size == 8 and "input_id" not in batch["a"]
    refused(NeighborLoader, "split is 'train', and there are none; .*input_nodes=", hetero, [2], split="train", node_type="a")
    refused(NeighborLoader, r"node_type is 'c'; there are \['a', 'b'\]", hetero, [2], split="train", node_type="c")
    both = hetero.clone()
    both["a"].train_mask = torch.ones(30, dtype=torch.bool)
    refused(NeighborLoader, r"split 'train' is there of \['a', 'b'\]; name one \(node_type=\)", both, [2], split="train")


def test_a_split_of_edges_says_which_links_are_seeds(typed: Path, tmp_path: Path) -> None:
    folder, key = tmp_path / "split", ("user", "likes", "item")
    partition("split-links", typed, folder, "--edge-types", "likes", "--num-val", 100, "--num-test", 200)
    options: dict[str, Any] = dict(batch_size=64, shuffle=True, seed=2, num_workers=0)
    for split in ("train", "valid", "test"):
        for named in ({}, {"edge_type": "likes"}, {"edge_type": key}):
            loader = LinkNeighborLoader(folder, [2], link_split=split, **named, **options)
            own = hopfeed.Loader(folder, fanouts=[2], edge_type=key, link_split=split, exclude="none", **options)
            assert len(loader.dataset) == own.num_seeds
            for batch, expected in zip(loader, own, strict=True):
                for name in ("edge_label_index", "input_id", "edge_label"):
                    assert (name in batch[key]) == (name in expected[key]) and (split == "train" or name in batch[key])
                    assert name not in batch[key] or torch.equal(batch[key][name], torch.from_numpy(expected[key][name]))
                assert torch.equal(batch["user"].n_id, torch.from_numpy(expected["user"].n_id))
    refused(LinkNeighborLoader, r"link_split is 'no', and there are \['test', 'train', 'valid'\]; .*edge_label_index=", folder, [2], link_split="no")
    refused(LinkNeighborLoader, "link_split and edge_label_index are given", folder, [2], key, link_split="valid")
    refused(LinkNeighborLoader, "edge_label and link_split are given", folder, [2], edge_label=torch.ones(200), link_split="valid")
    refused(loader, "a batch of positions of link_split='test' cannot be made here; give the loader edge_label_index=", [4])


def test_types_are_named_as_pyg_names_them(hetero: HeteroData) -> None:
    key = ("a", "r", "b")
    for node_type in ("b", "x"):
        for nodes in (None, "a", ("a", torch.tensor([5]))):
            refused(NeighborLoader, rf"node_type is not what PyG names it; give input_nodes=\('{node_type}', ...\)", hetero, [2], nodes, node_type=node_type)
    for links in (None, key, (key, torch.zeros(2, 3, dtype=torch.long))):
        refused(LinkNeighborLoader, r"edge_type is not what PyG names it; give edge_label_index=\(\('a',", hetero, [2], links, edge_type=key)
    refused(LinkNeighborLoader, "split is of loaders of nodes; give link_split=, or edge_label_index", hetero, [2], key, split="train")
    refused(NeighborLoader, "link_split is of loaders of links; give split=, or input_nodes", hetero, [2], "a", link_split="train")
    refused(LinkNeighborLoader, "link_split is of datasets, and data is a graph in memory.*edge_label_index=", hetero, [2], link_split="train")


def test_what_neg_sampling_says_is_not_said_beside_it(data: Data) -> None:
    for given in ({"amount": 3}, {"dst_weight": "y"}, {"src_weight": "y"}):
        for sampling in ("binary", NegativeSampling("binary", 2), None):
            name = next(iter(given))
            refused(LinkNeighborLoader, rf"{name} is of neg_sampling; give NegativeSampling\(mode, {name}=", data, [2], neg_sampling=sampling, **given)


ROWS = {"x", "y", "cube", "group", "train_mask", "test_mask"}


@pytest.mark.parametrize("workers", [0, 1])
def test_attributes_that_are_asked_for_are_those_of_batches_whoever_reads_them(data: Data, workers: int) -> None:
    for attrs in ([], ["x"], ("cube", "y"), ["cube"], None):
        for edge_attrs in ([], ["when"], None):
            with NeighborLoader(data, [2], batch_size=10, num_workers=workers, attrs=attrs, edge_attrs=edge_attrs) as loader:
                for _ in range(2):  # the second epoch has x read from its tensor
                    batch = next(iter(loader))
                    names = ROWS if attrs is None else set(attrs)
                    assert {name for name in ROWS if name in batch} == names and batch.num_nodes == len(batch.n_id)
                    assert all(torch.equal(batch[name], loader.data[name][batch.n_id]) for name in names)
                    assert {name for name in ("weight", "when") if name in batch} == ({"weight", "when"} if edge_attrs is None else set(edge_attrs))
                    loader.data.x = data.x + 1
    refused(NeighborLoader, r"attrs names 'foo'; there are \['cube', 'group', 'test_mask', 'train_mask', 'x', 'y'\]", data, [2], attrs=["x", "foo"])
    refused(NeighborLoader, r"edge_attrs names 'x'; there are \['weight', 'when'\]", data, [2], edge_attrs=["x"])
    refused(NeighborLoader, "attrs is 'x'; give a list of names", data, [2], attrs="x")


def test_attributes_that_are_asked_for_are_those_of_batches_from_a_folder(data: Data, tmp_path: Path) -> None:
    hopfeed.from_pyg(data, tmp_path / "graph")
    batch = next(iter(NeighborLoader(tmp_path / "graph", [2], attrs=["y"], edge_attrs=[])))
    assert "y" in batch and not {"x", "train_mask", "when"} & set(batch.keys())
    assert "when" not in next(iter(NeighborLoader(tmp_path / "graph", [2], attrs=[], edge_attrs=[])))
    refused(NeighborLoader, "attrs names 'foo'; there are", tmp_path / "graph", [2], attrs=["foo"])


def test_samplers_without_fanouts_are_given_none(data: Data) -> None:
    walks: dict[str, Any] = dict(sampler="walk", walk_length=3, batch_size=4)
    for none in (None, []):
        loader = NeighborLoader(data, none, **walks)
        assert next(iter(loader)).walks.shape == (4, 4) and len(loader.node_sampler.num_neighbors) == 0
    assert next(iter(LinkNeighborLoader(data, **walks))).walks.size(1) == 4
    clusters: dict[str, Any] = dict(sampler="cluster", cluster="group", subgraph_type="induced", batch_size=2)
    for layers in (None, [], [-1, -1]):
        batch = next(iter(NeighborLoader(data, layers, **clusters)))
        assert sorted(batch.n_id.tolist()) == list(range(20))
    for wrong in ([2, 2], [15, 10, 5], torch.tensor([2]), {("node", "to", "node"): [2]}, NumNeighbors([2])):
        refused(NeighborLoader, r"num_neighbors is .*, and sampler 'walk' has no such numbers; leave it out \(None\)$", data, wrong, **walks)
    assert len(NeighborLoader(data, torch.tensor([2, 2])).node_sampler.num_neighbors) == 2
    refused(NeighborLoader, "num_neighbors is .*, or give -1 for each layer", data, [2], **clusters)


@pytest.mark.parametrize("workers", [0, 1])
def test_an_epoch_without_input_nodes_has_each_cluster_once(data: Data, tmp_path: Path, workers: int) -> None:
    from test_servers import server

    several = data.clone()
    several.group = (torch.arange(N) * 7 % 40) // 4 * 3  # each third number has nodes, 10 in all
    hopfeed.from_pyg(several, tmp_path / "graph")
    clusters: dict[str, Any] = dict(sampler="cluster", cluster="group", subgraph_type="induced", batch_size=4, shuffle=True, seed=2)
    own: dict[str, Any] = {**clusters, "subgraph": clusters["subgraph_type"], "num_workers": 0}
    del own["subgraph_type"]
    wanted = [batch.n_id.clone() for batch in hopfeed.torch.Loader(tmp_path / "graph", **own)]
    with server(tmp_path / "graph", f"unix:{tmp_path}/socket"):
        remote: dict[str, Any] = {"data": None, "servers": f"unix:{tmp_path}/socket"}
        for place in ({"data": several}, {"data": tmp_path / "graph"}, remote):
            here = {} if "servers" in place else {"num_workers": workers}
            with NeighborLoader(**place, **here, **clusters) as loader:
                assert len(loader) == 3 and loader.num_seeds == len(loader.dataset) == 10
                state = None
                for at, batch in enumerate(loader):
                    groups = several.group[batch.n_id].unique()
                    assert torch.equal(batch.n_id, wanted[at]) and set(batch.input_id.tolist()) == {int(group) // 3 for group in groups}
                    assert len(batch.n_id) == int(torch.isin(several.group, groups).sum()) and batch.batch_size == len(groups)
                    state = loader.state_dict() if at == 0 else state
                assert at == 2
                second = torch.cat([several.group[batch.n_id[: batch.batch_size]] for batch in loader])
                assert second.sort().values.tolist() == list(range(0, 30, 3))
                loader.load_state_dict(state)
                assert torch.equal(torch.cat([batch.n_id for batch in loader]), torch.cat(wanted[1:]))
                if "servers" in place:
                    refused(loader, "a batch of positions of clusters cannot be made here; give the loader input_nodes=", [4])
                else:
                    assert several.group[loader([4]).n_id].unique().tolist() == [12] and loader([4]).input_id.tolist() == [4]
            ranks = [NeighborLoader(**place, **here, **clusters, rank=rank, world_size=2) for rank in range(2)]
            assert sorted(group for loader in ranks for batch in loader for group in several.group[batch.n_id].unique().tolist()) == list(range(0, 30, 3))
        by_place = {**clusters, "shuffle": False, "batch_size": 1, "batch_sampler": BatchSampler(SequentialSampler(range(10)), 4, False)}
        assert [len(batch.input_id) for batch in NeighborLoader(several, **by_place)] == [4, 4, 2]
        refused(NeighborLoader, "the clusters are not counted here; .* give input_nodes=", **remote, **by_place)
    ordered = {**clusters, "shuffle": False}
    (batch,) = NeighborLoader(several, **{**ordered, "batch_size": 10})
    assert batch.input_id.tolist() == list(range(10)) and several.group[batch.n_id[:10]].tolist() == list(range(0, 30, 3))
    given = [batch.input_id.tolist() for batch in NeighborLoader(several, input_nodes=torch.tensor([0, 40, 80, 3]), **{**ordered, "batch_size": 2})]
    assert given == [[0, 1], [2, 3]]  # what is given comes, as hopfeed.Loader's seeds do
    refused(NeighborLoader, r"has no attribute 'groups'", several, **{**clusters, "cluster": "groups"})
    refused(NeighborLoader, "cluster", several, **{**clusters, "cluster": None})


def test_clusters_of_one_type_of_several_come_once_each(hetero: HeteroData) -> None:
    clustered = hetero.clone()
    clustered["b"].part = torch.arange(20) % 4
    clusters: dict[str, Any] = dict(sampler="cluster", cluster="part", subgraph_type="induced")
    for nodes in ("b", ("b", None)):
        batches = list(NeighborLoader(clustered, input_nodes=nodes, **clusters))
        assert [batch["b"].n_id.tolist() for batch in batches] == [list(range(part, 20, 4)) for part in range(4)]
        assert [batch["b"].input_id.tolist() for batch in batches] == [[0], [1], [2], [3]]


def test_clusters_on_several_machines_come_once_each(small: Path, tmp_path: Path) -> None:
    partition("cluster", small, tmp_path / "clustered", "--clusters", 12)
    clusters: dict[str, Any] = dict(sampler="cluster", cluster="cluster", subgraph_type="induced", batch_size=4, attrs=["cluster"])
    with machines(tmp_path / "clustered", tmp_path / "machines", ids="sharded") as two:
        wanted = [batch.n_id.clone() for batch in NeighborLoader(two.whole, **clusters)]
        with NeighborLoader(two.folders[0], peers=two.addresses, num_workers=1, **clusters) as loader:
            batches = list(loader)
            assert len(loader) == len(batches) == 3 and all(torch.equal(a, b.n_id) for a, b in zip(wanted, batches))
            assert torch.cat([batch.cluster.unique() for batch in batches]).sort().values.tolist() == list(range(12))
            refused(loader, "a batch of positions of clusters cannot be made here", [4])


def test_what_is_of_negatives_or_of_servers_is_refused_without_them(data: Data) -> None:
    refused(LinkNeighborLoader, "strict is of negatives, and none are drawn; give neg_sampling=", data, [2], strict=True)
    for given in ({"cache": "0.2"}, {"token_file": "/nope"}, {"tls": True}, {"connect_timeout": 1.0}):
        refused(NeighborLoader, f"{next(iter(given))} is of servers, and none are given", data, [2], **given)
    assert len(NeighborLoader(data, [2], cache=None, tls=None)) == N and len(LinkNeighborLoader(data, [2], strict=False)) == E


def test_labels_below_zero_are_told_from_those_of_negatives(data: Data) -> None:
    for labels in (torch.tensor([-1, 0] * 250), torch.tensor([-0.5, 1] * 250)):
        refused(LinkNeighborLoader, "edge_label has -(1|0.5), and negatives have label 0", data, [2], edge_label=labels, neg_sampling="binary")
        batch = next(iter(LinkNeighborLoader(data, [2], edge_label=labels, batch_size=4)))
        assert torch.equal(batch.edge_label, labels[:4])


def test_what_is_no_number_is_named(data: Data) -> None:
    for label in (["a"] * E, 1, [[1], [1, 2]], object()):
        refused(LinkNeighborLoader, "edge_label is ", data, [2], edge_label=label)
    for ratio in ("1", -1, [1], torch.ones(2)):
        refused(LinkNeighborLoader, "neg_sampling_ratio is ", data, [2], neg_sampling_ratio=ratio)
    assert next(iter(LinkNeighborLoader(data, [2], edge_label=[1.5] * E))).edge_label.tolist() == [1.5]


def test_weights_of_seeds_may_be_a_list(data: Data) -> None:
    for weights in ([0.0, 1.0] * 50, torch.tensor([0, 1] * 50)):
        loader = NeighborLoader(data, [2], batch_size=20, shuffle=True, seed_weights=weights)
        assert set(seeds_of(loader)) <= set(range(1, N, 2))
    refused(NeighborLoader, "seed_weights is .*; give an array of float64", data, [2], seed_weights=["a"] * N)


def test_errors_of_the_library_have_pygs_words(data: Data, hetero: HeteroData) -> None:
    refused(NeighborLoader, "^data has no nodes; give it x, edge_index or num_nodes$", Data(), [2])
    with pytest.raises(hopfeed.InvalidError, match="^data has no nodes; give it x, edge_index or num_nodes$"):
        hopfeed.from_pyg(Data(), "no/folder/is/made")
    refused(NeighborLoader, r"name another of theirs \(seed_time\), or give the time of each \(input_time\)$", data, [2], time_attr="when")
    refused(NeighborLoader, r"^fanout 70000 \(num_neighbors\) is not between 0 and 65535", data, [70000])
    refused(NeighborLoader, r"^fanout 70000 \(num_neighbors\) is not", hetero, {("a", "r", "b"): [70000]}, "a")
    refused(NeighborLoader, r"needs times: .* \(time_attr\)$", data, [2], temporal_strategy="last")
    refused(NeighborLoader, "^node type 'node' of data has no attribute 'then'", data, [2], time_attr="when", seed_time="then")


def test_faults_of_weights_of_negatives_name_them(data: Data, hetero: HeteroData) -> None:
    for weights in (torch.ones(7), -torch.ones(N), torch.zeros(N), torch.ones(N, 2), ["a"] * N, "nope"):
        for name in ("src_weight", "dst_weight"):
            drawn = NegativeSampling("binary", 1, **{name: weights})
            refused(LinkNeighborLoader, rf"^((?!hopfeed).)*neg_sampling\.{name}((?!hopfeed).)*$", data, [2], neg_sampling=drawn)
    drawn = NegativeSampling("binary", 1, dst_weight=torch.ones(3))
    refused(LinkNeighborLoader, r"neg_sampling\.dst_weight", hetero, [2], ("a", "r", "b"), neg_sampling=drawn)
