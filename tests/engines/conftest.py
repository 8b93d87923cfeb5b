"""A Spark cluster of two worker processes on this machine, made once a run. Other engines have their fixtures in their tests."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hopfeed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hopfeed.spark import SparkCluster

PACKAGE = Path(hopfeed.__file__).parent.parent
TESTS = Path(__file__).parent


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """``local-cluster[2,1,1024]``: executors are processes, which can be killed, and come again."""
    from pyspark.sql import SparkSession

    os.environ.update({"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"})
    settings = {
        "spark.driver.memory": "1g",
        "spark.executorEnv.PYTHONPATH": f"{PACKAGE}{os.pathsep}{TESTS}",
        "spark.local.dir": str(tmp_path_factory.mktemp("spark")),
        "spark.sql.shuffle.partitions": "7",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("hopfeed-tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    folder = Path(os.environ.get("SPARK_HOME") or _home()) / "work" / session.sparkContext.applicationId
    yield session
    session.stop()
    shutil.rmtree(folder, ignore_errors=True)


def _home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


@pytest.fixture(scope="session")
def cluster(spark: SparkSession) -> SparkCluster:
    """What is tested."""
    from hopfeed.spark import SparkCluster

    return SparkCluster(spark)
