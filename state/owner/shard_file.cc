// See shard_file.h.
#include "state/owner/shard_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/base/json_text.h"
#include "core/base/limits.h"

namespace hopfeed {
namespace {

constexpr std::uint64_t kMagic = 0x3144524148534648;       // "HFSHARD1"
constexpr std::size_t kBlockRows = 16'384;                 // ids first, then rows
constexpr std::int64_t kHandOver = std::int64_t{8} << 20;  // bytes that are not yet on their way to the disk
constexpr std::size_t kPart = std::size_t{4} << 20;        // bytes that are read at a time
constexpr std::int64_t kMaxPartitions = 65'536;

struct FileHead {
  std::uint64_t magic = kMagic, json_bytes = 0;
};

std::size_t padded(std::size_t bytes) { return (bytes + 7) / 8 * 8; }

std::string to_text(const ShardHead& head) {
  std::string text = json_text({{"table", parse_json(head.spec.to_json())},
                                {"fingerprint", head.fingerprint},
                                {"partitions", head.partitions},
                                {"num_partitions", head.num_partitions},
                                {"steps", head.steps},
                                {"count", head.count.steps},
                                {"power1", head.count.power1},
                                {"power2", head.count.power2},
                                {"rows", head.rows},
                                {"row_bytes", head.row_bytes}});
  text.resize(padded(text.size()), ' ');
  return text;
}

ShardHead from_text(const std::string& text) {
  const nlohmann::json json = parse_json(text);
  const JsonFields fields(json, "the head of a shard", ErrorCode::kCorrupt);
  ShardHead head;
  head.spec = TableSpec::from_json(json_text(fields.at("table")));
  head.fingerprint = fields.text("fingerprint");
  head.partitions = fields.wholes("partitions", 0, kMaxPartitions, kMaxPartitions);
  head.num_partitions = fields.whole("num_partitions", 1, kMaxPartitions);
  head.steps = fields.whole("steps", 0, INT64_MAX);
  head.count = {.steps = fields.whole("count", 0, INT64_MAX),
                .power1 = fields.real("power1"),
                .power2 = fields.real("power2")};
  head.rows = fields.whole("rows", 0, UINT32_MAX);
  head.row_bytes = fields.whole("row_bytes", 1, INT64_MAX);
  if (head.row_bytes != stored_row_bytes(head.spec))
    throw Error(ErrorCode::kCorrupt, "its rows are not as wide as its table");
  return head;
}

std::unique_ptr<XXH3_state_t, void (*)(XXH3_state_t*)> new_hash() {
  std::unique_ptr<XXH3_state_t, void (*)(XXH3_state_t*)> hash(
      XXH3_createState(), [](XXH3_state_t* state) { XXH3_freeState(state); });
  if (!hash) throw std::bad_alloc();
  XXH3_64bits_reset(hash.get());
  return hash;
}

std::int64_t first_of(const std::vector<std::int64_t>& partitions) {
  return partitions.empty() ? 0 : partitions.front();
}

std::filesystem::path made_folder_of(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.parent_path();
  std::error_code error;
  const bool made = std::filesystem::create_directories(folder, error);
  if (error) throw_errno("cannot make the folder " + folder.string(), error.value());
  if (made)  // that of the checkpoint, and perhaps that of the run
    for (const auto& above : {folder.parent_path(), folder.parent_path().parent_path()}) sync_folder(above);
  return path;
}

}  // namespace

std::int64_t stored_row_bytes(const TableSpec& spec) {
  if (spec.kind == TableSpec::Kind::kTensor) return spec.row_bytes();
  return spec.row_bytes() +
         state_width(spec.optimizer.optimizer, spec.width) * static_cast<std::int64_t>(sizeof(float));
}

std::filesystem::path checkpoint_folder(const std::filesystem::path& folder, std::uint64_t run,
                                        std::uint64_t checkpoint) {
  return folder / fmt::format("{:016x}", run) / fmt::format("{}", checkpoint);
}

std::filesystem::path shard_path(const std::filesystem::path& checkpoint, const std::string& table,
                                 std::int64_t first_partition) {
  return checkpoint / fmt::format("{}.{}.rows", table, first_partition);
}

// ---- written

ShardWriter::ShardWriter(const std::filesystem::path& path, const ShardHead& head)
    : file_(made_folder_of(path)),
      hash_(new_hash()),
      first_partition_(first_of(head.partitions)),
      row_bytes_(static_cast<std::size_t>(head.row_bytes)),
      rows_of_head_(head.rows) {
  const std::size_t most =
      std::min(kBlockRows, static_cast<std::size_t>(std::max<std::int64_t>(head.rows, 0)));
  ids_.reserve(most);
  rows_.reserve(padded(most * row_bytes_));
  const std::string text = to_text(head);
  const FileHead file_head{.json_bytes = text.size()};
  write(std::as_bytes(std::span(&file_head, 1)));
  write(std::as_bytes(std::span(text)));
}

ShardWriter::~ShardWriter() = default;

void ShardWriter::write(std::span<const std::byte> bytes) {
  XXH3_64bits_update(hash_.get(), bytes.data(), bytes.size());
  file_.write(bytes);
  bytes_ += std::ssize(bytes);
  if (bytes_ - handed_over_ < kHandOver) return;
  // The disk begins while rows are still gathered; commit() waits for it.
  sync_file_range(file_.fd(), handed_over_, bytes_ - handed_over_, SYNC_FILE_RANGE_WRITE);
  handed_over_ = bytes_;
}

void ShardWriter::write_block() {
  if (ids_.empty()) return;
  write(std::as_bytes(std::span(ids_)));
  rows_.resize(padded(rows_.size()));
  write(rows_);
  rows_written_ += std::ssize(ids_);
  ids_.clear();
  rows_.clear();
}

void ShardWriter::add(std::int64_t original_id, const std::byte* row) {
  ids_.push_back(original_id);
  rows_.insert(rows_.end(), row, row + row_bytes_);
  if (ids_.size() == kBlockRows) write_block();
}

ShardSum ShardWriter::commit() {
  write_block();
  require_valid(rows_written_ == rows_of_head_,
                fmt::format("a shard says {} rows and has {}", rows_of_head_, rows_written_));
  const std::uint64_t xxh3 = XXH3_64bits_digest(hash_.get());
  file_.write(std::as_bytes(std::span(&xxh3, 1)));
  file_.commit();
  return {.first_partition = first_partition_,
          .rows = rows_written_,
          .bytes = bytes_ + static_cast<std::int64_t>(sizeof xxh3),
          .xxh3 = xxh3};
}

// ---- read

ShardFile::ShardFile(const std::filesystem::path& path, const std::function<void()>& each_part)
    : path_(path), file_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (!file_) throw_errno("cannot read " + path.string(), errno);
  struct stat stat {};
  if (fstat(file_.get(), &stat) != 0) throw_errno("cannot read " + path.string(), errno);
  bytes_ = static_cast<std::size_t>(stat.st_size);
  FileHead head;
  if (bytes_ < sizeof head + sizeof xxh3_) damaged("it is too short");
  read(0, std::as_writable_bytes(std::span(&head, 1)));
  if (head.magic != kMagic) damaged("it is no shard");
  const std::size_t behind = bytes_ - sizeof xxh3_;
  read(behind, std::as_writable_bytes(std::span(&xxh3_, 1)));
  if (digest(behind, each_part) != xxh3_) damaged("its checksum is another one");
  if (head.json_bytes > behind - sizeof head || head.json_bytes % 8 != 0 || head.json_bytes > kMaxOpenBytes)
    damaged("its head is too long");
  std::string text(head.json_bytes, ' ');
  read(sizeof head, std::as_writable_bytes(std::span(text)));
  try {
    head_ = from_text(text);
  } catch (const Error& error) {
    damaged(error.message());
  }
  first_row_ = sizeof head + head.json_bytes;
  const auto rows = static_cast<std::size_t>(head_.rows),
             row_bytes = static_cast<std::size_t>(head_.row_bytes);
  const std::size_t whole = rows / kBlockRows, rest = rows % kBlockRows;
  if (behind - first_row_ != whole * (kBlockRows * sizeof(std::int64_t) + padded(kBlockRows * row_bytes)) +
                                 rest * sizeof(std::int64_t) + padded(rest * row_bytes))
    damaged("its rows are not as long as it says");
}

