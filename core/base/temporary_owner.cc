// See temporary_owner.h. Formats: proc(5).
#include "core/base/temporary_owner.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>

namespace hopfeed {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::hours kUntouched{24};

/// Boot and pid namespace: within one of these a pid means one process at a time.
std::string place() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::error_code ignored;
  std::string name_space = fs::read_symlink("/proc/self/ns/pid", ignored).string();  // "pid:[4026531836]"
  std::erase_if(name_space, [](char c) { return c < '0' || c > '9'; });
  return boot.substr(0, boot.find('-')) + "-" + name_space;
}

/// Clock ticks from boot to the start of a process; empty where there is none, or only what its parent has
/// not waited for.
std::string start_time(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::size_t bracket = text.rfind(')');  // the program's name may hold anything
  if (bracket == std::string::npos) return "";
  std::istringstream fields(text.substr(bracket + 1));
  std::string field;
  fields >> field;
  if (field == "Z" || field == "X") return "";
  for (int i = 4; i <= 22; ++i) fields >> field;
  return field;
}

bool untouched_for_long(const fs::path& path) {
  std::error_code error;
  fs::file_time_type last = fs::last_write_time(path, error);
  if (fs::is_directory(path, error)) {
    for (fs::recursive_directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
      std::error_code gone;
      const fs::file_time_type time = it->last_write_time(gone);
      if (!gone) last = std::max(last, time);
    }
  }
  return !error && fs::file_time_type::clock::now() - last > kUntouched;
}

bool is_abandoned(const std::string& owner, const fs::path& path) {
  if (owner == temporary_owner()) return true;
  const std::size_t start = owner.rfind('-');
  const std::size_t pid = start == std::string::npos || start == 0 ? start : owner.rfind('-', start - 1);
  if (pid == std::string::npos || owner.substr(0, pid) != place()) return untouched_for_long(path);
  return start_time(owner.substr(pid + 1, start - pid - 1)) != owner.substr(start + 1);
}

std::string temporary_prefix(const fs::path& target) { return "." + target.filename().string() + ".tmp-"; }

}  // namespace

std::string temporary_owner() {
  const std::string pid = std::to_string(getpid());
  return place() + "-" + pid + "-" + start_time(pid);
}

fs::path temporary_beside(const fs::path& target) {
  return target.parent_path() / (temporary_prefix(target) + temporary_owner());
}

void sweep_abandoned(const fs::path& target) {
  const std::string prefix = temporary_prefix(target);
  const fs::path folder = target.has_parent_path() ? target.parent_path() : ".";
  std::error_code ignored;  // where nothing can be listed or removed, writing says so
  for (fs::directory_iterator it(folder, ignored), end; !ignored && it != end; it.increment(ignored)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(prefix) || !is_abandoned(name.substr(prefix.size()), it->path())) continue;
    std::error_code stays;
    fs::remove_all(it->path(), stays);
  }
}

}  // namespace hopfeed
