// See push_plan.h.
#include "partition_tool/program/push_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <numeric>
#include <set>
#include <string_view>

#include "core/base/error.h"
#include "core/dataset/dataset_writer.h"
#include "core/dataset/meta_file.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxPartitionNumber = 1 << 20;

[[noreturn]] void refuse_target(const std::string& text, const std::string& why) {
  throw Error(ErrorCode::kInvalid, fmt::format("--to is '{}'; {}", text, why));
}

/// "0,2-3", rising and each once.
std::vector<int> parse_partitions(const std::string& list, const std::string& text) {
  std::set<int> numbers;
  const auto number = [&](std::string_view word) {
    int value = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || value < 0 || value > kMaxPartitionNumber)
      refuse_target(text, "give PARTITIONS=HOST:PATH, the partitions as numbers like 0,2-3");
    return value;
  };
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    const std::string_view part = std::string_view(list).substr(at, end - at);
    const std::size_t dash = part.find('-');
    const int low = number(part.substr(0, dash)),
              high = dash == std::string_view::npos ? low : number(part.substr(dash + 1));
    if (high < low) refuse_target(text, fmt::format("{} is no range; the smaller number comes first", part));
    for (int p = low; p <= high; ++p)
      if (!numbers.insert(p).second) refuse_target(text, fmt::format("it names partition {} twice", p));
    at = end + 1;
  }
  return {numbers.begin(), numbers.end()};
}

/// Where the host ends, as rsync sees it: at the first colon, if no slash comes before it and it is not
/// inside the brackets of an address. npos: there is none.
std::size_t host_end(const std::string& place) {
  const std::size_t bracket = place.find(']');
  const bool address = place.find('[') < place.find('/') && bracket != std::string::npos;
  const std::size_t colon = place.find(':', address ? bracket : 0);
  return colon < place.find('/') || (address && colon != std::string::npos) ? colon : std::string::npos;
}

/// One text for each folder, however it is typed.
std::string one_name(const PushTarget& target) {
  const std::string host = target.host.substr(target.host.find('@') + 1);
  std::string path = fs::path(target.path).lexically_normal().string();
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  std::error_code error;
  return host.empty() ? fs::weakly_canonical(path, error).string() : host + ":" + path;
}

void check_targets(const PushPlan& plan) {
  const std::string here = fs::weakly_canonical(plan.folder).string();
  std::vector<std::pair<std::string, std::string>> seen;
  for (const PushTarget& target : plan.targets) {
    for (const int p : target.partitions)
      if (p >= plan.meta.partitions)
        refuse_target(target.text, fmt::format("there is no partition {}: {} has {}, from 0 to {}", p,
                                               plan.name, plan.meta.partitions, plan.meta.partitions - 1));
    const std::string name = one_name(target);
    if (target.host.empty() && (name == here || name.starts_with(here + "/")))
      refuse_target(target.text, "that is the dataset's own folder; name another");
    if (target.host.empty()) refuse_inside_dataset(name, fmt::format("--to '{}': ", target.text));
    for (const auto& [other, text] : seen) {
      if (name == other)
        refuse_target(
            target.text,
            fmt::format("'{}' names the same machine and folder; name all of its partitions in one --to",
                        text));
      if (name.starts_with(other + "/") || other.starts_with(name + "/"))
        refuse_target(target.text, fmt::format("one folder lies in the other, that of '{}'", text));
    }
    seen.emplace_back(name, target.text);
  }
}

void check_file(const PushPlan& plan, const PushFile& file) {
  const int partition = partition_of_file(file.path);
  const std::string whose =
      partition < 0 ? "a file that every machine needs" : fmt::format("part of partition {}", partition);
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(fs::path(plan.folder) / file.path, error);
  if (error)
    throw Error(ErrorCode::kNotFound,
                fmt::format("{} lacks {}, {}; push from a folder that has it", plan.name, file.path, whose));
  if (bytes != file.bytes)
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{}/{}, {}, has {} bytes where meta.json says {}; nothing was pushed", plan.name,
                            file.path, whose, bytes, file.bytes));
}

}  // namespace

PushTarget parse_target(const std::string& text) {
  const std::size_t at = text.find('=');
  if (at == 0 || at == std::string::npos || at + 1 == text.size())
    refuse_target(text, "give PARTITIONS=HOST:PATH, or PARTITIONS=PATH for a folder of this machine");
  PushTarget target{.text = text, .place = text.substr(at + 1)};
  target.partitions = parse_partitions(text.substr(0, at), text);
  if (target.place.starts_with("rsync://") || target.place.find("::") < target.place.find_first_of("/["))
    refuse_target(text, "rsync daemons are not served; name a host that ssh reaches, HOST:PATH");
  const std::size_t colon = host_end(target.place);
  if (colon == std::string::npos) {
    target.path = fs::absolute(target.place).string();
  } else {
    target.host = target.place.substr(0, colon);
    target.path = target.place.substr(colon + 1);
    if (target.host.empty() || target.host.starts_with('-') || target.host.ends_with('@'))
      refuse_target(text, "HOST is missing before the colon, or begins with '-'");
    if (target.path.empty())
      refuse_target(text, fmt::format("name the folder on {} behind the colon", target.host));
  }
  if (text.find_first_of("\n\r") != std::string::npos) refuse_target(text, "it has a line break");
  return target;
}

int partition_of_file(const std::string& relative) {
  if (!relative.starts_with("part-")) return -1;
  int partition = -1;
  std::from_chars(relative.data() + 5, relative.data() + relative.size(), partition);
  return partition;
}

PushPlan plan_push(const std::string& folder, const std::vector<std::string>& to, PushParts parts) {
  if (to.empty())
    throw Error(ErrorCode::kInvalid, "--to is required; give PARTITIONS=HOST:PATH, once for each machine");
  PushPlan plan{.name = folder, .folder = fs::absolute(folder).lexically_normal().string()};
  while (plan.folder.size() > 1 && plan.folder.back() == '/') plan.folder.pop_back();
  plan.meta_text = read_meta_text(folder);
  plan.meta = parse_meta(plan.meta_text, meta_file_of(folder).string());
  plan.parts = parts;
  for (const std::string& text : to) plan.targets.push_back(parse_target(text));
  check_targets(plan);
  std::set<int> missing;
  for (int p = 0; p < plan.meta.partitions; ++p) missing.insert(p);
  for (const PushTarget& target : plan.targets) {
    for (const PushFile& file : files_for(plan, target)) check_file(plan, file);
    for (const int p : target.partitions) missing.erase(p);
  }
  plan.left_out.assign(missing.begin(), missing.end());
  return plan;
}

std::vector<PushFile> files_for(const PushPlan& plan, const PushTarget& target) {
  std::vector<PushFile> files;
  for (const auto& [path, file] : plan.meta.files) {
    const int partition = partition_of_file(path);
    if (plan.parts.without_halos && is_halo_path(path)) continue;
    if (!plan.parts.with_keys && is_keys_path(path)) continue;
    if (partition < 0 || std::ranges::binary_search(target.partitions, partition))
      files.push_back({.path = path, .bytes = file.bytes});
  }
  return files;
}

std::string in_words(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) text += i + 1 == numbers.size() ? " and " : ", ";
    text += std::to_string(numbers[i]);
  }
  return text;
}

}  // namespace hopfeed
