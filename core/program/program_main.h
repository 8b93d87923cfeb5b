// Does what every program's main does: parses, runs, turns any error into one line on stderr and a non-zero
// exit code. Only programs include this; the library neither prints nor exits.
#pragma once
#include <string>

#include "core/base/error.h"
#include "core/program/command_line.h"
#include "core/program/stop_signals.h"

namespace hopfeed {

/// Parses, then does what was chosen; returns the exit code: 0 done, 2 bad usage or bad input (kInvalid,
/// kNotFound, kCorrupt, kVersion, kUnsupported), 130 interrupted, 1 anything else. Errors become "NAME:
/// message" (line breaks inside a message become "; "). What could not be written to standard output is an
/// error too. A reader that is gone and a file size limit are errors of write, not deaths. Standard
/// descriptors that are closed become /dev/null, so nothing is opened before.
int program_main(CommandLine& line, int argc, char** argv);

/// Prints "NAME: warning: message" on stderr.
void warn(const std::string& message);
/// Warns where others than its owner may open a file with a secret, that the user named by `option`. It is no
/// error: containers get their secrets so.
void warn_of_secret(const char* option, const std::string& file);

}  // namespace hopfeed
