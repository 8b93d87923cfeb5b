#!/usr/bin/env python3
"""What a card does with hopfeed: runs what bench/gpu.sh --pack packed, in parts, and writes the tables of docs/gpu.md.

Usage: run.py FOLDER --out OUT [--part PART]... [--rehearse]

Each command has a log OUT/NAME.log and a line in OUT/results.json as soon as it ends; one that fails is told and the others go on.
The graph is made beside OUT, once, or is one that is there (--data). Tests run side by side; what is measured runs alone.
The parts `peers` and `loop` end with a line made of others, `peers` and `loop-ratio`, which is in OUT/peers.json and OUT/loop-ratio.json too.
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
import statistics
import subprocess
import sys
import time
from pathlib import Path

PARTS = ("tests", "sanitizer", "graph", "limits", "sampler", "kinds", "gather", "batches", "made", "digests", "training", "python", "loop", "peers", "profile")
MEASURED_ON_THE_GRAPH = {"graph", "sampler", "batches", "training", "loop", "peers", "profile"}
FILLS_THE_CARD = "TooLittleMemoryIsOneLine"   # runs behind the others
SANITIZERS = ("memcheck", "racecheck", "initcheck", "synccheck")
KINDS = ("replace", "disjoint", "weighted", "temporal", "hetero", "link")
PLACES = {"cuda": "cuda", "uva": "cpu"}  # where the graph lies: hopfeed's name of it, and WholeGraph's
# Other samplers with a CUDA kernel: the module that would show one is here, and why none is expected to be.
UNINSTALLABLE = {"graphbolt": ("dgl", "PyPI's dgl is a CPU build"), "cugraph-pyg": ("cugraph_pyg", "wants libcugraph, a wheel of 510 MB")}


@dataclasses.dataclass
class Step:
    name: str
    command: list[str]
    limit: float = 60  # seconds
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    of_another: bool = False  # another loader's: that it fails is a result, no failure of ours


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
        self.bin = arguments.bin.resolve()
        paths = [f"{self.folder}/python", *filter(None, [os.environ.get("PYTHONPATH")])]
        self.environment = dict(os.environ, PYTHONUNBUFFERED="1", PYTHONPATH=":".join(paths), HOPFEED_BIN=str(self.bin))
        torch = ""
        if (self.bin / "node_classification").exists():
            found = subprocess.run([sys.executable, "-c", "import torch; print(torch.__path__[0])"], capture_output=True, text=True)
            torch = f":{found.stdout.strip()}/lib" if found.returncode == 0 else ""
        self.environment["LD_LIBRARY_PATH"] = f"{self.folder}/lib{torch}:{os.environ.get('LD_LIBRARY_PATH', '')}"
        self.failed: list[str] = []
        self.others_failed: list[str] = []
        self.left_out: list[str] = []
        self.begin, self.within, self.only = time.monotonic(), arguments.within, re.compile(arguments.only)

    def program(self, name: str) -> str:
        return str(self.bin / name)

    def together(self, steps: list[Step]) -> dict[str, dict]:
        """Starts all of them, and waits for each up to its limit, and for none longer than the run may take. Gives the lines by name."""
        running, lines = [], {}
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
            lines[step.name] = self.tell(step, status, time.monotonic() - begin)
        return lines

    def one_by_one(self, steps: list[Step]) -> dict[str, dict]:
        return {name: line for step in steps for name, line in self.together([step]).items()}

    def write(self, line: dict) -> None:
        with open(self.out / "results.json", "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def conclude(self, name: str, what: str, report: dict) -> None:
        """A line that no command printed: it is made of those that did."""
        self.write({"name": name, "command": what, "status": 0, "seconds": 0, "report": report})
        text = json.dumps({"name": name} | report)
        (self.out / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        print(f"[{time.monotonic() - self.begin:5.0f} s] {text}", flush=True)

    def tell(self, step: Step, status: int | str, seconds: float) -> dict:
        log = self.out / f"{step.name}.log"
        words = [Path(word).name if word.startswith("/") else word for word in step.command]
        line = {"name": step.name, "command": shlex.join(words), "status": status, "seconds": round(seconds, 1), "report": last_report(log)}
        self.write(line)
        shown = "" if line["report"] is None else json.dumps(line["report"])[:700]
        ended = "ok" if status == 0 else f"FAILED ({status})"
        print(f"[{time.monotonic() - self.begin:5.0f} s] {step.name}: {ended} in {seconds:.1f} s  {shown}", flush=True)
        if status != 0:
            (self.others_failed if step.of_another else self.failed).append(step.name)
            text = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            wrong = [text_line for text_line in text if "FAILED" in text_line or "Failure" in text_line or "rror" in text_line][:6]
            print("\n".join(f"    {text_line[:300]}" for text_line in wrong + text[-3:]), flush=True)
        return line


def modes(runner: Runner) -> tuple[str, ...]:
    return ("cpu",) if runner.rehearse else ("uva", "cuda")


def tests(runner: Runner) -> list[Step]:
    """One process for each test of the card, since each has a context of its own."""
    steps = []
    for program, limit in (("gpu_device_test", 110), ("gpu_card_slots_test", 80), ("trainer_gpu_test", 110)):
        if not (runner.bin / program).exists():
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
    base = [sys.executable, str(Path(__file__).parent / "loop.py"), "--data", data]
    ours = [*base, "--seconds", str(arguments.seconds)]
    # Twice as long: it is slow, and what its workers have ready when the clock starts counts.
    pyg = [*base, "--seconds", str(2 * arguments.seconds), "--loader", "pyg", "--pyg-lib", str(runner.folder / "lib/pyg_lib_sampler.so")]
    if runner.rehearse:
        on_the_cpu = ["--device", "cpu", "--batch-size", "64"]
        return [Step("loop-cpu", [*ours, *on_the_cpu]), Step("loop-pyg", [*pyg, *on_the_cpu, "--workers", "2"])]
    steps = [Step(f"loop-cpu-{workers}", [*ours, "--workers", str(workers)]) for workers in (8, 12)]
    steps += [Step(f"loop-{mode}-device-{workers}", [*ours, "--place", mode, "--device-batches", "--workers", str(workers)])
              for mode, workers in (("uva", 1), ("cuda", 1), ("cuda", 0))]
    if (runner.folder / "lib/pyg_lib_sampler.so").exists():
        steps += [Step(f"loop-pyg-{workers}", [*pyg, "--workers", str(workers)], 90, of_another=True) for workers in (8, 12, 15)]
    return steps


def four_digits(value: float) -> float:
    return float(f"{value:.4g}")


def loop_ratio(lines: dict[str, dict]) -> dict:
    """The best of hopfeed's settings and of PyG's own, which need not be the same for both figures, and how they compare."""
    report: dict = {}
    for figure in ("steps_per_s", "loader_batches_per_s"):
        best: dict[str, tuple[float, str]] = {}
        for name, line in lines.items():
            if line["status"] == 0 and line["report"] and figure in line["report"]:
                who = "pyg" if name.startswith("loop-pyg") else "hopfeed"
                best[who] = max(best.get(who, (0.0, "")), (line["report"][figure], name))
        report[figure] = {who: {"best": four_digits(best[who][0]), "of": best[who][1]} if who in best else None for who in ("hopfeed", "pyg")}
        report[figure]["ratio"] = four_digits(best["hopfeed"][0] / best["pyg"][0]) if len(best) == 2 else None
    return report


class Peers:
    """hopfeed's sampler and WholeGraph's on one graph, by turns. The results of both stay in the card's memory."""

    LIMIT = 60  # seconds of each process
    NOT_RUN = "left out: there was no time, or --only is of others"

    def __init__(self, runner: Runner, arguments: argparse.Namespace, data: str) -> None:
        self.runner, self.data, self.seconds, self.rounds = runner, data, arguments.peer_seconds, max(1, arguments.rounds)
        # For these steps alone: other Python here need not see the folder.
        self.paths = {"PYTHONPATH": f"{runner.folder}/wholegraph:{runner.environment['PYTHONPATH']}"}
        self.memory_type = "continuous"  # what a place starts with
        self.types: dict[str, str] = {}  # place -> what it goes on with
        self.fell_back: dict[str, str] = {}  # place -> why not on the first
        self.why: dict[str, str] = {}  # place -> why WholeGraph has no figures, or not of each round
        self.given_up: set[str] = set()  # places

    def python(self, text: str) -> str | None:
        """Runs a line of Python: None where it is fine, else its last words."""
        try:
            done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=self.LIMIT, env=self.runner.environment | self.paths)
        except subprocess.TimeoutExpired:
            return f"no answer within {self.LIMIT} s"
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return None if done.returncode == 0 else said[-1][:200]

    def is_here(self, module: str) -> bool:
        return self.python(f"import importlib.util as u; raise SystemExit(u.find_spec('{module}') is None)") is None

    def cannot_be_installed(self) -> dict[str, str]:
        told = {}
        for peer, (module, reason) in UNINSTALLABLE.items():
            if self.is_here(module):
                wrong = self.python(f"import {module}")
                reason = f"{module} can be imported here; it is not measured yet" if wrong is None else f"{module} is here and cannot be imported: {wrong}"
            told[peer] = reason
        return told

    def hopfeed(self, place: str, name: str) -> dict | None:
        command = [self.runner.program("hopfeed-bench"), "sampler", "--data", self.data]
        if not self.runner.rehearse:
            command += ["--graph-mode", place, "--device-batches"]
            # WholeGraph has no copy of hot rows, and each has the whole graph in the same memory so.
            command += ["--gpu-graph-cache", "0"] if place == "uva" else []
        line = self.runner.together([Step(name, [*command, "--seconds", str(self.seconds)], self.LIMIT)]).get(name)
        if line is None or line["status"] != 0 or not line["report"]:
            return None
        report = line["report"]
        figures = {"edges_per_s": report["edges_per_s"], "batches_per_s": report["edges_per_s"] / report["edges_per_batch"],
                   "edges_per_batch": report["edges_per_batch"]}
        # Those that the CPU made in the card's place: 0, or the figure is of something else.
        return figures | {"cpu_batches": report["cpu_batches_of_first_thread"]} if "cpu_batches_of_first_thread" in report else figures

    def why_it_failed(self, name: str, line: dict | None) -> str:
        if line is None:
            return self.NOT_RUN
        if line["status"] == "out of time":
            return f"no answer within {line['seconds']:.0f} s"
        said = (self.runner.out / f"{name}.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        own = [text for text in said if text.startswith("peer_wholegraph.py: ")] or said or [f"exit status {line['status']}"]
        return own[-1].removeprefix("peer_wholegraph.py: ")[:300]

    def ask_wholegraph(self, place: str, name: str, more: list[str]) -> dict | None:
        """One run; where it gives no figures, why is in self.why."""
        program = str(Path(__file__).parent / "peer_wholegraph.py")
        command = [sys.executable, program, "--data", self.data, "--place", PLACES[place], "--memory-type", self.types[place], "--seconds", str(self.seconds),
                   "--json", str(self.runner.out / f"{name}.json"), *more]
        line = self.runner.together([Step(name, command, self.LIMIT, self.paths, of_another=True)]).get(name)
        if line is not None and line["status"] == 0 and line["report"]:
            return {key: line["report"][key] for key in ("edges_per_s", "batches_per_s", "edges_per_batch", "version", "verified") if key in line["report"]}
        self.why[place] = self.why_it_failed(name, line)
        return None

    def wholegraph(self, place: str, name: str) -> dict | None:
        if self.runner.rehearse:
            self.why[place] = "rehearsed: hopfeed's sampler on the CPU ran in its place, and the ratios are of that"
            return self.hopfeed(place, name)
        if place in self.given_up:
            return None
        if place in self.types:
            return self.ask_wholegraph(place, name, [])
        self.types[place] = self.memory_type
        figures = self.ask_wholegraph(place, name, ["--verify"])
        if figures is None and self.memory_type != "torch" and self.why[place] != self.NOT_RUN:
            self.fell_back[place] = self.why.pop(place)
            self.memory_type = self.types[place] = "torch"
            figures = self.ask_wholegraph(place, f"{name}-torch", ["--verify"])
        if figures is None:
            self.given_up.add(place)  # each try may take a minute of the card
        return figures

    def of_place(self, place: str, rounds: list[tuple[dict | None, dict | None]]) -> dict:
        """Medians over the rounds, and how the two compare in each round that has both."""
        ours, others = ([figures for figures in mine if figures] for mine in zip(*rounds))

        def medians(figures: list[dict]) -> dict | None:
            keys = [key for key, value in (figures or [{}])[0].items() if isinstance(value, (int, float)) and not isinstance(value, bool)]
            return {key: four_digits(statistics.median(of_round[key] for of_round in figures)) for key in keys} if figures else None

        report = {"hopfeed": medians(ours), "wholegraph": None if self.runner.rehearse else medians(others)}
        if report["wholegraph"]:
            report["wholegraph"] |= {"memory_type": self.types[place], "version": others[0]["version"], "verified": others[0].get("verified", False)}
        for figure in ("edges_per_s", "batches_per_s"):
            ratios = [four_digits(mine[figure] / other[figure]) for mine, other in rounds if mine and other]
            report |= {f"{figure}_ratio": four_digits(statistics.median(ratios)) if ratios else None, f"{figure}_ratio_of_rounds": ratios}
        if place in self.why:
            report["why" if report["wholegraph"] is None else "a_round_failed"] = self.why[place]
        if self.fell_back and self.types.get(place) == "torch":
            report["not_memory_type_continuous"] = next(iter(self.fell_back.values()))
        return report

    def run(self) -> None:
        begin = time.monotonic()
        missing = self.cannot_be_installed()
        # The rehearsal too may be where WholeGraph is; it needs a card, and is never asked there.
        here = self.runner.rehearse or (self.runner.folder / "wholegraph/pylibwholegraph").is_dir() or self.is_here("pylibwholegraph")
        places: dict = {}
        if here:
            of_rounds: dict[str, list] = {place: [] for place in PLACES}
            for number in range(1, self.rounds + 1):
                for place in PLACES:
                    ours = self.hopfeed(place, f"peers-{place}-hopfeed-{number}")
                    stand_in = "stand-in" if self.runner.rehearse else "wholegraph"
                    of_rounds[place].append((ours, self.wholegraph(place, f"peers-{place}-{stand_in}-{number}")))
            places = {place: self.of_place(place, rounds) for place, rounds in of_rounds.items()}
        else:
            reason = f"{self.runner.folder} has no folder wholegraph, and this Python no pylibwholegraph; pack it with bench/gpu.sh --wholegraph, or install it"
            places = {"wholegraph": None, "why": reason}
            print(f"peers: left out: {reason}", flush=True)
        self.runner.conclude("peers", "medians of rounds by turns",
                             {"rounds": self.rounds if here else 0, "seconds_of_each": self.seconds, **places, "cannot_be_installed": missing,
                              "seconds": round(time.monotonic() - begin, 1)})


def run(runner: Runner, arguments: argparse.Namespace) -> None:
    bench = runner.program("hopfeed-bench")
    data = str(arguments.data.resolve() if arguments.data else runner.out.parent / "gpu-graph")
    graph = Step("graph", [runner.program("hopfeed-partition"), "generate", data, "--nodes", str(arguments.nodes), "--edges", str(arguments.edges),
                           "--features", "100", "--classes", "47", "--seed", "1", "--train-fraction", "0.08", "--threads", str(os.cpu_count())], 600)
    beside = [graph] if MEASURED_ON_THE_GRAPH.intersection(arguments.part) and not Path(data, "meta.json").exists() else []
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
            places = ["--places", "cpu"] if runner.rehearse else []
            runner.one_by_one([Step("digests", [sys.executable, str(Path(__file__).parent / "digests.py"), str(runner.bin), *places], 150)])
        elif name == "training":
            runner.one_by_one(training(runner, arguments, data))
        elif name == "python":
            runner.one_by_one([Step("python-tests", [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(runner.folder / "python/tests/test_gpu.py")], 120)])
        elif name == "loop":
            lines = runner.one_by_one(loop(runner, arguments, data))
            runner.conclude("loop-ratio", "the best of loop-*, and of loop-pyg-*", loop_ratio(lines))
        elif name == "peers":
            Peers(runner, arguments, data).run()
        elif name == "profile" and shutil.which("ncu"):
            for mode in modes(runner):
                runner.one_by_one([Step(f"profile-{mode}", ["ncu", "--csv", "--clock-control", "none", "--cache-control", "none", "--launch-skip", "50", "--launch-count", "30", "--graph-profiling", "node",
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


def card_here() -> str | None:
    """Name, driver and memory of the cards; None where there is none."""
    if not shutil.which("nvidia-smi"):
        return None
    asked = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"], capture_output=True, text=True)
    return asked.stdout.strip().replace("\n", "; ") if asked.returncode == 0 else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the pack was unpacked")
    parser.add_argument("--out", type=Path, required=True, help="a folder that is there")
    parser.add_argument("--bin", type=Path, help="the programs' folder (FOLDER/bin), as that of a build")
    parser.add_argument("--part", action="append", choices=PARTS, help="this part alone; may be given again")
    parser.add_argument("--data", type=Path, help="dataset folder in place of the graph that is made")
    parser.add_argument("--nodes", type=int, default=2_449_029, help="of the graph")
    parser.add_argument("--edges", type=int, default=123_718_280)
    parser.add_argument("--seconds", type=float, help="of each measurement (2; of peers 1)")
    parser.add_argument("--rounds", type=int, default=3, help="of peers")
    parser.add_argument("--within", type=float, default=480, help="seconds of the whole run; what does not fit is left out and told")
    parser.add_argument("--only", default="", help="steps whose name has this regular expression")
    parser.add_argument("--rehearse", action="store_true", help="without a card: the same commands on the CPU, to try the scripts")
    arguments = parser.parse_args()
    arguments.part = arguments.part or list(PARTS)
    arguments.bin = arguments.bin or arguments.folder / "bin"
    arguments.peer_seconds, arguments.seconds = arguments.seconds or 1, arguments.seconds or 2
    if not (arguments.bin / "hopfeed-bench").exists():
        parser.error(f"{arguments.bin} has no hopfeed-bench; unpack what bench/gpu.sh --pack wrote, and name that folder")
    if arguments.data and not (arguments.data / "meta.json").exists():
        parser.error(f"--data '{arguments.data}' is no dataset folder; give one that hopfeed-partition made")
    if not arguments.out.is_dir():
        parser.error(f"--out '{arguments.out}' is no folder; make it first")
    card = "rehearsed without a card" if arguments.rehearse else card_here()
    if card is None:
        print("run.py: no card here: nvidia-smi is missing or finds none; run it where one is, or try the scripts with --rehearse", file=sys.stderr)
        return 1
    print(card, flush=True)
    for made in ("results.json", "peers.json", "loop-ratio.json"):
        (arguments.out / made).unlink(missing_ok=True)
    runner = Runner(arguments)
    run(runner, arguments)
    if (arguments.out / "results.json").exists():
        write_tables(arguments.out, card)
    if runner.left_out:
        print(f"left out, for lack of time: {', '.join(runner.left_out)}", flush=True)
    if runner.others_failed:
        print(f"other loaders' that failed: {', '.join(runner.others_failed)}", flush=True)
    print(f"failed: {', '.join(runner.failed)}" if runner.failed else "all passed", flush=True)
    return 1 if runner.failed else 0


if __name__ == "__main__":
    sys.exit(main())
