#!/usr/bin/env python3
"""The arrow check itself: each fault that it exists for is found in a small made-up tree, and a clean tree passes."""
import pathlib
import tempfile
import unittest

import check_arrows


class CheckArrows(unittest.TestCase):
    def faults(self, files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            return check_arrows.check(root)[1]

    def assert_fault(self, files, where, words):
        faults = self.faults(files)
        self.assertEqual(len(faults), 1, faults)
        self.assertTrue(faults[0].startswith(where + ":"), faults[0])
        self.assertIn(words, faults[0])

    def test_arrows_that_hold_pass(self):
        self.assertEqual(self.faults({
            "core/base/a.h": "// a\n#pragma once\n#include <vector>\n",
            "core/program/main.h": '// m\n#pragma once\n#include "core/base/a.h"\n',
            "partition_tool/p.h": "// p\n#pragma once\n",
            "partition_tool/program/main.cc": '// m\n#include "core/program/main.h"\n#include "partition_tool/p.h"\n',
            "partition_tool/q_main.cc": '// q\n#include "core/program/main.h"\nint main() {}\n',
            "channel/b.cc": '// b\n#include <boost/interprocess/mapped_region.hpp>\n#include "core/base/a.h"\n',
            "worker_mode/c.h": '// c\n#pragma once\n#include "core/base/a.h"\n',
            "trainer/d.cc": '// d\n#include <torch/torch.h>\n#include "worker_mode/c.h"\n',
            "tests/trainer/e.cc": '// e\n#include <ATen/ATen.h>\n#include "core/base/a.h"\n',
        }), [])

    def test_core_that_includes_channel_is_found(self):
        self.assert_fault({"channel/a.h": "// a\n#pragma once\n", "core/base/b.cc": '// b\n#include "channel/a.h"\n'},
                          "core/base/b.cc:2", "core/base may not use channel")

    def test_room_that_includes_a_higher_one_is_found(self):
        self.assert_fault({"core/seeds/a.h": "// a\n#pragma once\n", "core/base/b.cc": '// b\n#include "core/seeds/a.h"\n'},
                          "core/base/b.cc:2", "core/base may not use core/seeds")

    def test_file_without_a_room_is_found(self):
        self.assert_fault({"core/a.cc": "// a\n"}, "core/a.cc:1", "rooms: base, dataset")

    def test_folder_that_includes_tests_is_found(self):
        self.assert_fault({"tests/a.h": "// a\n#pragma once\n", "trainer/b.cc": '// b\n#include "tests/a.h"\n'},
                          "trainer/b.cc:2", "trainer may not use tests")

    def test_library_that_includes_the_programs_part_is_found(self):
        self.assert_fault({"core/program/a.h": "// a\n#pragma once\n", "core/base/b.cc": '// b\n#include "core/program/a.h"\n'},
                          "core/base/b.cc:2", "core/base may not use core/program")

    def test_torch_outside_the_trainer_is_found(self):
        self.assert_fault({"worker_mode/a.cc": "// a\n#include <torch/torch.h>\n"}, "worker_mode/a.cc:2", "Torch")
        self.assert_fault({"tests/core/a.cc": "// a\n#include <c10/util/Half.h>\n"}, "tests/core/a.cc:2", "Torch")

    def test_boost_in_core_is_found(self):
        self.assert_fault({"core/base/a.cc": "// a\n#include <boost/asio.hpp>\n"}, "core/base/a.cc:2", "Boost")

    def test_relative_include_is_found(self):
        self.assert_fault({"core/base/a.h": "// a\n#pragma once\n", "core/base/b.cc": '// b\n#include "a.h"\n'},
                          "core/base/b.cc:2", "from the root")

    def test_missing_banner_is_found(self):
        self.assert_fault({"core/base/a.cc": "int a;\n"}, "core/base/a.cc:1", "banner")

    def test_long_files_pass(self):
        self.assertEqual(self.faults({"core/base/a.cc": "// a\n" * 2000}), [])

    def test_wall_clock_in_the_channel_is_found(self):
        self.assert_fault({"channel/a.cc": "// a\nauto t = std::chrono::system_clock::now();\n"}, "channel/a.cc:2", "steady")

    # a.h uses b.h, whose source uses a.h.
    A_AND_B = {"cache/a.h": '// a\n#pragma once\n#include "cache/b.h"\n', "cache/b.h": "// b\n#pragma once\n",
               "cache/b.cc": '// b\n#include "cache/b.h"\n#include "cache/a.h"\n'}

    def test_new_circle_is_found_with_its_way_round(self):
        self.assert_fault(self.A_AND_B, "cache/a.h:3", "a circle of 2 units (cache/a, cache/b); the shortest way round: "
                          "cache/a.h -> cache/b.h, cache/b.cc -> cache/a.h")

    def test_circle_through_sources_alone_is_found(self):
        self.assert_fault({"cache/a.h": "// a\n#pragma once\n", "cache/a.cc": '// a\n#include "cache/b.h"\n',
                           "cache/b.h": "// b\n#pragma once\n", "cache/b.cu": '// b\n#include "cache/a.h"\n'},
                          "cache/a.cc:2", "cache/a.cc -> cache/b.h, cache/b.cu -> cache/a.h")

    def test_shortest_way_round_is_the_one_told(self):
        files = {f"cache/{unit}.h": f'// {unit}\n#pragma once\n#include "cache/{used}.h"\n'
                 for unit, used in (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"))}
        files["cache/c.cc"] = '// c\n#include "cache/b.h"\n'
        self.assert_fault(files, "cache/b.h:3", "a circle of 4 units (cache/a, cache/b, cache/c, cache/d); the shortest way round: "
                          "cache/b.h -> cache/c.h, cache/c.cc -> cache/b.h")

    def test_units_that_use_each_other_one_way_are_no_circle(self):
        self.assertEqual(self.faults({"cache/a.h": "// a\n#pragma once\n", "cache/a.cc": '// a\n#include "cache/a.h"\n',
                                      "cache/b.h": '// b\n#pragma once\n#include "cache/a.h"\n',
                                      "cache/c.cc": '// c\n#include "cache/a.h"\n#include "cache/b.h"\n'}), [])

    def test_circle_in_tests_is_none_of_the_product(self):
        self.assertEqual(self.faults({path.replace("cache", "tests"): text.replace("cache", "tests")
                                      for path, text in self.A_AND_B.items()}), [])

    def test_counts_are_of_sources_units_and_circles(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "cache").mkdir()
            for path, text in self.A_AND_B.items():
                (pathlib.Path(folder) / path).write_text(text)
            self.assertEqual(check_arrows.check(pathlib.Path(folder))[0], {"sources": 3, "units": 2, "circles": 1})

    def test_tree_without_sources_is_no_success(self):
        self.assertEqual(self.faults({}), [])
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(check_arrows.check(pathlib.Path(folder))[0]["sources"], 0)


if __name__ == "__main__":
    unittest.main()
