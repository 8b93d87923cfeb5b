// Runs programs that a test starts: several trainers with a launcher's environment, or any command whose
// output matters.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace hopfeed::trainer_tests {

struct ProgramResult {
  int status = 0;      // exit code; 128 + signal where one ended it
  std::string output;  // standard output and error together
};

using EnvironmentVariables = std::map<std::string, std::string>;

/// Runs a command to its end, at most `seconds`; then its whole process group is killed and the status is
/// 137.
ProgramResult run_program(const std::vector<std::string>& command,
                          const EnvironmentVariables& environment = {}, int seconds = 120);
/// Runs a command as `world_size` ranks at once, rank 0 hosting the store, each as run_program() does.
/// Returns results by rank.
std::vector<ProgramResult> run_ranks(const std::vector<std::string>& command, int world_size,
                                     int seconds = 120);

/// Returns a TCP port that nobody listens on.
int free_port();

}  // namespace hopfeed::trainer_tests
