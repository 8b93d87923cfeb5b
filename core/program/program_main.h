// What every program's main does: parse with CLI11, run, turn any error into one line on stderr and a non-zero exit code.
// Only programs include this; the library neither prints nor exits.
#pragma once
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <functional>
#include <new>
#include <string>

#include "core/error.h"
#include "core/program/bus_error.h"
#include "core/program/stop_signals.h"

namespace hopfeed {

/// Exit codes: 0 done, 2 bad usage or bad input (kInvalid, kNotFound, kCorrupt, kVersion, kUnsupported), 1 anything else.
inline int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kIo:
    case ErrorCode::kNoSpace:
    case ErrorCode::kTimeout:
    case ErrorCode::kPeerDied:
      return 1;
    default:
      return 2;
  }
}

/// Parses, then calls `body`. Errors become "NAME: message" (line breaks inside a message become "; "). What could not be
/// written to standard output is an error too. A reader that is gone and a file size limit are errors of write, not deaths.
inline int program_main(CLI::App& app, int argc, char** argv, const std::function<int()>& body) {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  report_truncated_files(app.get_name().c_str());
  auto complain = [&](std::string message, int code) {
    for (std::size_t at; (at = message.find('\n')) != std::string::npos;) message.replace(at, 1, "; ");
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), message.c_str());
    return code;
  };
  try {
    app.parse(argc, argv);
    const int code = body();
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      return complain("cannot write to standard output; is the disk full or the reader gone?", 1);
    }
    return code;
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    return complain(std::string(error.what()) + " (see " + app.get_name() + " --help)", 2);
  } catch (const Interrupted& interrupted) {
    return complain("interrupted; " + interrupted.what_stays, 130);
  } catch (const Error& error) {
    return complain(error.what(), exit_code(error.code()));
  } catch (const std::bad_alloc&) {
    return complain("out of memory; use smaller sizes or a machine with more", 1);
  } catch (const std::exception& error) {
    return complain(error.what(), 1);
  }
}

}  // namespace hopfeed
