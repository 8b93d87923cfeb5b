#!/usr/bin/env python3
"""bench/machines: the model of costs against a graph that is cut and asked here, question by question; its fit; and datasets that
random_cut.py writes against `hopfeed-partition verify`."""
import json
import math
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest

TOOL = sys.argv.pop(1) if len(sys.argv) > 1 else None  # hopfeed-partition
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/machines"))

import cost_model as model  # noqa: E402

try:
    import random_cut
except ModuleNotFoundError:  # NumPy or xxhash is not in this Python
    random_cut = None

FANOUTS, SEEDS, FEATURE_BYTES = (4, 3), 40, 36


def up(size):
    return (size + 7) // 8 * 8


class Graph:
    """In-edges by destination; sampling without replacement, as hops find nodes."""

    def __init__(self, nodes, degree, random_of):
        self.sources = [sorted({random_of.randrange(nodes) for _ in range(random_of.randrange(2 * degree + 1))}) for _ in range(nodes)]
        self.to = [set() for _ in range(nodes)]
        for end, sources in enumerate(self.sources):
            for source in sources:
                if source != end:
                    self.to[source].add(end)

    def batch(self, random_of):
        """Nodes of each hop's frontier, and for each hop [(node, sources)]."""
        frontier = random_of.sample(range(len(self.sources)), SEEDS)
        nodes, hops = list(frontier), []
        for fanout in FANOUTS:
            drawn = [(node, random_of.sample(self.sources[node], min(fanout, len(self.sources[node])))) for node in frontier]
            hops.append(drawn)
            seen = set(nodes)
            frontier = list(dict.fromkeys(s for _, sources in drawn for s in sources if s not in seen))
            nodes += frontier
        return nodes, hops


def shape_of(graph, batches):
    known = {}
    for nodes, _ in batches:
        for node in nodes:
            known[len(graph.to[node])] = known.get(len(graph.to[node]), 0) + 1
    total = sum(known.values())
    mean = len(batches)
    return model.Shape(seeds=SEEDS, rows=[sum(len(hops[h]) for _, hops in batches) / mean for h in range(len(FANOUTS))],
                       edges=[sum(len(s) for _, hops in batches for _, s in hops[h]) / mean for h in range(len(FANOUTS))],
                       nodes=sum(len(nodes) for nodes, _ in batches) / mean, known_by={k: n / total for k, n in known.items()})


class Asked:
    """Counts questions and bytes as docs/protocol.md has them, with 4-byte ids and without edge ids."""

    def __init__(self):
        self.questions = self.bytes = self.ids = self.rows = 0

    def ask(self, question, answer):
        self.questions += 1
        self.bytes += question + answer

    def batch(self, graph, nodes, hops, part_of, range_of, machines):
        for m in range(1, machines):
            if seeds := sum(range_of[node] == m for node in nodes[:SEEDS]):
                self.ask(16 + 8 + up(4 * seeds), 8 + up(4 * seeds))
                self.ids += seeds
            for drawn in hops:
                rows = [sources for node, sources in drawn if part_of[node] == m]
                if rows:
                    self.rows += len(rows)
                    self.ask(64 + 16 + up(4 * len(rows)), 8 + 16 + up(len(rows)) + up(4 * sum(map(len, rows))))
            if own := [node for node in nodes if part_of[node] == m]:
                self.ask(32 + up(4 * len(own)), 8 + up(FEATURE_BYTES * len(own)))
            if unknown := sum(all(part_of[end] != 0 for end in graph.to[node]) for node in own):
                self.ask(16 + 8 + up(4 * unknown), 8 + up(4 * unknown))
                self.ids += unknown


