"""Lightning builds loaders again, with samplers of its own: what each rank is given then."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lightning")
pytest.importorskip("torch_geometric")

from lightning_ranks import SEEDS  # noqa: E402

DEADLINE = 300  # seconds; an idle machine takes a tenth
_BEGUN_BY = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")


def run_lightning(folder: Path, out: Path, environment: dict[str, str], strategy: str, what: str) -> dict[str, list[list[tuple[int, Any]]]]:
    """By step what each rank noted: (epoch, what it was given)."""
    clean = {name: value for name, value in environment.items() if name not in _BEGUN_BY}
    clean |= {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    program = Path(__file__).with_name("lightning_ranks.py")
    done = subprocess.run(
        [sys.executable, program, folder, out, strategy, what], env=clean, cwd=out, capture_output=True, text=True, timeout=DEADLINE
    )
    assert done.returncode == 0 and "same seeds" not in done.stderr, done.stderr
    noted: dict[str, list[list[tuple[int, Any]]]] = defaultdict(list)
    for file in sorted(out.glob("*.jsonl")):
        noted[file.stem.rpartition("-")[0]].append([tuple(json.loads(line)) for line in file.read_text().splitlines()])
    return noted


def seeds_of(rank: list[tuple[int, Any]], epoch: int) -> list[int]:
    return [seed for of, seeds in rank if of == epoch for seed in seeds]


@pytest.mark.parametrize("strategy", ["ddp", "ddp_spawn", "ddp_fork"])
def test_each_seed_comes_once_over_the_ranks_without_padding(
    small: Path, tmp_path: Path, environment: dict[str, str], strategy: str
) -> None:
    noted = run_lightning(small, tmp_path, environment, strategy, "fit")
    assert len(noted["train"]) == len(noted["validate"]) == 2
    orders = []
    for epoch in range(2):
        one, other = (seeds_of(rank, epoch) for rank in noted["train"])
        assert sorted(one + other) == list(range(SEEDS)) and abs(len(one) - len(other)) <= 5
        orders.append(one)
    assert orders[0] != orders[1] and orders[0] != sorted(orders[0])  # set_epoch: another shuffle
    last = [seeds_of(rank, 1) for rank in noted["validate"]]
    assert sorted(last[0] + last[1]) == list(range(SEEDS)) and last[0] == sorted(last[0])


@pytest.mark.parametrize("strategy", ["auto", "ddp"])
def test_predictions_are_of_each_seed_once_and_lightning_knows_of_which(
    small: Path, tmp_path: Path, environment: dict[str, str], strategy: str
) -> None:
    noted = run_lightning(small, tmp_path, environment, strategy, "predict")
    assert len(noted["predict"]) == (1 if strategy == "auto" else 2)
    assert sorted(seed for rank in noted["predict"] for seed in seeds_of(rank, 0)) == list(range(SEEDS))
    written = [pair for rank in noted["written"] for _, pair in rank]
    assert written and all(positions == predicted for positions, predicted in written)


@pytest.mark.parametrize("strategy", ["auto", "ddp"])
def test_overfitting_is_on_the_same_batches_in_each_epoch(
    small: Path, tmp_path: Path, environment: dict[str, str], strategy: str
) -> None:
    noted = run_lightning(small, tmp_path, environment, strategy, "overfit")
    firsts = [seeds_of(rank, 0) for rank in noted["train"]]
    assert [seeds_of(rank, 1) for rank in noted["train"]] == firsts
    assert sorted(sum(firsts, [])) == list(range(100 * len(firsts)))
