#!/usr/bin/env python3
"""What a card does with hopfeed: runs what bench/gpu.sh --pack packed, in parts, and writes the tables of docs/gpu.md.

Usage: run.py FOLDER --out OUT [--part PART]... [--rehearse]

Each command has a log OUT/NAME.log and a line in OUT/results.json as soon as it ends; one that fails is told and the others go on.
The graph is made beside OUT, once. Tests run side by side; what is measured runs alone.
"""
from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

PARTS = ("tests", "sanitizer", "graph", "limits", "sampler", "kinds", "gather", "batches", "made", "digests", "training", "python", "loop", "profile")
FILLS_THE_CARD = "TooLittleMemoryIsOneLine"   # runs behind the others
SANITIZERS = ("memcheck", "racecheck", "initcheck", "synccheck")
KINDS = ("replace", "disjoint", "weighted", "temporal", "hetero", "link")


@dataclasses.dataclass
class Step:
    name: str
    command: list[str]
    limit: float = 60  # seconds
    environment: dict[str, str] = dataclasses.field(default_factory=dict)


def last_report(log: Path) -> dict | None:
    """The last line of a log that is a JSON object."""
    for line in reversed(log.read_text(encoding="utf-8", errors="replace").splitlines()):
        if line.startswith("{"):
            try:
                return json.loads(line)
            except ValueError:
                continue
    return None


