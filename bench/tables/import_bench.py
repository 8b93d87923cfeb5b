#!/usr/bin/env python3
"""What an import of tables takes beside the engine's own join, sort and write of the same tables. Prints one JSON line.

Usage: import_bench.py --folder DIR [--nodes N] [--edges N] [--features N] [--assign HOW] [--parts N] [--memory BYTES] [--threads N]
                       [--cgroup BYTES] [--rounds N] [--kills N] [--no-reference]

  --folder DIR      tables, datasets and spilled data; made where it is not there. Tables of the same size are made once
  --nodes N         rows of the node table, with string keys of 20 to 27 bytes (1000000)
  --edges N         rows of the edge table, in random order (10000000)
  --features N      float32 columns of the node table (32)
  --assign, --parts, --memory, --threads   as `hopfeed-partition import tables` has them; memory and threads are the reference's too
  --cgroup BYTES    each runs in a memory cgroup of so many bytes, which is root's to make
  --rounds N        by turns (3)
  --kills N         the import is killed so many times at random moments and run again, before it may end
  --no-reference    the import alone

`reference`: DuckDB reads both tables, sorts the nodes by key, joins both keys of each edge, sorts by (destination, source), and writes
both as Parquet. `import`: hopfeed, until the dataset is whole. Of each: `seconds`, `cpu_s`, `rss`, the most bytes resident, of which
`anon` are no pages of files, and `disk`, the most bytes in its folders. `times` is import over reference.
Run it with the Python that has hopfeed.
"""
import argparse
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time

POLL = 0.05  # seconds
KEY = "concat('user-', lower(to_hex(hash({0}))), '-', {0}::VARCHAR)"
REFERENCE = """
import duckdb, sys
folder, out, memory, threads = sys.argv[1:]
c = duckdb.connect(config={"threads": int(threads), "temp_directory": out + "/spill", "memory_limit": memory, "preserve_insertion_order": True})
c.execute("SET enable_progress_bar = false")
c.execute(f"COPY (SELECT * FROM '{folder}/nodes/*.parquet' ORDER BY key) TO '{out}/nodes.parquet' (ROW_GROUP_SIZE 122880)")
keys = f"(SELECT key, file_row_number AS id FROM read_parquet('{out}/nodes.parquet', file_row_number = true))"
c.execute(f"COPY (SELECT d.id AS dst, s.id AS src FROM '{folder}/edges/*.parquet' AS e JOIN {keys} AS s ON e.src = s.key "
          f"JOIN {keys} AS d ON e.dst = d.key ORDER BY dst, src) TO '{out}/edges.parquet' (ROW_GROUP_SIZE 122880)")
"""


def bytes_of(text):
    return int(float(text[:-1]) * (1 << {"K": 10, "M": 20, "G": 30}[text[-1]])) if text[-1].isalpha() else int(text)


def make_tables(options, folder):
    import duckdb

    if (folder / "made").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    c = duckdb.connect(config={"threads": options.threads, "memory_limit": f"{options.memory}B", "temp_directory": str(folder / "spill"),
                               "preserve_insertion_order": False})
    features = "".join(f", (hash(i * 131 + {f}) % 2000 / 1000.0 - 1)::FLOAT AS x{f}" for f in range(options.features))
    written = "(FORMAT parquet, FILE_SIZE_BYTES '256MB', ROW_GROUP_SIZE 122880)"
    c.execute(f"COPY (SELECT {KEY.format('i')} AS key{features} FROM (SELECT hash(n) % 1000003 AS z, n AS i FROM range({options.nodes}) AS r(n)) "
              f"ORDER BY z) TO '{folder}/nodes' {written}")
    # Ends by a power law: the product of two uniform numbers crowds at the low ones.
    end = f"least(floor(pow(hash(n * 2 + {{0}}) / 18446744073709551616.0, 1.5) * {options.nodes}), {options.nodes - 1})::BIGINT"
    ends = f"SELECT {end.format(0)} AS a, {end.format(1)} AS b FROM range({options.edges}) AS r(n)"
    c.execute(f"COPY (SELECT {KEY.format('a')} AS src, {KEY.format('b')} AS dst FROM ({ends})) TO '{folder}/edges' {written}")
    c.close()
    shutil.rmtree(folder / "spill", ignore_errors=True)
    (folder / "made").touch()


