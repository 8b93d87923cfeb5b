"""--infer as users of tables have it: learned rows by key on another dataset, Parquet, and what reads it back.

usage: infer_by_keys.py FOLDER    (HOPFEED_BIN has the programs)
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hopfeed

PROGRAMS = Path(os.environ["HOPFEED_BIN"])


def run(program: str, *words: object, fails: bool = False) -> str:
    done = subprocess.run([str(PROGRAMS / program), *map(str, words)], capture_output=True, text=True, timeout=120)
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr


def make(folder: Path, users: list[str], items: list[str]) -> Path:
    """A dataset of users, items and what they bought, from tables."""
    rng = np.random.default_rng(1)
    for table in ("users", "items", "buys"):
        (folder / table).mkdir(parents=True)
    pq.write_table(pa.table({"id": users}), folder / "users/a.parquet")
    pq.write_table(pa.table({"id": items}), folder / "items/a.parquet")
    ends = {"u": [users[i] for i in rng.integers(0, len(users), 3000)], "i": [items[i] for i in rng.integers(0, len(items), 3000)]}
    pq.write_table(pa.table(ends), folder / "buys/a.parquet")
    buys = {"table": "buys/*.parquet", "src": "user", "dst": "item", "rel": "buys", "src_key": "u", "dst_key": "i"}
    back = {"table": "buys/*.parquet", "src": "item", "dst": "user", "rel": "rev_buys", "src_key": "i", "dst_key": "u"}
    nodes = [{"name": name, "table": f"{name}s/*.parquet", "key": "id"} for name in ("user", "item")]
    (folder / "tables.json").write_text(json.dumps({"name": folder.name, "nodes": nodes, "edges": [buys, back]}))
    hopfeed.import_tables(folder / "dataset", folder / "tables.json", parts=2)
    return folder / "dataset"


def main(folder: Path) -> None:
    users, items = [f"u{i}" for i in range(300)], [f"i{i}" for i in range(100)]
    today = make(folder / "today", users, items)
    tomorrow = make(folder / "tomorrow", ["a-new-one", *users[50:], "v"], items[::-1])
    split = folder / "split"
    run("hopfeed-partition", "split-links", today, split, "--edge-types", "buys", "--rev-edge-types", "rev_buys")
    # Without hops the embeddings are the learned rows.
    run("link_prediction", "--data", split, "--edge-type", "buys", "--hidden", 8, "--epochs", 2, "--no-baseline", "--fanouts", "", "--out", folder / "out")
    infer = ("--infer", "--model", folder / "out/model.pt", "--write")
    run("link_prediction", "--data", split, *infer, f"embeddings={folder / 'then'}")
    refused = run("link_prediction", "--data", tomorrow, *infer, f"embeddings={folder / 'no'}", fails=True)
    assert "give --trained-on" in refused, refused
    refused = run("link_prediction", "--data", tomorrow, *infer, f"embeddings={folder / 'no'}", "--trained-on", tomorrow, fails=True)
    assert "is not the dataset that the model was trained on" in refused, refused
    assert not (folder / "no").exists()
    words = ("link_prediction", "--data", tomorrow, *infer, f"embeddings={folder / 'now'}", "--trained-on", split, "--format", "parquet")
    run(*words)
    run(*words)  # it is done already
    for node_type, both in (("user", 250), ("item", 100)):
        then, now = (hopfeed.read_results(folder / name, verify=True).of(node_type) for name in ("then", "now"))
        rows = dict(zip(then.keys, then.array()))
        found = [(key, row) for key, row in zip(now.keys, now.array()) if key in rows]
        assert len(found) == both and all(np.array_equal(rows[key], row) for key, row in found), node_type
    table = pq.read_table(folder / "now/embeddings/user")
    assert table.num_rows == 252 and set(table.column_names) >= {"id", "key", "row"}
    run("hopfeed-partition", "gather", folder / "then", "--node-type", "user", "--out", folder / "all.npy")
    assert np.array_equal(np.load(folder / "all.npy"), hopfeed.read_results(folder / "then").of("user").array())


main(Path(sys.argv[1]))
