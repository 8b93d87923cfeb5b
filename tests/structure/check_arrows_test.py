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

    def test_file_that_outgrows_a_head_is_found(self):
        self.assert_fault({"core/base/a.cc": "// a\n" * 451}, "core/base/a.cc:451", "split it")

    def test_wall_clock_in_the_channel_is_found(self):
        self.assert_fault({"channel/a.cc": "// a\nauto t = std::chrono::system_clock::now();\n"}, "channel/a.cc:2", "steady")

    def test_tree_without_sources_is_no_success(self):
        self.assertEqual(self.faults({}), [])
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(check_arrows.check(pathlib.Path(folder))[0], 0)


if __name__ == "__main__":
    unittest.main()