void ShardFile::damaged(const std::string& why) const {
  throw Error(ErrorCode::kCorrupt,
              fmt::format("{} is damaged: {}; go back to an older checkpoint", path_.string(), why));
}

void ShardFile::read(std::size_t at, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = pread(file_.get(), out.data(), out.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno("cannot read " + path_.string(), errno);
    if (got == 0) damaged("it was cut short");
    out = out.subspan(static_cast<std::size_t>(got));
    at += static_cast<std::size_t>(got);
  }
}

/// Of its first bytes.
std::uint64_t ShardFile::digest(std::size_t bytes, const std::function<void()>& each_part) const {
  const auto hash = new_hash();
  std::vector<std::byte> part(std::min(bytes, kPart));
  for (std::size_t at = 0; at < bytes; at += part.size()) {
    each_part();
    part.resize(std::min(bytes - at, kPart));
    read(at, part);
    XXH3_64bits_update(hash.get(), part.data(), part.size());
  }
  return XXH3_64bits_digest(hash.get());
}

ShardSum ShardFile::sum() const {
  return {.first_partition = first_of(head_.partitions),
          .rows = head_.rows,
          .bytes = static_cast<std::int64_t>(bytes_),
          .xxh3 = xxh3_};
}

void ShardFile::for_each_ids(
    const std::function<bool(std::span<const std::int64_t> original_ids)>& each) const {
  std::size_t at = first_row_;
  std::vector<std::int64_t> ids;
  for (auto left = static_cast<std::size_t>(head_.rows); left > 0; left -= ids.size()) {
    ids.resize(std::min(left, kBlockRows));
    read(at, std::as_writable_bytes(std::span(ids)));
    at += ids.size() * sizeof ids[0] + padded(ids.size() * static_cast<std::size_t>(head_.row_bytes));
    if (!each(ids)) return;
  }
}

void ShardFile::for_each(const std::function<void(std::span<const std::int64_t> original_ids,
                                                  const std::byte* rows)>& each) const {
  std::size_t at = first_row_;
  std::vector<std::int64_t> ids;
  std::vector<std::byte> rows;
  for (auto left = static_cast<std::size_t>(head_.rows); left > 0; left -= ids.size()) {
    ids.resize(std::min(left, kBlockRows));
    rows.resize(padded(ids.size() * static_cast<std::size_t>(head_.row_bytes)));
    read(at, std::as_writable_bytes(std::span(ids)));
    read(at + ids.size() * sizeof ids[0], rows);
    at += ids.size() * sizeof ids[0] + rows.size();
    each(ids, rows.data());
  }
}

}  // namespace hopfeed
