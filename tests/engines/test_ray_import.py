"""Imports by Ray have the files, reports and lines of one machine, also where a worker or a raylet dies."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import imports
import pytest
from ray_fixtures import Machines, _machines, machines  # noqa: F401

import hopfeed.ray
from hopfeed.errors import InvalidError


@pytest.fixture
def way(machines: Machines) -> imports.Way:  # noqa: F811
    return lambda out, description, **options: hopfeed.ray.import_tables(description, out, **options)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> imports.Large:
    return imports.large_import(tmp_path_factory.mktemp("large"))


@pytest.mark.parametrize("same", imports.GRAPHS)
def test_graphs_are_the_same(way: imports.Way, tmp_path: Path, same: Any) -> None:
    same(way, tmp_path)


@pytest.mark.parametrize("number", range(0, len(imports.REFUSED), 2))  # Spark has them all, and the checks are the same code
def test_lines_of_what_is_refused_are_the_same(way: imports.Way, tmp_path: Path, number: int) -> None:
    nodes, edges, options = imports.REFUSED[number]
    imports.compared(tmp_path, imports.described(tmp_path, nodes, edges, {}, {}), way, parts=2, rejected=True, **options)


@pytest.mark.parametrize("number", range(0, len(imports.TAKEN), 2))
def test_dirt_that_is_let_through_is_the_same(way: imports.Way, tmp_path: Path, number: int) -> None:
    nodes, edges, options = imports.TAKEN[number]
    imports.compared(tmp_path, imports.described(tmp_path, nodes, edges, {}, {}), way, parts=2, rejected=True, **options)


def test_a_raylet_that_is_lost_costs_nothing(way: imports.Way, machines: Machines, large: imports.Large, tmp_path: Path) -> None:  # noqa: F811
    lost = list[threading.Thread]()

    def lose() -> None:
        time.sleep(3)
        machines.kill_other()

    def say(line: str) -> None:
        if "writing 3 partitions" in line and "edge" in line and not lost:
            lost.append(threading.Thread(target=lose))
            lost[0].start()

    report = way(tmp_path / "out", large.description, parts=3, say=say)
    lost[0].join()
    assert report["fingerprint"] == large.fingerprint and imports.files_of(tmp_path / "out") == large.files
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_folder_that_workers_do_not_see_is_told(way: imports.Way, tmp_path: Path) -> None:
    def say(line: str) -> None:
        if "ordering keys" in line:
            for mark in (tmp_path / ".out.import").glob("run-*"):
                mark.unlink()

    with pytest.raises(InvalidError, match=r"^the worker on .* does not see .*/\.out\.import; give folders that all workers have at the same path$"):
        way(tmp_path / "out", imports.write_shop(imports.make_shop(), tmp_path), say=say)
    assert not (tmp_path / "out").exists()
