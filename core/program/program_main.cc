// See program_main.h.
#include "core/program/program_main.h"

#include <signal.h>

#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "core/program/bus_error.h"

namespace hopfeed {
namespace {

int exit_code(ErrorCode code) {
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

}  // namespace

int program_main(CommandLine& line, int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  report_truncated_files(line.name().c_str());
  const auto complain = [&](std::string message, int code) {
    for (std::size_t at; (at = message.find('\n')) != std::string::npos;) message.replace(at, 1, "; ");
    std::fprintf(stderr, "%s: %s\n", line.name().c_str(), message.c_str());
    return code;
  };
  try {
    if (line.parse(argc, argv)) line.run();
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      return complain("cannot write to standard output; is the disk full or the reader gone?", 1);
    return 0;
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
