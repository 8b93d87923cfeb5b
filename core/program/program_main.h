// What every program's main does: parse, run, turn any error into one line on stderr and a non-zero exit
// code. Only programs include this; the library neither prints nor exits.
#pragma once
#include "core/base/error.h"
#include "core/program/command_line.h"
#include "core/program/stop_signals.h"

namespace hopfeed {

/// Parses, then does what was chosen; returns the exit code: 0 done, 2 bad usage or bad input (kInvalid,
/// kNotFound, kCorrupt, kVersion, kUnsupported), 130 interrupted, 1 anything else. Errors become "NAME:
/// message" (line breaks inside a message become "; "). What could not be written to standard output is an
/// error too. A reader that is gone and a file size limit are errors of write, not deaths.
int program_main(CommandLine& line, int argc, char** argv);

}  // namespace hopfeed
