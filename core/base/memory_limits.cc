// See memory_limits.h. Formats: proc(5), kernel documentation cgroup-v1/memory and cgroup-v2. What a cgroup
// uses includes page cache that the kernel gives up on demand; as MemAvailable does, we count file pages on
// the LRU lists as available (shared memory is not on those lists).
#include "core/base/memory_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// The number in a file that holds just one; nothing for "max", an empty or a missing file.
std::optional<std::uint64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (file >> value) return value;
  return {};
}

/// The value of "KEY value" or "KEY: value" among lines; 0 where it is missing.
std::uint64_t value_of(const std::vector<std::string>& lines, std::string_view key) {
  for (const std::string& line : lines) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t value = 0;
    if (words >> name >> value && name == key) return value;
  }
  return 0;
}

/// One hierarchy that limits memory, as it is mounted here.
struct Hierarchy {
  fs::path mount;       // mount point
  fs::path mount_root;  // which part of the tree is mounted there
  fs::path own;         // our cgroup in the tree
  const char* limit;    // file names and the prefix of keys in memory.stat
  const char* usage;
  const char* stat_prefix;
};

bool has_word(const std::string& list, std::string_view word) {
  return ("," + list + ",").find("," + std::string(word) + ",") != std::string::npos;
}

/// Our cgroup in version 1's memory hierarchy or in version 2's; empty where there is none.
fs::path own_cgroup(const fs::path& root, bool version2) {
  for (const std::string& line : lines_of(root / "proc/self/cgroup")) {  // number:controllers:path
    const std::size_t a = line.find(':'), b = line.find(':', a + 1);
    if (a == std::string::npos || b == std::string::npos) continue;
    const std::string controllers = line.substr(a + 1, b - a - 1);
    if (version2 ? (line.substr(0, a) == "0" && controllers.empty()) : has_word(controllers, "memory"))
      return line.substr(b + 1);
  }
  return {};
}

std::vector<Hierarchy> hierarchies(const fs::path& root) {
  std::vector<Hierarchy> found;
  for (const std::string& line : lines_of(root / "proc/self/mountinfo")) {
    const std::size_t dash =
        line.find(" - ");  // id parent device ROOT MOUNTPOINT options [tags] - TYPE source OPTIONS
    if (dash == std::string::npos) continue;
    std::istringstream before(line.substr(0, dash)), after(line.substr(dash + 3));
    std::string skip, mount_root, mount, type, options;
    before >> skip >> skip >> skip >> mount_root >> mount;
    after >> type >> skip >> options;
    const bool version2 = type == "cgroup2";
    if (!version2 && !(type == "cgroup" && has_word(options, "memory"))) continue;
    const fs::path own = own_cgroup(root, version2);
    if (own.empty()) continue;
    found.push_back({.mount = root / fs::path(mount).relative_path(),
                     .mount_root = mount_root,
                     .own = own,
                     .limit = version2 ? "memory.max" : "memory.limit_in_bytes",
                     .usage = version2 ? "memory.current" : "memory.usage_in_bytes",
                     .stat_prefix = version2 ? "" : "total_"});
  }
  return found;
}

/// From our cgroup up to the top of what is mounted.
std::vector<fs::path> folders_to_root(const Hierarchy& h) {
  fs::path relative = h.own.lexically_relative(h.mount_root);
  if (relative.empty() || *relative.begin() == ".." || relative == ".")
    relative.clear();  // the mount is our own cgroup
  std::vector<fs::path> folders;
  for (; !relative.empty(); relative = relative.parent_path()) folders.push_back(h.mount / relative);
  folders.push_back(h.mount);
  return folders;
}

void keep_smaller(AvailableMemory& smallest, std::uint64_t bytes, const std::string& source) {
  if (bytes < smallest.bytes) smallest = {.bytes = bytes, .source = source};
}

}  // namespace

std::string format_bytes(std::uint64_t bytes) {
  if (bytes >= (std::uint64_t{10} << 30)) return fmt::format("{} GiB", bytes >> 30);
  if (bytes >= (10U << 20)) return fmt::format("{} MiB", bytes >> 20);
  return fmt::format("{} bytes", bytes);
}

AvailableMemory available_memory(const fs::path& root) {
  AvailableMemory smallest{.bytes = std::numeric_limits<std::uint64_t>::max(), .source = "unknown"};
  const std::uint64_t free_kib = value_of(lines_of(root / "proc/meminfo"), "MemAvailable:");
  if (free_kib != 0) keep_smaller(smallest, free_kib * 1024, "MemAvailable");
  for (const Hierarchy& h : hierarchies(root)) {
    for (const fs::path& folder : folders_to_root(h)) {
      const std::optional<std::uint64_t> limit = number_in(folder / h.limit),
                                         usage = number_in(folder / h.usage);
      if (!limit || !usage) continue;  // no limit at this level
      const std::vector<std::string> stat = lines_of(folder / "memory.stat");
      const std::uint64_t cache = value_of(stat, std::string(h.stat_prefix) + "inactive_file") +
                                  value_of(stat, std::string(h.stat_prefix) + "active_file");
      const std::uint64_t used = *usage - std::min(*usage, cache);
      keep_smaller(smallest, *limit - std::min(*limit, used), (folder / h.limit).string());
    }
  }
  return smallest;
}

void require_memory(std::uint64_t needed, const AvailableMemory& available, const std::string& what,
                    const std::string& knobs) {
  if (needed <= available.bytes) return;
  throw Error(ErrorCode::kNoSpace,
              fmt::format("{} needs {} of memory, {} are available (limit: {}); {}", what,
                          format_bytes(needed), format_bytes(available.bytes), available.source, knobs));
}

}  // namespace hopfeed
