#!/usr/bin/env python3
"""Measures hopfeed and other loaders by turns and writes one JSON document; bench/peers.sh calls it once everything is installed.

Each measure runs for one peer after the other, in each round, so that whatever the machine does meets all of them. The first round
tries all settings of a loader, the others its best. A program that fails, or gives nothing before the deadline, is told by its last line.
"""
import argparse
import json
import os
import pathlib
import platform
import signal
import statistics
import subprocess
import sys
import time

from peers import MEASURES, MEMORY_KEPT, PEERS, program_of

HERE = pathlib.Path(__file__).resolve().parent


class Unmeasured(Exception):
    """Why a loader has no figure."""


def shared_segments():
    """System V segments by the process that made them: graphlearn-torch's channels outlive a killed process."""
    lines = pathlib.Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    return [(int(fields[1]), int(fields[4])) for fields in map(str.split, lines)]


def remove_segments_of(pid):
    for segment, maker in shared_segments():
        if maker == pid:
            subprocess.run(["ipcrm", "-m", str(segment)], check=False, capture_output=True)


def end_group(program):
    """What a program started ends with it, also where the program was killed. Python's resource trackers end by themselves, when the
    others have: they remove the semaphores that those leave in /dev/shm."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            in_group = int(stat.read_text().rsplit(")", 1)[1].split()[2]) == program.pid
            if in_group and b"resource_tracker" not in (stat.parent / "cmdline").read_bytes():
                os.kill(int(stat.parent.name), signal.SIGKILL)
        except OSError:
            pass  # ended meanwhile
    program.wait()
    try:
        for _ in range(40):
            os.killpg(program.pid, 0)
            time.sleep(0.05)
        os.killpg(program.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def last_line(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def run_program(command, environment, deadline):
    """The JSON object that a program prints last."""
    program = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                               env={**os.environ, **environment})
    try:
        out, err = program.communicate(timeout=deadline)
    except subprocess.TimeoutExpired:
        raise Unmeasured(f"no answer within {deadline:g} s") from None
    finally:
        end_group(program)
        remove_segments_of(program.pid)
    try:
        report = json.loads(last_line(out)) if program.returncode == 0 else None
    except json.JSONDecodeError:
        report = None
    if not isinstance(report, dict):
        raise Unmeasured(last_line(err)[:300] or f"it ended with {program.returncode} and said nothing")
    return report


class Runner:
    def __init__(self, args):
        self.args = args
        self.handover_bytes = args.bytes
        self.versions = {}

    def command(self, peer, measure, setting):
        args = self.args
        common = ["--fanouts", args.fanouts, "--batch-size", args.batch_size, "--seconds", args.seconds, "--workers", args.workers, *setting.arguments]
        if peer == "hopfeed":
            return [sys.executable, HERE / "peer_hopfeed.py", measure, "--bin", args.bin, "--nodes", args.nodes, "--edges", args.edges,
                    "--features", args.features, *common]
        return [args.dir / peer / "bin/python", "-W", "ignore", HERE / program_of(peer), measure, "--graphs", args.graphs, "--bytes",
                self.handover_bytes, "--patience", args.patience, *common]

    def run(self, peer, measure, setting):
        # DGL writes into the home folder where nobody names its backend.
        environment = {"XDG_CACHE_HOME": str(self.args.dir / "data"), "PYTHONDONTWRITEBYTECODE": "1", "DGLBACKEND": "pytorch"}
        if setting.memory_kept:
            environment |= MEMORY_KEPT
        report = run_program(self.command(peer, measure, setting), environment, self.args.deadline)
        self.versions.setdefault(peer, {}).update(report.pop("versions", {}))
        if peer == "hopfeed" and measure == "handover":
            self.handover_bytes = int(report["bytes_per_batch"])  # the other loaders hand over as much
        return report


def better(measure, a, b):
    return a > b if MEASURES[measure].more_is_better else a < b


class Result:
    """One loader's runs of one measure."""

    def __init__(self, peer, measure):
        self.measure, self.key = measure, MEASURES[measure].key
        self.settings = list(PEERS[peer].settings.get(measure, ()))
        self.missing = PEERS[peer].absent.get(measure)
        self.runs = {}

    def best(self):
        """The setting with the best median, or None."""
        best = None
        for setting, runs in self.runs.items():
            value = statistics.median(run[self.key] for run in runs)
            if best is None or better(self.measure, value, best[0]):
                best = (value, setting)
        return best[1] if best else None

    def round(self, number, run, say):
        """Runs what this round wants: all settings in the first, the best in the others; a death once."""
        if self.measure == "kill" and number > 0:
            return
        settings = self.settings if number == 0 else [setting for setting in self.settings if setting.name == self.best()]
        for setting in settings:
            try:
                report = run(setting)
                self.runs.setdefault(setting.name, []).append(report)
                say(setting, report)
            except Unmeasured as why:
                self.missing = str(why)
                say(setting, {"missing": self.missing})

    def to_json(self):
        if not self.runs:
            return {"missing": self.missing or "not measured"}
        if self.measure == "kill":
            (setting, runs), = self.runs.items()
            return {"setting": setting, **runs[0]}
        setting = self.best()
        runs = self.runs[setting]
        values = [run[self.key] for run in runs]
        figures = {key: statistics.median(run[key] for run in runs) for key, value in runs[0].items() if isinstance(value, (int, float))}
        tried = {name: statistics.median(run[self.key] for run in tries) for name, tries in self.runs.items()}
        return {"setting": setting, "runs": len(runs), "spread": [min(values), max(values)], **figures, "settings_tried": tried}


