#!/usr/bin/env python3
"""A dataset of hopfeed as the other loaders read a graph: indptr and indices in .npy files, seeds and links as ids, and graph.json, which names the files.

Usage: export.py DATASET FOLDER

Ids are those of the dataset's own order, hot nodes first: the others too get the order that hopfeed's import makes. What the
dataset already has as a plain array (indices, weights, features) is named where it lies, not copied.
"""
import json
import pathlib
import sys

import numpy as np

NUM_LINKS = 1 << 20  # drawn from the edges of the first edge type, as seeds of link batches


def row_offsets(rows):
    """A contiguous indptr from the row records, which hold the original id beside the offset."""
    return np.ascontiguousarray(np.load(rows, mmap_mode="r")["offset"], dtype=np.int64)


def links_of(indptr, indices):
    """Pairs (source, destination) of edges, each edge as likely as any other."""
    at = np.random.default_rng(1).integers(0, len(indices), min(NUM_LINKS, len(indices)))
    return np.stack([indices[at].astype(np.int64), np.searchsorted(indptr, at, side="right") - 1])


def export(dataset, folder):
    meta = json.loads((dataset / "meta.json").read_text())
    if meta["partitions"] != 1:
        sys.exit(f"export.py: {dataset} has {meta['partitions']} partitions; the loaders measure one: export the dataset that it was cut from")
    folder.mkdir(parents=True, exist_ok=True)
    part, types = dataset / "part-0000", meta["node_types"]
    names = [node_type["name"] for node_type in types]
    graph = {"node_types": {node_type["name"]: node_type["count"] for node_type in types}, "edge_types": []}
    for number, edge in enumerate(meta["edge_types"]):
        # Ends are written as numbers or as names, by the manifest's version.
        src, dst = (end if isinstance(end, str) else names[end] for end in (edge["src"], edge["dst"]))
        of_type = part / "edges" / f"{src}__{edge['rel']}__{dst}"
        indptr = row_offsets(of_type / "rows.npy")
        np.save(folder / f"indptr-{number}.npy", indptr)
        weights = [str(of_type / "attrs" / f"{name}.npy") for name in edge.get("weights", [])]
        graph["edge_types"].append({"src": src, "rel": edge["rel"], "dst": dst, "count": edge["count"], "indptr": f"indptr-{number}.npy",
                                    "indices": str(of_type / "indices.npy"), "weight": weights[0] if weights else None})
        if number == 0:
            np.save(folder / "links.npy", links_of(indptr, np.load(of_type / "indices.npy", mmap_mode="r")))
    new_ids = np.load(dataset / "nodes" / names[0] / "new_ids.npy", mmap_mode="r")
    seeds = np.load(dataset / "splits" / names[0] / "train.npy")
    np.save(folder / "seeds.npy", new_ids[seeds].astype(np.int64))
    features = [attr for attr in types[0]["attrs"] if attr["name"] == "x"]
    graph |= {"seed_type": names[0], "seeds": "seeds.npy", "links": "links.npy", "features": str(part / "nodes" / names[0] / "x.npy") if features else None,
              "feature_width": features[0]["shape"][0] if features else 0}
    (folder / "graph.json").write_text(json.dumps(graph, indent=1) + "\n")  # last: a folder without it is no export


def main():
    if len(sys.argv) != 3 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    dataset = pathlib.Path(sys.argv[1]).resolve()
    if not (dataset / "meta.json").is_file():
        sys.exit(f"export.py: no dataset in {dataset}; it has no meta.json")
    export(dataset, pathlib.Path(sys.argv[2]))


if __name__ == "__main__":
    main()
