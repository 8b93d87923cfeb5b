"""The steps of examples/tables.sh, on a made-up apt-cache whose packages come in groups."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hopfeed

for needed in ("duckdb", "pyarrow", "torch", "torch_geometric"):
    pytest.importorskip(needed)

EXAMPLES = Path(__file__).parents[2] / "examples" / "python"
DEADLINE = 300  # seconds; importing torch and PyG takes some where the machine is busy
GROUPS, MEMBERS = 12, 30


def dump() -> str:
    """A record for each package; one of them twice, one relation to a package that nobody has."""
    draw, blocks = np.random.default_rng(1), list[str]()
    for group in range(GROUPS):
        for member in range(MEMBERS):
            others = [f"g{group}-p{other}" for other in draw.choice(MEMBERS, 6, replace=False) if other != member]
            relations = f"Depends: {others[0]} (>= 1:2), {others[1]} | {others[2]}:any\nSuggests: {', '.join(others[3:])}, nobody\n"
            blocks.append(
                f"Package: g{group}-p{member}\nVersion: 1-{member}\nSection: contrib/s{group % 3}\nInstalled-Size: 12\nSize: 3000\n"
                f"{relations}Description: word{group} thing{member}\n longer text: of\n several lines\n"
            )
    return "\n".join([*blocks, blocks[0].replace("word0", "another")])


def run(environment: dict[str, str], *words: object) -> subprocess.CompletedProcess[str]:
    environment = environment | {"OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, *map(str, words)], env=environment, capture_output=True, text=True, timeout=DEADLINE)


def test_packages_become_tables_a_dataset_and_neighbours(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "dump").write_text(dump())
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/apt-cache").write_text(f"#!/bin/sh\nexec cat {tmp_path}/dump\n")
    (tmp_path / "bin/apt-cache").chmod(0o755)
    made = run(environment | {"PATH": f"{tmp_path}/bin:{environment['PATH']}"}, EXAMPLES / "debian_tables.py", tmp_path / "tables")
    assert made.returncode == 0, made.stderr
    assert f"{GROUPS * MEMBERS} packages" in made.stdout
    imported = run(environment, "-m", "hopfeed.tables", "tables", tmp_path / "dataset", tmp_path / "tables/description.json", "--dangling", "drop")
    assert imported.returncode == 0, imported.stderr
    dataset = hopfeed.Dataset(tmp_path / "dataset")
    assert dataset.num_nodes() == GROUPS * MEMBERS == len(set(dataset.keys()))
    sources, targets = (dataset.keys()[ids] for ids in dataset.edge_index())
    assert len(sources) > 3 * GROUPS * MEMBERS and [one.split("-")[0] for one in sources] == [one.split("-")[0] for one in targets]

    near = run(environment, EXAMPLES / "nearest.py", "--data", tmp_path / "dataset", "--near", "g3-p7", "--epochs", 3, "--hidden", 32)
    assert near.returncode == 0, near.stderr
    found = re.findall(r"^  (-?[0-9.]+)  g([0-9]+)-p[0-9]+$", near.stdout, re.MULTILINE)
    assert len(found) == 10 and sorted(found, key=lambda one: -float(one[0])) == found
    assert sum(group == "3" for _, group in found) >= 8, near.stdout

    refused = run(environment, EXAMPLES / "nearest.py", "--data", tmp_path / "dataset", "--near", "vimm")
    assert refused.returncode != 0 and refused.stderr == "--near vimm: no node of 'package' has the key 'vimm'\n"
