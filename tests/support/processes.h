// What tests of programs need: run one and read what it says, look at processes through /proc, and prove that
// a test has left nothing behind.
#pragma once
#include <chrono>
#include <cstddef>
#include <iosfwd>
#include <string>
#include <vector>

namespace hopfeed::testing {

struct ProgramResult {
  int exit_code = -1;  // 128 + signal where it was killed
  std::string out, err;
};

/// The folder of the built programs: HOPFEED_BIN, else where this test lies.
std::string program(const std::string& name);
/// Runs to the end. `environment`: "NAME=value" on top of this process's own.
ProgramResult run_program(const std::vector<std::string>& arguments,
                          const std::vector<std::string>& environment = {});

/// A program that runs on its own; its stdout goes into a pipe, its stderr to ours. Killed at the end of the
/// scope.
class BackgroundProgram {
 public:
  explicit BackgroundProgram(const std::vector<std::string>& arguments,
                             const std::vector<std::string>& environment = {});
  ~BackgroundProgram();
  BackgroundProgram(const BackgroundProgram&) = delete;
  BackgroundProgram& operator=(const BackgroundProgram&) = delete;
  int pid() const { return pid_; }
  void read_line();     // waits for one line of stdout
  void close_stdout();  // nobody reads any more
  void kill();          // SIGKILL, and waits for the end

 private:
  int pid_ = -1, out_ = -1;
};

/// Pids of the living direct children of a process (all its threads).
std::vector<int> children_of(int pid);
/// True for a process that exists and is no zombie.
bool alive(int pid);
/// True once none of them is alive; false where that takes longer than `limit`.
bool all_gone(const std::vector<int>& pids, std::chrono::milliseconds limit);
/// Clock ticks of CPU time that a process has used.
long cpu_ticks(int pid);

/// What may not change over a test: children, descriptors, names in /dev/shm, System V segments.
struct Leftovers {
  std::size_t children = 0, descriptors = 0, shm_names = 0, sysv_segments = 0;
  static Leftovers now();
  friend bool operator==(const Leftovers&, const Leftovers&) = default;
};
std::ostream& operator<<(std::ostream& out, const Leftovers& leftovers);

}  // namespace hopfeed::testing
