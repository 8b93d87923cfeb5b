"""Torch's samplers as arguments: who gets which seeds, in what order, in which epoch."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch.utils.data import BatchSampler, DistributedSampler, RandomSampler, SequentialSampler, SubsetRandomSampler  # noqa: E402
from torch_geometric.data import Data  # noqa: E402

import hopfeed  # noqa: E402
from hopfeed.pyg import NeighborLoader  # noqa: E402


@pytest.fixture(scope="module")
def data() -> Data:
    """500 nodes, 4,000 edges."""
    generator = torch.Generator().manual_seed(1)
    return Data(x=torch.randn(500, 4, generator=generator), edge_index=torch.randint(0, 500, (2, 4000), generator=generator))


def test_samplers_of_torch_say_who_gets_which_seeds_in_what_order(data: Data) -> None:
    arguments: dict[str, Any] = dict(num_neighbors=[3], input_nodes=torch.arange(99), batch_size=10)

    def seeds(loader: NeighborLoader) -> list[int]:
        return [int(seed) for batch in loader for seed in batch.input_id]

    with NeighborLoader(data, sampler=SequentialSampler(range(99)), **arguments) as loader:
        assert seeds(loader) == list(range(99))
    with NeighborLoader(data, shuffle=True, **arguments) as loader:
        shuffled = [seeds(loader) for _ in range(3)]
    with NeighborLoader(data, sampler=RandomSampler(range(99)), **arguments) as loader:
        assert [seeds(loader), seeds(loader)] == shuffled[:2]
    with NeighborLoader(data, batch_sampler=BatchSampler(RandomSampler(range(99)), 20, True), **(arguments | {"batch_size": 1})) as loader:
        assert len(loader) == 4 and seeds(loader) == shuffled[0][:80]
    ranks = [DistributedSampler(range(99), 2, rank) for rank in range(2)]
    for epoch in (0, 2, 1):
        parts = []
        for sampler in ranks:
            sampler.set_epoch(epoch)
            with NeighborLoader(data, sampler=sampler, **arguments) as loader:
                parts.append(seeds(loader))
        assert sorted(parts[0] + parts[1]) == list(range(99)) and parts[0][:10] == shuffled[epoch][:10]
    with NeighborLoader(data, sampler=DistributedSampler(range(99), 2, 1, shuffle=False), **arguments) as loader:
        assert seeds(loader)[:10] == list(range(10, 20))


def test_the_epoch_of_a_distributed_sampler_is_the_loaders(data: Data) -> None:
    sampler = DistributedSampler(range(500), 1, 0)
    with NeighborLoader(data, [3], batch_size=50, shuffle=True) as loader:
        epochs = [[batch.n_id.tolist() for batch in loader] for _ in range(4)]
    with NeighborLoader(data, [3], batch_size=50, sampler=sampler) as loader:
        sampler.set_epoch(2)
        batches = iter(loader)
        assert loader.epoch == 2
        sampler.set_epoch(1)  # before the first batch, as torch reads it
        got = [next(batches).n_id.tolist() for _ in range(3)]
        state = loader.state_dict()
        assert got == epochs[1][:3] and (state["epoch"], state["position"]) == (1, 150)
        sampler.set_epoch(3)
        assert [batch.n_id.tolist() for batch in loader] == epochs[3]
        with pytest.warns(UserWarning, match="the sampler's epoch is still 3"):
            assert [batch.n_id.tolist() for batch in loader] == epochs[3]
        loader.load_state_dict(state)
        assert sampler.epoch == 1
        assert [batch.n_id.tolist() for batch in loader] == epochs[1][3:]


def test_samplers_that_say_otherwise_than_the_arguments_are_refused(data: Data) -> None:
    for arguments, message in (
        ({"sampler": DistributedSampler(range(500), 2, 1), "rank": 0, "world_size": 2}, "sampler is of rank 1 of 2, and the loader of rank 0 of 2"),
        ({"sampler": DistributedSampler(range(400), 2, 1)}, "sampler is of 400 positions, and there are 500 seeds"),
        ({"sampler": SequentialSampler(range(400))}, "sampler is of 400 positions"),
        ({"sampler": RandomSampler(range(500), generator=torch.Generator())}, "generator.* seed="),
        ({"sampler": RandomSampler(range(500), num_samples=20)}, "sampler is RandomSampler"),
        ({"sampler": SubsetRandomSampler(range(500))}, "sampler is SubsetRandomSampler"),
        ({"sampler": SequentialSampler(range(500)), "shuffle": True}, "sampler and shuffle=True"),
        ({"batch_sampler": BatchSampler(SubsetRandomSampler(range(500)), 5, False)}, "SubsetRandomSampler"),
        ({"batch_sampler": [[1]]}, "batch_sampler is a list"),
    ):
        with pytest.raises(hopfeed.Error, match=message):
            NeighborLoader(data, [2], **arguments)
    with NeighborLoader(data, [2], sampler=DistributedSampler(range(500), 2, 1), rank=1, world_size=2) as loader:
        assert len(loader) == 250
