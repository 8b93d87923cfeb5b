"""examples/python/ray_train.py gives the losses of examples/python/ddp.py under torchrun."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch_geometric", reason="torch and torch-geometric are not in this environment; scripts/setup.sh installs them into .venv")

from hopfeed.programs import program

EXAMPLES = Path(__file__).parents[2] / "examples" / "python"
if not EXAMPLES.exists():
    EXAMPLES = Path(__file__).parents[1] / "examples" / "python"
OPTIONS = ["--epochs", "2", "--fanouts", "4", "3", "--batch-size", "50", "--num-workers", "1"]
DEADLINE = 400  # seconds


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "small"
    command = [program("hopfeed-partition"), "generate", folder, "--nodes", 2000, "--edges", 20000, "--features", 8, "--classes", 5,
               "--train-fraction", 0.25, "--seed", 1]  # fmt: skip
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    return folder


def run(*command: object, **environment: str) -> str:
    ran = subprocess.run([sys.executable, *map(str, command)], env=os.environ | environment, capture_output=True, text=True, timeout=DEADLINE)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    return ran.stdout


def test_losses_are_those_of_torchrun(small: Path, tmp_path: Path) -> None:
    told = run("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", EXAMPLES / "ddp.py", "--data", small, *OPTIONS)
    expected = re.findall(r"epoch [0-9]+: loss ([0-9.]+)", told)
    file = tmp_path / "told.json"
    run(EXAMPLES / "ray_train.py", "--data", small, *OPTIONS, "--trainers", 2, "--cpus", 1, "--out", tmp_path / "out", "--json", file, RAY_ADDRESS="local")
    assert [f"{loss:.4f}" for loss in json.loads(file.read_text())["losses"]] == expected and len(expected) == 2
