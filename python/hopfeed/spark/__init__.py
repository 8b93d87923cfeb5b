"""hopfeed on Apache Spark: a cluster imports tables that no machine holds, into a dataset with the same bytes as on one machine
(docs/importing.md). ``pip install 'hopfeed[spark]'`` where the driver runs; worker processes need ``hopfeed[tables]`` of the same
version."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from hopfeed.spark.engine import SparkCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkCluster", "import_tables"]


def import_tables(spark: SparkSession, description: str | os.PathLike[str] | Mapping[str, Any], out: str | os.PathLike[str], **options: Any) -> dict[str, Any]:
    """Makes a dataset of tables with the workers of a Spark session, whose configuration stays as it is.

    Args:
        spark: the session.
        description: a JSON or YAML file, or the same as an object.
        out: the folder of the dataset.
        options: those of :func:`hopfeed.tables.cluster.importing.import_tables`.

    Returns:
        The report.

    Raises:
        InvalidError: what is wrong with the description, an option or a row, in one line; and others of hopfeed's errors.
    """
    with closing(SparkCluster(spark)) as cluster:
        from hopfeed.tables.cluster.importing import import_tables as import_on

        return import_on(cluster, description, out, **options)
