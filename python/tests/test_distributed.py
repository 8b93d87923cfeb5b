"""hopfeed.distributed: the same graph, splits, batches and learned rows over a folder, over peers and over servers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hopfeed
import hopfeed.state
from conftest import environment_of_python, partition
from machines import Machines, machines
from process_group import run_ranks
from state_owners import start

torch = pytest.importorskip("torch")

import hopfeed.distributed as hd  # noqa: E402
import hopfeed.torch  # noqa: E402
from hopfeed.distributed import split  # noqa: E402
from hopfeed.distributed.nodes import Nodes  # noqa: E402
from hopfeed.distributed.partition_book import partition_of_rank  # noqa: E402
from hopfeed.distributed.place import hosts_of  # noqa: E402
from hopfeed.distributed.refused import OF_BOOK, OF_GRAPH, OF_LOADERS, OF_PACKAGE  # noqa: E402

PLACES = ("alone", "first", "second", "servers")
_VARIABLES = ("DATA", "PEERS", "SERVERS", "OWNERS", "TOKEN_FILE", "TLS_CA", "RESTART")


@pytest.fixture(scope="module")
def two(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    with machines(small, tmp_path_factory.mktemp("machines") / "small") as found:
        yield found


@pytest.fixture(scope="module")
def shop(typed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """Several types, and a split of links; each machine has a range of the ids and splits."""
    folder = tmp_path_factory.mktemp("machines")
    partition("split-links", typed, folder / "split", "--edge-types", "likes", "--num-val", 100, "--num-test", 200)
    with machines(folder / "split", folder / "shop", ids="sharded") as found:
        yield found


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in _VARIABLES:
        monkeypatch.delenv(f"HOPFEED_{name}", raising=False)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    yield
    hd.exit_client()


class TestPlace:
    def test_the_environment_says_what_arguments_leave_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in {"DATA": "/data", "PEERS": "a:1,b:2", "OWNERS": "peers", "TOKEN_FILE": "token", "TLS_CA": "ca", "RESTART": "2"}.items():
            monkeypatch.setenv(f"HOPFEED_{name}", value)
        place = hd.initialize()
        assert (place.data, place.peers, place.servers, place.owners, place.restart) == ("/data", ["a:1", "b:2"], [], ["a:1", "b:2"], 2)
        assert place.stream(None) == {
            "dataset": "/data", "peers": ["a:1", "b:2"], "peer_token_file": "token", "peer_ca": "ca", "peer_connect_timeout": 30
        }  # fmt: skip
        place = hd.initialize(data="/mine")  # elsewhere: what the environment says of peers, owners, token and authority is passed over
        assert (place.data, place.peers, place.owners, place.token_file, place.tls_ca, place.restart) == ("/mine", [], [], None, None, 2)
        place = hd.initialize(peers="c:3", owners=["d:4"], token_file="other", restart=0)  # here: each argument wins
        assert (place.data, place.peers, place.owners, place.token_file, place.tls_ca, place.restart) == ("/data", ["c:3"], ["d:4"], "other", "ca", 0)
        place = hd.initialize(servers="e:5,f:6", tls_ca="mine")
        assert (place.data, place.peers, place.owners) == (None, [], ["e:5", "f:6"])
        assert place.stream(None) == {"servers": ["e:5", "f:6"], "tls_ca": "mine", "connect_timeout": 30}

    @pytest.mark.parametrize(
        ("told", "arguments", "message"),
        [
            ({}, {}, "give data=FOLDER or servers=ADDRESSES, set HOPFEED_DATA or HOPFEED_SERVERS, or use hopfeed-launch"),
            ({"PEERS": "a:1"}, {}, "nothing says where the graph is"),
            ({"DATA": "/data", "SERVERS": "a:1"}, {}, "HOPFEED_DATA and HOPFEED_SERVERS are set"),
            ({}, {"data": "/data", "servers": "a:1"}, "data and servers are given"),
            ({}, {"servers": "a:1", "peers": "a:1"}, "peers is given without data"),
            ({"DATA": "/data", "OWNERS": "peers"}, {}, "owners is 'peers', and there are no peers"),
            ({"DATA": "/data", "RESTART": "-1"}, {}, "restart is '-1'"),
            ({"DATA": "/data"}, {"peers": 3}, "peers is 3; give a list of addresses"),
            ({}, {"ip_config": "ip_config.txt"}, "hopfeed reads no such file"),
        ],
    )
    def test_what_cannot_be_is_one_line(
        self, monkeypatch: pytest.MonkeyPatch, told: dict[str, str], arguments: dict[str, Any], message: str
    ) -> None:
        for name, value in told.items():
            monkeypatch.setenv(f"HOPFEED_{name}", value)
        with pytest.raises(hopfeed.Error, match=message) as raised:
            hd.initialize(**arguments)
        assert "\n" not in str(raised.value)
        with pytest.raises(hopfeed.InvalidError, match="was not called"):
            hd.DistGraph()

    def test_a_folder_of_another_dataset_is_named(self, two: Machines) -> None:
        hd.initialize(data=two.whole)
        with pytest.raises(hopfeed.InvalidError, match="has the dataset 'generated', and not 'papers'"):
            hd.DistGraph("papers")
        assert hd.DistGraph().name == "generated"  # what was wrong is forgotten
        with pytest.raises(hopfeed.UnsupportedError, match="part_config is given"):
            hd.DistGraph("generated", part_config="x.json")
        hd.initialize(servers=two.addresses)
        with pytest.raises(hopfeed.NotFoundError, match="papers"):
            hd.DistGraph("papers")
        assert hd.DistGraph().num_nodes() == 2000

    def test_no_owners_is_one_line(self, small: Path) -> None:
        hd.initialize(data=small)
        with pytest.raises(hopfeed.InvalidError, match="nobody holds learned rows: start servers with --state"):
            hd.DistTensor((2000, 3), torch.float32, "t")


    @pytest.mark.parametrize("kind", ["peers", "servers"])
    def test_servers_are_told_the_token(self, two: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
        token, address = tmp_path / "token", f"unix:{tmp_path}/socket"
        token.write_text("a" * 32 + "\n")
        token.chmod(0o600)
        process = start(two.folders[1], address, "1", "--token-file", token, "--state", tmp_path / "state")
        everything = start(two.whole, f"{address}2", "0,1", "--token-file", token, "--state", tmp_path / "state")
        try:
            place = {"data": two.folders[0], "peers": address} if kind == "peers" else {"servers": f"{address}2"}
            hd.initialize(**place, owners=f"{address}2", token_file=token)
            assert len(hd.DistGraph().ndata["x"][:]) == 2000
            table = hd.DistTensor((2000, 1), "int64", "t")
            assert table[[3]].tolist() == [[0]]
            token.write_text("b" * 32 + "\n")
            for name, value in place.items():
                monkeypatch.setenv(f"HOPFEED_{name.upper()}", str(value))
            monkeypatch.setenv("HOPFEED_TOKEN_FILE", str(token))
            hd.initialize()
            with pytest.raises(hopfeed.Error, match="token"):
                hd.DistGraph().ndata["x"][[1]]
        finally:
            for one in (process, everything):
                one.kill()
                one.wait()


class TestGraph:
    @pytest.mark.parametrize("place", PLACES)
    def test_any_rows_are_there_wherever_they_lie(self, small: Path, two: Machines, place: str) -> None:
        one = hopfeed.Dataset(small)
        hd.initialize(**two.places()[place])
        g = hd.DistGraph("generated")
        assert (g.num_nodes(), g.num_edges(), g.ntypes, g.canonical_etypes, g.num_classes()) == (2000, 20000, ["node"], [("node", "to", "node")], 5)
        ids = torch.tensor([1999, 3, 3, 0, 700])
        rows = g.ndata["x"][ids]
        assert rows.dtype == torch.float32 and np.array_equal(rows, one.attr("x")[ids.numpy()])
        assert g.ndata["y"][ids].tolist() == one.attr("y")[ids.numpy()].tolist()
        assert np.array_equal(g.ndata["x"][:], one.attr("x")[:]) and g.ndata["x"].shape == (2000, 8)
        assert g.ndata["x"][[]].shape == (0, 8) and g.ndata["y"][torch.zeros(2000, dtype=torch.bool)].dtype == torch.int64
        train = one.split("train")
        assert g.ndata["train_mask"].ids().tolist() == train.tolist()
        assert g.ndata["train_mask"][:].nonzero().flatten().tolist() == sorted(train.tolist())
        assert set(g.ndata) == {"x", "y", "train_mask", "val_mask", "test_mask"} and "x" in g.ndata and "z" not in g.ndata
        degrees = np.bincount(one.edge_index()[1], minlength=2000)
        assert g.in_degrees(ids).tolist() == degrees[ids.numpy()].tolist() and g.in_degrees([]).tolist() == []

    @pytest.mark.parametrize("place", PLACES)
    def test_the_book_tells_partitions(self, two: Machines, place: str) -> None:
        expected = hopfeed.Dataset(two.whole).partition_of(np.arange(2000))
        hd.initialize(**two.places()[place])
        book = hd.DistGraph().get_partition_book()
        assert book.num_partitions() == 2 and book.partid == 0
        assert book.nid2partid([5, 5, 1999]).tolist() == expected[[5, 5, 1999]].tolist()
        assert book.partid2nids(1).tolist() == np.flatnonzero(expected).tolist()
        told = book.metadata()
        assert [one["num_nodes"] for one in told] == np.bincount(expected).tolist() and sum(one["num_edges"] for one in told) == 20000

    @pytest.mark.parametrize("place", ["alone", "second", "servers"])
    def test_several_types_and_splits_of_links(self, shop: Machines, place: str) -> None:
        one = hopfeed.Dataset(shop.whole)
        hd.initialize(**shop.places()[place])
        g = hd.DistGraph()
        assert g.num_nodes() == 500 and g.num_nodes("item") == 200 and g.etypes == ["likes", "liked"]
        book = g.get_partition_book()
        assert (book.ntypes, book.etypes, book.canonical_etypes) == (g.ntypes, g.etypes, g.canonical_etypes) and not g.is_homogeneous
        assert g.to_canonical_etype("likes") == book.to_canonical_etype("likes") == ("user", "likes", "item")
        assert (g.get_ntype_id(g.ntypes[1]), g.get_etype_id("liked"), g.rank()) == (1, 1, 0)
        assert np.array_equal(g.nodes["user"].data["x"][[299, 0]], one.attr("x", "user")[[299, 0]])
        with pytest.raises(hopfeed.InvalidError, match="several node types; name one of"):
            g.ndata
        with pytest.raises(hopfeed.NotFoundError, match="node type 'item' has no 'x'"):
            g.nodes["item"].data["x"]
        mask = g.edges["likes"].data["test_mask"]
        pairs, labels = mask.pairs(), mask.labels()
        stored = shop.whole.parents[1] / "split/edge_splits/user__likes__item/test"  # as they were before the cut
        assert np.array_equal(pairs.T, np.load(stored / "pairs.npy")) and np.array_equal(labels, np.load(stored / "labels.npy"))
        assert len(labels) == pairs.shape[1] > 200 and g.edges["likes"].data["train_mask"].labels() is None
        with pytest.raises(hopfeed.NotFoundError, match="split-links makes splits"):
            g.edges["liked"].data["test_mask"]

    def test_a_mask_that_is_stored_as_an_attribute_too_is_the_split(self, tmp_path: Path) -> None:
        data = pytest.importorskip("torch_geometric.data").HeteroData()
        data["user"].x = torch.arange(20.0).view(20, 1)
        data["user"].train_mask = torch.arange(20) % 2 == 0
        data["user", "likes", "item"].edge_index = torch.stack([torch.arange(60) % 20, torch.arange(60) % 7])
        data["user", "likes", "item"].train_mask = torch.ones(60, dtype=torch.bool)
        data["item"].num_nodes = 7
        hopfeed.from_pyg(data, tmp_path / "made")
        partition("split-links", tmp_path / "made", tmp_path / "data", "--edge-types", "likes", "--num-val", 5, "--num-test", 5)
        hd.initialize(data=tmp_path / "data")
        g = hd.DistGraph()
        of_users, of_likes = g.nodes["user"].data, g.edges["likes"].data
        mask = of_users["train_mask"]
        assert mask.ids().tolist() == list(range(0, 20, 2)) and mask[[0, 1]].tolist() == [True, False]
        assert of_users.keys() == ["x", "train_mask"]
        assert hd.node_split(mask, g.get_partition_book()).tolist() == list(range(0, 20, 2))
        assert of_likes["train_mask"].pairs().shape[0] == 2 and "train_mask" in of_likes

    @pytest.mark.parametrize("place", ["alone", "servers"])
    def test_what_is_no_node_is_one_line(self, two: Machines, place: str) -> None:
        hd.initialize(**two.places()[place])
        g = hd.DistGraph()
        for ids, message in (([2000], "ids has 2000; nodes are from 0 to 1999"), ([-1], "ids has -1"), ([0.5], "ids are float64"), ([[1]], "dimension")):
            for read in (lambda: g.ndata["x"][ids], lambda: g.get_partition_book().nid2partid(ids), lambda: hd.node_split(ids)):
                with pytest.raises(hopfeed.InvalidError, match=message):
                    read()
        with pytest.raises(hopfeed.NotFoundError, match="has no 'feat'; it has"):
            g.ndata["feat"]
        with pytest.raises(hopfeed.UnsupportedError, match="DistTensor"):
            g.ndata["z"] = torch.zeros(2000)


class TestSplit:
    @pytest.mark.parametrize(
        ("partitions", "world", "even", "expected"),
        [
            ([0, 1, 0, 1], 2, True, [[0, 2], [1, 3]]),
            ([0, 1, 1, 1, 1], 2, True, [[0, 3], [1, 2]]),  # the first takes what the other has too many of; one is left out
            ([0, 1, 1, 1, 1], 2, False, [[0], [1, 2, 3, 4]]),
            ([0, 0, 0, 1, 1, 1, 1], 4, True, [[0], [2], [3], [5]]),
            ([0, 0, 0, 1, 1, 1, 1], 4, False, [[0, 1], [2], [3, 4], [5, 6]]),
            ([0, 1, 2, 2, 2], 2, False, [[0, 2, 3], [1, 4]]),  # nobody is beside the last
            ([1, 1, 1], 4, False, [[], [], [0, 1], [2]]),
        ],
    )
    def test_each_takes_those_of_its_partition(self, partitions: list[int], world: int, even: bool, expected: list[list[int]]) -> None:
        count = max(2, max(partitions) + 1)
        assert [split._positions(np.array(partitions), count, rank, world, even).tolist() for rank in range(world)] == expected

    @pytest.mark.parametrize(
        ("world", "count", "hosts", "expected"),
        [
            (4, 4, 2, [0, 2, 1, 3]),  # partition p is on host p modulo hosts
            (8, 4, 2, [0, 0, 2, 2, 1, 1, 3, 3]),
            (2, 4, 2, [0, 1]),
            (6, 3, 2, [0, 0, 2, 1, 1, 1]),
            (3, 3, 3, [0, 1, 2]),
            (4, 2, 4, [0, 1, 0, 1]),
            (4, 2, 1, [0, 0, 1, 1]),
            (4, 4, 1, [0, 1, 2, 3]),
        ],
    )
    def test_trainers_are_beside_partitions_of_their_host(self, world: int, count: int, hosts: int, expected: list[int]) -> None:
        assert [partition_of_rank(rank, world, count, hosts) for rank in range(world)] == expected
        lies_on = np.arange(60) % count  # as many in each
        for even in (True, False):
            taken = [split._positions(lies_on, count, rank, world, even, hosts) for rank in range(world)]
            assert sorted(np.concatenate(taken)) == sorted(set(np.concatenate(taken)))
            if hosts <= count and count % hosts == 0:
                assert [set(lies_on[mine] % hosts) for mine in taken] == [{rank * hosts // world} for rank in range(world)]

    def test_what_one_host_has_too_few_of_another_gives(self) -> None:
        lies_on = np.array([0] * 2 + [1] * 6 + [2] * 3 + [3] * 1)  # host 0 has 5, host 1 has 7
        assert [split._positions(lies_on, 4, rank, 4, True, 2).tolist() for rank in range(4)] == [[0, 1, 7], [8, 9, 10], [2, 3, 4], [11, 5, 6]]
        assert [len(split._positions(lies_on, 4, rank, 2, False, 2)) for rank in range(2)] == [5, 7]

    @pytest.mark.parametrize("world", [1, 2, 3, 4, 7])
    def test_even_shares_are_equal_and_others_have_each_node_once(self, two: Machines, world: int) -> None:
        seen = []
        for place in ("second", "servers"):
            hd.initialize(**two.places()[place])
            g = hd.DistGraph()
            book, mask = g.get_partition_book(), g.ndata["train_mask"]
            even = [hd.node_split(mask, book, rank=rank, world_size=world, force_even=True) for rank in range(world)]
            assert {len(mine) for mine in even} == {500 // world} and len(torch.cat(even).unique()) == 500 // world * world
            once = [hd.node_split(mask, rank=rank, world_size=world, force_even=False) for rank in range(world)]
            assert torch.cat(once).sort().values.tolist() == mask.ids().sort().values.tolist()
            if world == 2:
                assert [book.nid2partid(mine).unique().tolist() for mine in once] == [[0], [1]]
            seen.append([mine.tolist() for mine in even + once])
            as_bools = hd.node_split(mask[:], book, rank=0, world_size=world, force_even=False)
            assert as_bools.sort().values.tolist() == once[0].sort().values.tolist()
        assert seen[0] == seen[1]

    def test_the_launcher_says_which_trainer_this_is(self, two: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
        hd.initialize(data=two.whole)
        mask = hd.DistGraph().ndata["train_mask"]
        monkeypatch.setenv("RANK", "1")
        monkeypatch.setenv("WORLD_SIZE", "2")
        monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
        assert [hosts_of(world) for world in (1, 2, 6)] == [1, 2, 6]
        monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")  # and 2 are all
        assert [hosts_of(world) for world in (2, 8)] == [1, 2]
        assert hd.node_split(mask).tolist() == hd.node_split(mask, rank=1, world_size=2).tolist() != hd.node_split(mask, rank=0).tolist()
        assert hd.DistGraph().get_partition_book().partid == 1

    @pytest.mark.parametrize("place", ["alone", "servers"])
    def test_links_lie_with_their_destinations(self, shop: Machines, place: str) -> None:
        hd.initialize(**shop.places()[place])
        g = hd.DistGraph()
        book, mask = g.get_partition_book(), g.edges["likes"].data["train_mask"]
        parts = [hd.edge_split(mask, book, rank=rank, world_size=2, force_even=False) for rank in range(2)]
        assert [book.nid2partid(part[1], "item").unique().tolist() for part in parts] == [[0], [1]]
        assert sorted(map(tuple, torch.cat(parts, 1).T.tolist())) == sorted(map(tuple, mask.pairs().T.tolist()))
        even = [hd.edge_split(mask.pairs(), book, "likes", rank=rank, world_size=2) for rank in range(2)]
        assert [part.shape[1] for part in even] == [mask.pairs().shape[1] // 2] * 2
        for wrong in (torch.ones(3000, dtype=torch.bool), [1, 2, 3]):
            with pytest.raises(hopfeed.InvalidError, match=r"give pairs of nodes \[2, P\]"):
                hd.edge_split(wrong, book, "likes")
        for wrong in ([[300], [0]], [[0], [200]], [[-1], [0]]):  # 300 users, 200 items
            with pytest.raises(hopfeed.InvalidError, match="ids has (300; nodes are from 0 to 299|200; nodes are from 0 to 199|-1)"):
                hd.edge_split(wrong, book, "likes", force_even=False)

    def test_what_cannot_be_split_is_one_line(self, two: Machines) -> None:
        hd.initialize(data=two.whole)
        with pytest.raises(hopfeed.InvalidError, match="1 seeds are shared by 2 trainers"):
            hd.node_split([3], rank=0, world_size=2)
        with pytest.raises(hopfeed.InvalidError, match="rank is 2 and world_size is 2"):
            hd.node_split([3], rank=2, world_size=2)
        with pytest.raises(hopfeed.UnsupportedError, match="node_trainer_ids is given"):
            hd.node_split([3], node_trainer_ids=[0])
        with pytest.raises(hopfeed.InvalidError, match=r"give g.get_partition_book\(\)"):
            hd.node_split([3], "book")


class TestLoaders:
    @pytest.mark.parametrize("place", PLACES)
    def test_batches_of_nodes_are_those_of_one_machine(self, small: Path, two: Machines, place: str) -> None:
        hd.initialize(**two.places()[place])
        g = hd.DistGraph()
        nids = hd.node_split(g.ndata["train_mask"], rank=1, world_size=2)
        with hopfeed.Loader(small, seeds=nids, fanouts=[4, 3], batch_size=60, seed=7, num_workers=0) as one:
            expected = [batch.digest() for _ in range(2) for batch in one]
        with hd.DistNodeDataLoader(g, nids, hd.NeighborSampler.from_dgl([3, 4]), batch_size=60, shuffle=True, seed=7) as loader:
            assert len(loader) == 5 and [batch.batch.digest() for _ in range(2) for batch in loader] == expected

    def test_blocks_are_bipartite_and_have_their_rows(self, small: Path, two: Machines) -> None:
        edges = hopfeed.Dataset(small).edge_index()
        hd.initialize(**two.places()["servers"])
        g = hd.DistGraph()
        sampler = hd.NeighborSampler([4, 3])
        with hd.DistNodeDataLoader(g, [7, 1999, 30], sampler, batch_size=3, edge_ids=True) as loader:
            (batch,) = loader
            input_nodes, output_nodes, blocks = batch
        assert output_nodes.tolist() == [7, 1999, 30] and len(blocks) == 2
        assert blocks[0].num_dst_nodes() == blocks[1].num_src_nodes() and blocks[1].num_dst_nodes() == 3
        assert len(input_nodes) == blocks[0].num_src_nodes()
        assert torch.equal(blocks[0].srcdata["x"], g.ndata["x"][input_nodes]) and torch.equal(blocks[1].dstdata["y"], g.ndata["y"][output_nodes])
        for block in blocks:
            ids = block.srcdata["_ID"]
            assert torch.equal(block.dstdata["_ID"], ids[: block.num_dst_nodes()]) and block.size == (block.num_src_nodes(), block.num_dst_nodes())
            drawn = torch.stack([ids[block.edge_index[0]], ids[block.edge_index[1]]])
            assert torch.equal(drawn, torch.from_numpy(edges[:, block.edata["_ID"]])) and block.num_edges() == drawn.shape[1]
            drawn_of_each = block.edge_index[1].bincount()
            assert drawn_of_each[:3].max() == 4 and (drawn_of_each[3:] <= 3).all() and block.to("cpu").num_edges() == block.num_edges()
        geometric = pytest.importorskip("torch_geometric")
        layer = geometric.nn.SAGEConv(8, 5)
        x = blocks[0].srcdata["x"]
        assert layer((x, x[: blocks[0].num_dst_nodes()]), blocks[0].edge_index, size=blocks[0].size).shape == (blocks[0].num_dst_nodes(), 5)

    @pytest.mark.parametrize("place", PLACES)
    def test_batches_of_pyg_have_the_same_nodes(self, two: Machines, place: str) -> None:
        pytest.importorskip("torch_geometric")
        hd.initialize(**two.places()[place])
        g = hd.DistGraph()
        arguments = dict(batch_size=100, shuffle=True, seed=3)
        nids, sampler = g.ndata["train_mask"].ids(), hd.NeighborSampler([4, 3])
        with hd.DistNodeDataLoader(g, nids, sampler, **arguments) as one, hd.DistNodeDataLoader(g, nids, sampler, as_pyg=True, **arguments) as other:
            for (input_nodes, _, blocks), data in zip(one, other):
                assert torch.equal(data.n_id, input_nodes) and torch.equal(data.x, blocks[0].srcdata["x"]) and data.batch_size == 100

    @pytest.mark.parametrize("place", ["alone", "first", "servers"])
    @pytest.mark.parametrize("negative", [None, hd.Uniform(2), hd.GlobalUniform(1)])
    def test_batches_of_links_are_those_of_one_machine(self, shop: Machines, place: str, negative: Any) -> None:
        key = ("user", "likes", "item")
        hd.initialize(**shop.places()[place])
        g = hd.DistGraph()
        pairs = hd.edge_split(g.edges["likes"].data["train_mask"], rank=0, world_size=2)
        sampler = hd.NeighborSampler([{"likes": 3, "liked": 3}, {"liked": 2}])
        drawn = {} if negative is None else dict(negatives="triplet" if isinstance(negative, hd.Uniform) else "binary", amount=negative.k)
        by_type = {key: [3, 0], ("item", "liked", "user"): [3, 2]}
        options = dict(fanouts=[0, 0], edge_fanouts=by_type, batch_size=200, seed=1, exclude="self", **drawn)
        options |= {"strict": True} if isinstance(negative, hd.GlobalUniform) else {}
        with hopfeed.Loader(shop.whole, links=pairs.T.numpy(), edge_type=key, num_workers=0, **options) as one:
            expected = [batch.digest() for batch in one]
        arguments = dict(negative_sampler=negative, exclude="self", batch_size=200, shuffle=True, seed=1)
        with hd.DistEdgeDataLoader(g, {"likes": pairs}, sampler, **arguments) as loader:
            got = []
            for batch in loader:
                got.append(batch.batch.digest())
                self.check_links(batch, pairs, negative)
        assert got == expected and len(expected) > 3

    @staticmethod
    def check_links(batch: Any, pairs: Any, negative: Any) -> None:
        input_nodes, links, *others, blocks = batch
        ends = blocks[-1].dstdata["_ID"]
        told = zip(ends["user"][links.edges()[0]].tolist(), ends["item"][links.edges()[1]].tolist())
        assert set(told) <= set(map(tuple, pairs.T.tolist())) and set(input_nodes) == {"user", "item"}
        assert set(blocks[0].srcdata["x"]) == {"user"} and set(blocks[0].edge_index) == {("user", "likes", "item"), ("item", "liked", "user")}
        assert len(others) == (negative is not None)
        for drawn in others:
            assert drawn.num_edges() == negative.k * links.num_edges()
            if isinstance(negative, hd.Uniform):
                assert drawn.index[0].reshape(-1, negative.k).T.tolist() == [links.index[0].tolist()] * negative.k

    def test_links_of_pyg(self, shop: Machines) -> None:
        pytest.importorskip("torch_geometric")
        hd.initialize(**shop.places()["servers"])
        g = hd.DistGraph()
        sampler = hd.as_edge_prediction_sampler(hd.NeighborSampler([{"likes": 3, "liked": 3}]), "self", negative_sampler=hd.Uniform(2))
        pairs = g.edges["likes"].data["test_mask"].pairs()[:, :200]
        with hd.DistEdgeDataLoader(g, {"likes": pairs}, sampler, batch_size=200, as_pyg=True) as loader:
            (data,) = loader
        assert data["item"].dst_neg_index.shape == (200, 2)
        assert torch.equal(data["user"].n_id[data["user"].src_index], pairs[0]) and torch.equal(data["item"].n_id[data["item"].dst_pos_index], pairs[1])

    def test_a_state_goes_on_and_ranks_draw_differently(self, two: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
        hd.initialize(**two.places()["alone"])
        g = hd.DistGraph()
        nids, sampler = g.ndata["train_mask"].ids(), hd.NeighborSampler([3])

        def digests(**options: Any) -> list[int]:
            with hd.DistNodeDataLoader(g, nids, sampler, batch_size=100, shuffle=True, num_workers=0, **options) as loader:
                return [batch.batch.digest() for batch in loader]

        with hd.DistNodeDataLoader(g, nids, sampler, batch_size=100, shuffle=True) as loader:
            batches = iter(loader)
            begun = [next(batches).batch.digest() for _ in range(2)]
            state = loader.state_dict()
        with hd.DistNodeDataLoader(g, nids, sampler, batch_size=100, shuffle=True, num_workers=0) as loader:
            loader.load_state_dict(state)
            assert begun + [batch.batch.digest() for batch in loader] == digests()
        alone = digests() + digests(seed=1)
        monkeypatch.setenv("RANK", "1")
        monkeypatch.setenv("WORLD_SIZE", "2")
        assert not set(digests()) & set(alone)
        seeds = [hd.seed_of_rank(seed, rank) for seed in range(20) for rank in range(20)]
        assert len(set(seeds)) == 400 and seeds[::20] == list(range(20)) and seeds[1] == 9034587163810503764
        assert len(digests(distributed=True, use_ddp=False)) == 3  # all ranks have the same seeds, and share the epoch

    def test_ranks_that_differ_are_told(self, small: Path, two: Machines) -> None:
        """Whoever comes second is told at once, the other one with its next epoch."""
        text = """
