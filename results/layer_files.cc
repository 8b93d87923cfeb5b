// See layer_files.h.
#include "results/layer_files.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>
#include <system_error>

#include "core/base/error.h"
#include "core/base/failpoint.h"

namespace hopfeed {
namespace {

constexpr std::string_view kEnding = ".rows";

std::uint64_t checksum_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t checksum_of(const ShardFoot& foot) { return XXH3_64bits(&foot, offsetof(ShardFoot, of_foot)); }

/// The number that `text` begins with, which is cut off it; -1 where it begins with none.
std::int64_t cut_number(std::string_view& text) {
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number < 0) return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool cut(std::string_view& text, std::string_view head) {
  if (!text.starts_with(head)) return false;
  text.remove_prefix(head.size());
  return true;
}

/// The first row of a shard of the partition by its file's name; -1: it is none.
std::int64_t first_of(std::string_view name, int partition) {
  if (!cut(name, "p") || cut_number(name) != partition || !cut(name, "-r")) return -1;
  const std::int64_t first = cut_number(name);
  return name == kEnding ? first : -1;
}

}  // namespace

std::string to_text(RunId run) { return fmt::format("{:016x}{:016x}", run.high, run.low); }

RunId run_id_of(const std::string& text) {
  RunId run;
  const auto half = [&](std::size_t at, std::uint64_t& number) {
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + at + 16, number, 16);
    return error == std::errc{} && end == text.data() + at + 16;
  };
  if (text.size() != 32 || !half(0, run.high) || !half(16, run.low) || to_text(run) != text)
    throw Error(ErrorCode::kCorrupt, "a run's id is not of 32 hex digits");
  return run;
}

bool is_layer_name(const LayerName& name) {
  const auto fits = [](const std::string& part, std::size_t longest) {
    return !part.empty() && part.size() <= longest && part.front() != '.' &&
           part.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
  };
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789._-";
  return fits(name.table, 64) && name.table.find_first_not_of(kLetters) == std::string::npos &&
         fits(name.node_type, 200);
}

std::filesystem::path LayerFolder::shard_path(const LayerName& name, int partition,
                                              std::int64_t first) const {
  return table_folder(name) / fmt::format("p{:06d}-r{:015d}{}", partition, first, kEnding);
}

void LayerFolder::write(const LayerName& name, const ShardRows& shard,
                        std::span<const std::byte> rows) const {
  const std::filesystem::path file_path = shard_path(name, shard.partition, shard.first);
  std::error_code error;
  std::filesystem::create_directories(file_path.parent_path(), error);
  if (error) throw_errno("cannot make the folder " + file_path.parent_path().string(), error.value());
  ShardFoot foot{.run_high = run.high,
                 .run_low = run.low,
                 .first = static_cast<std::uint64_t>(shard.first),
                 .rows = static_cast<std::uint64_t>(shard.count),
                 .row_bytes = static_cast<std::uint64_t>(shard.row_bytes),
                 .checksum = checksum_of(rows)};
  foot.of_foot = checksum_of(foot);
  AtomicFile file(file_path, "", sync);
  file.write(rows);
  if (FAILPOINT("results.shard")) throw_errno("cannot write " + file_path.string(), ENOSPC);
  file.write(std::as_bytes(std::span(&foot, 1)));
  file.commit();
}

bool LayerFolder::has(const LayerName& name, int partition, std::int64_t first) const {
  std::error_code error;
  return std::filesystem::exists(shard_path(name, partition, first), error);
}

std::vector<std::int64_t> LayerFolder::firsts(const LayerName& name, int partition) const {
  std::vector<std::int64_t> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(table_folder(name), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::int64_t first = first_of(entry->path().filename().string(), partition);
    if (first >= 0) found.push_back(first);
  }
  std::sort(found.begin(), found.end());
  return found;
}

void LayerFolder::remove(const LayerName& name) const {
  std::error_code error;
  std::filesystem::remove_all(table_folder(name), error);
  if (error) throw_errno("cannot remove " + table_folder(name).string(), error.value());
}

LayerShard::LayerShard(const std::filesystem::path& path, RunId run) : file_(path) {
  const auto damaged = [&](const char* what) {
    return Error(ErrorCode::kCorrupt,
                 path.string() + what + "; remove it, and what was computed from it is computed again");
  };
  const std::span<const std::byte> all = file_.bytes();
  if (all.size() < sizeof foot_) throw damaged(" is no shard of rows, or damaged");
  std::memcpy(&foot_, all.last(sizeof foot_).data(), sizeof foot_);
  const std::uint64_t rows_bytes = all.size() - sizeof foot_;
  if (foot_.magic != ShardFoot::kMagic || foot_.of_foot != checksum_of(foot_) ||
      (foot_.rows != 0 && foot_.row_bytes != rows_bytes / foot_.rows) ||
      foot_.rows * foot_.row_bytes != rows_bytes)
    throw damaged(" is no shard of rows, or damaged");
  if (RunId{.high = foot_.run_high, .low = foot_.run_low} != run)
    throw Error(ErrorCode::kInvalid, path.string() + " has rows of another run");
  if (checksum_of(bytes()) != foot_.checksum) throw damaged(" is damaged: its checksum is another");
}

}  // namespace hopfeed
