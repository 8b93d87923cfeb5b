#!/usr/bin/env python3
"""bench/peers.sh without the other loaders: its options, the runner with programs that only pretend, the table, the chart, the export; and
hopfeed's own part on a tiny graph."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

BIN = pathlib.Path(sys.argv.pop(1)).parent if len(sys.argv) > 1 else pathlib.Path("build/release/bin").resolve()
NUMPY_PYTHON = sys.argv.pop(1) if len(sys.argv) > 1 else None  # where there is Torch
ROOT = pathlib.Path(__file__).resolve().parents[2]
PEERS = ROOT / "bench/peers"

# Stands in for a loader's python: prints the report that it finds for its measure and settings, and writes down how it was called.
PRETENDER = """#!/usr/bin/env python3
import json, os, pathlib, subprocess, sys, time
here = pathlib.Path(__file__).resolve().parents[1]
measure = next(word for word in sys.argv[1:] if not word.startswith("-") and not word.endswith(".py") and word != "ignore")
setting = ",".join(word.removeprefix("--set=") for word in sys.argv if word.startswith("--set=")) + (" kept" if "MALLOC_MMAP_MAX_" in os.environ else "")
with open(here / "calls", "a") as calls:
    calls.write(json.dumps([measure, setting, sys.argv]) + chr(10))
answer = json.loads((here / "answers.json").read_text())
answer = answer.get(measure + " " + setting, answer.get(measure))
if answer == "hang":
    child = subprocess.Popen(["sleep", "600"])
    (here / "child").write_text(str(child.pid))
    time.sleep(600)
if isinstance(answer, str):
    print("Traceback of something", answer, sep=chr(10), file=sys.stderr)
    sys.exit(1)
