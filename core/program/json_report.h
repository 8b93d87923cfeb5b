// JsonReport is the file of `--json`: tried before the work, so that a bad path is told at once, and there
// whole or not at all.
#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "core/base/atomic_file.h"
#include "core/base/owned_fd.h"

namespace hopfeed {

class JsonReport {
 public:
  /// An empty path makes a report that goes nowhere. Throws kIo naming the path.
  explicit JsonReport(const std::string& path);
  JsonReport(const JsonReport&) = delete;
  JsonReport& operator=(const JsonReport&) = delete;
  /// May be called again: the file then has this report in place of the one before.
  void write(const nlohmann::json& report);

 private:
  const std::string path_;
  bool is_file_ = false;
  std::optional<AtomicFile> file_;  // where the next report goes; none between two of them
  OwnedFd device_;  // a device, a pipe or what /dev/stdout points to is written to, never replaced by a file
};

}  // namespace hopfeed
