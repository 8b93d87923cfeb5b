#!/usr/bin/env python3
"""Compiles the CUDA units of libraries, benches and tests for each architecture that hopfeed is built for, and to PTX of
the newest. No card is needed; where there is no nvcc, that is said and counted as skipped.

Usage: compile_kernels.py FOLDER     FOLDER gets ctest.xml and gtest/*.xml, as tests/count_results.py reads them
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
from xml.sax.saxutils import quoteattr

ROOT = pathlib.Path(__file__).resolve().parents[2]
PRESET = "gpus"  # CMakePresets.json: the architectures
WANTED = {"sm_80", "sm_90", "sm_100", "sm_120", "compute_120"}


def run(*words):
    print("$", " ".join(words), flush=True)
    return subprocess.run(words, cwd=ROOT, check=False).returncode == 0


def units(build):
    """Objects of the CUDA units, as ninja knows them."""
    listed = subprocess.run(["ninja", "-C", str(build), "-t", "targets", "all"], check=True, text=True,
                            capture_output=True).stdout
    return sorted(re.findall(r"^(\S+\.cu\.o): ", listed, re.MULTILINE))


def targets(build, unit):
    """Of which architectures code and PTX come, as nvcc is told: there may be nothing that looks into objects."""
    commands = json.loads((build / "compile_commands.json").read_text())
    command = next(entry["command"] for entry in commands if unit in entry["command"])
    return set(re.findall(r"(?<=[\[,=])(?:sm|compute)_\d+(?=[\],])", " ".join(re.findall(r"code=(\[\S+?\])", command))))


def compile_unit(build, unit):
    """What is wrong; nothing where all is well."""
    if not run("ninja", "-C", str(build), unit):
        return "it does not compile"
    missing = WANTED - targets(build, unit)
    return f"nvcc was not asked for {', '.join(sorted(missing))}" if missing else ""


def report(folder, cases):
    """(name, "run", "skipped" or "failed", reason)."""
    (folder / "gtest").mkdir(parents=True, exist_ok=True)
    lines = []
    for name, what, reason in cases:
        inside = {"run": "", "skipped": f"<skipped message={quoteattr(reason)}/>",
                  "failed": f"<failure message={quoteattr(reason)}/>"}[what]
        lines.append(f'<testcase classname="Cuda" name={quoteattr(name)} status="run">{inside}</testcase>')
        print(f"{name}: {what}{', ' + reason if reason else ''}")
    text = "<testsuite>" + "\n".join(lines) + "</testsuite>\n"
    (folder / "gtest" / "kernels.xml").write_text(f"<testsuites>{text}</testsuites>")
    status = "fail" if any(what == "failed" for _, what, _ in cases) else "run"
    (folder / "ctest.xml").write_text(f'<testsuite><testcase name="kernels" status="{status}"/></testsuite>\n')
    return status == "run"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    folder, build = pathlib.Path(sys.argv[1]), ROOT / "build" / PRESET
    if not (shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")):
        report(folder, [("units", "skipped", "there is no nvcc here")])
        return
    if not run("cmake", "--preset", PRESET):
        sys.exit(1)  # no report: counted as one failure
    cases = []
    for unit in units(build):
        wrong = compile_unit(build, unit)
        cases.append((re.sub(r"CMakeFiles/\S+\.dir/|\.o$", "", unit), "failed" if wrong else "run", wrong))
    if not cases:
        cases.append(("units", "failed", "the build has no CUDA units"))
    sys.exit(0 if report(folder, cases) else 1)


if __name__ == "__main__":
    main()
