#!/usr/bin/env python3
"""tests/count_results.py on made-up reports: no way of failing may count as anything else."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import count_results  # noqa: E402

GTEST = """<testsuites><testsuite name="Deal">
<testcase name="SpreadsTheRest" status="run" result="completed" classname="Deal"/>
<testcase name="RefusesNoSeeds" status="run" result="completed" classname="Deal"><failure message="x"/></testcase>
<testcase name="OnCora" status="run" result="skipped" classname="Deal">
<skipped message="deal_test.cc:7&#x0A;cora is not there&#x0A;"/></testcase>
</testsuite></testsuites>"""


def ctest(*entries):
    return "<testsuite>" + "".join(entries) + "</testsuite>"


def entry(name, status, inside=""):
    return f'<testcase name="{name}" status="{status}">{inside}</testcase>'


class CountResults(unittest.TestCase):
    def count(self, files):
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary) / "release"
            for part in (folder, folder / "second"):
                (part / "gtest").mkdir(parents=True)
            for path, text in files.items():
                (folder / path).write_text(text)
            counts = count_results.count([folder])
            self.unsteady = counts.unsteady
            return counts.passed, counts.failed, counts.skipped

    def test_cases_of_a_program_are_counted_one_by_one(self):
        passed, failed, skipped = self.count({"ctest.xml": ctest(entry("deal", "fail")), "gtest/deal.xml": GTEST})
        self.assertEqual(passed, 1)
        self.assertEqual(failed, ["release: deal: Deal.RefusesNoSeeds"])
        self.assertEqual(skipped, ["release: deal: Deal.OnCora (cora is not there)"])

    def test_cases_that_pass_when_run_once_more_are_unsteady(self):
        sound = GTEST.replace('<failure message="x"/>', "")
        first = {"ctest.xml": ctest(entry("deal", "fail"), entry("a", "run")), "gtest/deal.xml": GTEST}
        passed, failed, skipped = self.count(
            {**first, "second/ctest.xml": ctest(entry("deal", "run")), "second/gtest/deal.xml": sound})
        self.assertEqual((passed, failed, len(skipped)), (3, [], 1))
        self.assertEqual(self.unsteady, ["release: deal: Deal.RefusesNoSeeds"])
        for again in ({"second/ctest.xml": ctest(entry("deal", "fail")), "second/gtest/deal.xml": GTEST},
                      {"second/ctest.xml": ctest(entry("deal", "fail")), "second/gtest/deal.xml": sound},
                      {"second/ctest.xml": ctest(entry("other", "run")), "second/gtest/deal.xml": sound},
                      {"second/ctest.xml": ctest(entry("deal", "run")), "second/gtest/deal.xml":
                       GTEST.replace('<failure message="x"/>', '<skipped message="here"/>')},
                      {"second/ctest.xml": ctest(entry("deal", "notrun", '<skipped message="SKIP_RETURN_CODE=77"/>'))}):
            self.assertEqual(self.count({**first, **again})[1], ["release: deal: Deal.RefusesNoSeeds"])
            self.assertEqual(self.unsteady, [])

    def test_findings_of_sanitizers_are_failures_whatever_the_second_run_says(self):
        for finding in ("WARNING: ThreadSanitizer: data race", "a.cc:3:4: runtime error: shift"):
            failed = self.count({
                "ctest.xml": ctest(entry("deal", "fail", f"<system-out>{finding}</system-out>")), "gtest/deal.xml": GTEST,
                "second/ctest.xml": ctest(entry("deal", "run")),
                "second/gtest/deal.xml": GTEST.replace('<failure message="x"/>', "")})[1]
            self.assertEqual(len(failed), 1)

    def test_crashes_and_scripts_are_failures_whatever_the_second_run_says(self):
        passes = {"second/ctest.xml": ctest(entry("deal", "run")),
                  "second/gtest/deal.xml": GTEST.replace('<failure message="x"/>', "")}
        for first in ({}, {"gtest/deal.xml": "<testsui"}, {"gtest/deal.xml": GTEST.replace('<failure message="x"/>', "")}):
            self.assertEqual(len(self.count({"ctest.xml": ctest(entry("deal", "fail")), **first, **passes})[1]), 1)

    def test_scripts_count_as_one(self):
        passed, failed, _ = self.count({"ctest.xml": ctest(entry("a", "run"), entry("b", "fail"))})
        self.assertEqual((passed, len(failed)), (1, 1))

    def test_program_that_died_before_its_report_is_a_failure(self):
        self.assertEqual(len(self.count({"ctest.xml": ctest(entry("deal", "fail"))})[1]), 1)
        self.assertEqual(len(self.count({"ctest.xml": ctest(entry("deal", "fail")), "gtest/deal.xml": "<testsui"})[1]), 1)

    def test_program_that_failed_after_good_cases_is_a_failure(self):
        good = '<testsuites><testsuite><testcase name="A" status="run" classname="B"/></testsuite></testsuites>'
        passed, failed, _ = self.count({"ctest.xml": ctest(entry("deal", "fail")), "gtest/deal.xml": good})
        self.assertEqual((passed, len(failed)), (1, 1))

    def test_program_that_is_not_there_is_a_failure_and_no_skip(self):
        missing = entry("deal", "notrun", '<skipped message="Unable to find executable"/>')
        passed, failed, skipped = self.count({"ctest.xml": ctest(missing)})
        self.assertEqual((passed, failed, skipped), (0, ["release: deal (Unable to find executable)"], []))

    def test_script_that_skips_is_a_skip(self):
        skips = entry("deal", "notrun", '<skipped message="SKIP_RETURN_CODE=77"/>')
        self.assertEqual(len(self.count({"ctest.xml": ctest(skips)})[2]), 1)

    def test_build_that_failed_is_a_failure(self):
        self.assertEqual(len(self.count({})[1]), 1)


if __name__ == "__main__":
    unittest.main()
