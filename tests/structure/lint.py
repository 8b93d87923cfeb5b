#!/usr/bin/env python3
"""What clang finds in the files without Torch: clang-tidy with the checks of .clang-tidy, -Wthread-safety where mutexes say
what they guard, and headers that do not compile by themselves.

Usage: lint.py BUILD [--report FILE.xml] [--anew]     prints each finding once, exits 1 if there is any

BUILD is a build folder of the preset `lint`; its compile_commands.json is read, nothing has to be built. A unit there holds
several files, which share the time that their headers take.

What was clean is remembered in ~/.cache/hopfeed-lint, with the digest of each file that was read for it, and is not read
again until one of them, the checks or the tool changes. --anew reads all.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("core", "cache", "state", "results", "channel", "wire", "peers", "stream", "worker_mode", "server_client_mode", "programs", "partition_tool")
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


def make_words(text):
    """Files of a rule as -M writes it: TARGET: FILE FILE \\ FILE."""
    return text.replace("\\\n", " ").partition(": ")[2].split()


class Clean:
    """What was found clean, a file for each command: the digests of the files that it read. All checkouts share them."""

    def __init__(self, folder, build, anew):
        self.folder, self.build, self.anew, self.digests = folder, build, anew, {}
        tools = "".join(subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout for tool in (TIDY, CLANG))
        self.checks = tools + (ROOT / ".clang-tidy").read_text() + pathlib.Path(__file__).read_text()
        folder.mkdir(parents=True, exist_ok=True)

    def _without_places(self, text):
        return text.replace(str(self.build), "BUILD").replace(str(ROOT), "ROOT")

    def _digest(self, path):
        if path not in self.digests:
            try:
                text = pathlib.Path(path).read_bytes()
                if self.build in pathlib.Path(path).parents:   # made by CMake, with the names of the files as they are here
                    text = self._without_places(text.decode()).encode()
                self.digests[path] = hashlib.sha256(text).hexdigest()
            except OSError:
                self.digests[path] = None
        return self.digests[path]

    def _file(self, command):
        return self.folder / hashlib.sha256((self.checks + self._without_places(" ".join(command))).encode()).hexdigest()

    def has(self, command):
        try:
            known = {} if self.anew else json.loads(self._file(command).read_text())
        except (OSError, ValueError):
            return False
        here = {re.sub("^ROOT", str(ROOT), re.sub("^BUILD", str(self.build), path)): was for path, was in known.items()}
        return bool(here) and all(self._digest(path) == was for path, was in here.items())

    def add(self, command, read, begin):
        """`begin`: when the first of the files was read; what was written since may not be what was read."""
        paths = sorted({os.path.realpath(ROOT / path) for path in read})
        if any(self._digest(path) is None or os.stat(path).st_mtime >= begin for path in paths):
            return
        new = self._file(command).with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps({self._without_places(path): self._digest(path) for path in paths}))
        new.replace(self._file(command))


def tidy(clean, build, unit, command):
    if clean.has(command):
        return set()
    begin = time.time() - 1   # file systems round
    done = subprocess.run([TIDY, "-p", str(build), "--quiet", "--extra-arg=-Wthread-safety", unit], capture_output=True, text=True,
                          cwd=ROOT)
    found = set(findings(done.stdout + done.stderr))
    if done.returncode != 0 and not found:
        found.add((unit, (done.stderr or done.stdout).strip()))
    if not found:
        words = command[command.index(next(word for word in command if word.endswith(CLANG))):]
        words = words[:words.index("-o")] + words[words.index("-o") + 2:]
        rule = subprocess.run([*words, "-M"], capture_output=True, text=True, cwd=build)
        if rule.returncode == 0:
            clean.add(command, make_words(rule.stdout), begin)
    return found


def compile_header(clean, header, flags):
    command = [CLANG, *flags, "-fsyntax-only", "-Wno-pragma-once-outside-header", "-x", "c++", str(ROOT / header)]
    if clean.has(command):
        return set()
    begin = time.time() - 1
    with tempfile.NamedTemporaryFile("r") as rule:
        done = subprocess.run([*command, "-MD", "-MF", rule.name], capture_output=True, text=True, cwd=ROOT)
        found = set(findings(done.stderr))
        if done.returncode == 0 and not found:
            clean.add(command, make_words(rule.read()), begin)
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
    parser.add_argument("--anew", action="store_true", help="read also what was clean before")
    options = parser.parse_args()
    build = options.build.resolve()
    all_units = units(build)
    if not all_units:
        sys.exit(f"{build}: no units of {', '.join(FOLDERS)}; configure it with cmake --preset lint")
    flags = [flag for flag in next(iter(all_units.values())) if re.match(r"-(std=|D|march=)", flag)] + [f"-I{ROOT}"]
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "hopfeed-lint"
    clean = Clean(cache, build, options.anew)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {str(pathlib.Path(unit).relative_to(build if build in pathlib.Path(unit).parents else ROOT)): pool.submit(tidy, clean, build, unit, command)
                for unit, command in all_units.items()}
        jobs |= {str(header): pool.submit(compile_header, clean, header, flags) for header in headers()}
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