class Cgroup:
    """A memory cgroup of this process's own; None of it where no limit is asked for."""

    def __init__(self, limit):
        self.folder = None
        if limit is None:
            return
        lines = pathlib.Path("/proc/self/cgroup").read_text().splitlines()
        old = next((line.split(":", 2)[2] for line in lines if line.split(":")[1] == "memory"), None)
        below = old if old is not None else lines[-1].split(":", 2)[2]
        root, name = ("/sys/fs/cgroup/memory", "memory.limit_in_bytes") if old is not None else ("/sys/fs/cgroup", "memory.max")
        self.folder = pathlib.Path(f"{root}{below}/hopfeed-bench-{os.getpid()}")
        self.folder.mkdir()
        (self.folder / name).write_text(str(limit))

    def enter(self):
        if self.folder is not None:
            (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def close(self):
        if self.folder is not None:
            self.folder.rmdir()


def size_of(folders):
    total = 0
    for folder in folders:
        for path in folder.rglob("*"):
            try:
                total += path.stat().st_blocks * 512 if path.is_file() else 0
            except OSError:
                pass  # it has just gone
    return total


def measured(words, cgroup, folders, kill_at=None):
    """Runs it; what it took, and whether it was killed."""
    begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    child = subprocess.Popen(words, preexec_fn=cgroup.enter, stderr=subprocess.PIPE, text=True)
    said = []
    reader = threading.Thread(target=lambda: said.extend(child.stderr))
    reader.start()
    most, disk, looked, killed = {"VmRSS": 0, "RssAnon": 0}, 0, 0.0, False
    while child.poll() is None:
        try:
            for line in open(f"/proc/{child.pid}/status"):
                name = line.split(":")[0]
                if name in most:
                    most[name] = max(most[name], int(line.split()[1]) << 10)
        except OSError:
            pass
        if time.monotonic() - looked > 2:
            disk, looked = max(disk, size_of(folders)), time.monotonic()
        if kill_at is not None and time.monotonic() - begin > kill_at and not killed:
            child.send_signal(signal.SIGKILL)
            killed = True
        time.sleep(POLL)
    reader.join()
    if child.returncode != 0 and not killed:
        sys.exit(f"{' '.join(map(str, words[:4]))} ... failed with {child.returncode}: {''.join(said)[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": time.monotonic() - begin, "cpu_s": cpu, "rss": most["VmRSS"], "anon": most["RssAnon"], "disk": disk}, killed


def reference(options, tables, cgroup):
    out = options.folder / "reference"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    # What DuckDB takes beyond its limit is within the memory too, as an import has it.
    limit = max(options.memory - (300 << 20), options.memory // 4)
    found, _ = measured([sys.executable, "-c", REFERENCE, tables, out, f"{limit}B", str(options.threads)], cgroup, [out])
    shutil.rmtree(out)
    return found


def imported(options, tables, cgroup, draw):
    out, work = options.folder / "dataset", options.folder / "work"
    for folder in (out, work):
        shutil.rmtree(folder, ignore_errors=True)
    features = {"features": [f"x{f}" for f in range(options.features)]} if options.features else {}
    description = {"name": "bench", "nodes": [{"name": "user", "table": f"{tables}/nodes/*.parquet", "key": "key", **features}],
                   "edges": [{"src": "user", "rel": "knows", "dst": "user", "table": f"{tables}/edges/*.parquet", "src_key": "src", "dst_key": "dst"}]}
    path = options.folder / "description.json"
    path.write_text(json.dumps(description))
    words = [sys.executable, "-m", "hopfeed.tables", "tables", out, path, "--parts", str(options.parts), "--assign", options.assign,
             "--memory", str(options.memory), "--threads", str(options.threads), "--work", work, "--json", options.folder / "report.json"]
    total, kills = None, 0
    while True:
        at = draw.uniform(*options.between) if kills < options.kills else None
        found, killed = measured(words, cgroup, [out, work], at)
        total = found if total is None else {key: total[key] + found[key] if key in ("seconds", "cpu_s") else max(total[key], found[key]) for key in found}
        if not killed:
            break
        kills += 1
        print(json.dumps({"killed_after": at, **found}), file=sys.stderr, flush=True)
    report = json.loads((options.folder / "report.json").read_text())
    return total | {"kills": kills, "fingerprint": report.get("fingerprint")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--assign", default="hash")
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--memory", type=bytes_of, default=8 << 30)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--cgroup", type=bytes_of)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--between", type=float, nargs=2, default=(5, 60), help="seconds between which a kill comes")
    parser.add_argument("--no-reference", action="store_true")
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    tables = options.folder / f"tables-{options.nodes}-{options.edges}-{options.features}"
    make_tables(options, tables)
    cgroup, draw, rounds = Cgroup(options.cgroup), random.Random(1), []
    try:
        for number in range(options.rounds):
            one = {}
            if not options.no_reference:
                one["reference"] = reference(options, tables, cgroup)
            one["import"] = imported(options, tables, cgroup, draw)
            if not options.no_reference:
                one["times"] = one["import"]["seconds"] / one["reference"]["seconds"]
            rounds.append(one)
            print(json.dumps(one), file=sys.stderr, flush=True)
    finally:
        cgroup.close()
    told = {"bench": "import tables", "nodes": options.nodes, "edges": options.edges, "features": options.features, "memory": options.memory,
            "cgroup": options.cgroup, "tables_bytes": size_of([tables]), "all": rounds}
    if not options.no_reference:
        told["times"] = statistics.median(one["times"] for one in rounds)
    print(json.dumps(told))


if __name__ == "__main__":
    main()
