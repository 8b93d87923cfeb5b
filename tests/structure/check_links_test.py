#!/usr/bin/env python3
"""The link check itself: each fault that it exists for is found in a small made-up tree, and clean pages pass."""
import pathlib
import tempfile
import unittest

import check_links


class CheckLinks(unittest.TestCase):
    def faults(self, files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            return check_links.check(root)[1]

    def assert_fault(self, files, where, words):
        faults = self.faults(files)
        self.assertEqual(len(faults), 1, faults)
        self.assertTrue(faults[0].startswith(where + ":"), faults[0])
        self.assertIn(words, faults[0])

    def test_links_that_hold_pass(self):
        self.assertEqual(self.faults({
            "README.md": "# A\n[b](docs/b.md) [c](docs/b.md#what-a-b-carries-links-1) ![d](docs/d.svg) [e](#a) [web](https://x.y/z#q)\n"
                         "[docs](docs) [with `code`](docs/b.md)\n",
            "docs/b.md": "# B\n## What a `b` carries, links\n## What a b carries: links\n[up](../README.md#a) `[no](link)`\n\n    [no](link)\n\n"
                         "```\n[no](link)\n# none\n```\n",
            "docs/d.svg": "<svg/>",
            "build/x.md": "[gone](gone.md)\n",
        }), [])

    def test_file_that_is_not_there_is_found(self):
        self.assert_fault({"a.md": "# A\n\nsee [b](b.md)\n"}, "a.md:3", "b.md: there is no such file")

    def test_link_within_a_table_is_found(self):
        self.assert_fault({"a.md": "| a | [b](b.md) |\n|---|---|\n"}, "a.md:1", "no such file")

    def test_reference_is_found(self):
        self.assert_fault({"a.md": "[b][1]\n\n[1]: b.md\n"}, "a.md:3", "no such file")

    def test_heading_that_is_not_there_is_found(self):
        self.assert_fault({"a.md": "[b](b.md#there)\n", "b.md": "# Here\n"}, "a.md:1", "b.md#there: there is no such heading")
        self.assert_fault({"a.md": "# A\n[b](#b)\n"}, "a.md:2", "no such heading")

    def test_heading_in_code_is_none(self):
        self.assert_fault({"a.md": "```\n# b\n```\n[b](#b)\n"}, "a.md:4", "no such heading")

    def test_link_out_of_the_repository_is_found(self):
        self.assert_fault({"a.md": "[b](../b.md)\n"}, "a.md:1", "out of the repository")
        self.assert_fault({"a.md": "[b](/b.md)\n"}, "a.md:1", "own folder")

    def test_long_prose_is_found_and_long_tables_and_code_are_not(self):
        self.assertEqual(self.faults({"a.md": f"| {'x' * 200} |\n\n    {'y' * 200}\n\n```\n{'z' * 200}\n```\n"}), [])
        self.assert_fault({"a.md": "x" * 121 + "\n"}, "a.md:1", "121 columns")

    def test_readme_that_grows_is_found(self):
        self.assert_fault({"README.md": "a\n" * 121, "docs/README.md": "a\n" * 200}, "README.md:121", "at most 120")

    def test_tree_without_pages_is_no_success(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(check_links.check(pathlib.Path(folder)), (0, []))


if __name__ == "__main__":
    unittest.main()
