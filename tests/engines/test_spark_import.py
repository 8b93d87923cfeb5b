"""Imports by Spark have the files, reports and lines of one machine, also where a worker dies."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import imports
import pytest

import hopfeed.spark
from hopfeed.errors import InvalidError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def way(spark: SparkSession) -> imports.Way:
    return lambda out, description, **options: hopfeed.spark.import_tables(spark, description, out, **options)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> imports.Large:
    return imports.large_import(tmp_path_factory.mktemp("large"))


@pytest.mark.parametrize("same", imports.GRAPHS)
def test_graphs_are_the_same(way: imports.Way, tmp_path: Path, same: Any) -> None:
    same(way, tmp_path)


@pytest.mark.parametrize("number", range(len(imports.REFUSED)))
def test_lines_of_what_is_refused_are_the_same(way: imports.Way, tmp_path: Path, number: int) -> None:
    nodes, edges, options = imports.REFUSED[number]
    imports.compared(tmp_path, imports.described(tmp_path, nodes, edges, {}, {}), way, parts=2, rejected=True, **options)


@pytest.mark.parametrize("number", range(len(imports.TAKEN)))
def test_dirt_that_is_let_through_is_the_same(way: imports.Way, tmp_path: Path, number: int) -> None:
    nodes, edges, options = imports.TAKEN[number]
    imports.compared(tmp_path, imports.described(tmp_path, nodes, edges, {}, {}), way, parts=2, rejected=True, **options)


@pytest.mark.parametrize("at", ["ordering keys", "counting the edges", "writing 3 partitions"])
def test_a_worker_that_is_killed_in_mid_task_costs_nothing(way: imports.Way, large: imports.Large, tmp_path: Path, at: str) -> None:
    killed = list[int]()

    def kill() -> None:
        deadline = time.monotonic() + 60
        while not (found := executors()) and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(1.0)
        os.kill(found[0], signal.SIGKILL)
        killed.append(found[0])

    killers = list[threading.Thread]()

    def say(line: str) -> None:
        if at in line and not killers:
            killers.append(threading.Thread(target=kill))
            killers[0].start()

    report = way(tmp_path / "out", large.description, parts=3, say=say)
    killers[0].join()
    assert killed and report["fingerprint"] == large.fingerprint and imports.files_of(tmp_path / "out") == large.files
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def executors() -> list[int]:
    """Executors of this process's cluster."""
    found = list[int]()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if b"CoarseGrainedExecutorBackend" in command and str(os.environ["HOPFEED_SPARK_APP"]).encode() in command:
            found.append(int(pid))
    return found


@pytest.fixture(autouse=True)
def application(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOPFEED_SPARK_APP", spark.sparkContext.applicationId)


def test_a_folder_that_workers_do_not_see_is_told(way: imports.Way, tmp_path: Path) -> None:
    def say(line: str) -> None:
        if "ordering keys" in line:
            for mark in (tmp_path / ".out.import").glob("run-*"):
                mark.unlink()

    with pytest.raises(InvalidError, match=r"^the worker on .* does not see .*/\.out\.import; give folders that all workers have at the same path$"):
        way(tmp_path / "out", imports.write_shop(imports.make_shop(), tmp_path), say=say)
    assert not (tmp_path / "out").exists()
