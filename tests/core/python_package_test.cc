// Work of programs that the Python package does: what it says comes through, and what lacks is one line.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "core/program/python_package.h"
#include "tests/support/expect_refused.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

using Lines = std::vector<std::string>;

/// A package of its own, where Python finds it.
class PythonPackage : public ::testing::Test {
 protected:
  PythonPackage() {
    std::ofstream(folder_.path() / "made_package.py") << R"(
import sys
def main(words):
    print(*words, sep="\n", flush=True)
    if words[0] == "fail":
        print("a bar [##", "made: " + words[1] + " is wrong", sep="\n", file=sys.stderr)
        return int(words[2])
    return 0
)";
    ::setenv("PYTHONPATH", folder_.path().c_str(), 1);
    ::unsetenv("HOPFEED_PYTHON");
  }
  ~PythonPackage() override {
    ::unsetenv("PYTHONPATH");
    ::unsetenv("HOPFEED_PYTHON");
  }
  static Lines run(const Lines& words, const std::string& module = "made_package") {
    Lines said;
    run_python({.module = module, .what = "--format parquet", .words = words},
               [&](const std::string& line) { said.push_back(line); });
    return said;
  }
  const testing::TempFolder folder_;
};

TEST_F(PythonPackage, WordsGoThereAndLinesComeBack) {
  EXPECT_EQ(run({"to-parquet", "a folder; $HOME", "'\"\xc3\xa4"}),
            (Lines{"to-parquet", "a folder; $HOME", "'\"\xc3\xa4"}));
  run_python({.module = "made_package", .what = "--format parquet", .words = {"quiet"}});
}

TEST_F(PythonPackage, WhatItComplainsOf_IsTheError) {
  expect_refused([] { run({"fail", "DIR", "2"}); }, "made: DIR is wrong", ErrorCode::kInvalid);
  expect_refused([] { run({"fail", "the disk", "1"}); }, "made: the disk is wrong", ErrorCode::kIo);
}

TEST_F(PythonPackage, WhatLacks_IsToldWithWhatToDo) {
  const auto lacks = [](const std::string& part, const std::string& module) {
    expect_refused([&] { run({"check"}, module); }, part, ErrorCode::kUnsupported);
  };
  lacks("--format parquet is done by the Python package, and /", "no_such_package");
  lacks(
      " has no no_such_package: pip install 'hopfeed[tables]', or name a Python that has it (HOPFEED_PYTHON)",
      "no_such_package");
  ::setenv("HOPFEED_PYTHON", "/nowhere/python", 1);
  lacks("--format parquet is done by the Python package, and /nowhere/python cannot be started (",
        "made_package");
  lacks("install Python 3, or name it (HOPFEED_PYTHON)", "made_package");
}

TEST_F(PythonPackage, APythonThatEndsWithoutAWord_IsToldByItsExitCode) {
  const std::filesystem::path python = folder_.path() / "python";
  std::ofstream(python) << "#!/bin/sh\nexit 7\n";
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  ::setenv("HOPFEED_PYTHON", python.c_str(), 1);
  expect_refused([] { run({"check"}); }, "--format parquet: made_package ended with 7", ErrorCode::kIo);
}

TEST_F(PythonPackage, BecomingIt_TakesItsExitCodeAndItsWords) {
  const auto become = [](const std::string& module, const Lines& words) {
    become_python({.module = module, .what = "import tables", .words = words}, "program");
  };
  EXPECT_EXIT(become("made_package", {"fail", "DIR", "5"}), ::testing::ExitedWithCode(5),
              "made: DIR is wrong\n");
  EXPECT_EXIT(become("no_such_package", {}), ::testing::ExitedWithCode(2),
              "^program: import tables is done by the Python package, and .* has no no_such_package: pip");
  ::setenv("HOPFEED_PYTHON", "/nowhere/python", 1);
  EXPECT_EXIT(
      become("made_package", {}), ::testing::ExitedWithCode(2),
      "^program: import tables is done by .*/nowhere/python cannot be started .No such file or directory.; "
      "install Python 3");
}

}  // namespace
}  // namespace hopfeed
