"""The same over Spark Connect, where the driver is a client and has no Java: in a process of its own, since one has either kind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import PACKAGE, TESTS

CLIENT = """
from pyspark.sql import SparkSession
from hopfeed.errors import InvalidError
from hopfeed.spark import SparkCluster
from made_rows import SCHEMA, by_bytes, read, rows_in, rows_of

spark = SparkSession.builder.remote("local[2]").getOrCreate()
cluster = SparkCluster(spark)
items = [(seed, 3000, 5) for seed in range(3)]
rows = sorted((row for item in items for row in rows_of(item)), key=by_bytes)
kept = cluster.kept(cluster.rows(items, read, SCHEMA))
assert cluster.tasks([3, 4, 5], lambda item: item * item) == [9, 16, 25]
assert [row for some in cluster.ranges(kept, ["key", "number"], ["bytes"], lambda number, batches: rows_in(batches)) for row in some] == rows
found = cluster.groups(kept, "group", 7, ["key", "number", "bytes"], lambda number, batches: rows_in(batches))
assert found == [[row for row in rows if row[0] == group] for group in range(7)]
cluster.let_go(kept)


def fail(item):
    raise InvalidError("the line")


try:
    cluster.tasks([1], fail)
except InvalidError as error:
    print(f"{cluster.slots} slots, {error}")
cluster.close()
spark.stop()
"""


def test_connect_keeps_the_same_promises(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs pyspark[connect]")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_GATEWAY"))}
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(PACKAGE), str(TESTS), *environment.get("PYTHONPATH", "").split(os.pathsep)])
    ended = subprocess.run([sys.executable, "-c", CLIENT], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ended.stdout.splitlines() == ["2 slots, the line"], ended.stderr[-5000:]