print("a word on standard output")
print(json.dumps(answer))
"""


def figures(per_cpu_s, **keys):
    return {"edges_per_cpu_s": per_cpu_s, "edges_per_s": per_cpu_s, "edges_per_batch": 1000.0, "nodes_per_batch": 700.0, "ms_per_batch": 1.0, **keys}


def result(key, value, **keys):
    return {"setting": "as it is", "runs": 2, "spread": [0.9 * value, 1.1 * value], key: value, **keys}


def document(**peers):
    return {"format": "hopfeed-peers", "version": 1, "rounds": 2, "seconds": 1, "machine": {"cpu": "A processor", "cores": 2, "memory_gib": 8, "kernel": "6"},
            "graph": {"nodes": 1000, "edges": 20000, "features": 8, "fanouts": "15,10,5", "batch_size": 64, "workers": 2}, "peers": peers}


HOPFEED = {"title": "hopfeed", "differs": "nothing", "versions": {}, "measures": {
    "node": result("edges_per_cpu_s", 30e6, nodes_per_batch=700.0, edges_per_batch=1000.0), "loader": result("batches_per_s", 50.0, bytes_per_batch=4e6),
    "handover": result("handover_us", 50.0, bytes_per_batch=4e6),
    "kill": {"setting": "as it is", "outcome": "all batches, byte for byte", "seconds": 0.012, "batches_after": 35, "expected_after": 35}}}
PYG = {"title": "PyG", "differs": "draws with a bias", "versions": {"torch": "2"}, "measures": {
    "node": result("edges_per_cpu_s", 3e6, nodes_per_batch=701.0, edges_per_batch=1001.0), "loader": result("batches_per_s", 5.0, bytes_per_batch=4e6),
    "handover": result("handover_us", 5000.0, bytes_per_batch=4e6),
    "kill": {"setting": "as it is", "outcome": "error", "seconds": 0.4, "message": "worker exited", "batches_after": 1, "expected_after": 35}}}
GRAPHBOLT = {"title": "GraphBolt", "differs": "draws again", "versions": {}, "measures": {
    "node": {**result("edges_per_cpu_s", 6e6), "setting": "int32 ids"}, "loader": {"missing": "RuntimeError: no room"}, "handover": {"missing": "not measured"},
    "kill": {"setting": "as it is", "outcome": "batches lost", "seconds": 1.0, "batches_after": 30, "expected_after": 35}}}
LABOR = result("edges_per_cpu_s", 12e6, nodes_per_batch=500.0, edges_per_batch=800.0)
GLT = {"title": "graphlearn-torch", "differs": "with replacement", "missing": "pip could not install it"}


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="hopfeed-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_program(self, *command, **environment):
        return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300, env={**os.environ, **environment})

    def assert_one_line(self, finished, *words):
        self.assertNotEqual(finished.returncode, 0)
        self.assertEqual(finished.stdout, "")
        self.assertEqual(len(finished.stderr.strip().splitlines()), 1, finished.stderr)
        for word in words:
            self.assertIn(word, finished.stderr)

    def written(self, content):
        path = self.folder / "results.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path


class Table(Case):
    def rows(self, content):
        finished = self.run_program(PEERS / "table.py", self.written(content))
        self.assertEqual(finished.returncode, 0, finished.stderr)
        lines = finished.stdout.splitlines()
        cells = [[cell.strip() for cell in line[1:-1].split("|")] for line in lines if line.startswith("|")]
        return {row[0]: row[1:] for row in cells[2:]}, [line for line in lines if line.startswith("- ")], lines

    def test_each_measure_is_a_row_and_says_how_far_hopfeed_is_from_the_best_peer(self):
        rows, _, _ = self.rows(document(hopfeed=HOPFEED, pyg=PYG, graphbolt=GRAPHBOLT))
        self.assertEqual(list(rows), ["node seeds, M edges/s of a core", "rows (nodes) a batch", "edges a batch", "loader, features, two workers, batches/s",
                                      "a batch handed over, ms", "a worker is killed (SIGKILL)"])
        self.assertEqual(rows["node seeds, M edges/s of a core"], ["30 (27 to 33)", "3 (2.7 to 3.3)", "6 (5.4 to 6.6)", "5 times"])
        self.assertEqual(rows["rows (nodes) a batch"][:3], ["700", "701", "-"])
        self.assertEqual(rows["loader, features, two workers, batches/s"], ["50 (45 to 55), 4 MB", "5 (4.5 to 5.5), 4 MB", "-", "10 times"])

    def test_less_is_better_where_time_is_measured(self):
        rows, _, _ = self.rows(document(hopfeed=HOPFEED, pyg=PYG))
        self.assertEqual(rows["a batch handed over, ms"], ["0.05 (0.045 to 0.055), 4 MB", "5 (4.5 to 5.5), 4 MB", "100 times"])

    def test_a_death_is_told_in_words(self):
        hanging = {**PYG, "measures": {"kill": {"setting": "as it is", "outcome": "hangs", "seconds": 30, "batches_after": 0, "expected_after": 35}}}
        rows, notes, _ = self.rows(document(hopfeed=HOPFEED, pyg=PYG, graphbolt=GRAPHBOLT, glt=hanging))
        self.assertEqual(rows["a worker is killed (SIGKILL)"][:4], ["all batches, byte for byte; longest wait 12 ms", "an error after 400 ms",
                                                                    "5 of 35 batches lost", "hangs: no batch for 30 s"])
        self.assertTrue(any("worker exited" in note for note in notes))

    def test_what_is_missing_and_what_is_drawn_differently_is_said(self):
        rows, notes, _ = self.rows(document(hopfeed=HOPFEED, pyg=PYG, graphbolt=GRAPHBOLT, glt=GLT))
        self.assertEqual(rows["node seeds, M edges/s of a core"][3], "-")
        self.assertIn("- graphlearn-torch could not be installed: pip could not install it.", notes)
        self.assertTrue(any("No figure for loader, features, two workers: RuntimeError: no room" in note for note in notes), notes)
        self.assertTrue(any(note.startswith("- PyG (torch 2): draws with a bias") for note in notes), notes)
        self.assertTrue(any("node: int32 ids" in note for note in notes), notes)

    def test_without_peers_there_is_nobody_to_be_ahead_of(self):
        rows, _, _ = self.rows(document(hopfeed=HOPFEED))
        self.assertEqual(rows["node seeds, M edges/s of a core"], ["30 (27 to 33)", ""])

    def test_batches_of_labor_have_sizes_of_their_own(self):
        hopfeed = {**HOPFEED, "measures": {**HOPFEED["measures"], "labor": LABOR}}
        pyg = {**PYG, "measures": {**PYG["measures"], "labor": {"missing": "PyG has no LABOR"}}}
        rows, notes, _ = self.rows(document(hopfeed=hopfeed, pyg=pyg))
        self.assertEqual(rows["layer-dependent (LABOR), M edges/s of a core"], ["12 (10.8 to 13.2)", "-", ""])
        self.assertEqual((rows["rows (nodes) a batch of LABOR"], rows["edges a batch of LABOR"]), (["500", "-", ""], ["800", "-", ""]))
        self.assertEqual(rows["edges a batch"], ["1,000", "1,001", ""])
        self.assertTrue(any("No figure for layer-dependent (LABOR): PyG has no LABOR" in note for note in notes), notes)

    def test_results_older_than_a_measure_say_that_it_was_not_measured(self):
        rows, notes, _ = self.rows(document(hopfeed=HOPFEED, pyg=PYG))
        self.assertNotIn("layer-dependent (LABOR), M edges/s of a core", rows)
        self.assertEqual(notes[-1], "- Not measured: link seeds, one negative each; by weight; layer-dependent (LABOR); 3 node types, 6 edge types.")
        rows, notes, _ = self.rows(document(hopfeed={**HOPFEED, "measures": {**HOPFEED["measures"], "labor": LABOR}}, pyg=PYG))
        self.assertEqual(rows["layer-dependent (LABOR), M edges/s of a core"][1], "-")
        self.assertTrue(any(note.startswith("- PyG") and "No figure for layer-dependent (LABOR): not measured" in note for note in notes), notes)

    def test_input_that_is_no_result_is_one_line(self):
        for program in ("table.py", "chart.py"):
            self.assert_one_line(self.run_program(PEERS / program, self.folder / "absent.json"), program, "absent.json", "No such file")
            self.assert_one_line(self.run_program(PEERS / program, self.written("{")), program, "is no JSON")
            self.assert_one_line(self.run_program(PEERS / program, self.written([1])), program, "is not what bench/peers.sh writes")
            self.assert_one_line(self.run_program(PEERS / program, self.written({"format": "hopfeed-peers", "version": 2})), program, "is not what")
            self.assertEqual(self.run_program(PEERS / program, "--help").returncode, 0)


class Chart(Case):
    SVG = "{http://www.w3.org/2000/svg}"

    def drawn(self, content):
        finished = self.run_program(PEERS / "chart.py", self.written(content))
        self.assertEqual(finished.returncode, 0, finished.stderr)
        svg = xml.etree.ElementTree.fromstring(finished.stdout)
        return svg, [float(bar.get("width")) for bar in svg.findall(f"{self.SVG}rect")[1:]], [text.text for text in svg.findall(f"{self.SVG}text")]

    def test_bars_are_as_long_as_their_values(self):
        _, bars, texts = self.drawn(document(hopfeed=HOPFEED, pyg=PYG, graphbolt=GRAPHBOLT))
        self.assertEqual(len(bars), 5)  # three of node seeds, two of loaders: a time is no bar
        self.assertAlmostEqual(bars[1] / bars[0], 3 / 30, delta=0.01)
        self.assertAlmostEqual(bars[2] / bars[0], 6 / 30, delta=0.01)
        self.assertAlmostEqual(bars[4] / bars[3], 5 / 50, delta=0.01)
        self.assertIn("node seeds, M edges/s of a core: 5.0 times the best other loader", texts)

    def test_what_is_missing_is_said_in_place_of_a_bar(self):
        _, bars, texts = self.drawn(document(hopfeed=HOPFEED, glt=GLT, graphbolt=GRAPHBOLT))
        self.assertEqual(len(bars), 3)
        self.assertEqual(texts.count("pip could not install it"), 2)
        self.assertIn("RuntimeError: no room", texts)

    def test_what_older_results_lack_is_no_panel_and_no_bar(self):
        title = "layer-dependent (LABOR), M edges/s of a core"
        _, _, texts = self.drawn(document(hopfeed=HOPFEED, pyg=PYG))
        self.assertFalse(any(text.startswith("layer-dependent") for text in texts), texts)
        _, bars, texts = self.drawn(document(hopfeed={**HOPFEED, "measures": {"labor": LABOR}}, pyg=PYG))
        self.assertEqual(len(bars), 3)  # of pyg: node seeds and the loader
        self.assertIn("not measured", texts[texts.index(title) + 1 :])

    def test_words_that_xml_has_a_use_for_are_kept(self):
        _, _, texts = self.drawn(document(hopfeed=HOPFEED, glt={**GLT, "title": "a<b>&c"}))
        self.assertIn("a<b>&c", texts)

    def test_everything_lies_inside(self):
        svg, _, _ = self.drawn(document(hopfeed=HOPFEED, pyg=PYG, graphbolt=GRAPHBOLT, glt=GLT))
        width, height = float(svg.get("width")), float(svg.get("height"))
        for bar in svg.findall(f"{self.SVG}rect")[1:]:
            self.assertLessEqual(float(bar.get("x")) + float(bar.get("width")), width)
            self.assertLessEqual(float(bar.get("y")) + float(bar.get("height")), height)


class Runner(Case):
    def pretend(self, peer, answers):
        python = self.folder / peer / "bin/python"
        python.parent.mkdir(parents=True)
        python.write_text(PRETENDER)
        python.chmod(0o755)
        (self.folder / peer / "answers.json").write_text(json.dumps(answers))

    def measure(self, *arguments, status=0):
        output = self.folder / "out.json"
        finished = self.run_program(PEERS / "measure.py", "--dir", self.folder, "--graphs", self.folder / "graphs", "--bin", self.folder, "--json", output,
                                    "--seconds", "0.1", *arguments)
        self.assertEqual(finished.returncode, status, finished.stderr)
        return json.loads(output.read_text()) if status == 0 else finished

    def calls(self, peer):
        return [json.loads(line) for line in (self.folder / peer / "calls").read_text().splitlines()]

    def test_the_first_round_tries_all_settings_and_the_others_the_best(self):
        self.pretend("pyg", {"node": figures(1e6), "node  kept": figures(2e6)})
        made = self.measure("--peers", "pyg", "--measures", "node", "--rounds", "3")
        self.assertEqual([setting for _, setting, _ in self.calls("pyg")], ["", " kept", " kept", " kept"])
        node = made["peers"]["pyg"]["measures"]["node"]
        self.assertEqual((node["setting"], node["runs"], node["edges_per_cpu_s"], node["nodes_per_batch"]), ("memory kept", 3, 2e6, 700))
        self.assertEqual(node["settings_tried"], {"as it is": 1e6, "memory kept": 2e6})

    def test_a_report_may_be_a_long_line(self):
        self.pretend("pyg", {"kill": {"outcome": "error", "seconds": 1.0, "message": "x" * 5000, "batches_after": 0, "expected_after": 35}})
        made = self.measure("--peers", "pyg", "--measures", "kill", "--rounds", "1")
        self.assertEqual(len(made["peers"]["pyg"]["measures"]["kill"]["message"]), 5000)

    def test_of_times_the_shortest_is_the_best(self):
        self.pretend("graphbolt", {"handover": {"handover_us": 10.0, "bytes_per_batch": 1.0}, "handover  kept": {"handover_us": 20.0, "bytes_per_batch": 1.0}})
        made = self.measure("--peers", "graphbolt", "--measures", "handover", "--rounds", "1")
        self.assertEqual(made["peers"]["graphbolt"]["measures"]["handover"]["setting"], "as it is")

    def test_what_fails_is_told_by_its_last_line_and_the_rest_goes_on(self):
        self.pretend("glt", {"node": "RuntimeError: no such op", "hetero": figures(1e6)})
        made = self.measure("--peers", "glt", "--measures", "node,hetero", "--rounds", "1")
        measures = made["peers"]["glt"]["measures"]
        self.assertEqual(measures["node"], {"missing": "RuntimeError: no such op"})
        self.assertEqual(measures["hetero"]["edges_per_cpu_s"], 1e6)

    def test_a_setting_that_fails_is_not_the_best(self):
        self.pretend("pyg", {"node": "MemoryError", "node  kept": figures(2e6)})
        made = self.measure("--peers", "pyg", "--measures", "node", "--rounds", "2")
        self.assertEqual(made["peers"]["pyg"]["measures"]["node"]["setting"], "memory kept")

    def test_what_hangs_ends_at_the_deadline_with_all_that_it_started(self):
        self.pretend("glt", {"kill": "hang"})
        made = self.measure("--peers", "glt", "--measures", "kill", "--rounds", "1", "--deadline", "8.5")
        self.assertEqual(made["peers"]["glt"]["measures"]["kill"], {"missing": "no answer within 8.5 s"})
        child = pathlib.Path("/proc", (self.folder / "glt/child").read_text(), "stat")
        for _ in range(1200):
            if not child.exists() or child.read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return
            time.sleep(0.05)
        self.fail("the child still runs")

    def test_a_worker_is_killed_in_one_round_only(self):
        self.pretend("glt", {"kill": {"outcome": "hangs", "seconds": 30, "batches_after": 0, "expected_after": 35}})
        made = self.measure("--peers", "glt", "--measures", "kill", "--rounds", "3")
        self.assertEqual(len(self.calls("glt")), 1)
        self.assertEqual(made["peers"]["glt"]["measures"]["kill"]["outcome"], "hangs")

    def test_of_labor_hopfeed_has_one_setting_a_variate_for_each_batch(self):
        bench = self.folder / "hopfeed-bench"
        bench.write_text("""#!/bin/sh
