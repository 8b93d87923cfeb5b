"""Batches as torch tensors: views, threads of autograd, DataLoader, element types."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import hopfeed  # noqa: E402
import hopfeed.torch  # noqa: E402

ARGUMENTS = dict(fanouts=[4, 3], batch_size=50, seed=2)


def test_tensors_are_views_of_the_slot(small: Path) -> None:
    with hopfeed.torch.Loader(small, num_workers=1, **ARGUMENTS) as loader, hopfeed.Loader(
        small, num_workers=0, **ARGUMENTS
    ) as arrays:
        for batch, other in zip(loader, arrays):
            assert batch.digest() == other.digest()
            assert batch.x.dtype == torch.float32 and batch.edge_index.dtype == torch.int64
            assert (batch.x.numpy() == other.x).all() and (batch.edge_index.numpy() == other.edge_index).all()
            batch.x[0, 0] = 42
            assert batch["node"].x[0, 0] == 42  # one memory, no copy


def test_gradients_flow_and_a_tensor_that_autograd_drops_frees_its_slot(small: Path) -> None:
    weight = torch.ones(8, 1, requires_grad=True)
    with hopfeed.torch.Loader(small, num_workers=1, num_slots=4, **ARGUMENTS) as loader:
        for _ in range(4):
            for batch in loader:
                assert not batch.is_copy
                (batch.x @ weight).sum().backward()
    assert weight.grad is not None and weight.grad.abs().sum() > 0


@pytest.mark.parametrize("workers", [0, 1])
def test_a_data_loader_takes_it_as_an_iterable_dataset(small: Path, workers: int) -> None:
    with hopfeed.torch.Loader(small, num_workers=workers, **ARGUMENTS) as loader:
        expected = [batch.digest() for batch in loader]
    with hopfeed.torch.Loader(small, num_workers=workers, **ARGUMENTS) as loader:
        data_loader = torch.utils.data.DataLoader(loader, batch_size=None)
        assert [batch.digest() for batch in data_loader] == expected
        assert len(data_loader) == len(loader)
        with pytest.raises(Exception, match="num_workers=0"):
            list(torch.utils.data.DataLoader(loader, batch_size=None, num_workers=1, timeout=30))


def test_element_types_come_as_they_are(small: Path, tmp_path: Path) -> None:
    from conftest import partition

    values = np.linspace(-2, 2, 2000 * 6, dtype=np.float32).reshape(2000, 6)
    np.save(tmp_path / "x.npy", values)
    np.save(tmp_path / "edges.npy", np.random.default_rng(0).integers(0, 2000, (2, 9000)))
    np.save(tmp_path / "flag.npy", values[:, 0] > 0)
    np.save(tmp_path / "small.npy", np.arange(2000, dtype=np.int16))
    partition(
        "import", "numpy", tmp_path / "plain", "--edge-index", tmp_path / "edges.npy", "--features", tmp_path / "x.npy",
        "--node-attr", f"flag={tmp_path}/flag.npy", "--node-attr", f"small={tmp_path}/small.npy",
    )
    seeds = np.arange(2000)
    for name, dtype, error in (("bfloat16", torch.bfloat16, 2**-7), ("float16", torch.float16, 2**-10), ("int8", torch.float32, 2 / 127)):
        partition("convert", tmp_path / "plain", tmp_path / name, "--attr", f"x={name}")
        with hopfeed.torch.Loader(tmp_path / name, fanouts=[2], seeds=seeds, batch_size=500, num_workers=0) as loader:
            for batch in loader:
                assert batch.x.dtype == dtype and batch.flag.dtype == torch.bool and batch.small.dtype == torch.int16
                assert np.abs(batch.x.float().numpy() - values[batch.n_id]).max() <= error
                assert (batch.small == batch.n_id).all()


def test_blocks_are_prefixes(small: Path) -> None:
    with hopfeed.torch.Loader(small, num_workers=0, edge_ids=True, **ARGUMENTS) as loader:
        batch = next(iter(loader))
        outer, inner = batch.to_blocks()
        edge = ("node", "to", "node")
        assert outer.num_dst["node"] == len(inner.src_ids["node"]) and inner.num_dst["node"] == 50
        assert outer.edges[edge].shape[1] == batch.edge_index.shape[1] > inner.edges[edge].shape[1]
        assert outer.src_ids["node"].data_ptr() == batch.n_id.data_ptr()
        assert len(outer.edge_ids[edge]) == outer.edges[edge].shape[1]
    for other, why in (({"subgraph": "induced"}, "not told hop by hop"), ({"fanouts": []}, "the batch has no hops")):
        with hopfeed.torch.Loader(small, num_workers=0, **(ARGUMENTS | other)) as loader:
            with pytest.raises(hopfeed.InvalidError, match=why):
                next(iter(loader)).to_blocks()
