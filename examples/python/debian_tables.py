"""Debian's packages as tables, the way a warehouse would have them: Parquet, with package names as keys.

    python examples/python/debian_tables.py tables         # packages.parquet, relations.parquet, description.json
    hopfeed-partition import tables dataset tables/description.json --dangling drop

The features of a package are the words of its summary, weighted by how rare they are, hashed into a fixed number of columns.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

RELATIONS = ("Pre-Depends", "Depends", "Recommends", "Suggests", "Enhances")
WIDTH = 128

DESCRIPTION = {
    "name": "debian",
    "nodes": [
        {
            "name": "package", "table": "packages.parquet", "key": "package", "features": "words", "label": "section",
            "attrs": ["installed_size", "size"], "split": {"fractions": {"train": 0.6, "valid": 0.2, "test": 0.2}},
        }
    ],
    "edges": [
        {
            "src": "package", "rel": "relates", "dst": "package", "table": "relations.parquet", "src_key": "package", "dst_key": "other",
            "undirected": True,
        }
    ],
}  # fmt: skip


def records(text: str) -> Iterator[dict[str, str]]:
    """The first record of each package."""
    seen = set()
    for block in text.split("\n\n"):
        record = dict(re.findall(r"^([A-Za-z-]+): ?(.*)$", block, re.MULTILINE))
        if (name := record.get("Package")) and name not in seen:
            seen.add(name)
            yield record


def related(record: dict[str, str]) -> set[str]:
    """The packages that a record names, one of them many times or not: "a (>= 1) | b:any, c" names a, b and c."""
    found = re.split(r"[,|]", ",".join(record.get(relation, "") for relation in RELATIONS))
    return {name for one in found if (name := re.split(r"[\s(:\[<]", one.strip(), maxsplit=1)[0])} - {record["Package"]}


def features(summaries: list[str]) -> np.ndarray:
    """float32 [summaries, WIDTH], rows of length 1; zeros where there is no word."""
    words = [Counter(re.findall(r"[a-z0-9]{2,}", summary.lower())) for summary in summaries]
    common = Counter(word for row in words for word in row)
    out = np.zeros((len(words), WIDTH), np.float32)
    for row, counted in zip(out, words):
        for word, times in counted.items():
            place = zlib.crc32(word.encode())
            row[place % WIDTH] += (1 if place >> 31 else -1) * times * np.log(len(words) / common[word])
    return out / np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-12)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="gets the tables")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    text = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, check=True).stdout.decode("utf-8", "replace")
    packages = list(records(text))
    words = features([record.get("Description", record.get("Description-en", "")) for record in packages])
    pq.write_table(
        pa.table(
            {
                "package": [record["Package"] for record in packages],
                "version": [record.get("Version") for record in packages],
                "section": [record["Section"].rsplit("/", 1)[-1] if "Section" in record else None for record in packages],
                "installed_size": pa.array([int(record.get("Installed-Size", 0)) for record in packages], pa.int64()),  # KiB
                "size": pa.array([int(record.get("Size", 0)) for record in packages], pa.int64()),  # bytes
                "words": pa.FixedSizeListArray.from_arrays(pa.array(words.reshape(-1)), WIDTH),
            }
        ),
        folder / "packages.parquet",
    )
    pairs = [(record["Package"], other) for record in packages for other in sorted(related(record))]
    pq.write_table(pa.table({"package": [one for one, _ in pairs], "other": [other for _, other in pairs]}), folder / "relations.parquet")
    (folder / "description.json").write_text(json.dumps(DESCRIPTION, indent=1) + "\n")
    print(f"{folder}: {len(packages):,} packages, {len(pairs):,} relations")


if __name__ == "__main__":
    main()
