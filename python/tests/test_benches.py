"""The benches of the package on a tiny graph: they run, and print the keys that docs/benchmarks.md names."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

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
