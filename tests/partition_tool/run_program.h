// Runs the real hopfeed-partition and keeps what it said.
#pragma once
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "tests/partition_tool/made_dataset.h"

namespace hopfeed::testing {

struct ToolResult {
  int exit_code = -1;  // 128 + signal where a signal ended it
  std::string out, err;

  /// Returns the lines on stderr that the program itself complained with: no progress bars.
  std::string complaint() const {
    std::string text;
    for (std::size_t at = 0; at < err.size();) {
      const std::size_t end = std::min(err.find('\n', at), err.size() - 1) + 1;
      if (err.compare(at, 17, "hopfeed-partition") == 0)
        text += err.substr(at, end - at);
      else if (err.find("[#", at) >= end && err.find("[.", at) >= end && err.find("/s, ", at) >= end)
        text += "STRAY: " + err.substr(at, end - at);
      at = end;
    }
    return text;
  }
};

/// `scratch` gets the output files; arguments go through the shell, and `{}` in them stands for the program.
inline ToolResult run_shell(const std::filesystem::path& scratch, std::string command) {
  const std::string program =
      (std::filesystem::path(std::getenv("HOPFEED_BIN")) / "hopfeed-partition").string();
  for (std::size_t at; (at = command.find("{}")) != std::string::npos;) command.replace(at, 2, program);
  const std::string out = (scratch / "stdout").string(), err = (scratch / "stderr").string();
  const int status = std::system(("( " + command + " ) >" + out + " 2>" + err + " </dev/null").c_str());
  ToolResult result{.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
                    .out = file_bytes(out),
                    .err = file_bytes(err)};
  std::filesystem::remove(out);
  std::filesystem::remove(err);
  return result;
}

/// Returns names in a folder, hidden ones too.
inline std::set<std::string> listing(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.insert(entry.path().filename().string());
  return names;
}

}  // namespace hopfeed::testing
