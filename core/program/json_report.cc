// See json_report.h.
#include "core/program/json_report.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "core/error.h"
#include "core/json_text.h"

namespace hopfeed {
namespace fs = std::filesystem;
namespace {

// A device, a pipe or what /dev/stdout points to is written to, never replaced by a file.
bool written_in_place(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored) && !fs::is_regular_file(path, ignored);
}

}  // namespace

JsonReport::JsonReport(const std::string& path) : path_(path) {
  if (path.empty()) return;
  if (fs::is_directory(path_))
    throw Error(ErrorCode::kInvalid, "--json: " + path + " is a folder; name a file");
  temporary_ = written_in_place(path_) ? path_ : fs::path(path + ".tmp-" + std::to_string(::getpid()));
  const int mode = temporary_ == path_ ? 0 : O_CREAT | O_EXCL;
  const int fd = ::open(temporary_.c_str(), O_WRONLY | O_CLOEXEC | mode, 0666);
  if (fd < 0) {
    const int error = errno;
    temporary_.clear();
    throw_errno("--json: cannot write " + path, error);
  }
  ::close(fd);
  // Tried and taken away again: whatever kills the program later leaves nothing beside the report's place.
  if (temporary_ != path_) fs::remove(temporary_);
}

void JsonReport::write(const nlohmann::json& report) {
  if (temporary_.empty()) return;
  const std::string text = json_text(report, 1) + "\n";
  std::FILE* file = std::fopen(temporary_.c_str(), "wbe");
  if (!file) throw_errno("--json: cannot write " + path_.string(), errno);
  const bool written =
      std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0;
  int error = written ? 0 : errno;
  if (std::fclose(file) != 0 && error == 0) error = errno;
  const bool in_place = temporary_ == path_;
  if (error == 0 && !in_place && std::rename(temporary_.c_str(), path_.c_str()) != 0) error = errno;
  if (error == 0) return;
  std::error_code ignored;
  if (!in_place) fs::remove(temporary_, ignored);
  throw_errno("--json: cannot write " + path_.string(), error);
}

}  // namespace hopfeed
