"""Embeddings beside the table that the nodes came from: Spark joins what inference wrote with the user's rows, by key.

    examples/tables.sh                                       # Debian's packages as tables, imported and trained on
    python examples/python/infer_sage.py --data tables_example/dataset --out embeddings --format parquet
    python examples/python/spark_results.py --results embeddings/embeddings/package \\
        --table tables_example/packages.parquet --key package --out joined

It writes the table with two more columns, `embedding` and `norm`, and prints how many rows have them. Spark needs Java 17 and
`pip install 'hopfeed[spark]'`.
"""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as f


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", required=True, help="folder of a node type's rows in Parquet: OUT/OUTPUT/TYPE")
    parser.add_argument("--table", required=True, help="the table that was imported: Parquet")
    parser.add_argument("--key", required=True, help="its key column")
    parser.add_argument("--out", required=True, help="folder for the joined table, which is replaced")
    parser.add_argument("--master", default="local[2]", help="of Spark (default: %(default)s)")
    args = parser.parse_args()

    spark = SparkSession.builder.master(args.master).appName("hopfeed results").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    rows = spark.read.parquet(args.results).select(f.col("key").alias(args.key), f.col("row").alias("embedding"))
    squares = f.aggregate("embedding", f.lit(0.0), lambda total, one: total + one * one)
    joined = spark.read.parquet(args.table).join(rows.withColumn("norm", f.sqrt(squares)), args.key, "left")
    joined.write.mode("overwrite").parquet(args.out)
    written = spark.read.parquet(args.out)
    told = written.agg(f.count("*"), f.count("embedding"), f.avg("norm")).first()
    print(f"{told[0]:,} rows, {told[1]:,} of them with an embedding, of length {told[2] or 0.0:.3f} on average; in {args.out}")
    spark.stop()


if __name__ == "__main__":
    main()
