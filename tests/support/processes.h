// Tests of programs need this: run one and read what it says, look at processes through /proc, and prove that
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

/// Returns the folder of the built programs: HOPFEED_BIN, else where this test lies.
std::string program(const std::string& name);
/// Runs to the end. `environment` is "NAME=value" on top of this process's own.
ProgramResult run_program(const std::vector<std::string>& arguments,
                          const std::vector<std::string>& environment = {});

/// A BackgroundProgram runs on its own; its stdout goes into a pipe, its stderr to ours. It is killed at the
/// end of the scope.
class BackgroundProgram {
 public:
  explicit BackgroundProgram(const std::vector<std::string>& arguments,
                             const std::vector<std::string>& environment = {});
  ~BackgroundProgram();
  BackgroundProgram(const BackgroundProgram&) = delete;
  BackgroundProgram& operator=(const BackgroundProgram&) = delete;
  int pid() const { return pid_; }
  std::string read_line();  // waits for one line of stdout
  std::string read_rest();  // until it closes stdout
  void close_stdout();      // nobody reads any more
  void signal(int number) const;
  void kill();  // SIGKILL, and waits for the end
  /// Returns its exit code, 128 + signal where it was killed; -1 where it does not end within `limit`.
  int wait(std::chrono::milliseconds limit);

 private:
  int pid_ = -1, out_ = -1;
};

/// Returns a mark for the environment of a program, which all that it starts inherit:
/// "HOPFEED_TEST_MARK=...", new at each call.
std::string new_mark();
/// Returns the pids of the living processes that carry the mark, also of one that was forked a moment ago and
/// not yet become its program.
std::vector<int> marked(const std::string& mark);
/// Returns true once no process carries the mark any more; false where that takes longer than `limit`.
bool none_marked(const std::string& mark, std::chrono::milliseconds limit);

/// Returns true with HOPFEED_LONG_TESTS=1: tests then take the long way; else those that shorten themselves
/// say so.
bool long_tests();

/// Returns the pids of the living direct children of a process (all its threads).
std::vector<int> children_of(int pid);
/// Returns true for a process that exists and is no zombie.
bool alive(int pid);
/// Returns true once none of them is alive; false where that takes longer than `limit`.
bool all_gone(const std::vector<int>& pids, std::chrono::milliseconds limit);
/// Returns what stands before a command of the shell, so that its program can start no thread and no process
/// beyond so many, itself counted. As root it runs as a user that has no others (nobody for 1), since limits
/// do not bind root.
std::string without_more_processes(int most = 1);
/// Returns the clock ticks of CPU time that a process has used.
long cpu_ticks(int pid);
/// Returns the bytes of memory that lie behind a process's addresses now, those it shares with others
/// included.
std::size_t resident_bytes(int pid);

/// Leftovers are what may not change over a test: children, descriptors, names in /dev/shm, System V
/// segments.
struct Leftovers {
  std::size_t children = 0, descriptors = 0, shm_names = 0, sysv_segments = 0;
  static Leftovers now();
  friend bool operator==(const Leftovers&, const Leftovers&) = default;
};
std::ostream& operator<<(std::ostream& out, const Leftovers& leftovers);

}  // namespace hopfeed::testing
