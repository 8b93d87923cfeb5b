#!/usr/bin/env python3
"""What clang finds in the files without Torch: clang-tidy with the checks of .clang-tidy, -Wthread-safety where mutexes say
what they guard, and headers that do not compile by themselves.

Usage: lint.py BUILD [--report FILE.xml]     prints each finding once, exits 1 if there is any

BUILD is a build folder of the preset `lint`; its compile_commands.json is read, nothing has to be built. A unit there holds
several files, which share the time that their headers take.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("core", "cache", "channel", "worker_mode", "server_client_mode", "programs", "partition_tool")
TIDY, CLANG = "clang-tidy-16", "clang++-16"
FINDING = re.compile(r"^(/[^:]+):(\d+):\d+: (?:warning|error): (.*)$")


def units(build):
    """name -> command of each unit of the folders."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        below = path.relative_to(build if build in path.parents else ROOT)
        if below.parts[0] in FOLDERS:
            found[str(path)] = shlex.split(entry["command"])
    return found


def findings(text):
    """(place, what) of each; `place` as one would open it."""
    for line in text.splitlines():
        if match := FINDING.match(line):
            path = pathlib.Path(match[1])
            yield f"{path.relative_to(ROOT) if ROOT in path.parents else path}:{match[2]}", match[3].replace(",-warnings-as-errors", "")


def tidy(build, unit):
    done = subprocess.run([TIDY, "-p", str(build), "--quiet", "--extra-arg=-Wthread-safety", unit], capture_output=True, text=True,
                          cwd=ROOT)
    found = set(findings(done.stdout + done.stderr))
    if done.returncode != 0 and not found:
        found.add((unit, (done.stderr or done.stdout).strip()))
    return found


def compile_header(header, flags):
    done = subprocess.run([CLANG, *flags, "-fsyntax-only", "-Wno-pragma-once-outside-header", "-x", "c++", str(ROOT / header)],
                          capture_output=True, text=True, cwd=ROOT)
    found = set(findings(done.stderr))
    return found if done.returncode == 0 or found else {(str(header), done.stderr.strip())}


def headers():
    return [file.relative_to(ROOT) for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.h"))]


def report(results, path):
    suite = ElementTree.Element("testsuite", name="lint")
    for name, found in results.items():
        case = ElementTree.SubElement(suite, "testcase", name=name)
        case.set("status", "fail" if found else "run")
    path.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(suite).write(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--report", type=pathlib.Path, help="JUnit file for tests/count_results.py")
    options = parser.parse_args()
    build = options.build.resolve()
    all_units = units(build)
    if not all_units:
        sys.exit(f"{build}: no units of {', '.join(FOLDERS)}; configure it with cmake --preset lint")
    flags = [flag for flag in next(iter(all_units.values())) if re.match(r"-(std=|D|march=)", flag)] + [f"-I{ROOT}"]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {str(pathlib.Path(unit).relative_to(build if build in pathlib.Path(unit).parents else ROOT)): pool.submit(tidy, build, unit)
                for unit in all_units}
        jobs |= {str(header): pool.submit(compile_header, header, flags) for header in headers()}
        results = {name: job.result() for name, job in jobs.items()}
    found = sorted(set().union(*results.values()))
    for place, what in found:
        print(f"{place}: {what}")
    print(f"{len(all_units)} units, {len(results) - len(all_units)} headers, {len(found)} findings")
    if options.report:
        report(results, options.report)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
