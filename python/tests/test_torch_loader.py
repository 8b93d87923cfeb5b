"""hopfeed.pyg's loaders where others take them for PyG's and for torch's."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

import torch_geometric.loader as pyg  # noqa: E402
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, SequentialSampler  # noqa: E402
from torch_geometric.data import Data, HeteroData  # noqa: E402
from torch_geometric.nn import GraphSAGE  # noqa: E402

import hopfeed  # noqa: E402
from hopfeed.pyg import LinkNeighborLoader, NeighborLoader  # noqa: E402


@pytest.fixture(scope="module")
def data() -> Data:
    torch.manual_seed(0)
    return Data(
        x=torch.randn(300, 6), y=torch.randint(0, 3, (300,)), edge_index=torch.randint(0, 300, (2, 2000)), train_mask=torch.rand(300) < 0.5
    )


def check(batch: Data, data: Data) -> None:
    assert torch.equal(batch.x, data.x[batch.n_id])
    assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])


def test_loaders_are_instances_of_those_that_they_stand_in_for(data: Data) -> None:
    nodes, links = NeighborLoader(data, [3], batch_size=32, shuffle=True, num_workers=1), LinkNeighborLoader(data, [3])
    assert isinstance(nodes, (pyg.NeighborLoader,)) and isinstance(nodes, pyg.NodeLoader)
    assert isinstance(links, pyg.LinkNeighborLoader) and isinstance(links, pyg.LinkLoader)
    for loader in (nodes, links):
        assert isinstance(loader, DataLoader) and isinstance(loader, IterableDataset)
        assert callable(loader.collate_fn) and callable(loader.filter_fn) and loader.worker_init_fn is None
    assert nodes.batch_size == 32 and nodes.num_workers == 1 and not nodes.drop_last and isinstance(nodes.sampler, RandomSampler)
    assert isinstance(links.sampler, SequentialSampler) and links.batch_size == 1


def test_what_pyg_reads_of_its_loaders_is_there(data: Data) -> None:
    seeds = torch.arange(40)
    loader = NeighborLoader(data, [4, 3], input_nodes=seeds, replace=True)
    assert loader.dataset == range(40) and loader.data.num_nodes == 300 and loader.input_nodes is seeds
    assert len(loader.node_sampler.num_neighbors) == 2 and list(loader.node_sampler.num_neighbors.values) == [4, 3]
    assert loader.node_sampler.replace and loader.node_sampler.edge_permutation is None
    links = LinkNeighborLoader(data, [2], neg_sampling="binary")
    assert len(links.dataset) == 2000 and len(links.link_sampler.num_neighbors) == 1 and links.neg_sampling.is_binary()
    masked = NeighborLoader(data, [2], input_nodes=data.train_mask)
    assert len(masked.dataset) == int(data.train_mask.sum()) and masked.num_neighbors == [2]
    with pytest.raises(hopfeed.UnsupportedError, match="call loader"):
        loader.node_sampler.sample_from_nodes(None)


def test_a_loader_ends_with_its_last_reference_though_it_is_torchs_too(data: Data) -> None:
    import gc
    import weakref

    gc.disable()
    try:
        loader = NeighborLoader(data, [2], batch_size=100)
        gone = weakref.ref(loader)
        del loader
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_torch_loader_of_dataset_and_collate_fn_gives_right_batches(data: Data, workers: int) -> None:
    loader = NeighborLoader(data, [2], input_nodes=torch.arange(100, 250), batch_size=50, num_workers=1)
    rebuilt = DataLoader(loader.dataset, batch_size=50, collate_fn=loader.collate_fn, shuffle=True, num_workers=workers, timeout=60 * bool(workers))
    drawn = []
    for _ in range(2):
        batches = list(rebuilt)
        assert torch.equal(torch.cat([batch.n_id[:50] for batch in batches]).sort().values, torch.arange(100, 250))
        for batch in batches:
            check(batch, data)
        drawn.append(torch.cat([batch.e_id for batch in batches]).sort().values)
    assert not torch.equal(*drawn)  # each epoch draws anew, whoever starts the workers


def test_a_call_in_each_worker_of_torchs_draws_otherwise(data: Data) -> None:
    loader = NeighborLoader(data, [1] * 3, batch_size=4)
    twice = DataLoader([5, 6, 7, 8] * 2, batch_size=4, collate_fn=loader.collate_fn, num_workers=2, timeout=60)
    first, second = twice
    assert torch.equal(first.n_id[:4], second.n_id[:4]) and not torch.equal(first.n_id, second.n_id)


def test_zip_loaders_take_the_same_positions_of_each(data: Data) -> None:
    loaders = [NeighborLoader(data, [2], input_nodes=torch.arange(0, 50)), LinkNeighborLoader(data, [2], edge_label_index=data.edge_index[:, :45])]
    for filter_per_worker in (True, False, None):
        zipped = pyg.ZipLoader(loaders, filter_per_worker=filter_per_worker, batch_size=10)
        assert len(zipped) == 5
        for number, (nodes, links) in enumerate(zipped):
            want = torch.arange(number * 10, min(number * 10 + 10, 45))
            assert torch.equal(nodes.n_id[: len(want)], want) and torch.equal(links.input_id, want)
            check(nodes, data)
            check(links, data)


def test_cached_and_prefetching_loaders_go_around_it(data: Data) -> None:
    for around in (pyg.CachedLoader, pyg.PrefetchLoader):
        loader = around(NeighborLoader(data, [2], batch_size=100))
        assert len(loader) == 3
        for _ in range(2):
            seen = list(loader)
            for batch in seen:
                check(batch, data)
            assert sum(batch.batch_size for batch in seen) == 300


@pytest.mark.parametrize("cache", [False, True])
def test_layer_wise_inference_of_pygs_models_is_the_full_graphs(data: Data, cache: bool) -> None:
    model = GraphSAGE(6, 8, num_layers=2, out_channels=3).eval()
    with torch.no_grad():
        expected = model(data.x, data.edge_index)
    loader = NeighborLoader(data, [-1], batch_size=64, num_workers=1)
    assert torch.allclose(model.inference(loader, cache=cache), expected, atol=1e-5)


def test_an_inference_as_pygs_reddit_example_has_it(data: Data) -> None:
    loader = NeighborLoader(copy.copy(data), [-1], batch_size=64, shuffle=False, persistent_workers=True, num_workers=1)
    del loader.data.x, loader.data.y
    loader.data.num_nodes = data.num_nodes
    loader.data.n_id = torch.arange(data.num_nodes)
    seen = 0
    for batch in loader:
        assert "x" not in batch and torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
        seen += batch.batch_size
    assert seen == len(loader.dataset)


def test_what_cannot_be_done_names_the_way(data: Data) -> None:
    loader = NeighborLoader(data, [2], num_workers=1)
    for call, message in (
        (lambda: copy.deepcopy(loader), "make another .* same arguments"),
        (lambda: copy.copy(loader), "make another .* same arguments"),
        (lambda: loader.enable_multithreading(), "num_workers="),
        (lambda: loader.enable_cpu_affinity(), "cores="),
        (lambda: loader.enable_memory_log(), "worker_pids"),
        (lambda: NeighborLoader(data, fanout=[3]), "fanout is not .*num_neighbors=\\[3\\]"),
        (lambda: LinkNeighborLoader(data, fanouts=[3]), "fanouts is not .*num_neighbors=\\[3\\]"),
        (lambda: NeighborLoader(data), "num_neighbors is missing"),
    ):
        with pytest.raises(hopfeed.Error, match=message):
            call()


def test_what_would_be_set_without_effect_is_refused(data: Data) -> None:
    loader = NeighborLoader(data, [2], batch_size=100)
    for name, value in (("num_neighbors", [3]), ("input_nodes", torch.arange(3)), ("num_workers", 2), ("data", data), ("seed", 1), ("node_sampler", None)):
        with pytest.raises(hopfeed.InvalidError, match=f"{name} cannot be set: .*make another loader"):
            setattr(loader, name, value)
    with pytest.raises(hopfeed.InvalidError, match="num_neighbors cannot be set"):
        loader.node_sampler.num_neighbors = [3]
    loader.transform, loader.filter_per_worker = (lambda batch: batch.n_id), False
    assert all(torch.is_tensor(n_id) for n_id in loader)


def test_a_loader_of_ones_own_class_may_have_attributes(data: Data) -> None:
    class Named(NeighborLoader):
        def __init__(self, name: str) -> None:
            super().__init__(data, [2], batch_size=100)
            self.name = name

    loader = Named("mine")
    loader.name += "!"
    assert loader.name == "mine!" and repr(loader) == "Named()" and len(list(loader)) == 3


def test_a_folder_and_typed_graphs_are_torchs_loaders_too(small: Path) -> None:
    loader = NeighborLoader(small, [2], input_nodes=torch.arange(90), batch_size=30)
    assert [batch.batch_size for batch in DataLoader(loader.dataset, batch_size=45, collate_fn=loader.collate_fn)] == [45, 45]
    typed = HeteroData()
    typed["a"].x, typed["b"].x = torch.rand(20, 2), torch.rand(30, 2)
    typed["a", "to", "b"].edge_index = torch.stack([torch.arange(20), torch.arange(20)])
    loader = NeighborLoader(typed, {("a", "to", "b"): [2]}, input_nodes="b")
    assert len(loader.dataset) == 30 and len(loader.node_sampler.num_neighbors) == 1
    assert loader.collate_fn([3, 4])["b"].n_id.tolist() == [3, 4]
