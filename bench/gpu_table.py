#!/usr/bin/env python3
"""Collects what bench/gpu.sh measures, and writes the tables of docs/gpu.md.

Usage: gpu_table.py --add OUT NAME COMMAND    the last JSON line of OUT/NAME.log into OUT/results.json, or that it passed
       gpu_table.py --tables OUT              all of OUT/results.json as Markdown
"""
import datetime
import json
import pathlib
import sys


def add(out, name, command):
    found = None
    for line in (out / f"{name}.log").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("{"):
            try:
                found = json.loads(line)
            except ValueError:
                continue
    with open(out / "results.json", "a", encoding="utf-8") as file:
        file.write(json.dumps({"name": name, "command": command, "report": found}) + "\n")


def shown(value):
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (dict, list)):
        return json.dumps(value)
    return str(value)


def tables(out):
    card = (out / "card.txt").read_text(encoding="utf-8").strip()
    print(f"{card}, {datetime.date.today().isoformat()}\n")
    print("| what | command | figure |\n|---|---|---|")
    for line in (out / "results.json").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        command = " ".join(pathlib.PurePath(word).name if word.startswith("/") else word for word in row["command"].split())
        report = row["report"]
        if report is None:
            print(f"| {row['name']} | `{command}` | passed |")
            continue
        figures = ", ".join(f"`{key}` {shown(value)}" for key, value in report.items() if key not in ("bench", "verified"))
        print(f"| {row['name']} | `{command}` | {figures} |")


def main():
    if len(sys.argv) == 5 and sys.argv[1] == "--add":
        add(pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4])
    elif len(sys.argv) == 3 and sys.argv[1] == "--tables":
        tables(pathlib.Path(sys.argv[2]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
