// Counts the CPU time of several processes together.
#pragma once
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace hopfeed::bench {

/// Returns the seconds that this process and `pids` have run on a core.
inline double cpu_seconds(const std::vector<int>& pids) {
  rusage self{};
  getrusage(RUSAGE_SELF, &self);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  double sum = seconds(self.ru_utime) + seconds(self.ru_stime);
  for (const int pid : pids) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string line;
    std::getline(file, line);
    std::istringstream fields(line.substr(line.rfind(')') + 2));
    std::string skipped;
    for (int i = 0; i < 11; ++i) fields >> skipped;
    double user = 0, system = 0;
    fields >> user >> system;
    sum += (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  return sum;
}

}  // namespace hopfeed::bench
