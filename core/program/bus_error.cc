// See bus_error.h.
#include "core/program/bus_error.h"

#include <signal.h>
#include <unistd.h>

#include <cstring>

#include "core/base/mapped_ranges.h"
#include "core/program/patient_write.h"

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

void write_line(const char* path) {
  for (const char* piece : {static_cast<const char*>(program), ": ", path,
                            " was truncated while it was being read; restore the file, and change no "
                            "dataset that is in use\n"}) {
    if (!write_patiently(STDERR_FILENO, piece, kLastLinePatienceMs)) return;
  }
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