echo "$@" >>"$(dirname "$0")/asked"
echo '{"edges_per_batch": 500.0, "ms_per_batch": 2.0, "nodes_per_batch": 300.0, "edges_per_s": 240000.0, "cpu_share": 1.0}'
""")
        bench.chmod(0o755)
        for peer in ("pyg", "graphbolt", "glt"):
            self.pretend(peer, {"labor": figures(1e5), "labor ids=int32 kept": figures(2e5)})
        peers = self.measure("--measures", "labor", "--rounds", "1")["peers"]
        self.assertEqual(peers["hopfeed"]["measures"]["labor"]["settings_tried"], {"as it is": 250000.0})
        asked, = (self.folder / "asked").read_text().splitlines()
        self.assertIn("--kind labor ", asked)
        self.assertNotIn("--labor-batches", asked)
        self.assertEqual(peers["graphbolt"]["measures"]["labor"]["setting"], "int32 ids, memory kept")
        self.assertEqual(peers["pyg"]["measures"]["labor"], {"missing": "PyG has no LABOR"})
        self.assertEqual(peers["glt"]["measures"]["labor"], {"missing": "graphlearn-torch has no LABOR"})

    def test_peers_take_turns(self):
        for peer in ("pyg", "glt"):
            self.pretend(peer, {"node": figures(1e6), "node  kept": figures(2e6)})
        finished = self.run_program(PEERS / "measure.py", "--dir", self.folder, "--graphs", self.folder, "--bin", self.folder, "--json", self.folder / "out.json",
                                    "--peers", "pyg,glt", "--measures", "node", "--rounds", "2")
        order = [(line.split()[1], line.split()[3]) for line in finished.stdout.splitlines()]
        self.assertEqual(order, [("1", "pyg"), ("1", "pyg"), ("1", "glt"), ("1", "glt"), ("2", "pyg"), ("2", "glt")])

    def test_peers_hand_over_as_much_as_hopfeed(self):
        bench = self.folder / "hopfeed-bench"
        bench.write_text("#!/bin/sh\necho '{\"handover_us_median\": 5, \"handover_us_p99\": 9, \"bytes_per_batch\": 1234567.0, \"handovers\": 20}'\n")
        bench.chmod(0o755)
        self.pretend("glt", {"handover": {"handover_us": 50.0, "bytes_per_batch": 1234567.0}})
        made = self.measure("--peers", "hopfeed,glt", "--measures", "handover", "--rounds", "1")
        (_, _, command), = self.calls("glt")
        self.assertEqual(command[command.index("--bytes") + 1], "1234567")
        self.assertEqual(made["peers"]["hopfeed"]["measures"]["handover"]["handover_us"], 5)

    def test_a_peer_that_could_not_be_installed_is_in_the_document(self):
        (self.folder / "glt").mkdir()
        (self.folder / "glt/missing").write_text("pip could not install it\n")
        made = self.measure("--peers", "glt", "--measures", "node")
        self.assertEqual(made["peers"]["glt"]["missing"], "pip could not install it")

    def test_names_that_nobody_has_are_one_line(self):
        self.assert_one_line(self.measure("--peers", "dgl", status=1), "no loader 'dgl'", "graphbolt")
        self.assert_one_line(self.measure("--measures", "speed", status=1), "no measure 'speed'", "loader")


class Installation(Case):
    def test_a_peer_that_pip_refuses_leaves_the_reason(self):
        python = self.folder / "python"
        python.write_text("#!/bin/sh\ncase $2 in venv) mkdir -p \"$4/bin\"; cp \"$0\" \"$4/bin/python\" ;; pip) echo 'ERROR: No matching distribution found'; exit 1 ;; esac\n")
        python.chmod(0o755)
        finished = self.run_program(PEERS / "install.sh", "glt", self.folder / "peers", HOPFEED_PEER_PYTHON=str(python))
        self.assertEqual(finished.returncode, 1)
        self.assertEqual(len(finished.stderr.strip().splitlines()), 1, finished.stderr)
        reason = (self.folder / "peers/glt/missing").read_text()
        self.assertEqual(reason, "pip could not install it (ERROR: No matching distribution found)\n")
        self.assertFalse((self.folder / "peers/glt/installed").exists())

    def test_peers_that_nobody_knows_are_one_line(self):
        self.assert_one_line(self.run_program(PEERS / "install.sh", "pig", self.folder), "no loader 'pig'")
        self.assert_one_line(self.run_program(PEERS / "install.sh"), "give a loader and a folder")

    def test_a_folder_without_the_sources_of_pyg_lib_is_one_line(self):
        peers, sources = self.folder / "peers", self.folder / "sources"
        self.assert_one_line(self.run_program(PEERS / "install.sh", "pyglib", peers, sources), "has no sources of pyg-lib")
        kernel = sources / "pyg_lib/csrc/sampler/cpu/neighbor_kernel.cpp"
        kernel.parent.mkdir(parents=True)
        kernel.touch()
        self.assert_one_line(self.run_program(PEERS / "install.sh", "pyglib", peers, sources), "lacks the submodule third_party/parallel-hashmap")
        self.assertFalse(peers.exists())


class Script(Case):
    def peers(self, *arguments, **environment):
        return self.run_program(ROOT / "bench/peers.sh", "--dir", self.folder / "here", *arguments, **environment)

    def test_help_names_every_option(self):
        finished = self.peers("--help")
        self.assertEqual(finished.returncode, 0)
        for option in ("--quick", "--nodes", "--edges", "--only", "--measure", "--rounds", "--seconds", "--dir", "--bin", "--json", "--pyg-lib", "--help"):
            self.assertIn(option, finished.stdout)

    def test_bad_options_are_one_line_and_leave_nothing(self):
        for arguments, words in ((["--fast"], "unknown option '--fast'"), (["--nodes", "0"], "--nodes is '0'"), (["--edges", "many"], "--edges is 'many'"),
                                 (["--rounds=-1"], "--rounds is '-1'"), (["--seconds", "0"], "--seconds is '0'"), (["--seconds", "."], "--seconds is '.'"),
                                 (["--only", "dgl"], "--only: no loader 'dgl'"), (["--only", "pyglib"], "--only pyglib needs its sources"),
                                 (["--pyg-lib", "nowhere"], "--pyg-lib: there is no folder 'nowhere'"), (["--measure", "speed"], "--measure: no measure 'speed'"),
                                 (["--measure", "node link"], "--measure: no measure 'node link'"), (["--measure="], "--measure: no measure ''"), (["--json"], "--json needs a value"), (["--dir="], "--dir needs a folder"),
                                 (["--bin", "/nowhere"], "no hopfeed-bench in '/nowhere'"),
                                 (["--bin", BIN, "--json", "/nowhere/out.json"], "cannot write '/nowhere/out.json'"),
                                 (["--bin", BIN, "--dir", "/proc/nowhere"], "cannot make the folder '/proc/nowhere'")):
            self.assert_one_line(self.peers(*arguments), words)
            self.assertEqual(list(self.folder.iterdir()), [])

    def test_hopfeed_alone_measures_itself(self):
        finished = self.peers("--only", "hopfeed", "--bin", BIN, "--nodes", "3000", "--edges", "30000", "--rounds", "1", "--seconds", "0.05",
                              "--json", self.folder / "copy.json")
        self.assertEqual(finished.returncode, 0, finished.stderr + finished.stdout)
        made = json.loads((self.folder / "copy.json").read_text())
        measures = made["peers"]["hopfeed"]["measures"]
        for measure, key in (("node", "edges_per_cpu_s"), ("link", "edges_per_cpu_s"), ("weighted", "edges_per_cpu_s"), ("labor", "edges_per_cpu_s"), ("hetero", "edges_per_cpu_s"),
                             ("loader", "batches_per_s"), ("handover", "bytes_per_batch")):
            self.assertGreater(measures[measure][key], 0, measure)
        self.assertEqual(measures["kill"]["outcome"], "all batches, byte for byte")
        self.assertIn("| node seeds, M edges/s of a core |", (self.folder / "here/results.md").read_text())
        xml.etree.ElementTree.parse(self.folder / "here/results.svg")

    def test_measures_that_are_named_are_measured_alone(self):
        finished = self.peers("--only", "hopfeed", "--bin", BIN, "--nodes", "3000", "--edges", "30000", "--rounds", "1", "--seconds", "0.05",
                              "--measure", "labor", "--measure", "node", "--measure", "labor")
        self.assertEqual(finished.returncode, 0, finished.stderr + finished.stdout)
        made = json.loads((self.folder / "here/results.json").read_text())
        self.assertEqual(list(made["peers"]["hopfeed"]["measures"]), ["node", "labor"])
        self.assertEqual(list((self.folder / "here/data/hopfeed-bench").glob("*-weights")), [])  # of no use to them

    def test_measures_are_those_that_the_runner_knows(self):
        known = self.run_program(PEERS / "measure.py", "--dir", "x", "--graphs", "x", "--bin", "x", "--json", "x", "--measures", "speed").stderr
        self.assertIn(known.split("there are ")[1].strip(), self.peers("--help").stdout)


@unittest.skipUnless(NUMPY_PYTHON, "no Python with NumPy")
class Export(Case):
    def test_rows_of_the_export_are_the_dataset_s_in_edges(self):
        data, out = self.folder / "data", self.folder / "out"
        self.assertEqual(self.run_program(BIN / "hopfeed-partition", "generate", data, "--nodes", "200", "--edges", "3000", "--features", "3", "--classes", "4",
                                          "--seed", "1").returncode, 0)
        finished = self.run_program(NUMPY_PYTHON, PEERS / "export.py", data, out)
        self.assertEqual(finished.returncode, 0, finished.stderr)
        check = """
