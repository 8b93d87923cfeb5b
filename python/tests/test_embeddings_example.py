"""The steps of examples/embeddings.sh, on a made-up apt-cache whose packages come in groups: a map, and the nearest of a package."""

from __future__ import annotations

import html
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import hopfeed
from test_tables_example import EXAMPLES, GROUPS, MEMBERS, dump, run

for needed in ("duckdb", "pyarrow", "torch", "torch_geometric", "matplotlib"):
    pytest.importorskip(needed)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the dataset, and the embeddings of a model that was trained on it."""
    from conftest import environment_of_python

    folder, environment = tmp_path_factory.mktemp("packages"), environment_of_python()
    (folder / "dump").write_text(dump())
    (folder / "bin").mkdir()
    (folder / "bin/apt-cache").write_text(f"#!/bin/sh\nexec cat {folder}/dump\n")
    (folder / "bin/apt-cache").chmod(0o755)
    for words in (
        (EXAMPLES / "debian_tables.py", folder / "tables"),
        ("-m", "hopfeed.tables", "tables", folder / "dataset", folder / "tables/description.json", "--dangling", "drop"),
        (EXAMPLES / "sage_embeddings.py", "--data", folder / "dataset", "--out", folder / "embeddings", "--epochs", 30, "--batch-size", 24, "--hidden", 16),
    ):
        done = run(environment | {"PATH": f"{folder}/bin:{environment['PATH']}"}, *words)
        assert done.returncode == 0, done.stderr
    right = re.search(r"360 embeddings of width 16; they tell the class of ([0-9.]+)% of the test nodes", done.stdout)
    assert right and float(right[1]) > 90, done.stdout
    return folder


def test_map_is_drawn_the_same_twice_and_the_nearest_are_printed(packages: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    words = [EXAMPLES / "embeddings_map.py", "--results", packages / "embeddings", "--data", packages / "dataset", "--like", "g3-p7"]
    names = [f"g{group}-p0" for group in range(GROUPS)]
    for out in ("once.svg", "again.svg"):
        done = run(environment, *words, "--out", tmp_path / out, "--names", *names, "nobody")
        assert done.returncode == 0, done.stderr
    drawn = (tmp_path / "once.svg").read_bytes()
    assert drawn == (tmp_path / "again.svg").read_bytes()
    assert ElementTree.fromstring(drawn).tag.endswith("svg")
    told = {html.unescape(text) for text in re.findall("<!-- (.*?) -->", drawn.decode())}  # each text that is drawn
    assert {"360 Debian packages by their embeddings", "s0  120", "s1  120", "s2  120", "other  0"} <= told
    named = set(re.findall(r'<g id="([^"]*)"', drawn.decode()))
    assert "g3-p7" in named and len(named & set(names)) >= 4 and "nobody" not in named
    found = re.findall(r"^  (-?[0-9.]+)  g([0-9]+)-p[0-9]+$", done.stdout, re.MULTILINE)
    assert len(found) == 10 and sorted(found, key=lambda one: -float(one[0])) == found
    assert sum(int(group) % 3 == 0 for _, group in found) >= 9, done.stdout


def test_unknown_package_is_one_line_with_close_ones(packages: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    words = [EXAMPLES / "embeddings_map.py", "--results", packages / "embeddings", "--data", packages / "dataset", "--out", tmp_path / "map.svg"]
    done = run(environment, *words, "--like", "g3-p77")
    assert done.returncode == 1 and done.stderr.startswith("--like g3-p77: there is no such package; did you mean g3-p7")
    assert done.stderr.count("\n") == 1 and not (tmp_path / "map.svg").exists()
    done = run(environment, *words, "--like", "\u00e4")
    assert (done.returncode, done.stderr) == (1, "--like \u00e4: there is no such package\n")


def test_embeddings_have_their_keys(packages: Path) -> None:
    results = hopfeed.read_results(packages / "embeddings", verify=True)
    assert results.shape == (GROUPS * MEMBERS, 16) and set(results.keys) == {f"g{group}-p{member}" for group in range(GROUPS) for member in range(MEMBERS)}
