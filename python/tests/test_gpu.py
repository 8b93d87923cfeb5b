"""Batches that a GPU reads, on a card: skipped where there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

from hopfeed.pyg import NeighborLoader  # noqa: E402
from hopfeed.torch import Loader  # noqa: E402

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU that torch can use")

PLACES: dict[str, dict[str, Any]] = {
    "pinned": {"pin_slots": True},
    "made by the trainer": {"graph_mode": "cuda", "device_batches": True, "num_workers": 0},
    "made by workers, uva": {"graph_mode": "uva", "device_batches": True},
    "made by workers, cuda": {"graph_mode": "cuda", "device_batches": True, "num_workers": 2},
}


def busy() -> None:
    """The current stream has nothing else to do for some milliseconds."""
    torch.cuda._sleep(10_000_000)


@pytest.mark.parametrize("place", PLACES)
def test_pyg_batches_that_the_stream_still_reads_are_not_written_again(small: Path, place: str) -> None:
    options = {"num_neighbors": [5, 4], "batch_size": 32, "shuffle": True, "num_workers": 1, "num_slots": 4}
    with NeighborLoader(small, **options) as loader:
        wanted = [(batch.x.clone(), batch.edge_index.clone()) for _ in range(2) for batch in loader]
    got = []
    with NeighborLoader(small, **{**options, **PLACES[place]}) as loader:
        for _ in range(2):
            for batch in loader:
                busy()
                moved = batch.to("cuda", non_blocking=True)
                got.append((moved.x.clone(), moved.edge_index.clone()))
                del batch, moved
    assert len(got) == len(wanted)
    for (x, edges), (wanted_x, wanted_edges) in zip(got, wanted):
        assert torch.equal(x.cpu(), wanted_x)
        assert torch.equal(edges.cpu(), wanted_edges)


@pytest.mark.parametrize("place", PLACES)
def test_torch_batches_that_the_stream_still_reads_are_not_written_again(small: Path, place: str) -> None:
    options = {"fanouts": [5, 4], "batch_size": 32, "num_workers": 1, "num_slots": 4}
    with Loader(small, **options) as loader:
        wanted = [batch["node"]["x"].clone() for _ in range(2) for batch in loader]
    got = []
    with Loader(small, **{**options, **PLACES[place]}) as loader:
        for _ in range(2):
            for batch in loader:
                busy()
                got.append(batch["node"]["x"].to("cuda", non_blocking=True).clone())
                del batch
    assert len(got) == len(wanted)
    assert all(torch.equal(x.cpu(), wanted_x) for x, wanted_x in zip(got, wanted))


def test_repeated_seeds_have_the_cpus_rows(small: Path) -> None:
    seeds = torch.tensor([3, 3, 7, 11, 7, 3, 20, 21] * 8)
    options = {"num_neighbors": [4, 3], "input_nodes": seeds, "batch_size": 16, "num_workers": 1}
    with NeighborLoader(small, **options) as loader:
        wanted = [(batch.x.clone(), batch.edge_index.clone(), batch.n_id.clone()) for batch in loader]
    with NeighborLoader(small, **options, graph_mode="cuda", device_batches=True) as loader:
        for batch, (x, edges, ids) in zip(loader, wanted):
            assert batch.x.is_cuda
            assert torch.equal(batch.x.cpu(), x)
            assert torch.equal(batch.edge_index.cpu(), edges)
            assert torch.equal(batch.n_id.cpu(), ids)
