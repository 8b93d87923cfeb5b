// See bus_error.h.
#include "core/program/bus_error.h"

#include <signal.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>

#include "core/base/mapped_ranges.h"

namespace hopfeed {
namespace {

void (*report_path)(const char*) = nullptr;
char program[64] = "hopfeed";

void handle(int, siginfo_t* info, void*) {
  const char* path = mapped_path_at(info->si_addr);
  if (path != nullptr) {
    report_path(path);
    _exit(2);
  }
  signal(SIGBUS, SIG_DFL);  // not ours: the instruction runs again, and now it kills
}

iovec piece(const char* text) { return {.iov_base = const_cast<char*>(text), .iov_len = std::strlen(text)}; }

void write_line(const char* path) {
  const iovec line[] = {piece(program), piece(": "), piece(path),
                        piece(" was truncated while it was being read; restore the file, and change no "
                              "dataset that is in use\n")};
  [[maybe_unused]] const ssize_t ignored = writev(STDERR_FILENO, line, 4);
}

}  // namespace

void on_truncated_file(void (*report)(const char* path)) {
  report_path = report;
  struct sigaction action = {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

void report_truncated_files(const char* program_name) {
  std::strncpy(program, program_name, sizeof(program) - 1);
  on_truncated_file(write_line);
}

}  // namespace hopfeed
