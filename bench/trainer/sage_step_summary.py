#!/usr/bin/env python3
"""One JSON line from the lines of hopfeed-bench-trainer and sage_step_pyg.py: medians over the rounds, and whether both computed the same.

Usage: sage_step_summary.py LINES WAYS     LINES: both by turns; WAYS: one line for each way of PyG
"""
import json
import statistics
import sys

TOLERANCE = 1e-4  # relative, of losses after a few steps in float32: sums are taken in different orders


def read(path):
    with open(path) as lines:
        return [json.loads(line) for line in lines]


def medians(lines):
    return {key: round(statistics.median(line[key] for line in lines), 2)
            for key in ("cpu_ms", "wall_ms", "forward_cpu_ms", "backward_cpu_ms")}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    lines, ways = read(sys.argv[1]), read(sys.argv[2])
    ours = [line for line in lines if line["bench"] == "trainer"]
    plain = [line for line in lines if line["bench"] == "trainer-pyg" and not line["label"]]
    kept = [line for line in lines if line["bench"] == "trainer-pyg" and line["label"]]
    report = {"bench": "trainer-compared", "threads": ours[0]["threads"], "fanouts": ours[0]["fanouts"],
              "batch_size": ours[0]["batch_size"], "features": ours[0]["features"], "hidden": ours[0]["hidden"],
              "nodes_per_batch": ours[0]["nodes_per_batch"], "edges_per_batch": ours[0]["edges_per_batch"], "rounds": len(ours),
              "torch": ways[0]["torch"], "pyg": ways[0]["pyg"], "pyg_way": plain[0]["way"]}
    for name, group in (("hopfeed", ours), ("pyg", plain), ("pyg_kept_memory", kept)):
        report |= {f"{name}_{key}": value for key, value in medians(group).items()}
    report["pyg_ways_cpu_ms"] = {line["way"]: round(line["cpu_ms"], 1) for line in ways}
    report["ratio_cpu"] = round(report["hopfeed_cpu_ms"] / report["pyg_cpu_ms"], 3)
    report["ratio_cpu_kept_memory"] = round(report["hopfeed_cpu_ms"] / report["pyg_kept_memory_cpu_ms"], 3)
    difference = max(abs(a - b) / abs(b) for line in ways + plain + kept for a, b in zip(ours[0]["losses"], line["losses"]))
    report["loss_difference"] = difference
    report["losses_equal"] = ours[0]["dropout"] == 0 and difference <= TOLERANCE
    print(json.dumps(report))


if __name__ == "__main__":
    main()
