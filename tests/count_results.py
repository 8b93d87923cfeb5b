#!/usr/bin/env python3
"""Counts test cases: tests/run.sh calls it for its closing line.

Usage: count_results.py FOLDER...

Each FOLDER holds ctest.xml (ctest --output-junit) and, per GoogleTest program or run of pytest, gtest/<ctest name>.xml. A program counts
by its cases; where it died before it wrote them, or is no GoogleTest program, it counts as one. A folder without
ctest.xml, which is what a failed build leaves, counts as one failure.

FOLDER/second holds the same of what failed, run once more. A GoogleTest program of which cases failed, and that is
sound there, counts as that run has it, and its cases are printed as unsteady: on a shared machine a test may lose a
race with its deadline. What crashed, hung, was found by a sanitizer, was skipped there or is a script stays a failure.

Prints failures, unsteady cases, skips with their reasons and at the end "N passed, N failed, N skipped"; exits 1 if
anything failed.
"""
import dataclasses
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


@dataclasses.dataclass
class Counts:
    passed: int = 0
    failed: list = dataclasses.field(default_factory=list)
    skipped: list = dataclasses.field(default_factory=list)
    unsteady: list = dataclasses.field(default_factory=list)
    names: set = dataclasses.field(default_factory=set)   # of what passed


def parse(path):
    try:
        return ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return None


def reason(skipped):
    """The first line that says something: GoogleTest puts the source's place on the line before."""
    lines = [line.strip() for line in (skipped.get("message") or skipped.text or "").splitlines() if line.strip()]
    return lines[1] if len(lines) > 1 else lines[0] if lines else "no reason stated"


def add_gtest(counts, prefix, root):
    for case in root.iter("testcase"):
        name = f"{prefix}: {case.get('classname')}.{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            counts.failed.append(name)
        elif (skipped := case.find("skipped")) is not None:
            counts.skipped.append(f"{name} ({reason(skipped)})")
        elif case.get("status", "run") == "run":   # pytest writes no status
            counts.passed += 1
            counts.names.add(name)


def may_be_unsteady(entry, counts):
    """Cases failed, and nothing besides: failures outside of cases end with a bracket."""
    output = entry.findtext("system-out") or ""
    return bool(counts.failed) and "Sanitizer" not in output and "runtime error:" not in output \
        and not any(name.endswith(")") for name in counts.failed)


def add_folder(counts, folder):
    preset = folder.name
    ctest = parse(folder / "ctest.xml")
    if ctest is None:
        counts.failed.append(f"{preset}: did not build, or its tests never ended")
        return
    second = parse(folder / "second" / "ctest.xml")
    again = {entry.get("name"): entry for entry in second.iter("testcase")} if second is not None else {}
    for entry in ctest.iter("testcase"):
        first = count_entry(folder, preset, entry)
        if entry.get("name") in again and may_be_unsteady(entry, first):
            other = count_entry(folder / "second", preset, again[entry.get("name")])
            if not other.failed and other.names.issuperset(first.failed):
                first = dataclasses.replace(other, unsteady=first.failed)
        counts.passed += first.passed
        counts.failed += first.failed
        counts.skipped += first.skipped
        counts.unsteady += first.unsteady


def count_entry(folder, preset, entry):
    """One program or script."""
    counts = Counts()
    name, status = f"{preset}: {entry.get('name')}", entry.get("status")
    gtest = parse(folder / "gtest" / f"{entry.get('name')}.xml")
    if gtest is not None:
        add_gtest(counts, name, gtest)
    elif status == "run":
        counts.passed += 1
    skipped = entry.find("skipped")
    if status == "fail" and not counts.failed:
        counts.failed.append(f"{name} (crashed, ran out of time, or failed outside its cases)")
    elif status == "notrun" and skipped is not None and skipped.get("message", "").startswith("SKIP_"):
        counts.skipped.append(f"{name} (see its output)")
    elif status not in ("run", "fail"):
        counts.failed.append(f"{name} ({reason(skipped) if skipped is not None else status})")
    return counts


def count(folders):
    counts = Counts()
    for folder in folders:
        add_folder(counts, pathlib.Path(folder))
    return counts


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    counts = count(sys.argv[1:])
    for name in counts.skipped:
        print(f"skipped  {name}")
    for name in counts.unsteady:
        print(f"UNSTEADY {name} (failed, and passed when it was run once more)")
    for name in counts.failed:
        print(f"FAILED   {name}")
    print(f"{counts.passed} passed, {len(counts.failed)} failed, {len(counts.skipped)} skipped")
    sys.exit(1 if counts.failed else 0)


if __name__ == "__main__":
    main()
