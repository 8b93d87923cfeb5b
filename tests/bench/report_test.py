#!/usr/bin/env python3
"""bench/report.sh and bench/report_table.py with reports that are made up: the rows, and what of the page stays."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "bench/report_table.py"
PAGE = "# Benchmarks\n\nBefore.\n\n<!-- results: begin -->\n<!-- results: end -->\n\nBehind.\n"

SAMPLER = {"bench": "sampler", "kind": "uniform", "edges_per_batch": 600000.0, "ms_per_batch": 20.0, "fraction_of_limit": 0.9, "us_per_call": 2.0}
WEIGHTED = {**SAMPLER, "kind": "weighted", "ratio_to_uniform": 0.44}
REPORTS = {
    "limits": {"bench": "limits", "one_core": {"random_reads_per_s_2_MiB_pages": 1e8, "random_reads_per_s_4_KiB_pages": 5e7, "row_gather_bytes_per_s": 6e9,
                                               "copy_bytes_per_s": 1e10}, "all_cores": {"copy_bytes_per_s": 2e10}},
    "limits --gpu": {"bench": "limits", "card": "A card", "host_to_device_bytes_per_s": 2.5e10, "uva_reads_32_per_s": 4e8, "device_reads_32_per_s": 9e9},
    "sampler": SAMPLER,
    "sampler --kind weighted": WEIGHTED,
    "sampler --kind labor": {**WEIGHTED, "kind": "labor"},
    "sampler --batch-size 1 --fanouts 1": SAMPLER,
    "gather": {"bench": "gather", "bytes_per_s": 6.3e9, "fraction_of_limit": 1.08, "ms_per_batch": 25.0},
    "channel": {"bench": "channel", "handover_us_median": 3.2, "fraction_of_limit": 1.5, "batches_per_s": 487000.0, "small_cpu_us_per_batch": 3.6,
                "small_fraction_of_limit": 0.49, "idle_cpu_fraction": 0.0},
    "loader --num-workers 2": {"bench": "loader", "batches_per_s": 41.0, "bytes_per_batch": 171e6, "fraction_of_limit": 0.96, "bytes_per_s": 7e9,
                               "times_one_worker": 2.0},
    "startup": {"bench": "startup", "loader_with_one_worker_ready_and_ended_ms": 9.5, "fraction_of_limit": 0.68, "worker_own_bytes": 20.6e6,
                "open_100_GB_ms": 0.15},
    "hopfeed-bench-trainer": {"bench": "trainer", "cpu_ms": 533.0, "wall_ms": 540.0, "forward_cpu_ms": 200.0, "backward_cpu_ms": 300.0},
    "compare_with_pyg.sh": {"bench": "trainer-compared", "ratio_cpu": 0.52, "ratio_cpu_kept_memory": 0.7, "hopfeed_cpu_ms": 533.0, "pyg_cpu_ms": 1024.0},
    "generate, products' size": {"bench": "prepare", "seconds": 215.0, "cpu_seconds": 311.0, "peak_bytes": 1.37e9},
}


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="hopfeed-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.page = self.folder / "page.md"
        self.page.write_text(PAGE)

    def run_table(self, runs, cpu="A processor", date="2026-01-02"):
        path = self.folder / "runs.jsonl"
        path.write_text(runs if isinstance(runs, str) else "".join(json.dumps({"command": c, "report": r}) + "\n" for c, r in runs))
        return subprocess.run([TABLE, path, self.page, "--cpu", cpu, "--date", date], capture_output=True, text=True, timeout=60)

    def rows(self, runs, **options):
        finished = self.run_table(runs, **options)
        self.assertEqual(finished.returncode, 0, finished.stderr)
        lines = [line for line in self.page.read_text().splitlines() if line.startswith("| `")]
        return {cells[0].strip("`"): cells[1:] for cells in ([cell.strip() for cell in line.strip("|").split(" |")] for line in lines)}

    def refusal(self, runs):
        finished = self.run_table(runs)
        self.assertNotEqual(finished.returncode, 0)
        self.assertEqual(len(finished.stderr.strip().splitlines()), 1, finished.stderr)
        self.assertTrue(finished.stderr.startswith("report_table.py: "), finished.stderr)
        return finished.stderr


class Rows(Case):
    def test_each_benchmark_is_a_row_with_its_figure_its_share_of_the_limit_and_its_day(self):
        rows = self.rows(REPORTS.items())
        self.assertEqual(list(rows), list(REPORTS))
        self.assertEqual(rows["sampler"], ["30 M edges/s of a core", "90%", "20 ms a batch of 600,000 edges", "2026-01-02"])
        self.assertEqual(rows["sampler --kind weighted"][2], "20 ms a batch of 600,000 edges; 44% of uniform")
        self.assertEqual(rows["sampler --batch-size 1 --fanouts 1"][:2], ["2 us a call", ""])
        self.assertEqual(rows["gather"][:3], ["6.3 GB/s", "108%", "25 ms a batch"])
        self.assertEqual(rows["channel"][0], "3.2 us from publication to view")
        self.assertEqual(rows["channel"][2], "487,000 small batches/s, 3.6 us of CPU each, 49% of one thread's for nobody; idle 0% of a core")
        self.assertEqual(rows["loader --num-workers 2"][:3], ["41 batches/s of 171 MB", "96%", "7 GB/s; 2 times one worker"])
        self.assertEqual(rows["startup"][:3], ["9.5 ms for a loader with one worker", "68%", "20.6 MB of a worker's own; 0.15 ms to open 100 GB"])
        self.assertEqual(rows["hopfeed-bench-trainer"][0], "533 ms of CPU a step")
        self.assertEqual(rows["compare_with_pyg.sh"][:3], ["0.52 of PyG's CPU time a step", "", "533 and 1,020 ms; 0.7 where PyG's malloc keeps its memory"])
        self.assertEqual(rows["generate, products' size"][:3], ["215 s", "", "311 s of CPU, 1.37 GB resident"])
        self.assertEqual(rows["limits"][0], "100 M random reads/s of a core on 2 MiB pages")
        self.assertEqual(rows["limits --gpu"][0], "25 GB/s to the A card")

    def test_labor_is_not_held_against_uniform(self):
        self.assertNotIn("uniform", self.rows(REPORTS.items())["sampler --kind labor"][2])

    def test_of_several_rounds_the_table_has_the_median_and_the_spread(self):
        rounds = [("gather", {**REPORTS["gather"], "bytes_per_s": value, "fraction_of_limit": share}) for value, share in ((6.6e9, 1.1), (6e9, 1.0), (6.3e9, 1.08))]
        self.assertEqual(self.rows(rounds)["gather"][:2], ["6.3 GB/s (6 to 6.6)", "108% (100 to 110)"])

    def test_reports_that_cannot_be_are_one_line_and_the_page_stays(self):
        self.assertIn("runs.jsonl:1: is no run", self.refusal("{"))
        self.assertIn("no command has run", self.refusal(""))
        self.assertIn("no known benchmark (tea)", self.refusal([("tea", {"bench": "tea"})]))
        self.assertIn("lacks bytes_per_s", self.refusal([("gather", {"bench": "gather"})]))
        self.assertEqual(self.page.read_text(), PAGE)
        self.page.write_text("# No markers\n")
        self.assertIn("results: begin", self.refusal(REPORTS.items()))


class Page(Case):
    def test_what_stands_outside_of_the_markers_stays(self):
        self.rows(REPORTS.items())
        text = self.page.read_text()
        self.assertTrue(text.startswith("# Benchmarks\n\nBefore.\n\n<!-- results: begin -->\n\n### A processor\n"), text)
        self.assertTrue(text.endswith(" |\n\n<!-- results: end -->\n\nBehind.\n"), text)

    def test_other_machines_stay_and_the_same_one_is_replaced(self):
        self.rows([("gather", REPORTS["gather"])])
        other = self.rows([("gather", REPORTS["gather"])], cpu="Another")
        self.assertEqual(len(other), 1)  # a row of the same command each
        text = self.page.read_text()
        self.assertEqual((text.count("### A processor\n"), text.count("### Another\n"), text.count("| `gather`")), (1, 1, 2))
        self.rows([("gather", {**REPORTS["gather"], "bytes_per_s": 1e9})])
        text = self.page.read_text()
        self.assertEqual((text.count("### A processor\n"), text.count("| `gather`"), text.count("6.3 GB/s")), (1, 2, 1))

    def test_rows_that_were_not_measured_this_time_keep_their_day_and_place(self):
        self.rows([("gather", REPORTS["gather"]), ("sampler", SAMPLER)])
        rows = self.rows([("startup", REPORTS["startup"]), ("gather", REPORTS["gather"])], date="2026-03-04")
        self.assertEqual([(command, cells[3]) for command, cells in rows.items()],
                         [("gather", "2026-03-04"), ("sampler", "2026-01-02"), ("startup", "2026-03-04")])

    def test_a_second_run_with_the_same_figures_changes_nothing(self):
        self.rows(REPORTS.items())
        text = self.page.read_text()
        self.rows(REPORTS.items())
        self.assertEqual(self.page.read_text(), text)


class Script(Case):
    def report(self, *arguments):
        return subprocess.run([ROOT / "bench/report.sh", "--doc", self.page, "--dir", self.folder / "out", *arguments], capture_output=True, text=True, timeout=60)

    def pretend(self):
        folder = self.folder / "bin"
        folder.mkdir()
        program = folder / "hopfeed-bench"
        program.write_text(f"#!{sys.executable}\nimport json, sys\nif 'startup' in sys.argv: sys.exit('hopfeed-bench: no')\n"
                           f"print(json.dumps({REPORTS!r}[sys.argv[1]]))\nwith open({str(self.folder / 'calls')!r}, 'a') as f: print(*sys.argv[1:], file=f)\n")
        program.chmod(0o755)
        return folder

    def test_it_runs_each_command_as_often_as_it_was_told_and_writes_the_table(self):
        finished = self.report("--bin", self.pretend(), "--only", "gather", "--only", "kinds", "--rounds", "2", "--seconds", "0.1")
        self.assertEqual(finished.returncode, 0, finished.stderr)
        calls = (self.folder / "calls").read_text().splitlines()
        self.assertEqual(len(calls), 2 * 18)
        self.assertIn("gather --huge-pages always --seconds 0.1", calls)
        self.assertIn("sampler --kind labor --labor-batches 64 --huge-pages always --seconds 0.1 --features 4", calls)
        self.assertEqual(self.page.read_text().count("| `"), 18)
        self.assertIn("Round 2 of 2", finished.stdout)
        self.assertIn("[1/18] sampler --kind replace", finished.stdout)

    def test_a_benchmark_that_fails_is_told_and_the_others_go_on(self):
        finished = self.report("--bin", self.pretend(), "--only", "startup", "--only", "gather", "--rounds", "1")
        self.assertEqual(finished.returncode, 1)
        self.assertEqual(finished.stderr, "hopfeed-bench: no\nreport.sh: 1 runs failed; their rows are as they were\n")
        self.assertEqual(self.page.read_text().count("| `"), 1)

    def test_bad_options_are_one_line(self):
        for arguments, words in ((["--only", "tea"], "no group 'tea'; there are limits, sampler"), (["--rounds", "0"], "--rounds is '0'"), (["--seconds", "x"], "--seconds is 'x'"),
                                 (["--huge-pages", "no"], "give auto, never or always"), (["--bin", "/nowhere"], "no hopfeed-bench in '/nowhere'"),
                                 (["--tea"], "unknown option '--tea'"), (["--only"], "--only needs a value"), (["--doc", "/nowhere"], "cannot write '/nowhere'")):
            finished = self.report(*arguments)
            self.assertNotEqual(finished.returncode, 0)
            self.assertEqual(len(finished.stderr.strip().splitlines()), 1, finished.stderr)
            self.assertIn(words, finished.stderr)
        self.assertEqual(self.report("--help").returncode, 0)


if __name__ == "__main__":
    unittest.main()
