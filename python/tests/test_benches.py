"""The benches of the package on a tiny graph: they run, and print the keys that docs/benchmarks.md names."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

import hopfeed
from conftest import partition
from hopfeed.programs import program

ROOT = Path(__file__).parents[2]


def test_opening_prints_the_keys_of_the_docs(environment: dict[str, str]) -> None:
    words = [sys.executable, ROOT / "bench/python_opening.py", "--nodes", "500", "--edges", "3000", "--features", "4", "--relations", "3", "--rounds", "1"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    row = next(line for line in (ROOT / "docs/benchmarks.md").read_text().splitlines() if line.startswith("| `bench/python_opening.py` |"))
    named = set(re.findall(r"`(\w+)`", row)) - {"no_workers", "two_workers", "pyg"}
    assert set(report) - {"bench"} == named
    assert set(report["times_pyg"]) == {"no_workers", "two_workers"} and set(report["relations_seconds"]) == {"3"}
    assert {"Writing edges", "opening"} <= set(report["parts"]["no_workers"])


def row_of(command: str) -> str:
    return next(line for line in (ROOT / "docs/benchmarks.md").read_text().splitlines() if line.startswith(f"| `bench/{command}"))


def test_infer_prints_the_keys_of_the_docs(environment: dict[str, str]) -> None:
    words = [sys.executable, ROOT / "bench/python_infer.py", "--nodes", "500", "--edges", "3000", "--features", "4", "--hidden", "4", "--rounds", "1"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    named = set(re.findall(r"`(\w+)`", row_of("python_infer.py")))
    assert set(report) - {"nodes", "edges", "features"} <= named
    assert named <= set(report) | set(report["seconds"])


def why_no_inference() -> str:
    """Why bench/machines/inference.py cannot run here; empty where it can."""
    if os.geteuid() != 0:
        return "namespaces and cgroups are root's to make"
    try:
        program("node_classification")
    except hopfeed.NotFoundError:
        return "built without the training programs"
    if any(shutil.which(name) is None for name in ("ip", "taskset")) or len(os.sched_getaffinity(0)) < 2:
        return "it takes ip, taskset and two cores"
    if subprocess.run(["ip", "netns", "list"], capture_output=True, check=False).returncode != 0:
        return "there are no network namespaces here"
    return ""


@pytest.mark.skipif(bool(why_no_inference()), reason=why_no_inference() or "it can run")
def test_inference_among_kills_has_the_bytes_of_one_machine_and_the_keys_of_the_docs(environment: dict[str, str], small: Path, tmp_path: Path) -> None:
    partition("partition", small, tmp_path / "cut", "--parts", 2)
    training = [program("node_classification"), "--data", small, "--out", tmp_path / "model", "--epochs", "1", "--no-baseline", "--hidden", "8"]
    subprocess.run(training, env=environment, check=True, capture_output=True)
    told = ["--data", tmp_path / "cut", "--model", tmp_path / "model/model.pt", "--folder", tmp_path / "run", "--kills", "5", "--limit", "120"]
    bench = [sys.executable, ROOT / "bench/machines/inference.py", "kills", *told, "--bin", Path(program("node_classification")).parent]
    done = subprocess.run(bench, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert sum(report["kills"].values()) == 5 and report["different"] == report["hangs"] == report["left"] == 0
    assert {"kills", "different", "hangs", "left"} <= set(re.findall(r"`(\w+)`", row_of("machines/inference.py")))
