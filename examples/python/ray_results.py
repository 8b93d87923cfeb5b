"""Embeddings beside the table that the nodes came from: Ray Data joins what inference wrote with the user's rows, by key.

    examples/tables.sh                                       # Debian's packages as tables, imported and trained on
    python examples/python/infer_sage.py --data tables_example/dataset --out embeddings
    python examples/python/ray_results.py --results embeddings --table tables_example/packages.parquet --key package --out joined

It writes the table with two more columns, `embedding` and `norm`, and prints how many rows have them. `pip install 'hopfeed[ray]'`.
"""

from __future__ import annotations

import argparse
import shutil
from typing import Any

import numpy as np
import ray

import hopfeed.ray


def with_norm(batch: dict[str, Any]) -> dict[str, Any]:
    """The length of each embedding beside it."""
    batch["norm"] = np.linalg.norm(np.stack(list(batch["row"])).astype(np.float64), axis=1)
    return batch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", required=True, help="folder of results")
    parser.add_argument("--output", default="embeddings", help="which of its outputs (default: %(default)s)")
    parser.add_argument("--node-type", help="where it has several")
    parser.add_argument("--table", required=True, help="the table that was imported: Parquet")
    parser.add_argument("--key", required=True, help="its key column")
    parser.add_argument("--out", required=True, help="folder for the joined table, which is replaced")
    args = parser.parse_args()

    ray.init(log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    rows = hopfeed.ray.read_results(args.results, args.output, args.node_type).map_batches(with_norm)
    rows = rows.rename_columns({"key": args.key, "row": "embedding"}).drop_columns(["id"])
    table = ray.data.read_parquet(args.table)
    shutil.rmtree(args.out, ignore_errors=True)
    table.join(rows, join_type="left_outer", num_partitions=4, on=(args.key,)).write_parquet(args.out)
    written = ray.data.read_parquet(args.out, columns=["norm"]).to_pandas()
    there = written["norm"].dropna()
    print(f"{len(written):,} rows, {len(there):,} of them with an embedding, of length {there.mean():.3f} on average; in {args.out}")
    ray.shutdown()


if __name__ == "__main__":
    main()
