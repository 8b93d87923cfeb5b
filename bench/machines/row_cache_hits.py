#!/usr/bin/env python3
"""Hits of the row cache before the rows of another machine, held against those of Belady's simulation. Prints JSON.

Usage: row_cache_hits.py --data DIR [--bin FOLDER[,FOLDER]] [--fanouts 15,10,5] [--batch-size N] [--epochs N] [--rounds N]
                         [--delay MS] [--window N]

  --data DIR     a dataset in two partitions; a machine that has the first makes the batches of its own training nodes (128
                 seeds each), with room for 5, 10 and 20% of the rows of the other
  --bin FOLDERS  of the programs; several take their turns in each round, so that they can be compared
  --delay MS     that a relay adds to each direction; default: no relay

For each folder and share the medians of all rounds: `hits` of the rows of the other machine, `of_belady` of the hits that
`hopfeed-partition tune --evictions --reader 0` has for the same batches with a window of 16, and `batches_per_second`.
"""
import json
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile

from machines_bench import ROOT, Relay, Server, parse

SHARES = (0.05, 0.1, 0.2)


def npy(path):
    """Whole numbers of an array, of 4 or 8 bytes."""
    raw = path.read_bytes()
    header = 10 + struct.unpack("<H", raw[8:10])[0]
    code = "i" if b"'<i4'" in raw[:header] else "q"
    return struct.unpack(f"<{(len(raw) - header) // struct.calcsize(code)}{code}", raw[header:])


def write_own_seeds(data, node, path):
    """Training nodes of the first partition, in the order of the split."""
    new_ids = npy(data / "nodes" / node["name"] / "new_ids.npy")
    end = node["partition_offsets"][1]
    own = [v for v in npy(data / "splits" / node["name"] / "train.npy") if new_ids[v] < end]
    header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({len(own)},), }}".ljust(117) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(own)}q", *own))
    return len(own)


def cache_bytes(rows, row_bytes, frames):
    """What gives so many frames (places_for() of cache/cache_memory.cc), where one attribute has rows of 64 bytes or more."""
    of_frames = frames * (row_bytes + 32)
    places = max(of_frames // 48, 8 * frames, 512)
    return 4 * 4096 + min(16 * places, 8 * rows) + rows + of_frames + (row_bytes + 32) // 2


def main():
    options, meta = parse(__doc__, bin=str(ROOT / "build/release/bin"), batch_size=128, epochs=1, delay=0.0, window=int)
    node = meta["node_types"][0]
    rows, others = node["count"], node["count"] - node["partition_offsets"][1]
    strides = [attr["stride_bytes"] for attr in node["attrs"] if attr["stride_bytes"] >= 64]
    if len(meta["node_types"]) != 1 or len(strides) != 1:
        sys.exit(f"{options.data} needs one type of nodes, and one attribute with rows of 64 bytes or more")
    uncached = len(node["attrs"]) - 1  # their rows are asked for each time
    folders = [pathlib.Path(folder) for folder in options.bin.split(",")]
    with tempfile.TemporaryDirectory() as scratch:
        seeds, report = pathlib.Path(scratch) / "own.npy", pathlib.Path(scratch) / "report.json"
        steps = -(-write_own_seeds(options.data, node, seeds) // options.batch_size)
        common = ["--fanouts", options.fanouts, "--batch-size", str(options.batch_size), "--json", report]
        quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run([folders[0] / "hopfeed-partition", "tune", options.data, "--evictions", "--reader", "0",
                        "--batches", str(options.epochs * steps), *common], **quiet)
        belady = {cache["ratio"]: cache["hit_rate"] for cache in json.loads(report.read_text())["reader"]["caches"]
                  if cache["how"] == "belady, window 16"}
        other = Server(folders[0], options.data, 1)
        peers = Relay(other.address, options.delay / 1000).address if options.delay else other.address
        more = ["--window", str(options.window)] if options.window is not None else []
        runs = {(str(folder), share): [] for folder in folders for share in SHARES}
        try:
            for number in range(options.rounds):
                for folder, share in sorted(runs, reverse=number % 2 == 1):
                    subprocess.run([pathlib.Path(folder) / "hopfeed-sample", options.data, "--partitions", "0", "--peers", peers,
                                    "--seeds", seeds, "--epochs", str(options.epochs), "--num-workers", "1", "--row-cache",
                                    str(cache_bytes(rows, strides[0], int(share * others))), *more, *common],
                                   env={**os.environ, "HOPFEED_WORKER": f"{folder}/hopfeed-worker"}, **quiet)
                    told = json.loads(report.read_text())
                    tiers = told["tiers"]
                    read = (tiers["cache_rows"] + tiers["peer_rows"]) / (1 + uncached)
                    runs[folder, share].append({"hits": tiers["cache_rows"] / read,
                                                "of_belady": tiers["cache_rows"] / read / belady[share],
                                                "batches_per_second": told["batches"] / told["seconds"]})
        finally:
            other.end()
    print(json.dumps({"bench": "row_cache_hits", "data": meta["name"],
                      "fanouts": options.fanouts, "batch_size": options.batch_size,
                      "batches": options.epochs * steps, "rounds": options.rounds, "delay_ms": options.delay, "belady": belady,
                      "median": [{"bin": folder, "share": share, **{key: statistics.median(r[key] for r in all_) for key in all_[0]}}
                                 for (folder, share), all_ in runs.items()],
                      "all": [{"bin": folder, "share": share, "rounds": all_} for (folder, share), all_ in runs.items()]}, indent=1))


if __name__ == "__main__":
    main()
