// See checkpoint_files.h.
#include "trainer/checkpoint_files.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>

namespace hopfeed {

std::filesystem::path CheckpointFiles::beside(const std::string& ending) const {
  std::filesystem::path path = last_;
  return path += "." + ending;
}

/// Some may be missing: somebody has renamed one to go back to it.
std::vector<std::int64_t> CheckpointFiles::ages() const {
  const std::string head = last_.filename().string() + ".";
  std::vector<std::int64_t> ages;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(last_.parent_path(), none)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(head)) continue;
    std::int64_t age = 0;
    const char *const begin = name.data() + head.size(), *const end = name.data() + name.size();
    const auto [behind, error] = std::from_chars(begin, end, age);
    if (error == std::errc() && behind == end && age > 0) ages.push_back(age);
  }
  std::ranges::sort(ages);
  return ages;
}

std::vector<std::filesystem::path> CheckpointFiles::older() const {
  std::vector<std::filesystem::path> paths;
  for (const std::int64_t age : ages()) paths.push_back(beside(std::to_string(age)));
  return paths;
}

void CheckpointFiles::commit() {
  if (std::filesystem::exists(last_)) {
    const std::vector<std::int64_t> all = ages();
    for (auto age = all.rbegin(); age != all.rend(); ++age) {
      const std::filesystem::path path = beside(std::to_string(*age));
      if (*age >= keep_ - 1)
        std::filesystem::remove(path);
      else
        std::filesystem::rename(path, beside(std::to_string(*age + 1)));
    }
    if (keep_ > 1) {
      std::error_code cannot_link;  // some file systems have no second name for a file
      std::filesystem::create_hard_link(last_, beside("1"), cannot_link);
      if (cannot_link) std::filesystem::copy_file(last_, beside("1"));
    }
  }
  std::filesystem::rename(next(), last_);
}

void CheckpointFiles::set_aside() const {
  if (std::filesystem::exists(last_)) {
    if (std::filesystem::exists(of_earlier_run()))
      std::filesystem::rename(of_earlier_run(), before_earlier_run());
    std::filesystem::rename(last_, of_earlier_run());
  }
  for (const std::filesystem::path& path : older()) std::filesystem::remove(path);
}

}  // namespace hopfeed
