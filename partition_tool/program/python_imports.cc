// See python_imports.h.
#include "partition_tool/program/python_imports.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace hopfeed {
namespace {

struct PythonImport {
  const char *name, *help;
};

/// As hopfeed/tables/__main__.py has them.
constexpr PythonImport kImports[] = {
    {"tables", "Tables in Parquet or CSV, with keys of their own, larger than memory (Python)"},
    {"graphbolt", "The folder of a GraphBolt OnDiskDataset (Python)"},
    {"chunked", "A graph in DistDGL's chunked format (Python)"},
    {"snap", "Edge lists as SNAP has them, with their own ids as keys (Python)"},
};

constexpr int kRefused = 2;

/// Only a package that lacks is told of here; what the import itself says is Python's.
constexpr const char* kProgram = R"py(
import sys
sys.path[:] = [folder for folder in sys.path if folder]  # no module of the folder that the user is in
try:
    from hopfeed.tables.__main__ import main
except ModuleNotFoundError as error:
    print(f"hopfeed-partition: import {sys.argv[1]} is done by the Python package, and {sys.executable} has "
          f"no {error.name}: pip install 'hopfeed[tables]', or name a Python that has it (HOPFEED_PYTHON)",
          file=sys.stderr)
    sys.exit(2)
sys.exit(main(sys.argv[1:]))
)py";

}  // namespace

void add_python_imports(CommandLine& import) {
  for (const PythonImport& one : kImports) import.command(one.name, one.help);
}

void become_python_import(int argc, char** argv) {
  if (argc < 3 || std::string_view(argv[1]) != "import") return;
  const bool known = std::ranges::any_of(
      kImports, [&](const PythonImport& one) { return std::string_view(argv[2]) == one.name; });
  if (!known) return;
  const char* const named = std::getenv("HOPFEED_PYTHON");
  std::string python = named != nullptr && *named != '\0' ? named : "python3", option = "-c", text = kProgram;
  std::vector<char*> words{python.data(), option.data(), text.data()};
  words.insert(words.end(), argv + 2, argv + argc);
  words.push_back(nullptr);
  ::execvp(python.c_str(), words.data());
  fmt::print(stderr,
             "hopfeed-partition: import {} is done by the Python package, and {} cannot be started ({}); "
             "install Python 3, or name it (HOPFEED_PYTHON)\n",
             argv[2], python, std::strerror(errno));
  std::exit(kRefused);
}

}  // namespace hopfeed
