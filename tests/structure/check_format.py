#!/usr/bin/env python3
"""Checks that all sources are as clang-format makes them, and that no line is beyond the column limit, which clang-format
lets long strings and comments be.

Usage: check_format.py ROOT     prints one line per fault, exits 1 if there is any
"""
import pathlib
import re
import shutil
import subprocess
import sys

from check_arrows import ARROWS, SOURCES, USERS

# By name: versions differ in what they make of the same file.
CLANG_FORMAT = "clang-format-14"


def sources(root):
    return [file for folder in (*ARROWS, *USERS) for file in sorted((root / folder).rglob("*")) if file.suffix in SOURCES]


def long_lines(path, text, limit):
    """A raw string's lines count as well: they are read like the others."""
    return [f"{path}:{number}: {len(line)} columns, and the limit is {limit}"
            for number, line in enumerate(text.splitlines(), 1) if len(line) > limit]


def check(root):
    limit = int(re.search(r"^ColumnLimit: (\d+)", (root / ".clang-format").read_text(), re.MULTILINE)[1])
    files = sources(root)
    faults = [fault for file in files for fault in long_lines(file.relative_to(root), file.read_text(), limit)]
    formatter = shutil.which(CLANG_FORMAT)
    if not formatter:
        return files, faults + [f"{CLANG_FORMAT} is not installed: run scripts/setup.sh"]
    done = subprocess.run([formatter, "--dry-run", "-Werror", *map(str, files)], cwd=root, capture_output=True, text=True)
    badly = sorted({line.split(":")[0] for line in done.stderr.splitlines() if "-Wclang-format-violations" in line})
    faults += [f"{pathlib.Path(file).relative_to(root)}: {CLANG_FORMAT} -i changes it" for file in badly]
    if done.returncode != 0 and not badly:
        faults.append(done.stderr.strip())
    return files, faults


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    files, faults = check(pathlib.Path(sys.argv[1]).resolve())
    if not files:
        faults = [f"{sys.argv[1]}: no sources found; is this the root of the repository?"]
    print("\n".join(faults) if faults else f"{len(files)} sources, all formatted")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
