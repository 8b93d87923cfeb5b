"""What goes wrong on Spark: tasks that raise, workers that lack hopfeed, executors that are killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import hopfeed
from conftest import PACKAGE
from hopfeed.errors import Error, InvalidError, NoSpaceError, VersionError
from made_rows import FEW, SCHEMA, Row, all_rows, by_bytes, first_time, kill_executor, read, rows_in, take_rows

if TYPE_CHECKING:
    from hopfeed.spark import SparkCluster


@pytest.mark.parametrize("where", ["tasks", "rows", "ranges", "groups", "kept"])
def test_an_error_of_a_task_is_the_same_error_here(cluster: SparkCluster, where: str) -> None:
    line = "nodes 'ü': {\"key\": 'a\\'} is twice;\tleave it out"

    def fail(*given: Any) -> Any:
        raise InvalidError(line)

    def fail_later(item: tuple[int, int, int]) -> Iterator[pa.RecordBatch]:
        yield from read(item)
        fail()

    good, bad = cluster.rows(FEW, read, SCHEMA), cluster.rows(FEW, fail_later, SCHEMA)
    calls = {
        "tasks": lambda: cluster.tasks([1, 2], fail),
        "rows": lambda: cluster.groups(cluster.union([good, bad]), "group", 3, ["key"], take_rows()),
        "ranges": lambda: cluster.ranges(good, ["key"], [], fail),
        "groups": lambda: cluster.groups(good, "group", 3, ["key"], fail),
        "kept": lambda: cluster.kept(bad),
    }
    with pytest.raises(InvalidError) as told:
        calls[where]()
    assert str(told.value) == line and told.value.__cause__ is None


def test_errors_of_others_are_one_line(cluster: SparkCluster) -> None:
    with pytest.raises(Error) as told:
        cluster.tasks([1], lambda item: {}["absent"])
    assert str(told.value) == "the cluster could not do it: KeyError: 'absent'" and type(told.value) is Error

    def full(item: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(NoSpaceError, match="a disk of the cluster is full"):
        cluster.tasks([1], full)


def test_workers_of_another_version_are_refused(cluster: SparkCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = hopfeed.__version__
    monkeypatch.setattr(hopfeed, "__version__", "99.0")
    with pytest.raises(VersionError) as told:
        cluster.tasks([1], lambda item: item)
    assert str(told.value) == f"a worker process has hopfeed {theirs}, and the driver 99.0; install the same version on all machines"


WITHOUT_HOPFEED = """
import sys
sys.path.insert(0, sys.argv[1])  # the driver's alone
from pyspark.sql import SparkSession
from hopfeed.errors import InvalidError
from hopfeed.spark import SparkCluster
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
try:
    SparkCluster(spark).tasks([1], lambda item: item)
except InvalidError as error:
    print(f"line: {error}")
spark.stop()
"""


def test_workers_without_hopfeed_are_told_of(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" and not name.startswith(("SPARK_", "PYSPARK_GATEWAY"))}
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    ended = subprocess.run([sys.executable, "-c", WITHOUT_HOPFEED, str(PACKAGE)], cwd=tmp_path, env=environment, capture_output=True, text=True)
    lines = [line for line in ended.stdout.splitlines() if line.startswith("line: ")]
    assert lines == ["line: a worker process has no hopfeed; install the driver's version on all machines: pip install 'hopfeed[tables]'"], ended.stderr


def test_missing_pyspark_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from hopfeed.spark import SparkCluster

    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(InvalidError, match=r"pip install 'hopfeed\[spark\]'"):
        SparkCluster(None)


@pytest.mark.parametrize("where", ["tasks", "rows", "ranges", "groups", "kept"])
def test_an_executor_that_is_killed_in_mid_task_changes_nothing(cluster: SparkCluster, tmp_path: Path, where: str) -> None:
    folder = str(tmp_path)

    def once(name: str) -> None:
        if name == where and first_time(folder, name):
            kill_executor()
            time.sleep(60)

    def reading(item: tuple[int, int, int]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(read(item)):
            yield batch
            if item[0] == 2 and number == 1:
                once("rows")

    def take_range(number: int, batches: Iterator[pa.RecordBatch]) -> list[Row]:
        rows = rows_in(batches)
        if number == 1:
            once("ranges")
        return rows

    def take_group(number: int, batches: Iterator[pa.RecordBatch]) -> list[Row]:
        rows = rows_in(batches)
        if number == 1:
            once("groups")
        return rows

    def task(item: int) -> int:
        if item == 3:
            once("tasks")
        return item * item

    frame = cluster.kept(cluster.rows(FEW, reading, SCHEMA))
    if where == "kept":  # half of what is kept dies with it
        cluster.tasks([0, 1], lambda item: once("kept"))
    assert cluster.tasks(list(range(6)), task) == [i * i for i in range(6)]
    expected = sorted(all_rows(FEW), key=by_bytes)
    assert [row for rows in cluster.ranges(frame, ["key", "number"], ["bytes"], take_range) for row in rows] == expected
    assert cluster.groups(frame, "group", 3, ["key", "number", "bytes"], take_group) == [[row for row in expected if row[0] == group] for group in range(3)]
    assert (tmp_path / where).exists()
    cluster.let_go(frame)