class Runner:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.folder, self.out, self.rehearse = arguments.folder.resolve(), arguments.out.resolve(), arguments.rehearse
        self.environment = dict(os.environ, PYTHONUNBUFFERED="1", PYTHONPATH=f"{self.folder}/python", HOPFEED_BIN=f"{self.folder}/bin")
        torch = ""
        if (self.folder / "bin/node_classification").exists():
            found = subprocess.run([sys.executable, "-c", "import torch; print(torch.__path__[0])"], capture_output=True, text=True)
            torch = f":{found.stdout.strip()}/lib" if found.returncode == 0 else ""
        self.environment["LD_LIBRARY_PATH"] = f"{self.folder}/lib{torch}:{os.environ.get('LD_LIBRARY_PATH', '')}"
        self.failed: list[str] = []
        self.left_out: list[str] = []
        self.begin, self.within, self.only = time.monotonic(), arguments.within, re.compile(arguments.only)

    def program(self, name: str) -> str:
        return str(self.folder / "bin" / name)

    def together(self, steps: list[Step]) -> None:
        """Starts all of them, and waits for each up to its limit, and for none longer than the run may take."""
        running = []
        for step in steps:
            if not self.only.search(step.name):
                continue
            step.limit = min(step.limit, self.within - (time.monotonic() - self.begin))
            if step.limit < 3:
                self.left_out.append(step.name)
                continue
            log = open(self.out / f"{step.name}.log", "w", encoding="utf-8")
            running.append((step, log, time.monotonic(), subprocess.Popen(step.command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                                                                          env=self.environment | step.environment)))
        for step, log, begin, process in running:
            try:
                status = process.wait(max(0.1, step.limit - (time.monotonic() - begin)))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()
                status = "out of time"
            log.close()
            self.tell(step, status, time.monotonic() - begin)

    def one_by_one(self, steps: list[Step]) -> None:
        for step in steps:
            self.together([step])

    def tell(self, step: Step, status: int | str, seconds: float) -> None:
        log = self.out / f"{step.name}.log"
        words = [Path(word).name if word.startswith("/") else word for word in step.command]
        line = {"name": step.name, "command": shlex.join(words), "status": status, "seconds": round(seconds, 1), "report": last_report(log)}
        with open(self.out / "results.json", "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        shown = "" if line["report"] is None else json.dumps(line["report"])[:700]
        ended = "ok" if status == 0 else f"FAILED ({status})"
        print(f"[{time.monotonic() - self.begin:5.0f} s] {step.name}: {ended} in {seconds:.1f} s  {shown}", flush=True)
        if status != 0:
            self.failed.append(step.name)
            text = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            wrong = [text_line for text_line in text if "FAILED" in text_line or "Failure" in text_line or "rror" in text_line][:6]
            print("\n".join(f"    {text_line[:300]}" for text_line in wrong + text[-3:]), flush=True)


def modes(runner: Runner) -> tuple[str, ...]:
    return ("cpu",) if runner.rehearse else ("uva", "cuda")


def tests(runner: Runner) -> list[Step]:
    """One process for each test of the card, since each has a context of its own."""
    steps = []
    for program, limit in (("gpu_device_test", 110), ("gpu_card_slots_test", 80), ("trainer_gpu_test", 110)):
        if not (runner.folder / "bin" / program).exists():
            continue
        listed = subprocess.run([runner.program(program), "--gtest_list_tests"], capture_output=True, text=True, env=runner.environment).stdout
        suite = ""
        for line in listed.splitlines():
            if line and not line.startswith(" "):
                suite = line.split("#")[0].strip()
            elif line.startswith(" "):
                test = suite + line.split("#")[0].strip()
                steps.append(Step("test-" + test.replace("/", "-"), [runner.program(program), f"--gtest_filter={test}"], limit))
    return steps


def sanitizers(runner: Runner) -> list[Step]:
    if not shutil.which("compute-sanitizer"):
        return []
    steps = []
    for tool in SANITIZERS:
        few = {"HOPFEED_CARD_ROUNDS": "1" if tool == "racecheck" else "2"}
        # Of arrays that grow the tail that nobody has written is copied too.
        more = ["--check-api-memory-access", "no"] if tool == "initcheck" else []
        chosen = "*OnACard*/0:*OnACard*/4" if tool == "racecheck" else "*OnACard*:*RowsOfAnyTable*"
        steps.append(Step(f"sanitizer-{tool}", ["compute-sanitizer", "--tool", tool, *more, "--error-exitcode", "9", runner.program("gpu_device_test"),
                                                f"--gtest_filter={chosen}"], 110, few))
    return steps


def sampler(runner: Runner, arguments: argparse.Namespace, data: str) -> list[Step]:
    steps = []
    for mode in modes(runner):
        base = [runner.program("hopfeed-bench"), "sampler", "--graph-mode", mode, "--seconds", str(arguments.seconds), "--verify"]
        steps.append(Step(f"sampler-{mode}", [*base, "--data", data]))
        steps.append(Step(f"sampler-{mode}-e-id", [*base, "--data", data, "--e-id"]))
        steps.append(Step(f"sampler-{mode}-4-threads", [*base, "--data", data, "--threads", "4"]))
        steps.append(Step(f"one-seed-{mode}", [*base, "--data", data, "--batch-size", "1"]))
    return steps


def kinds(runner: Runner, arguments: argparse.Namespace) -> list[Step]:
    """Of smaller graphs, which the bench makes up with weights, times and types."""
    steps = []
    for mode in modes(runner):
        base = [runner.program("hopfeed-bench"), "sampler", "--graph-mode", mode, "--seconds", str(arguments.seconds / 2), "--verify"]
        size = ["--nodes", str(arguments.nodes // 8), "--edges", str(arguments.edges // 8)]
        steps += [Step(f"sampler-{mode}-{kind}", [*base, *size, "--kind", kind]) for kind in KINDS]
    return steps


def training(runner: Runner, arguments: argparse.Namespace, data: str) -> list[Step]:
    base = [runner.program("node_classification"), "--data", data, "--epochs", "3", "--no-baseline", "--hidden", "256"]
    if runner.rehearse:
        return [Step("training-cpu", [*base, "--json", str(runner.out / "training-cpu.json")])]
    steps = []
    for name, more in (("cpu-sampling", ["--num-workers", "8"]), ("uva", ["--graph-mode", "uva", "--num-workers", "2"]),
                       ("cuda", ["--graph-mode", "cuda", "--num-workers", "2"]), ("cuda-alone", ["--graph-mode", "cuda", "--num-workers", "0"])):
        steps.append(Step(f"training-{name}", [*base, "--device", "cuda", *more, "--json", str(runner.out / f"training-{name}.json")], 90))
    return steps


def batches(runner: Runner, arguments: argparse.Namespace, data: str) -> list[Step]:
    """Whole batches, without anybody who computes on them."""
    base = [runner.program("hopfeed-bench"), "loader", "--data", data, "--seconds", str(arguments.seconds)]
    if runner.rehearse:
        return []
    steps = [Step(f"batches-{mode}-device-{workers}", [*base, "--graph-mode", mode, "--device-batches", "--num-workers", str(workers)])
             for workers in (0, 1, 2) for mode in modes(runner)]
    return steps + [Step(f"batches-{mode}-host-{workers}", [*base, "--graph-mode", mode, "--num-workers", str(workers)]) for workers in (1, 4) for mode in modes(runner)]


def loop(runner: Runner, arguments: argparse.Namespace, data: str) -> list[Step]:
    base = [sys.executable, str(Path(__file__).parent / "loop.py"), "--data", data, "--seconds", str(arguments.seconds)]
    if runner.rehearse:
        base += ["--device", "cpu", "--batch-size", "64"]
        return [Step("loop-cpu", base), Step("loop-pyg", [*base, "--loader", "pyg", "--workers", "2", "--pyg-lib", str(runner.folder / "lib/pyg_lib_sampler.so")])]
    steps = [Step("loop-cpu-8", [*base, "--workers", "8"])]
    for mode in modes(runner):
        steps.append(Step(f"loop-{mode}-device-1", [*base, "--place", mode, "--device-batches", "--workers", "1"]))
        steps.append(Step(f"loop-{mode}-device-2", [*base, "--place", mode, "--device-batches", "--workers", "2"]))
    steps.append(Step("loop-cuda-device-0", [*base, "--place", "cuda", "--device-batches", "--workers", "0"]))
    if (runner.folder / "lib/pyg_lib_sampler.so").exists():
        steps.append(Step("loop-pyg-12", [*base, "--loader", "pyg", "--workers", "12", "--pyg-lib", str(runner.folder / "lib/pyg_lib_sampler.so")], 90))
    return steps


def run(runner: Runner, arguments: argparse.Namespace) -> None:
    bench = runner.program("hopfeed-bench")
    data = str(runner.out.parent / "gpu-graph")
    graph = Step("graph", [runner.program("hopfeed-partition"), "generate", data, "--nodes", str(arguments.nodes), "--edges", str(arguments.edges),
                           "--features", "100", "--classes", "47", "--seed", "1", "--train-fraction", "0.08", "--threads", str(os.cpu_count())], 150)
    beside = [graph] if "graph" in arguments.part and not Path(data, "meta.json").exists() else []
    if "tests" in arguments.part:
        beside += tests(runner)
    if "sanitizer" in arguments.part:
        beside += sanitizers(runner)
    runner.together([step for step in beside if FILLS_THE_CARD not in step.name])
    runner.together([step for step in beside if FILLS_THE_CARD in step.name])
    for name in arguments.part:
        if name == "limits":
            runner.one_by_one([Step("limits", [bench, "limits", *([] if runner.rehearse else ["--gpu"])])])
        elif name == "sampler":
            runner.one_by_one(sampler(runner, arguments, data))
        elif name == "kinds":
            runner.one_by_one(kinds(runner, arguments))
        elif name == "gather":
            runner.one_by_one([Step("gather", [bench, "gather", *(["--data", data] if runner.rehearse else ["--gpu"])])])
        elif name == "batches":
            runner.one_by_one(batches(runner, arguments, data))
        elif name == "made":
            more = ["--host", "--nodes", "100000", "--edges", "1000000"] if runner.rehearse else []
            made = [bench, "made-graph", "--verify", "--seconds", str(arguments.seconds), *more]
            runner.one_by_one([Step(f"made-{mode}", [*made, *([] if runner.rehearse else ["--graph-mode", mode])], 90) for mode in modes(runner)])
            if not runner.rehearse:
                runner.one_by_one([Step(f"made-uva-hot-{hot}", [*made, "--graph-mode", "uva", "--hot-bytes", str(hot)], 90) for hot in (0, 1 << 30)])
        elif name == "digests":
            runner.one_by_one([Step("digests", [sys.executable, str(Path(__file__).parent / "digests.py"), str(runner.folder / "bin"), *(["--places", "cpu"] if runner.rehearse else [])], 150)])
        elif name == "training":
            runner.one_by_one(training(runner, arguments, data))
        elif name == "python":
            runner.one_by_one([Step("python-tests", [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(runner.folder / "python/tests/test_gpu.py")], 120)])
        elif name == "loop":
            runner.one_by_one(loop(runner, arguments, data))
        elif name == "profile" and shutil.which("ncu"):
            for mode in modes(runner):
                runner.one_by_one([Step(f"profile-{mode}", ["ncu", "--csv", "--clock-control", "none", "--cache-control", "none", "--launch-skip", "55", "--launch-count", "45", "--graph-profiling", "node",
                                                            "--metrics", "gpu__time_duration.sum,dram__bytes.sum,lts__t_sectors.sum,sm__warps_active.avg.pct_of_peak_sustained_active",
                                                            bench, "sampler", "--data", data, "--graph-mode", mode, "--seconds", "0.1"], 90)])


def shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return json.dumps(value) if isinstance(value, (dict, list)) else str(value)


def write_tables(out: Path, card: str) -> None:
    lines = [f"{card}, {datetime.date.today().isoformat()}", "", "| what | command | figure |", "|---|---|---|"]
    for line in (out / "results.json").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        report = row["report"] or {}
        figures = ", ".join(f"`{key}` {shown(value)}" for key, value in report.items() if key not in ("bench", "verified", "fields"))
        ended = "passed" if row["status"] == 0 else f"failed ({row['status']})"
        lines.append(f"| {row['name']} | `{row['command']}` | {figures or ended} |")
    (out / "results.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the pack was unpacked")
    parser.add_argument("--out", type=Path, required=True, help="a folder that is there")
    parser.add_argument("--part", action="append", choices=PARTS, help="this part alone; may be given again")
    parser.add_argument("--nodes", type=int, default=2_449_029, help="of the graph")
    parser.add_argument("--edges", type=int, default=123_718_280)
    parser.add_argument("--seconds", type=float, default=2, help="of each measurement")
    parser.add_argument("--within", type=float, default=480, help="seconds of the whole run; what does not fit is left out and told")
    parser.add_argument("--only", default="", help="steps whose name has this regular expression")
    parser.add_argument("--rehearse", action="store_true", help="without a card: the same commands on the CPU, to try the scripts")
    arguments = parser.parse_args()
    arguments.part = arguments.part or list(PARTS)
    if not (arguments.folder / "bin/hopfeed-bench").exists():
        parser.error(f"{arguments.folder} has no bin/hopfeed-bench; unpack what bench/gpu.sh --pack wrote, and name that folder")
    if not arguments.out.is_dir():
        parser.error(f"--out '{arguments.out}' is no folder; make it first")
    card = "rehearsed without a card"
    if not arguments.rehearse:
        asked = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"], capture_output=True, text=True)
        if asked.returncode != 0:
            parser.error("no card here: nvidia-smi says so; run it on the machine that has one")
        card = asked.stdout.strip().replace("\n", "; ")
    print(card, flush=True)
    (arguments.out / "results.json").unlink(missing_ok=True)
    runner = Runner(arguments)
    run(runner, arguments)
    if (arguments.out / "results.json").exists():
        write_tables(arguments.out, card)
    if runner.left_out:
        print(f"left out, for lack of time: {', '.join(runner.left_out)}", flush=True)
    print(f"failed: {', '.join(runner.failed)}" if runner.failed else "all passed", flush=True)
    return 1 if runner.failed else 0


if __name__ == "__main__":
    sys.exit(main())