import hopfeed.distributed as hd
def lines(folder, **options):
    hd.initialize(data=folder, num_workers=0)
    g = hd.DistGraph()
    seeds, found = hd.node_split(g.ndata["train_mask"]), []
    with hd.DistNodeDataLoader(g, seeds, hd.NeighborSampler([2]), **(dict(batch_size=50, shuffle=True) | options)) as loader:
        for _ in range(2):
            try:
                found.append(len(list(loader)))
            except hopfeed.InvalidError as error:
                found.append(str(error))
            dist.barrier()
    return found
small, cut = arguments
result = [lines(cut), lines(cut, batch_size=50 + rank), lines([small, cut][rank]), lines(cut, shuffle=False, batch_size=50 + rank)]
"""
        ranks = run_ranks(text, environment_of_python(), small, two.whole)
        for same, size, cut, evaluation in ranks:
            assert same == evaluation == [5, 5]
            for told, named in ((size, "batch_size is 5"), (cut, "the cut is ")):
                assert named in told[1] and "\n" not in told[1] and told[1].count(" at rank 0") == told[1].count(" at rank 1") == 1
        assert [ranks[0][i][1] for i in (1, 2)] == [ranks[1][i][1] for i in (1, 2)]

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda g: hd.DistNodeDataLoader(3, [1], hd.NeighborSampler([2])), "g is 3; give a hopfeed.distributed.DistGraph"),
            (lambda g: hd.DistNodeDataLoader(g, [1], [2, 3]), r"sampler is \[2, 3\]; give a NeighborSampler"),
            (lambda g: hd.DistNodeDataLoader(g, [1], hd.NeighborSampler([2]), "cuda"), r"block.to\(device\)"),
            (lambda g: hd.DistNodeDataLoader(g, {"a": [1], "b": [2]}, hd.NeighborSampler([2])), "2 node types are given to one loader"),
            (lambda g: hd.DistNodeDataLoader(g, [1], hd.as_edge_prediction_sampler(hd.NeighborSampler([2]))), "give it to DistEdgeDataLoader"),
            (lambda g: hd.DistNodeDataLoader(g, [1], hd.NeighborSampler([])), r"fanouts is \[\], and there is a block for each hop; give a number"),
            (lambda g: hd.DistEdgeDataLoader(g, [1, 2], hd.NeighborSampler([2])), r"eids is int64 \[2\]; give pairs of nodes"),
            (lambda g: hd.DistEdgeDataLoader(g, [[1], [2]], hd.NeighborSampler([2]), negative_sampler=5), "negative_sampler is 5"),
            (lambda g: hd.DistEdgeDataLoader(g, [[1], [2]], hd.NeighborSampler([2]), exclude=[7]), "exclude is"),
            *[(lambda g, name=name: hd.DistNodeDataLoader(g, [1], hd.NeighborSampler([2]), **{name: 1}), f"{name} is DGL's") for name in OF_LOADERS],
            (lambda g: hd.NeighborSampler([2], edge_dir="out"), "edge_dir is 'out'"),
            (lambda g: hd.NeighborSampler([2], mask="m"), "give prob="),
            (lambda g: hd.NeighborSampler([2, {"to": 3}]), "a number for each hop, or a dict for each"),
            (lambda g: hd.NeighborSampler([2.5]), "fanouts is"),
        ],
    )
    def test_what_cannot_be_is_one_line(self, small: Path, make: Any, message: str) -> None:
        hd.initialize(data=small)
        with pytest.raises(hopfeed.Error, match=message) as raised:
            make(hd.DistGraph())
        assert "\n" not in str(raised.value)


class TestState:
    @pytest.mark.parametrize("place", ["alone", "second", "servers"])
    def test_rows_are_written_and_read_by_original_id(self, two: Machines, place: str) -> None:
        hd.initialize(**two.places()[place])
        table = hd.DistTensor((2000, 3), torch.float32, f"of-{place}")
        ids = torch.randperm(2000)
        rows = torch.randn(2000, 3)
        table[ids] = rows
        assert torch.equal(table[ids], rows) and torch.equal(table[ids[[7, 7]]], rows[[7, 7]])
        own = hopfeed.Dataset(two.whole)._new_ids("node")[ids[:5].numpy()]
        assert torch.equal(torch.from_numpy(table.table[own]), rows[:5])
        counts = hd.DistTensor((2000,), "int64", f"counts-{place}")
        counts.add([4, 4, 9], [1, 1, 5])
        assert counts[[4, 9, 0]].tolist() == [2, 5, 0] and counts.shape == (2000,) and len(counts) == 2000

    def test_one_table_of_ids_serves_all(self, two: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
        hd.initialize(**two.places()["servers"])
        one, other = (hd.DistTensor((2000, 1), "int64", name) for name in ("one", "other"))
        hd.DistGraph("generated").get_partition_book().partid2nids(0)
        monkeypatch.setattr(Nodes, "_asked_dataset_ids", None)  # nobody asks the servers again
        assert one[[3]].tolist() == other[[1999]].tolist() == [[0]]

    @pytest.mark.parametrize(("place", "optimizer"), [("alone", "SparseAdam"), ("first", "SparseAdagrad"), ("servers", "SparseAdam"), ("servers", "SparseSGD")])
    def test_rows_learn_what_torch_learns(self, two: Machines, place: str, optimizer: str) -> None:
        hd.initialize(**two.places()[place])
        emb = hd.DistEmbedding(2000, 4, f"{optimizer}-{place}", seed=3)
        rows = getattr(hd.optim, optimizer)([emb], lr=0.05)
        everything, target = torch.arange(2000), torch.linspace(-1, 1, 8000).view(2000, 4)
        plain = torch.nn.Embedding.from_pretrained(emb.weight[everything].clone(), freeze=False, sparse=True)
        make = {"SparseAdam": torch.optim.SparseAdam, "SparseAdagrad": torch.optim.Adagrad, "SparseSGD": torch.optim.SGD}[optimizer]
        other = make(list(plain.parameters()), lr=0.05)
        for step in range(3):
            ids = torch.randint(0, 2000, (300,), generator=torch.Generator().manual_seed(step))  # some twice
            for table, learner in ((emb, rows), (plain, other)):
                loss = ((table(ids) - target[ids]) ** 2).sum()
                learner.zero_grad()
                loss.backward()
                learner.step()
        assert torch.allclose(emb.weight[everything], plain.weight, atol=1e-5) and torch.equal(emb.weight[:], emb.weight[everything])
        assert emb.weight.shape == (2000, 4) and len(emb.weight) == 2000 and not emb.weight[[3]].requires_grad
        emb.eval()
        assert not emb.rows(torch.tensor([1])).requires_grad and emb.rows.next_step == 3

    def test_dataset_ids_are_taken_as_they_are(self, two: Machines) -> None:
        hd.initialize(**two.places()["servers"])
        one, other = hd.DistEmbedding(2000, 4, "original"), hd.DistEmbedding(2000, 4, "own", dataset_ids=True)
        hd.optim.SparseAdam([one, other], lr=0.1)
        g = hd.DistGraph()
        arguments = dict(batch_size=100, seed=1, shuffle=True)
        with (
            hd.DistNodeDataLoader(g, range(200), hd.NeighborSampler([3]), **arguments) as original,
            hd.DistNodeDataLoader(g, range(200), hd.NeighborSampler([3]), dataset_ids=True, **arguments) as own,
        ):
            for (these, *_), (same, _, blocks) in zip(original, own):
                those = blocks[0].srcdata["dataset_id"]
                assert torch.equal(these, same) and not torch.equal(these, those) and torch.equal(one.weight[these], other.weight[those])

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: hd.DistTensor((2000, 3), "float32"), "name of DistTensor is missing"),
            (lambda: hd.DistTensor((1999, 3), "float32", "t"), r"no node type has 1999 nodes \(node has 2000\)"),
            (lambda: hd.DistTensor((2000, 3), "float64", "t"), "dtype is 'float64'"),
            (lambda: hd.DistTensor(2000, "float32", "t"), "shape is 2000"),
            (lambda: hd.DistTensor((2000, 3), "float32", "t", torch.zeros), "init_func of DistTensor is given"),
            (lambda: hd.DistEmbedding(2000, 3, "e", part_policy=3), "give ntype= in its place"),
            (lambda: hd.DistEmbedding(2000, 3), "name of DistEmbedding is missing"),
            (lambda: hd.DistEmbedding(2000, 3, "e")([1]), "has no optimizer"),
            (lambda: hd.optim.SparseAdam([torch.zeros(3)], 0.1), "give DistEmbeddings"),
        ],
    )
    def test_what_cannot_be_is_one_line(self, two: Machines, make: Any, message: str) -> None:
        hd.initialize(**two.places()["alone"])
        with pytest.raises(hopfeed.Error, match=message) as raised:
            make()
        assert "\n" not in str(raised.value)

    def test_a_run_that_was_begun_again_waits_for_the_end_of_the_one_before(self, two: Machines) -> None:
        before = hopfeed.state.connect(two.addresses)
        hopfeed.torch.DistEmbedding(before, "again", "node", 3, run=77)
        hd.initialize(**two.places()["servers"])
        with pytest.raises(hopfeed.BusyError, match="is learned by another run"):
            hd.optim.SparseAdam([hd.DistEmbedding(2000, 3, "again")], lr=0.001)
        hd.initialize(**two.places()["servers"], restart=1)
        timer = threading.Timer(1, before.close)
        timer.start()
        emb = hd.DistEmbedding(2000, 3, "again")
        hd.optim.SparseAdam([emb], lr=0.001)
        timer.join()
        assert emb.weight[[5]].shape == (1, 3)

    def test_an_embedding_has_one_optimizer(self, two: Machines) -> None:
        hd.initialize(**two.places()["alone"])
        emb = hd.DistEmbedding(2000, 3, "of-two")
        hd.optim.SparseAdagrad([emb], lr=0.1)
        with pytest.raises(hopfeed.InvalidError, match="is learned by adagrad already"):
            hd.optim.SparseAdam([emb], lr=0.1)


class TestRefused:
    def test_calls_without_a_counterpart_say_what_to_use(self, small: Path) -> None:
        hd.initialize(data=small)
        g = hd.DistGraph()
        for owner, table, name in ((hd, OF_PACKAGE, "hopfeed.distributed"), (g, OF_GRAPH, "DistGraph"), (g.get_partition_book(), OF_BOOK, "PartitionBook")):
            for call, instead in table.items():
                with pytest.raises(hopfeed.UnsupportedError) as raised:
                    getattr(owner, call)
                assert str(raised.value) == f"{name}.{call} is DGL's, and hopfeed has none: {instead}"
            with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
                owner.nothing
        for call in (g.nodes, g.edges):
            with pytest.raises(hopfeed.UnsupportedError, match=r"DistGraph.(nodes|edges)\(\) is DGL's"):
                call(etype="to")
        with pytest.raises(hopfeed.UnsupportedError, match="sample_neighbors is DGL's"):
            from hopfeed.distributed import sample_neighbors  # noqa: F401

    def test_no_name_that_is_there_is_in_a_table(self) -> None:
        for table, there in ((OF_PACKAGE, hd.__all__), (OF_GRAPH, dir(hd.DistGraph)), (OF_BOOK, dir(hd.PartitionBook))):
            assert not set(table) & set(there)
        assert all(name in vars(hd) for name in hd.__all__)