class CostModel(unittest.TestCase):
    def test_questions_and_bytes_are_those_of_cuts_that_were_asked(self):
        draws = random.Random(5)
        graph = Graph(800, 6, draws)
        batches = [graph.batch(draws) for _ in range(12)]
        shape = shape_of(graph, batches)
        for machines in (2, 4, 40):
            asked, cuts = Asked(), 30
            for _ in range(cuts):
                part_of = [draws.randrange(machines) for _ in graph.sources]
                range_of = [draws.randrange(machines) for _ in graph.sources]
                for nodes, hops in batches:
                    asked.batch(graph, nodes, hops, part_of, range_of, machines)
            traffic = model.traffic_of(shape, model.Deployment(machines, feature_bytes=(FEATURE_BYTES,)), FANOUTS)
            of = cuts * len(batches)
            for name, found, expected in (("questions", asked.questions / of, traffic.questions), ("ids", asked.ids / of, traffic.ids),
                                          ("rows", asked.rows / of, traffic.rows),
                                          ("bytes", asked.bytes / of, traffic.asked_bytes + traffic.answered_bytes)):
                self.assertAlmostEqual(found / expected, 1, delta=0.03, msg=f"{name} over {machines}")

    def test_one_machine_asks_nobody(self):
        shape = model.random_shape(10**6, 10, FANOUTS, 64)
        traffic = model.traffic_of(shape, model.Deployment(1, feature_bytes=(FEATURE_BYTES,)), FANOUTS)
        self.assertEqual((traffic.questions, traffic.bytes, traffic.rounds, traffic.ids), (0, 0, 0, 0))

    def test_a_random_graph_that_is_large_meets_no_node_twice(self):
        shape = model.random_shape(10**10, 100, (15, 10, 5), 1024)
        self.assertAlmostEqual(shape.nodes / (1024 * (1 + 15 + 150 + 750)), 1, delta=1e-3)
        self.assertAlmostEqual(sum(shape.known_by.values()), 1, places=9)

    def test_fit_finds_the_costs_that_there_are_and_none_below_zero(self):
        draws = random.Random(1)
        costs = {"batch": 3e-4, "edge": 2e-8, "question": 0.0}
        rows = [{"batch": 1.0, "edge": draws.uniform(1e3, 1e6), "question": draws.uniform(1, 60)} for _ in range(12)]
        found = model.fit(rows, [model.predicted(costs, row) for row in rows])
        for name, cost in costs.items():
            self.assertAlmostEqual(found[name], cost, delta=1e-9 + 1e-4 * cost)
        less = model.fit(rows, [model.predicted({**costs, "question": -1e-7}, row) for row in rows])
        self.assertTrue(all(cost >= 0 for cost in less.values()), less)

    def test_rates(self):
        traffic = model.Traffic(rounds=5)
        self.assertAlmostEqual(model.rate_of_delay(traffic, 0.04, 0.001, 4), 4 / 0.201)
        self.assertAlmostEqual(model.rate_of_delay(traffic, 0.0, 0.01, 4), 100)  # the CPU binds
        self.assertAlmostEqual(model.rate_of_link(1448e3, 8 * 1514e3), 1)
        self.assertLess(model.slowest_of(1, 1e-3, 1e-1), 3e-3)
        self.assertGreater(model.slowest_of(1000, 1e-3, 1e-1), 0.099)
        self.assertLess(model.slowest_of(1000, 1e-3, 1e-1, replicas=2), 0.022)

    def test_the_folder_of_a_machine(self):
        one, four = (sum(model.partition_bytes(1e6, 1e7, machines, 4, split_share=0).values()) for machines in (1, 4))
        self.assertEqual(one, 16e6 + 4e7 + 8e6 + 4e6)  # no node is elsewhere
        remote = 0.75e6 * -math.expm1(-2.5)
        self.assertAlmostEqual(four, one / 4 + 9 * remote, delta=1)


@unittest.skipUnless(random_cut and TOOL, "this Python has no NumPy, or no xxhash")
class RandomCut(unittest.TestCase):
    def test_what_it_writes_is_a_dataset_to_verify(self):
        for sharded in (True, False):
            with tempfile.TemporaryDirectory(prefix="hopfeed-test-") as scratch:
                folder = pathlib.Path(scratch) / "cut"
                made = random_cut.write_random_cut(folder, 20_011, degree=3, parts=3, sharded=sharded)
                told = self.verify(folder)
                self.assertRegex(told.stderr, "the content's fingerprint is [0-9a-f]{32}, the file says 0{32}")
                random_cut.take_fingerprint(folder, re.search("fingerprint is ([0-9a-f]{32})", told.stderr)[1])
                told = self.verify(folder)
                self.assertEqual(told.returncode, 0, told.stderr)
                self.assertEqual(json.loads((folder / "meta.json").read_text())["edge_types"][0]["count"], made["edges"])
                self.assertAlmostEqual(made["edges"] / (3 * 20_011), 1, delta=0.05)

    def verify(self, folder):
        return subprocess.run([TOOL, "verify", folder], capture_output=True, text=True, timeout=120, check=False)


if __name__ == "__main__":
    unittest.main()
