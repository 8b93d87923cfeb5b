#!/usr/bin/env python3
"""The table of results of this machine in docs/benchmarks.md, from what the benchmarks printed; bench/report.sh calls it.

Usage: report_table.py RUNS DOC [--cpu NAME] [--date YYYY-MM-DD]

  RUNS          one JSON object a line: {"command": what was run, "report": what it printed}; a command that ran several times
                becomes one row: the median, smallest and largest in brackets
  DOC           the page; what stands between its two markers is written anew. A machine is known by its processor: its rows
                of the commands that ran are replaced, its other rows and the other machines stay
  --cpu NAME    another name than that of /proc/cpuinfo
  --date DAY    another day than today

Exits 1 with one line on stderr where it cannot.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import sys

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
HEAD = "| command | figure | of the limit | more | date |\n|---|---|---|---|---|"


def number(value):
    """Three digits, and no more than there are."""
    if abs(value) >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def spread(values, unit="", factor=1.0):
    values = [factor * value for value in values]
    text = number(statistics.median(values)) + unit
    if number(min(values)) != number(max(values)):
        text += f" ({number(min(values))} to {number(max(values))})"
    return text


class Reports:
    """What one command printed, each time."""

    def __init__(self, command, reports):
        self.command, self.reports = command, reports

    def first(self, key, default=None):
        return self.reports[0].get(key, default)

    def all(self, *keys):
        values = []
        for report in self.reports:
            for key in keys:
                report = report.get(key) if isinstance(report, dict) else None
            if not isinstance(report, (int, float)):
                raise SystemExit(f"{self.command}: its report lacks {'.'.join(keys)}; it is of another version, run it again")
            values.append(report)
        return values

    def limit(self, key="fraction_of_limit"):
        return spread(self.all(key), "%", 100)


def limits(r):
    if "card" in r.reports[0]:
        return (f"{spread(r.all('host_to_device_bytes_per_s'), ' GB/s', 1e-9)} to the {r.first('card')}", "",
                f"{spread(r.all('uva_reads_32_per_s'), ' M', 1e-6)} random reads of 32 bytes over UVA a second, "
                f"{spread(r.all('device_reads_32_per_s'), ' M', 1e-6)} of its own memory")
    large, small = (spread(r.all("one_core", f"random_reads_per_s_{size}_pages"), " M", 1e-6) for size in ("2_MiB", "4_KiB"))
    return (f"{large} random reads/s of a core on 2 MiB pages", "",
            f"{small} on 4 KiB pages; rows {spread(r.all('one_core', 'row_gather_bytes_per_s'), ' GB/s', 1e-9)}, "
            f"copy {spread(r.all('one_core', 'copy_bytes_per_s'), ' GB/s', 1e-9)}, "
            f"all cores {spread(r.all('all_cores', 'copy_bytes_per_s'), ' GB/s', 1e-9)}")


def sampler(r):
    if "--batch-size 1 " in r.command + " ":
        return f"{spread(r.all('us_per_call'), ' us')} a call", "", "of CPU"
    rates = [1e3 * edges / ms for edges, ms in zip(r.all("edges_per_batch"), r.all("ms_per_batch"))]
    more = f"{spread(r.all('ms_per_batch'), ' ms')} a batch of {number(statistics.median(r.all('edges_per_batch')))} edges"
    # LABOR is measured against GraphBolt's (bench/peers.sh), not against uniform.
    if "ratio_to_uniform" in r.reports[0] and r.first("kind") != "labor":
        more += f"; {spread(r.all('ratio_to_uniform'), '%', 100)} of uniform"
    return f"{spread(rates, ' M edges/s', 1e-6)} of a core", r.limit(), more


def gather(r):
    return spread(r.all("bytes_per_s"), " GB/s", 1e-9), r.limit(), f"{spread(r.all('ms_per_batch'), ' ms')} a batch"


def channel(r):
    return (f"{spread(r.all('handover_us_median'), ' us')} from publication to view", r.limit(),
            f"{spread(r.all('batches_per_s'))} small batches/s, {spread(r.all('small_cpu_us_per_batch'), ' us')} of CPU each, "
            f"{spread(r.all('small_fraction_of_limit'), '%', 100)} of one thread's for nobody; idle "
            f"{spread(r.all('idle_cpu_fraction'), '%', 100)} of a core")


def loader(r):
    return (f"{spread(r.all('batches_per_s'))} batches/s of {number(1e-6 * statistics.median(r.all('bytes_per_batch')))} MB", r.limit(),
            f"{spread(r.all('bytes_per_s'), ' GB/s', 1e-9)}; {spread(r.all('times_one_worker'))} times one worker")


def startup(r):
    return (f"{spread(r.all('loader_with_one_worker_ready_and_ended_ms'), ' ms')} for a loader with one worker", r.limit(),
            f"{spread(r.all('worker_own_bytes'), ' MB', 1e-6)} of a worker's own; {spread(r.all('open_100_GB_ms'), ' ms')} to open 100 GB")


def server(r):
    """One part of the command each: the first key says which."""
    has = r.reports[0].__contains__
    if has("small_batches_per_s"):
        return (f"{spread(r.all('small_batches_per_s'))} ready batches/s of {number(statistics.median(r.all('small_batch_bytes')))} bytes", "",
                f"a lone request {spread(r.all('request_us_median'), ' us')}, {spread(r.all('request_ratio'))} of its limit")
    if has("share_of_a_quarter_least"):
        return (f"{spread(r.all('share_of_a_quarter_least'))} of a quarter of the worker for the least of four clients", "",
                f"beside a frozen client {spread(r.all('rate_beside_a_frozen_client'))} of the rate without it")
    if has("rate_beside_floods_least"):
        return (f"{spread(r.all('rate_beside_floods_least'))} of its rate for a client beside a flood of useless frames", "",
                f"against as much CPU burnt elsewhere; pings {spread(r.all('rate_beside_ping'))}, status {spread(r.all('rate_beside_status'))}, "
                f"refused jobs of 0.5 MB {spread(r.all('rate_beside_refused_open'))}")
    if has("single_ms_worst_beside_large"):
        return (f"{spread(r.all('single_ms_worst_beside_large'), ' ms')} at worst for a batch of one seed beside four clients of 8,192", "",
                f"median {spread(r.all('single_ms_median_beside_large'), ' ms')}, alone {spread(r.all('single_ms_alone'), ' ms')}; "
                f"{spread(r.all('large_batches_per_s'))} large batches/s")
    if has("failover_ms"):
        return f"{spread(r.all('failover_ms'), ' ms')} to the next batch after a server has gone", "", ""
    if has("idle_client_cpu"):
        return (f"{spread(r.all('idle_client_bytes'), ' KB', 1e-3)} for each of 200 idle clients", "",
                f"{spread(r.all('idle_client_cpu'), '%', 100)} of a core for all; grew by {spread(r.all('growth_bytes'))} bytes")
    if has("cpu_ratio"):
        return (f"{spread(r.all('cpu_ms_per_batch'), ' ms')} of CPU a batch, sampled, gathered and sent", "",
                f"{spread(r.all('cpu_ratio'))} of worker mode, loop and checksums")
    return (f"{spread(r.all('block_bytes_per_s'), ' GB/s', 1e-9)} of ready blocks of {number(1e-6 * statistics.median(r.all('block_bytes')))} MB",
            f"{spread(r.all('fraction_of_loop'), '%', 100)}",
            f"under TLS {spread(r.all('tls_bytes_per_s'), ' GB/s', 1e-9)}, {spread(r.all('tls_fraction_of_limit'), '%', 100)}; "
            f"iperf3 {spread(r.all('iperf3_bytes_per_s'), ' GB/s', 1e-9)}")


def state(r):
    """One part of the command each: the first key says which."""
    has = r.reports[0].__contains__
    for name in ("pull", "push"):
        if has(f"{name}_cpu_ms"):
            return (f"{spread(r.all(f'{name}_rows_per_s'), ' M rows/s', 1e-6)} {name}ed, {spread(r.all(f'{name}_bytes_per_s'), ' GB/s', 1e-9)}",
                    r.limit(f"{name}_cpu_fraction_of_limit"),
                    f"of CPU; {r.limit(f'{name}_fraction_of_limit')} of wall. {spread(r.all(f'{name}_cpu_ms'), ' ms')} of CPU for "
                    f"{number(r.first('ids'))} rows, {spread(r.all(f'{name}_server_cpu_ms'))} the servers'")
    if has("two_ranks"):
        ratios = ", ".join(f"{ranks} {spread(r.all(key, 'ratio'))}" for ranks, key in ((1, "one_rank"), (4, "four_ranks")))
        return (f"{spread(r.all('two_ranks', 'step_cpu_ms'), ' ms')} of CPU a step of two ranks", "",
                f"{spread(r.all('two_ranks', 'ratio'))} of a table at each of them (ranks: {ratios})")
    if has("checkpoint_over_bare_write"):
        return (f"{spread(r.all('checkpoint_seconds'), ' s')} for a checkpoint of {number(1e-9 * r.first('checkpoint_bytes'))} GB", "",
                f"{spread(r.all('checkpoint_over_bare_write'))} of a bare write's time")
    most = max(max(r.all("memory", part, "resident_over_expected")) for part in ("learned_10", "learned_50", "learned_100"))
    return (f"{spread(r.all('memory', 'learned_100', 'resident_bytes'), ' GB', 1e-9)} with all rows learned", "",
            f"at most {number(most)} of rows, optimizer and index with 10, 50 and 100% learned")


def trainer(r):
    return (f"{spread(r.all('cpu_ms'), ' ms')} of CPU a step", "",
            f"{spread(r.all('wall_ms'), ' ms')} of wall; forward {spread(r.all('forward_cpu_ms'))}, "
            f"backward {spread(r.all('backward_cpu_ms'))} ms of CPU")


def compared(r):
    return (f"{spread(r.all('ratio_cpu'))} of PyG's CPU time a step", "",
            f"{spread(r.all('hopfeed_cpu_ms'))} and {spread(r.all('pyg_cpu_ms'))} ms; "
            f"{spread(r.all('ratio_cpu_kept_memory'))} where PyG's malloc keeps its memory")


def prepare(r):
    return (spread(r.all("seconds"), " s"), "",
            f"{spread(r.all('cpu_seconds'), ' s')} of CPU, {spread(r.all('peak_bytes'), ' GB', 1e-9)} resident")


KINDS = {"limits": limits, "sampler": sampler, "gather": gather, "channel": channel, "loader": loader, "startup": startup, "server": server,
         "state": state, "trainer": trainer, "trainer-compared": compared, "prepare": prepare}


def read_runs(path):
    """Command -> what it printed, in the order of the first run of each."""
    runs = {}
    for count, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            run = json.loads(line)
            runs.setdefault(run["command"], []).append(run["report"])
        except (ValueError, TypeError, KeyError):
            raise SystemExit(f"{path}:{count}: is no run of bench/report.sh; remove it and run that again") from None
    if not runs:
        raise SystemExit(f"{path}: no command has run, so there is nothing to write")
    return runs


def rows_of(runs, day):
    rows = {}
    for command, reports in runs.items():
        kind = reports[0].get("bench")
        if kind not in KINDS:
            raise SystemExit(f"{command}: its report is of no known benchmark ({kind})")
        cells = [f"`{command}`", *KINDS[kind](Reports(command, reports)), day]
        rows[cells[0]] = "| " + " | ".join(cells) + " |"
    return rows


def sections_of(text):
    """Heading -> lines, of what stands between the markers."""
    sections, lines = {}, []
    for line in text.splitlines():
        if line.startswith("### "):
            lines = sections.setdefault(line[4:].strip(), [])
        else:
            lines.append(line)
    return sections


def merged(old_lines, rows):
    """Rows that were measured now take the place of those of the same command; new ones come last."""
    kept = {}
    for line in old_lines:
        if match := re.match(r"\| (`[^`]*`)", line):
            kept[match[1]] = line
    return {**kept, **rows}


def machine():
    cpu = platform.processor() or platform.machine()
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return cpu, f"{len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB of memory, Linux {platform.release().split('-')[0]}."


def written(page, cpu, told, rows):
    """The page with the machine's section."""
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise SystemExit(f"the page has not one '{BEGIN}' with one '{END}' behind it; put them where the tables belong")
    before, rest = page.split(BEGIN)
    inside, after = rest.split(END)
    sections = sections_of(inside)
    table = merged(sections.get(cpu, []), rows)
    sections[cpu] = ["", told, "", *HEAD.splitlines(), *table.values()]
    text = "".join(f"\n### {name}\n" + "\n".join(lines).rstrip() + "\n" for name, lines in sections.items())
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def main():
    cpu, told = machine()
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("runs", nargs="?", type=pathlib.Path)
    parser.add_argument("doc", nargs="?", type=pathlib.Path)
    parser.add_argument("--cpu", default=cpu)
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    parser.add_argument("--help", action="store_true")
    options = parser.parse_args()
    if options.help:
        print(__doc__.strip())
        return
    if not options.runs or not options.doc:
        sys.exit(__doc__.strip())
    try:
        rows = rows_of(read_runs(options.runs), options.date)
        page = options.doc.read_text(encoding="utf-8")
        text = written(page, options.cpu, told, rows)
        new = options.doc.with_name(options.doc.name + ".new")
        new.write_text(text, encoding="utf-8")
        new.replace(options.doc)
    except OSError as error:
        sys.exit(f"report_table.py: {error.filename}: {error.strerror}")
    except SystemExit as error:
        sys.exit(f"report_table.py: {error}")
    print(f"{options.doc}: {len(rows)} rows of {options.cpu}")


if __name__ == "__main__":
    main()