def machine():
    """What the figures are of; nothing that names the host."""
    cpu = next((line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "unknown")
    memory = int(pathlib.Path("/proc/meminfo").read_text().split(maxsplit=2)[1])
    return {"cpu": cpu, "cores": os.cpu_count(), "memory_gib": round(memory / (1 << 20)), "kernel": platform.release()}


def missing_peers(args):
    """Loader -> why it could not be installed, as install.sh left it."""
    found = {}
    for peer in PEERS:
        reason = args.dir / peer / "missing"
        if reason.is_file():
            found[peer] = reason.read_text().strip()
    return found


def measure_all(args, say):
    runner, absent = Runner(args), missing_peers(args)
    peers = [peer for peer in args.peers if peer not in absent]
    results = {(peer, measure): Result(peer, measure) for peer in peers for measure in args.measures}
    for number in range(args.rounds):
        for measure in args.measures:
            for peer in peers:
                results[peer, measure].round(number, lambda setting, p=peer, m=measure: runner.run(p, m, setting),
                                             lambda setting, report, p=peer, m=measure: say(number, p, m, setting, report))
    document = {
        "format": "hopfeed-peers", "version": 1, "machine": machine(), "rounds": args.rounds, "seconds": args.seconds,
        "graph": {"nodes": args.nodes, "edges": args.edges, "features": args.features, "fanouts": args.fanouts, "batch_size": args.batch_size, "workers": args.workers},
        "peers": {}}
    for peer in args.peers:
        entry = {"title": PEERS[peer].title, "differs": PEERS[peer].differs}
        if peer in absent:
            entry["missing"] = absent[peer]
        else:
            entry |= {"versions": runner.versions.get(peer, {}), "measures": {measure: results[peer, measure].to_json() for measure in args.measures}}
        document["peers"][peer] = entry
    return document


def names(text, known, what):
    chosen = text.split(",")
    for name in chosen:
        if name not in known:
            sys.exit(f"measure.py: no {what} '{name}'; there are {', '.join(known)}")
    return chosen


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=pathlib.Path, required=True, help="where the environments and hopfeed-bench's data are")
    parser.add_argument("--graphs", type=pathlib.Path, required=True, help="the exports plain, weighted and hetero")
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of hopfeed's programs")
    parser.add_argument("--json", type=pathlib.Path, required=True)
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--measures", default=",".join(MEASURES))
    for name, default in (("nodes", 2_449_029), ("edges", 123_718_280), ("features", 100), ("batch-size", 1024), ("workers", 2), ("rounds", 3),
                          ("bytes", 152_000_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--fanouts", default="15,10,5")
    parser.add_argument("--seconds", type=float, default=3, help="of each measurement")
    parser.add_argument("--patience", type=float, default=30, help="seconds without a batch after which a loader hangs")
    parser.add_argument("--deadline", type=float, default=900, help="seconds that one program may take in all")
    args = parser.parse_args()
    args.peers = names(args.peers, PEERS, "loader")
    args.measures = names(args.measures, MEASURES, "measure")

    def say(number, peer, measure, setting, report):
        key, factor, unit = MEASURES[measure].key, MEASURES[measure].factor, MEASURES[measure].unit
        value = report.get("missing") or report[key]
        shown = value if isinstance(value, str) else f"{value * factor:.3g} {unit}"
        print(f"  round {number + 1}  {measure:9} {peer:10} {setting.name}: {shown}", flush=True)

    document = measure_all(args, say)
    args.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
