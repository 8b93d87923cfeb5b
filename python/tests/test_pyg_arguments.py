"""Arguments of hopfeed.pyg that hopfeed and PyG both have a word for: honoured, or one line in PyG's words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

from torch.utils.data import DistributedSampler, RandomSampler, SequentialSampler, WeightedRandomSampler  # noqa: E402
from torch_geometric.data import Data, HeteroData  # noqa: E402
from torch_geometric.loader import ImbalancedSampler  # noqa: E402
from torch_geometric.sampler import NegativeSampling  # noqa: E402

import hopfeed  # noqa: E402
from hopfeed.pyg import LinkNeighborLoader, NeighborLoader  # noqa: E402

N, E = 100, 500


@pytest.fixture(scope="module")
def data() -> Data:
    """100 nodes, 500 edges; every other node is one to train with."""
    torch.manual_seed(0)
    train = torch.arange(N) % 2 == 0
    made = Data(x=torch.rand(N, 2), y=torch.arange(N), edge_index=torch.randint(0, N, (2, E)), train_mask=train, test_mask=~train)
    made.cube, made.weight, made.when = torch.rand(N, 2, 2), torch.rand(E) + 0.1, torch.arange(E)  # hopfeed stores no cubes
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
