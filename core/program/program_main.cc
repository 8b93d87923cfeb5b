// See program_main.h.
#include "core/program/program_main.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <system_error>

#include "core/base/secrets.h"
#include "core/program/bus_error.h"
#include "core/program/patient_write.h"
#include "core/program/standard_descriptors.h"

namespace hopfeed {
namespace {

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kIo:
    case ErrorCode::kNoSpace:
    case ErrorCode::kTimeout:
    case ErrorCode::kPeerDied:
    case ErrorCode::kStateLost:
    case ErrorCode::kBusy:
      return 1;
    default:
      return 2;
  }
}

/// The message for an error of the C++ library, where it could start no thread, say.
std::string of_the_system(const std::system_error& error) {
  try {
    throw_errno("the operating system refused", error.code().value());
  } catch (const Error& named) {
    return named.what();
  }
}

constexpr const char* kNotWritten = "cannot write to standard output; is the disk full or the reader gone?";

std::string program_name;  // for what std::terminate says

int complain(std::string message, int code) {
  for (std::size_t at; (at = message.find('\n')) != std::string::npos;) message.replace(at, 1, "; ");
  // Nobody has to read it for the program to end.
  write_patiently(STDERR_FILENO, program_name + ": " + message + "\n", kLastLinePatienceMs);
  return code;
}

/// An exception that nothing could catch, in a constructor of a library that was being loaded, say.
[[noreturn]] void complain_and_end() {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const Error& error) {
    std::_Exit(complain(error.what(), exit_code(error.code())));
  } catch (const std::exception& error) {
    std::_Exit(complain(error.what(), 1));
  } catch (...) {
  }
  std::abort();
}

}  // namespace

void warn(const std::string& message) { complain("warning: " + message, 0); }

void warn_of_secret(const char* option, const std::string& file) {
  if (const std::string who = open_to_others(file); !who.empty()) warn(std::string(option) + ": " + who);
}

int program_main(CommandLine& line, int argc, char** argv) {
  take_token_out_of_environment();
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  program_name = line.name();
  if (!fill_standard_descriptors())
    return complain(
        "/dev/null cannot be opened in the place of a closed descriptor; start it with 0 to 2 open", 1);
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // a log has each line when it was said
  report_truncated_files(line.name().c_str());
  std::set_terminate(complain_and_end);
  try {
    if (line.parse(argc, argv)) line.run();
    return std::fflush(stdout) != 0 || std::ferror(stdout) != 0 ? complain(kNotWritten, 1) : 0;
  } catch (const Interrupted& interrupted) {
    return complain("interrupted; " + interrupted.what_stays, 130);
  } catch (const Error& error) {
    return complain(line.in_own_words(error.message()), exit_code(error.code()));
  } catch (const std::bad_alloc&) {
    return complain("out of memory; use smaller sizes or a machine with more", 1);
  } catch (const std::system_error& error) {
    return complain(std::ferror(stdout) != 0 ? kNotWritten : of_the_system(error), 1);
  } catch (const std::exception& error) {
    return complain(error.what(), 1);
  }
}

}  // namespace hopfeed
