// See python_imports.h.
#include "partition_tool/program/python_imports.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "core/program/python_package.h"

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

}  // namespace

void add_python_imports(CommandLine& import) {
  for (const PythonImport& one : kImports) import.command(one.name, one.help);
}

void become_python_import(int argc, char** argv) {
  if (argc < 3 || std::string_view(argv[1]) != "import") return;
  const bool known = std::ranges::any_of(
      kImports, [&](const PythonImport& one) { return std::string_view(argv[2]) == one.name; });
  if (!known) return;
  become_python({.module = "hopfeed.tables.__main__",
                 .what = std::string("import ") + argv[2],
                 .words = {argv + 2, argv + argc}},
                "hopfeed-partition");
}

}  // namespace hopfeed
