// The Python package does some of the programs' work, by libraries that C++ has not: tables, Parquet. Its
// Python is $HOPFEED_PYTHON, else python3 of PATH. A module of it has main(words), which returns an exit
// code.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace hopfeed {

struct PythonWork {
  std::string module;  // "hopfeed.results.__main__"
  std::string what;    // for people, what is done by it: "--format parquet"
  std::vector<std::string> words;
};

/// This process becomes the module. Where it cannot, one line that begins with `program` says what to
/// install, and the process exits with 2.
[[noreturn]] void become_python(const PythonWork& work, const std::string& program);

/// Runs the module to its end; `on_line` gets what it says, line by line. After a signal to this program it
/// is ended, and Interrupted is thrown. Throws kUnsupported where Python or the package is not there; else
/// what the module complained of: kInvalid for its exit code 2, kIo for another.
///
/// For results as Parquet, before anything is computed, and then for each folder of results:
///   run_python({kResultsModule, "--format parquet", {"check"}});
///   run_python({kResultsModule, "--format parquet", {"to-parquet", folder}});
void run_python(const PythonWork& work, const std::function<void(const std::string& line)>& on_line = {});

inline constexpr const char* kResultsModule = "hopfeed.results.__main__";

}  // namespace hopfeed
