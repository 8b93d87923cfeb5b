// See secrets.h.
#include "core/base/secrets.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdlib>

#include "core/base/plain_text.h"

namespace hopfeed {
namespace {

std::string& taken_token() {
  static std::string token;
  return token;
}

}  // namespace

void take_token_out_of_environment() {
  const char* const value = std::getenv(kTokenVariable);
  if (value == nullptr) return;
  taken_token() = value;
  ::unsetenv(kTokenVariable);
}

std::string environment_token() {
  const char* const value = std::getenv(kTokenVariable);
  return value != nullptr ? value : taken_token();
}

std::string open_to_others(const std::string& file) {
  struct stat status {};
  if (file.empty() || ::stat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return "";
  const auto by = [&](mode_t group, mode_t all) {
    const bool to_group = (status.st_mode & group) != 0, to_all = (status.st_mode & all) != 0;
    return to_group && to_all ? "its group and by all" : to_group ? "its group" : to_all ? "all" : "";
  };
  const std::string readers = by(S_IRGRP, S_IROTH), writers = by(S_IWGRP, S_IWOTH);
  if (readers.empty() && writers.empty()) return "";
  return fmt::format("'{}' may be {} by {} (mode {:04o}); chmod 600 it", as_line(file, 512),
                     readers.empty()   ? "written"
                     : writers.empty() ? "read"
                                       : "read and written",
                     readers.empty() ? writers : readers, status.st_mode & 07777);
}

}  // namespace hopfeed
