// See json_report.h.
#include "core/program/json_report.h"

#include <fcntl.h>

#include <cerrno>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/json_text.h"

namespace hopfeed {
namespace fs = std::filesystem;

JsonReport::JsonReport(const std::string& path) : path_(path) {
  if (path.empty()) return;
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    throw Error(ErrorCode::kInvalid, "--json: " + path + " is a folder; name a file");
  if (const std::optional<int> fd = descriptor_behind(path)) {
    device_ = OwnedFd(fcntl(*fd, F_DUPFD_CLOEXEC, 0));  // writes go on behind what is there
    if (!device_) throw_errno("--json: cannot write " + path, errno);
    return;
  }
  if (!fs::exists(path, ignored) || fs::is_regular_file(path, ignored)) {
    is_file_ = true;
    file_.emplace(path, "--json: ");
    return;
  }
  device_ = OwnedFd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!device_) throw_errno("--json: cannot write " + path, errno);
}

void JsonReport::write(const nlohmann::json& report) {
  if (path_.empty()) return;
  const std::string text = json_text(report, 1) + "\n";
  if (is_file_) {
    if (!file_) file_.emplace(path_, "--json: ");  // a report in place of the one before
    file_->write(text);
    file_->commit();
    file_.reset();
  } else if (const int error = write_all(device_.get(), std::as_bytes(std::span(text))); error != 0) {
    throw_errno("--json: cannot write " + path_, error);
  }
}

}  // namespace hopfeed
