// Imports that the Python package does, by engines that read tables: the command starts Python in its place.
#pragma once
#include "core/program/command_line.h"

namespace hopfeed {

/// Adds them to the commands of `import`, for --help.
void add_python_imports(CommandLine& import);

/// Where the words are those of such an import, `hopfeed-partition import tables ...`, this process becomes
/// Python (python_package.h), which runs hopfeed.tables with the words behind `import`. Otherwise it does
/// nothing.
void become_python_import(int argc, char** argv);

}  // namespace hopfeed
