#!/usr/bin/env python3
"""One table of digests, all equal: the same batches from builds for different processors, with and without the C library's
fused multiply-add variants, with 1 and 4 workers, 1 and 3 partitions, before and after a resume.

Usage: compare.py NAME=BIN... [--report FILE.xml]

Each BIN is a folder with hopfeed-partition, hopfeed-sample and hopfeed-worker of one build. Fifteen small graphs, one of
them of several node and edge types, are written as NumPy arrays, imported and cut by each build, four of them with their edges
made anew or their rows converted in between, and sampled. A row of the table is one set-up, a column one graph, a cell the start of the SHA-256 of all
that hopfeed-sample printed (a line per batch, with the digest of its bytes). Rows that begin with "files" hold the checksums of
the dataset's files instead. Exits 1 where a column holds two values.
"""
import argparse
import array
import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

BATCH = 8
# Processors without FMA and AVX2 take other variants of libm's functions, whose last bits differ.
LIBM = {"": {}, "-fma": {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-FMA4,-AVX2,-AVX512F"}}
WORKERS = (1, 4)
PARTS = (1, 3)


@dataclasses.dataclass(frozen=True)
class Kind:
    """Options of hopfeed-sample; ARRAYS in them is the folder of the graph's arrays, BIN that of the build."""
    options: tuple
    graphs: tuple = ()  # where it is sampled; none: everywhere


def kind(options, *graphs):
    return Kind(tuple(options.split()), graphs)


KINDS = (
    kind("--fanouts 4,3 --e-id"),
    kind("--fanouts 3,-1 --replace"),
    kind("--fanouts 4,3 --edge-fanouts to=2,1;next=0,-1;holds=0,2", "typed"),
    kind("--fanouts 4,-1 --edge-fanouts node__to__node=-1,2 --replace", "power-law"),
    kind("--fanouts 4,3 --seeds ARRAYS/mask.npy", "power-law", "isolated", "typed"),
    kind("--fanouts 4,3 --seeds ARRAYS/seeds.npy --seed-times ARRAYS/seed_t.npy --time t --e-id", "star", "duplicate", "typed"),
    kind("--fanouts 4,3 --seeds ARRAYS/seeds.npy --seed-times ARRAYS/seed_t.npy --time t --temporal-strategy last --time-window 30",
         "power-law"),
    kind("--fanouts 4,3 --weight w --edge-attrs w"),
    kind("--fanouts 3,3 --weight w --replace --disjoint"),
    kind("--fanouts 4,3 --time t --time-window 40"),
    kind("--fanouts 4,3 --labor --labor-batches 2"),
    kind("--fanouts 4,3 --subgraph induced --e-id"),
    kind("--fanouts 4,3 --subgraph bidirectional --keep-orig-edges --e-id", "power-law", "duplicate"),
    kind("--fanouts 4,3 --time t --temporal-strategy last", "duplicate", "typed"),
    kind("--sampler walk --walk-length 5 --walks-per-seed 2 --e-id", "power-law", "emptyrows"),
    kind("--sampler walk --walk-length 5 --walk-p 0.3 --walk-q 3 --subgraph induced", "power-law", "duplicate"),
    kind("--sampler walk --walk-length 4 --metapath to,rev_to", "typed"),
    kind("--sampler cluster --cluster cluster --subgraph induced", "clique", "typed"),
    kind("--fanouts 4,3 --seeds ARRAYS/seeds.npy --seed-weights ARRAYS/seed_w.npy", "power-law", "typed"),
    kind("--link to --links ARRAYS/links.npy --fanouts 4,3 --negatives binary --amount 1.5 --strict --exclude reverse --e-id",
         "power-law", "emptyrows", "duplicate"),
    kind("--link to --links ARRAYS/links.npy --labels ARRAYS/labels.npy --fanouts 4,3 --negatives binary --labor", "power-law", "typed"),
    kind("--link to --links ARRAYS/links.npy --fanouts 4,3 --weight w --negatives triplet --amount 2 --dst-weight t", "power-law", "typed"),
    kind("--link to --links ARRAYS/links.npy --link-times ARRAYS/link_t.npy --time t --fanouts 4,3 --negatives binary", "star", "typed"),
    kind("--link to --links valid --fanouts 4,3 --weight w --replace", "held-out"),
    kind("--plugin BIN/libspaced_sampler.so --sampler spaced --sampler-options 3,2", "power-law", "star"),
)

# What is done to a graph between import and cut. The first two leave rows that weigh nothing (see write_edges).
MADE_ANEW = {
    "weightless": ("deduplicate",),
    "held-out": ("split-links", "--num-val", "0.3", "--num-test", "0.2", "--seed", "4"),
    "int8-rows": ("convert", "--attr", "x=int8"),
    "int4-rows": ("convert", "--attr", "x=int4"),
}


def graphs():
    """name -> (number of nodes, edges as (source, destination))."""
    rng = random.Random(5)
    n = 120
    pick = lambda: rng.randrange(n)
    power = [(int(n * rng.random() ** 3), int(n * rng.random() ** 3)) for _ in range(1500)]
    few = [(pick(), pick()) for _ in range(60)]
    return {
        "power-law": (n, power),
        "star": (n, [(v, 0) for v in range(1, n)] + [(0, v) for v in range(1, n, 2)]),
        "emptyrows": (n, [(pick(), pick() // 2) for _ in range(500)]),
        "duplicate": (n, [edge for edge in few for _ in range(1 + edge[0] % 9)]),
        "one-node": (1, []),
        "self-loops": (n, [(v, v) for v in range(n)] + few),
        "isolated": (n, [(pick() // 4, pick() // 4) for _ in range(200)]),
        "clique": (40, [(u, v) for u in range(40) for v in range(40) if u != v]),
        "path": (n, [(v, v + 1) for v in range(n - 1)]),
        "bipartite": (n, [(pick() // 2, n // 2 + pick() // 2) for _ in range(400)]),
        "weightless": (n, [edge for edge in few + power[:300] for _ in range(2)]),
        "held-out": (n, power[:600]),
        "int8-rows": (n, power[300:700]),
        "int4-rows": (n, power[700:]),
        "typed": (n, None),  # seeds are nodes of its first type; write_typed_arrays has the rest
    }


def save_npy(path, code, values, shape):
    descr = {"q": "<i8", "f": "<f4", "d": "<f8", "b": "|b1"}[code]
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple(shape)!r}, }}"
    head += " " * (-(10 + len(head) + 1) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode()
                     + array.array(code, values).tobytes())


def write_edges(folder, rng, edges, prefix=""):
    save_npy(folder / f"{prefix}edges.npy", "q", [u for u, _ in edges] + [v for _, v in edges], (2, len(edges)))
    # Light weights, heavy ones, and some that are zero beside others; in each third row the last edge alone has a weight, so that
    # nothing is left where it goes as a duplicate or as a link. Each seventh row weighs nothing.
    last = {v: number for number, (_, v) in enumerate(edges)}
    seen = set()
    weights = []
    for number, (_, v) in enumerate(edges):
        weight = rng.choice((0.0, 1.0, 1e-6, 1e6, rng.random())) if v in seen else rng.random() + 0.01
        if v % 3 == 2:
            weight = 2.5 if number == last[v] else 0.0
        if v % 7 == 3:
            weight = 0.0
        weights.append(weight)
        seen.add(v)
    save_npy(folder / f"{prefix}w.npy", "f", weights, (len(edges),))
    save_npy(folder / f"{prefix}t.npy", "q", [rng.randrange(100) for _ in edges], (len(edges),))


def write_nodes(folder, rng, nodes, prefix=""):
    save_npy(folder / f"{prefix}x.npy", "f", [rng.gauss(0, 1) for _ in range(7 * nodes)], (nodes, 7))
    save_npy(folder / f"{prefix}node_t.npy", "q", [rng.randrange(100) for _ in range(nodes)], (nodes,))
    save_npy(folder / f"{prefix}cluster.npy", "q", [rng.randrange(nodes) // 3 for _ in range(nodes)], (nodes,))


def write_seeds(folder, rng, nodes):
    """The split, and seeds with weights and links that a loader is given by hand, some of them repeated."""
    train = list(range(nodes))
    rng.shuffle(train)
    save_npy(folder / "train.npy", "q", train[:max(1, nodes * 2 // 3)], (max(1, nodes * 2 // 3),))
    seeds = [rng.randrange(nodes) for _ in range(50)]
    save_npy(folder / "seeds.npy", "q", seeds, (len(seeds),))
    save_npy(folder / "seed_t.npy", "q", [number * 7 % 120 for number in range(len(seeds))], (len(seeds),))
    save_npy(folder / "mask.npy", "b", [v % 3 != 1 for v in range(nodes)], (nodes,))
    links = [rng.randrange(max(1, end)) for _ in range(40) for end in (nodes // 2, nodes)]
    save_npy(folder / "links.npy", "q", links, (len(links) // 2, 2))
    save_npy(folder / "labels.npy", "q", [rng.randrange(4) for _ in range(40)], (40,))
    save_npy(folder / "link_t.npy", "q", [100 + rng.randrange(9) for _ in range(40)], (40,))
    save_npy(folder / "seed_w.npy", "d", [rng.choice((0.0, 1e-6, 1.0, 7.5)) for _ in seeds], (len(seeds),))


def write_arrays(folder, nodes, edges):
    """Returns the options of `import numpy`."""
    folder.mkdir()
    rng = random.Random(7)
    write_nodes(folder, rng, nodes)
    write_edges(folder, rng, edges)
    write_seeds(folder, rng, nodes)
    return ["--edge-index", folder / "edges.npy", "--features", folder / "x.npy", "--train", folder / "train.npy",
            "--edge-attr", f"w={folder / 'w.npy'}", "--weight", "w", "--edge-attr", f"t={folder / 't.npy'}", "--time", "t",
            "--node-attr", f"t={folder / 'node_t.npy'}", "--node-attr", f"cluster={folder / 'cluster.npy'}"]


def write_typed_arrays(folder, nodes):
    """The same for three node types and five edge types: with weights, with times of edges and of source nodes, without."""
    folder.mkdir()
    rng = random.Random(7)
    counts = {"a": nodes, "b": nodes // 2, "c": 7}
    ends = [("b", "to", "a"), ("a", "rev_to", "b"), ("a", "next", "a"), ("c", "holds", "a"), ("b", "in", "c")]
    listed = []
    for name, count in counts.items():
        write_nodes(folder, rng, count, f"{name}_")
        listed.append({"name": name, "features": f"{name}_x.npy", "attrs": {}})
        if name != "c":
            listed[-1]["attrs"]["t"] = f"{name}_node_t.npy"
    listed[0]["splits"] = {"train": "train.npy"}
    listed[0]["attrs"]["cluster"] = "a_cluster.npy"
    write_seeds(folder, rng, nodes)
    edges = []
    for number, (src, rel, dst) in enumerate(ends):
        pairs = [(int(counts[src] * rng.random() ** 2), int(counts[dst] * rng.random() ** 2)) for _ in range(600)]
        write_edges(folder, rng, pairs, f"{rel}_")
        edges.append({"src": src, "rel": rel, "dst": dst, "index": f"{rel}_edges.npy", "attrs": {}})
        if number < 3:
            edges[-1]["attrs"]["w"] = f"{rel}_w.npy"
            edges[-1]["weights"] = ["w"]
        if number < 2:
            edges[-1]["attrs"]["t"] = f"{rel}_t.npy"
        if src != "c":
            edges[-1]["times"] = ["t"]
    (folder / "graph.json").write_text(json.dumps({"nodes": listed, "edges": edges}))
    return ["--hetero", folder / "graph.json"]


def run(libm, *arguments):
    done = subprocess.run([str(a) for a in arguments], env={**os.environ, **LIBM[libm]}, capture_output=True, text=True,
                          timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(str(a) for a in arguments)}: {done.stderr.strip()}")
    return done.stdout


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def cut_names(nodes):
    return [f"parts{p}" for p in PARTS if p <= nodes]


def make_datasets(program, libm, options, target, nodes, made_anew):
    """Imports, makes edges anew and cuts; returns the checksums of all files of all cuts."""
    target.mkdir(parents=True)
    imported = target / ("imported" if made_anew else "parts1")
    run(libm, program / "hopfeed-partition", "import", "numpy", imported, "--fanouts", "4,3", "--batch-size", BATCH, *options)
    if made_anew:
        run(libm, program / "hopfeed-partition", made_anew[0], imported, target / "parts1", *made_anew[1:])
    for name in cut_names(nodes)[1:]:
        run(libm, program / "hopfeed-partition", "partition", target / "parts1", target / name, "--parts", name[5:],
            "--method", "random", "--seed", 3)
    files = {name: json.loads((target / name / "meta.json").read_text())["files"] for name in cut_names(nodes)}
    return digest(json.dumps(files, sort_keys=True))


@dataclasses.dataclass(frozen=True)
class Setup:
    """One way to sample one graph."""
    program: pathlib.Path
    libm: str
    arrays: pathlib.Path
    dataset: pathlib.Path
    workers: int

    def sample(self, kind, start=0):
        options = [option.replace("ARRAYS", str(self.arrays)).replace("BIN", str(self.program)) for option in kind.options]
        return run(self.libm, self.program / "hopfeed-sample", self.dataset, "--batch-size", BATCH, "--epochs", 2, "--seed", 9,
                   "--num-workers", self.workers, "--channel-size", "1M", "--start", start, *options).splitlines()

    def sample_resumed(self, kind, lines):
        """What a run prints that stops in the middle of the first epoch, and one that goes on from there; `lines`: the whole run."""
        middle = sum(line.startswith("0 ") for line in lines) // 2
        return lines[:middle] + self.sample(kind, start=lines[middle].split()[1])

    def digests(self, graph):
        """Of whole runs of every kind, and of resumed ones."""
        whole, resumed = [], []
        for kind in KINDS:
            if not kind.graphs or graph in kind.graphs:
                lines = self.sample(kind)
                whole += lines
                resumed += self.sample_resumed(kind, lines)
        return digest("\n".join(whole)), digest("\n".join(resumed))


def measure_graph(name, nodes, edges, builds, folder):
    """Set-up -> digest; set-ups that the graph is too small for are left out."""
    arrays = folder / name
    options = write_typed_arrays(arrays, nodes) if edges is None else write_arrays(arrays, nodes, edges)
    cells = {}
    for build, program in builds.items():
        for libm in LIBM:
            target = folder / f"{name}-{build}{libm}"
            cells[f"files {build}{libm}"] = make_datasets(program, libm, options, target, nodes, MADE_ANEW.get(name))
            for cut in cut_names(nodes):
                for workers in WORKERS:
                    setup = f"{build}{libm} {cut} workers{workers}"
                    cells[setup], cells[setup + " resumed"] = Setup(program, libm, arrays, target / cut, workers).digests(name)
    return cells


def kinds_of(cells):
    """Files and batches are compared among themselves."""
    return {kind: {value for setup, value in cells.items() if setup.startswith("files ") == (kind == "files")}
            for kind in ("files", "batches")}


def print_table(table):
    setups = list(dict.fromkeys(setup for cells in table.values() for setup in cells))
    width = max(map(len, setups))
    print(" " * width, *(f"{name[:10]:>10}" for name in table))
    for setup in setups:
        print(f"{setup:{width}}", *(f"{cells.get(setup, '-'):>10}" for cells in table.values()))


def report(table, path):
    suite = ElementTree.Element("testsuite", name="determinism")
    for name, cells in table.items():
        for kind, values in kinds_of(cells).items():
            case = ElementTree.SubElement(suite, "testcase", name=f"{name} {kind}")
            case.set("status", "run" if len(values) == 1 else "fail")
    path.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(suite).write(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("builds", nargs="+", metavar="NAME=BIN")
    parser.add_argument("--report", type=pathlib.Path, help="JUnit file for tests/count_results.py")
    options = parser.parse_args()
    builds = {name: pathlib.Path(folder).resolve() for name, folder in (build.split("=", 1) for build in options.builds)}
    with tempfile.TemporaryDirectory(prefix="hopfeed-determinism-") as scratch, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {name: pool.submit(measure_graph, name, nodes, edges, builds, pathlib.Path(scratch))
                for name, (nodes, edges) in graphs().items()}
        table = {name: job.result() for name, job in jobs.items()}
    print_table(table)
    if options.report:
        report(table, options.report)
    broken = [f"{name} {kind}" for name, cells in table.items() for kind, values in kinds_of(cells).items() if len(values) > 1]
    print("all equal" if not broken else f"DIFFERENT: {', '.join(broken)}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
