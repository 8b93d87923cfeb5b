#!/usr/bin/env python3
"""Each benchmark on a tiny graph: one JSON line with the keys that docs/benchmarks.md names, verified, and clear refusals."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

BENCH = sys.argv.pop(1) if len(sys.argv) > 1 else "hopfeed-bench"
TRAINER = sys.argv.pop(1) if len(sys.argv) > 1 else None  # where there is Torch
DOCS = pathlib.Path(__file__).parents[2] / "docs/benchmarks.md"
GRAPH = ["--nodes", "3000", "--edges", "30000", "--features", "8", "--seconds", "0.05", "--batch-size", "64"]


def keys_of(report):
    """Of the report and of the objects in it."""
    return set(report).union(*(keys_of(value) for value in report.values() if isinstance(value, dict)))


class Bench(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="hopfeed-test-")
        self.addCleanup(self.folder.cleanup)

    def run_bench(self, *arguments):
        return subprocess.run([BENCH, *arguments], capture_output=True, text=True, timeout=120,
                              env={**os.environ, "XDG_CACHE_HOME": self.folder.name})

    def report(self, *arguments):
        result = self.run_bench(*arguments, *GRAPH)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.count("\n"), 1, result.stdout)
        return json.loads(result.stdout)

    def refusal(self, *arguments):
        result = self.run_bench(*arguments)
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(result.stdout, "")
        lines = result.stderr.strip().splitlines()
        self.assertEqual(len(lines), 1, result.stderr)
        return lines[0]

    def documented(self):
        """Command -> the words in backticks of its row in the table of keys."""
        table = DOCS.read_text().split("| command | keys |", 1)[1].split("\n\n", 1)[0]
        rows = [line.strip("| ").split("|", 1) for line in table.splitlines()[2:]]
        return {command.strip().strip("`"): set(re.findall(r"`([^`]*)`", keys)) for command, keys in rows}

    def test_the_keys_are_those_of_the_table_in_the_docs(self):
        rows = self.documented()
        common = rows.pop("all commands")
        printed = {}
        for command in ("limits", "sampler", "gather", "file", "cache", "channel", "loader", "rows", "startup"):
            printed[command] = keys_of(self.report(command))
        printed["sampler"] |= keys_of(self.report("sampler", "--kind", "labor"))
        printed["state"] = keys_of(self.report("state", "--rows", "20000", "--ids", "500"))
        if TRAINER:
            printed["hopfeed-bench-trainer"] = keys_of(json.loads(self.run_trainer().stdout))
            printed["hopfeed-bench-inference"] = keys_of(json.loads(self.run_inference().stdout))
        for command, keys in printed.items():
            self.assertEqual(keys - rows[command] - common, set(), f"{command} prints what the docs do not have")
            named = {word for word in rows[command] if re.fullmatch(r"\w+_\w+", word)}
            self.assertEqual(named - keys, set(), f"{command} does not print what the docs have")
        self.assertEqual({word for word in common if re.fullmatch(r"\w+", word)} - set().union(*printed.values()), set())

    def run_trainer(self, *arguments):
        return subprocess.run([TRAINER, *GRAPH, "--batches", "1", "--hidden", "8", *arguments], capture_output=True, text=True, timeout=120,
                              env={**os.environ, "XDG_CACHE_HOME": self.folder.name})

    def run_inference(self):
        program = os.path.join(os.path.dirname(TRAINER), "hopfeed-bench-inference")
        return subprocess.run([program, *GRAPH[:6], "--hidden", "8", "--rounds", "1", "--folder", os.path.join(self.folder.name, "layers")],
                              capture_output=True, text=True, timeout=120, env={**os.environ, "XDG_CACHE_HOME": self.folder.name})

    @unittest.skipUnless(TRAINER, "built without Torch")
    def test_batches_that_cannot_be_dumped_are_one_line_that_names_the_folder(self):
        taken = os.path.join(self.folder.name, "file")
        with open(taken, "w"):
            pass
        for path in (taken, os.path.join(taken, "below"), "/proc/nowhere"):
            result = self.run_trainer("--dump", path)
            self.assertNotEqual(result.returncode, 0)
            self.assertEqual(result.stdout, "")
            self.assertRegex(result.stderr, f"^hopfeed-bench-trainer: --dump: cannot make the folder {path}.*\n$")

    def test_limits_are_of_one_core_and_of_all_on_both_page_sizes(self):
        report = self.report("limits", "--row-bytes", "512", "--verify")
        self.assertIs(report["verified"], True)
        for cores in ("one_core", "all_cores"):
            part = report[cores]
            self.assertEqual(part["row_bytes"], 512)
            for key in ("random_reads_per_s_4_KiB_pages", "random_reads_per_s_2_MiB_pages", "row_gather_bytes_per_s",
                        "copy_bytes_per_s", "sequential_bytes_per_s"):
                self.assertGreater(part[key], 0)
        self.assertEqual(report["one_core"]["threads"], 1)

    def test_a_dataset_of_several_partitions_is_measured_over_all_of_them(self):
        whole, cut = (os.path.join(self.folder.name, name) for name in ("whole", "cut"))
        tool = os.path.join(os.path.dirname(BENCH), "hopfeed-partition")
        for arguments in (["generate", whole, "--nodes", "2000", "--edges", "20000", "--features", "4", "--classes", "3", "--seed", "1"],
                          ["partition", whole, cut, "--parts", "3", "--method", "random"]):
            subprocess.run([tool, *arguments], check=True, capture_output=True, timeout=60)
        small = ["--data", cut, "--seconds", "0.05", "--batch-size", "64", "--verify"]
        for command in ("limits", "sampler", "gather"):
            result = self.run_bench(command, *small)
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_sampler_is_verified_in_each_output(self):
        for output in ("topology", "batch"):
            for edge_ids in ([], ["--e-id"]):
                report = self.report("sampler", "--output", output, "--verify", "--threads", "2", *edge_ids)
                self.assertEqual(report["verified_batches"], 2)
                self.assertEqual("e_id" in report["fields"], output == "batch" and bool(edge_ids))
                for key in ("edges_per_s", "seeds_per_s", "edges_per_batch", "nodes_per_batch", "ms_per_batch",
                            "limit_edges_per_s", "fraction_of_limit", "scratch_bytes"):
                    self.assertGreater(report[key], 0, key)
                # Batches of 64 seeds with [15, 10, 5]: at most 15 edges a seed in the first hop alone.
                self.assertLessEqual(report["edges_per_batch"], 64 * (15 + 150 + 750))
                self.assertGreater(report["nodes_per_batch"], 64)

    def test_kinds_are_held_against_uniform_on_a_graph_with_made_up_weights_and_times(self):
        for kind in ("weighted", "weighted-replace", "temporal", "temporal-last", "disjoint", "labor", "induced", "walk", "hetero",
                     "link", "link-strict", "link-exclude"):
            report = self.report("sampler", "--kind", kind, "--verify", "--e-id")
            self.assertEqual(report["kind"], kind)
            self.assertEqual(report["verified_batches"], 1)
            for key in ("edges_per_s", "uniform_edges_per_s", "ratio_to_uniform", "fraction_of_limit", "us_per_call"):
                self.assertGreater(report[key], 0, f"{kind}: {key}")

    def test_instructions_of_the_processor_may_be_fewer_and_change_no_batch(self):
        for instructions in ("avx2", "sse4"):
            if instructions == "avx2" and "avx2" not in pathlib.Path("/proc/cpuinfo").read_text():
                continue
            report = self.report("sampler", "--kind", "labor", "--instructions", instructions, "--verify")
            self.assertEqual((report["instructions"], report["verified_batches"]), (instructions, 1))
        self.assertNotIn("instructions", self.report("sampler", "--kind", "labor"))

    def test_layer_dependent_batches_may_share_variates(self):
        report = self.report("sampler", "--kind", "labor", "--labor-batches", "64", "--verify")
        self.assertEqual((report["labor_batches"], report["verified_batches"]), (64, 1))
        self.assertGreater(report["scratch_bytes"], self.report("sampler", "--kind", "labor")["scratch_bytes"], "lists are kept")
        self.assertEqual(self.refusal("sampler", "--labor-batches", "2"), "hopfeed-bench: --labor-batches is of --kind labor; give both")

    def test_gather_is_verified(self):
        report = self.report("gather", "--verify")
        self.assertEqual(report["verified_batches"], 1)
        self.assertEqual(report["row_bytes"], 32)
        for key in ("bytes_per_s", "fraction_of_limit", "ms_per_batch"):
            self.assertGreater(report[key], 0, key)

    def test_a_graph_made_by_a_kernel_is_sampled_alike_whatever_of_it_is_on_the_card(self):
        verified = {self.report("made-graph", "--host", "--verify", "--hot-bytes", hot)["verified_edges"] for hot in ("0", "5000", "100000000")}
        self.assertEqual(len(verified), 1)
        self.assertGreater(verified.pop(), 1000)
        self.assertIn("--nodes and --edges", self.refusal("made-graph", "--host", "--nodes", "10", "--edges", "9"))

    def test_a_card_that_is_not_there_is_one_line(self):
        for command in ("limits", "gather"):
            result = self.run_bench(command, "--gpu")
            if result.returncode == 0:
                self.skipTest("there is a card here")
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertEqual(result.stdout, "")
            self.assertRegex(result.stderr, r"^hopfeed-bench: (no CUDA card here|this hopfeed-bench was built without CUDA); .*\n$")
        self.assertEqual(self.refusal("gather", "--row-bytes", "8"), "hopfeed-bench: --row-bytes is of gather --gpu; give both")

    def test_loader_gives_the_batches_that_one_thread_makes(self):
        report = self.report("loader", "--verify", "--num-workers", "2")
        self.assertEqual(report["verified_batches"], 5 * 4)  # four in each of five rounds
        self.assertEqual(report["num_workers"], 2)
        for key in ("batches_per_s", "bytes_per_s", "fraction_of_limit", "times_one_worker", "channel_bytes"):
            self.assertGreater(report[key], 0, key)
        self.assertGreaterEqual(report["wait_fraction"], 0)

    def test_rows_are_of_every_type(self):
        report = self.report("rows", "--verify")
        self.assertEqual(report["verified_batches"], 5)
        for name in ("float32", "float16", "bfloat16", "int8", "int4"):
            for key in ("batches_per_s", "bytes_per_batch", "times_float32"):
                self.assertGreater(report[name][key], 0, (name, key))
            self.assertEqual(report[name]["convert_ms"] > 0, name.startswith("int"), name)
        self.assertEqual(report["float32"]["times_float32"], 1)
        self.assertLess(report["int4"]["bytes_per_batch"], report["int8"]["bytes_per_batch"])

    def test_channel_counts_handovers_of_large_and_small_batches(self):
        report = self.report("channel", "--verify")
        self.assertGreater(report["verified_batches"], 10)
        for key in ("bytes_per_s", "batches_per_s", "bytes_per_batch", "limit_handover_us", "limit_batches_per_s",
                    "small_fraction_of_limit"):
            self.assertGreater(report[key], 0, key)
        self.assertGreaterEqual(report["fraction_of_limit"], 0)  # 0: the trainer never had to wait
        self.assertLess(report["small_bytes_per_batch"], 2048)
        self.assertGreaterEqual(report["handover_us_p99"], report["handover_us_median"])
        self.assertGreaterEqual(report["idle_cpu_fraction"], 0)
        self.assertGreaterEqual(report["waiting_cpu_fraction"], 0)

    def test_startup_opens_100_GB(self):
        report = self.report("startup", "--verify")
        self.assertEqual(report["verified_batches"], 1)
        for key in ("open_dataset_ms", "loader_with_one_worker_ready_and_ended_ms", "worker_own_bytes", "open_100_GB_ms",
                    "idle_process_started_and_ended_ms", "fraction_of_limit"):
            self.assertGreater(report[key], 0, key)

    def test_the_line_is_also_written_to_a_file(self):
        path = os.path.join(self.folder.name, "report.json")
        report = self.report("gather", "--json", path)
        with open(path) as file:
            self.assertEqual(json.load(file), report)

    def test_a_generated_graph_is_made_once(self):
        self.report("gather")
        result = self.run_bench("gather", *GRAPH)
        self.assertEqual(result.returncode, 0)
        self.assertNotIn("Generating", result.stderr)

    def test_both_outputs_count_the_edges_of_every_type(self):
        made, sampled = (self.report("sampler", "--kind", "hetero", "--output", output)["edges_per_batch"] for output in ("batch", "topology"))
        self.assertAlmostEqual(made / sampled, 1, delta=0.2)

    def test_fields_are_the_arrays_that_were_made(self):
        self.assertIn("batch", self.report("sampler", "--kind", "disjoint", "--output", "batch")["fields"])
        self.assertIn("walks", self.report("sampler", "--kind", "walk", "--output", "batch")["fields"])

    def test_a_stop_signal_is_one_line_and_leaves_nothing_half_made(self):
        bench = subprocess.Popen([BENCH, "gather", "--nodes", "300000", "--edges", "20000000", "--seconds", "100"], stderr=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True, env={**os.environ, "XDG_CACHE_HOME": self.folder.name})
        while bench.poll() is None and not any(names for _, names, _ in os.walk(self.folder.name)):
            time.sleep(0.01)  # until it has begun to write
        bench.terminate()
        out, err = bench.communicate(timeout=60)
        self.assertEqual(bench.returncode, 130)
        self.assertEqual(out, "")
        self.assertIn("interrupted", err.strip().splitlines()[-1])
        left = [name for folder, _, names in os.walk(self.folder.name) for name in names]
        self.assertEqual(left, [])

    def test_threads_that_cannot_start_are_refused_and_nobody_waits_for_them(self):
        self.report("gather")  # generates
        # Each thread wants 8 MiB of addresses for its stack; where the limit is reached differs, that it ends does not.
        refused = 0
        for mib in (400, 600, 800, 1000, 1200):
            result = subprocess.run(["/bin/sh", "-c", f"ulimit -v {mib * 1024}; exec \"$@\"", "sh", BENCH, "gather", *GRAPH, "--threads", "128"],
                                    capture_output=True, text=True, timeout=60, env={**os.environ, "XDG_CACHE_HOME": self.folder.name})
            if result.returncode != 0:
                self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
                refused += "use fewer --threads" in result.stderr
        self.assertGreater(refused, 0)

    def test_what_cannot_be_measured_is_refused_by_name(self):
        self.assertIn("no dataset folder /nowhere", self.refusal("sampler", "--data", "/nowhere"))
        self.assertIn("/nowhere/report.json", self.refusal("gather", *GRAPH, "--json", "/nowhere/report.json"))
        self.assertIn("fanout -2", self.refusal("sampler", *GRAPH, "--fanouts", "-2"))
        self.assertEqual(self.refusal("sampler", "--batch-size", "99999999999"),
                         "hopfeed-bench: --batch-size is '99999999999'; give a whole number from 1 to 16777216")


if __name__ == "__main__":
    unittest.main()
