#!/usr/bin/env python3
"""What an import of tables takes on a cluster beside the engine's own join, sort and Parquet write of the same tables on the same workers.
Prints one JSON line.

Usage: cluster_bench.py --engine spark|ray --folder DIR [--nodes N] [--edges N] [--features N] [--parts N] [--workers N] [--rounds N]
                        [--idle-workers N] [--check] [--json FILE]

  --engine       spark: local-cluster of so many worker processes, with a core and 2 GB each; ray: so many raylets with a core each
  --folder DIR   tables (made where they are not there, as import_bench.py makes them) and datasets
  --nodes N      rows of the node table, with string keys of 20 to 27 bytes (200000)
  --edges N      rows of the edge table, in random order (1000000)
  --features N   float32 columns of the node table (32)
  --parts N      partitions (2)
  --workers N    (2)
  --rounds N     by turns (3)
  --idle-workers N
                 of Ray: worker processes that a node keeps when they are idle; its own default is as many as the node has cores, here one
  --check        compare the dataset with that of one machine

`stages`: seconds of the last import's. `reference`: the engine reads both tables, sorts the nodes by key and writes them, joins both keys of each edge with ids in that order,
sorts by (destination, source), and writes. `import`: hopfeed, until the dataset is whole. `times` is import over reference, medians.
Run it with the Python that has hopfeed and the engine.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))


class Spark:
    def __init__(self, options):
        from pyspark.sql import SparkSession

        path = os.pathsep.join(filter(None, sys.path))
        os.environ["PYSPARK_PYTHON"] = sys.executable
        builder = SparkSession.builder.master(f"local-cluster[{options.workers},1,2048]").appName("cluster_bench")
        settings = {"spark.executorEnv.PYTHONPATH": path, "spark.executor.memory": "2g", "spark.driver.memory": "2g", "spark.ui.enabled": "false",
                    "spark.ui.showConsoleProgress": "false",                    "spark.sql.shuffle.partitions": 4 * options.workers, "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
        for name, value in settings.items():
            builder = builder.config(name, str(value))
        self._spark = builder.getOrCreate()
        self._spark.sparkContext.setLogLevel("ERROR")

    def import_tables(self, description, out, parts, say=None):
        import hopfeed.spark

        return hopfeed.spark.import_tables(self._spark, description, out, parts=parts, overwrite=True, say=say)

    def reference(self, tables, out):
        from pyspark.sql import functions as f

        spark = self._spark
        spark.read.parquet(f"{tables}/nodes").sort("key").write.mode("overwrite").parquet(f"{out}/nodes")
        ids = spark.read.parquet(f"{out}/nodes").select("key", f.monotonically_increasing_id().alias("id"))
        ids.write.mode("overwrite").parquet(f"{out}/ids")
        ids = spark.read.parquet(f"{out}/ids")
        edges = spark.read.parquet(f"{tables}/edges")
        edges = edges.join(ids.select(f.col("key").alias("src"), f.col("id").alias("s")), "src")
        edges = edges.join(ids.select(f.col("key").alias("dst"), f.col("id").alias("d")), "dst")
        edges.select("d", "s").sort("d", "s").write.mode("overwrite").parquet(f"{out}/edges")

    def close(self):
        self._spark.stop()


class Ray:
    def __init__(self, options):
        import ray
        from ray.cluster_utils import Cluster

        os.environ.setdefault("RAY_DEDUP_LOGS", "1")
        if options.idle_workers is not None:
            os.environ["RAY_num_workers_soft_limit"] = str(options.idle_workers)
        self._cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 1 << 30})
        for _ in range(options.workers - 1):
            self._cluster.add_node(num_cpus=1, object_store_memory=1 << 30)
        ray.init(address=self._cluster.address, log_to_driver=False, runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}})
        ray.data.DataContext.get_current().enable_progress_bars = False

    def import_tables(self, description, out, parts, say=None):
        import hopfeed.ray

        return hopfeed.ray.import_tables(description, out, parts=parts, overwrite=True, say=say)

    def reference(self, tables, out):
        import pyarrow as pa
        import pyarrow.parquet as pq
        import ray

        for name in ("nodes", "ids", "edges"):
            shutil.rmtree(f"{out}/{name}", ignore_errors=True)
        ray.data.read_parquet(f"{tables}/nodes").sort("key").write_parquet(f"{out}/nodes")
        first, os_path = 0, pathlib.Path(out) / "ids"
        os_path.mkdir(parents=True)
        for path in sorted(pathlib.Path(out, "nodes").glob("*.parquet")):  # ids in the order of keys, as the driver knows how many each file has
            keys = pq.read_table(path, columns=["key"])
            pq.write_table(keys.append_column("id", pa.array(range(first, first + len(keys)))), os_path / path.name)
            first += len(keys)
        edges = ray.data.read_parquet(f"{tables}/edges")
        for key, name in (("src", "s"), ("dst", "d")):
            ids = ray.data.read_parquet(str(os_path)).rename_columns({"key": key, "id": name})
            edges = edges.join(ids, join_type="inner", num_partitions=4, on=(key,))
        edges.select_columns(["d", "s"]).sort(["d", "s"]).write_parquet(f"{out}/edges")

    def close(self):
        import ray

        ray.shutdown()
        self._cluster.shutdown()


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--engine", choices=["spark", "ray"], required=True)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    for name, value in (("nodes", 200_000), ("edges", 1_000_000), ("features", 32), ("parts", 2), ("workers", 2), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--idle-workers", type=int)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    if options.idle_workers is not None and options.engine != "ray":
        parser.error("--idle-workers is of Ray; leave it out")
    from import_bench import make_tables

    options.threads, options.memory = 2, 4 << 30
    tables = options.folder / f"tables-{options.nodes}-{options.edges}-{options.features}"
    make_tables(options, tables)
    description = {
        "name": "bench",
        "nodes": [{"name": "user", "table": str(tables / "nodes"), "key": "key", "features": [f"x{f}" for f in range(options.features)]}],
        "edges": [{"src": "user", "rel": "to", "dst": "user", "table": str(tables / "edges"), "src_key": "src", "dst_key": "dst"}],
    }
    engine = {"spark": Spark, "ray": Ray}[options.engine](options)
    seconds = {"reference": [], "import": []}
    try:
        engine.import_tables({**description, "edges": [], "nodes": [{"name": "user", "table": str(tables / "nodes"), "key": "key"}]}, options.folder / "warm", 1)  # workers begin
        for _ in range(options.rounds):
            begin = time.monotonic()
            engine.reference(str(tables), str(options.folder / "reference"))
            seconds["reference"].append(time.monotonic() - begin)
            begin, said = time.monotonic(), []
            report = engine.import_tables(description, options.folder / "dataset", options.parts, lambda line: said.append((time.monotonic(), line)))  # noqa: B023
            seconds["import"].append(time.monotonic() - begin)
            ends = [at for at, _ in said[1:]] + [time.monotonic()]
            stages = {line: round(end - at, 2) for (at, line), end in zip(said, ends)}
    finally:
        engine.close()
    medians = {name: statistics.median(several) for name, several in seconds.items()}
    told = {"benchmark": "cluster_import", "engine": options.engine, "nodes": options.nodes, "edges": options.edges, "features": options.features,
            "parts": options.parts, "workers": options.workers, "idle_workers": options.idle_workers, "rounds": options.rounds, "fingerprint": report["fingerprint"],
            "seconds": {name: round(value, 2) for name, value in medians.items()}, "all": seconds, "times": round(medians["import"] / medians["reference"], 3), "stages": stages}
    if options.check:
        import hopfeed

        here = hopfeed.import_tables(options.folder / "here", description, parts=options.parts, overwrite=True)
        files = [{path: file["xxh3"] for path, file in json.loads((options.folder / name / "meta.json").read_text())["files"].items()} for name in ("dataset", "here")]
        told["equal"] = here["fingerprint"] == report["fingerprint"] and files[0] == files[1]
    line = json.dumps(told)
    print(line)
    if options.json:
        options.json.write_text(line + "\n")
    return 0 if told.get("equal", True) else 1


if __name__ == "__main__":
    sys.exit(main())
