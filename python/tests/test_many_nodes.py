"""More than 2^33 nodes: ids are int64 in batches, and the dataset finds what belongs to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hopfeed

pytest.importorskip("xxhash", reason="xxhash, which seals the dataset's meta.json, is not installed")

from conftest import partition  # noqa: E402
from sparse_dataset import NODES, PARTS, Sparse  # noqa: E402

BEYOND = 1 << 33
ARGUMENTS = dict(fanouts=[4, 3], batch_size=10, seed=7, edge_ids=True)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Sparse:
    folder = tmp_path_factory.mktemp("many")
    partition("generate", folder / "small", "--nodes", 60, "--edges", 400, "--features", 4, "--classes", 3, "--train-fraction", 0.5, "--seed", 1)
    return Sparse(folder / "many", folder / "small")


def check(many: Sparse, batch: Any) -> None:
    """Nodes, edges and rows are those of the small graph."""
    n_id, e_id = np.asarray(batch.n_id), np.asarray(batch.e_id)
    assert n_id.dtype == np.int64 and n_id.max() >= BEYOND
    old = np.searchsorted(many.ids, n_id)
    assert (many.ids[old] == n_id).all()
    assert (old[np.asarray(batch.edge_index)] == many.small.edge_index()[:, e_id]).all()
    for name in ("x", "y"):
        assert (np.asarray(getattr(batch, name)) == many.small.attr(name)[old]).all()


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_name_nodes_in_full(many: Sparse, workers: int) -> None:
    seen = list[np.ndarray]()
    with hopfeed.Loader(many.folder, num_workers=workers, **ARGUMENTS) as loader:
        for batch in loader:
            check(many, batch)
            seen.append(batch.n_id[: len(batch.input_id)].copy())
    assert sorted(np.concatenate(seen)) == sorted(hopfeed.Dataset(many.folder).split("train"))


def test_seeds_of_ones_own_are_taken_in_full(many: Sparse) -> None:
    seeds = many.ids[many.ids >= BEYOND]
    with hopfeed.Loader(many.folder, seeds=seeds, num_workers=0, shuffle=False, **ARGUMENTS) as loader:
        assert (np.concatenate([batch.n_id[: len(batch.input_id)] for batch in loader]) == seeds).all()
    with pytest.raises(hopfeed.InvalidError, match=str(NODES)):
        hopfeed.Loader(many.folder, seeds=[NODES], num_workers=0, **ARGUMENTS)


def test_the_dataset_finds_what_belongs_to_ids_beyond_32_bits(many: Sparse) -> None:
    dataset = hopfeed.Dataset(many.folder)
    assert dataset.num_nodes() == NODES and dataset.num_partitions == PARTS
    assert dataset.split("train").dtype == np.int64 and dataset.split("train").max() >= BEYOND
    assert (dataset.attr("x")[many.ids] == many.small.attr("x")[:]).all()
    assert (dataset.partition_of(many.ids) == many.new_ids // (NODES // PARTS)).all()
    assert len(set(dataset.partition_of(many.ids[many.ids >= BEYOND]))) == PARTS
    with pytest.raises(hopfeed.InvalidError, match=f"ids has {NODES}"):
        dataset.partition_of([NODES])


def test_pygs_loader_gives_them_as_torchs_int64(many: Sparse) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    from hopfeed.pyg import NeighborLoader

    loader = NeighborLoader(many.folder, [4, 3], input_nodes=hopfeed.Dataset(many.folder).split("train"), batch_size=10, num_workers=0)
    for batch in loader:
        assert batch.n_id.dtype == torch.int64
        check(many, batch)