import json, sys, numpy as np, pathlib
out, data = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
graph = json.loads((out / "graph.json").read_text())
edge, = graph["edge_types"]
indptr, indices = np.load(out / edge["indptr"]), np.load(edge["indices"])
assert indptr.dtype == np.int64 and indptr[0] == 0 and indptr[-1] == len(indices) == edge["count"], indptr
assert (np.diff(indptr) >= 0).all() and len(indptr) == graph["node_types"][graph["seed_type"]] + 1 == 201
edges = {(int(s), d) for d in range(200) for s in indices[indptr[d]:indptr[d + 1]]}
links = np.load(out / graph["links"])
assert links.shape[1] > 0 and all((int(s), int(d)) in edges for s, d in links.T)
rows = np.load(next((data / "part-0000/edges").iterdir()) / "rows.npy")
train, = (data / "splits").rglob("train.npy")
assert (rows["original_id"][np.load(out / graph["seeds"])] == np.load(train)).all()
assert np.load(graph["features"]).shape[0] == 200 and graph["feature_width"] == 3
"""
        checked = self.run_program(NUMPY_PYTHON, "-c", check, out, data)
        self.assertEqual(checked.returncode, 0, checked.stderr)

    def test_a_folder_that_is_no_dataset_is_one_line(self):
        self.assert_one_line(self.run_program(NUMPY_PYTHON, PEERS / "export.py", self.folder, self.folder / "out"), "no dataset in")


if __name__ == "__main__":
    unittest.main()
