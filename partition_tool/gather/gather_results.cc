// See gather_results.h.
#include "partition_tool/gather/gather_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/memory_limits.h"
#include "core/base/saturating.h"
#include "core/dataset/corrupt_file.h"
#include "core/dataset/meta_file.h"
#include "core/dataset/node_keys.h"
#include "partition_tool/gather/node_ranks.h"
#include "partition_tool/gather/placed_file.h"
#include "partition_tool/gather/results_folder.h"

namespace hopfeed {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t kBlockRows = 1 << 14;  // between two reports
constexpr std::int64_t kNumberBytes = sizeof(std::int64_t);
constexpr std::int64_t kWaitingBytes = 40;  // beside a row that waits, or its key

std::span<const std::int64_t> numbers_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const std::int64_t*>(bytes.data()), bytes.size() / kNumberBytes};
}

/// FILE.npy -> FILE.<kind>.npy
fs::path beside(const fs::path& out, const std::string& kind) {
  return fs::path(out).replace_extension("." + kind + ".npy");
}

std::string names_of(const std::vector<ResultsFolder>& folders) {
  std::vector<std::string> names;
  for (const ResultsFolder& one : folders) names.push_back(one.folder.string());
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Gathers from folders that are known to be of one run.
class Gathering {
 public:
  Gathering(const GatherOptions& options, std::vector<ResultsFolder> folders, const Progress& progress)
      : options_(options),
        folders_(std::move(folders)),
        what_(folders_.front()),
        nodes_(what_.count),
        progress_(progress) {
    for (const ResultsFolder& one : folders_) total_ += one.rows;
  }

  void choose_keys();
  void find_nodes();
  void gather_rows();
  void gather_ids();
  void gather_keys();
  GatherResult commit();

 private:
  PlacedFile& make(const fs::path& path, ElementType type, const std::vector<std::int64_t>& shape);
  std::int64_t rows() const { return nodes_.size(); }
  /// Calls body(shard, ids) for each shard, whose ids are compared.
  template <class Body>
  void for_shards(const Body& body) const;
  template <class Body>
  void for_nodes(const Body& body) const;
  std::int64_t place_of(std::int64_t node, const ResultsShard& shard) const;
  void gather_fixed(PlacedFile& file, const std::string& kind, ElementType type,
                    const std::vector<std::int64_t>& row_shape, const char* step);
  void gather_texts();
  void keys_from_dataset();
  [[noreturn]] void complain_of_twice(std::int64_t node) const;
  void require_all() const;
  void require_no_others() const;

  const GatherOptions& options_;
  const std::vector<ResultsFolder> folders_;
  const ResultsFolder& what_;
  NodeRanks nodes_;
  const Progress& progress_;
  std::int64_t total_ = 0;
  std::vector<std::unique_ptr<PlacedFile>> files_;
  KeyType keys_ = KeyType::kNone;
  bool keys_left_out_ = false;
  std::optional<NodeKeys> given_keys_;  // of --keys-from
};

template <class Body>
void Gathering::for_shards(const Body& body) const {
  for (const ResultsFolder& folder : folders_) {
    for (const ResultsShard& shard : folder.shards) {
      ShardArray ids(shard.file("ids"), ElementType::kInt64, {shard.rows});
      body(shard, numbers_of(ids.all()));
    }
  }
}

template <class Body>
void Gathering::for_nodes(const Body& body) const {
  for (std::int64_t node = nodes_.next(0, true); node < what_.count; node = nodes_.next(node + 1, true))
    body(node);
}

std::int64_t Gathering::place_of(std::int64_t node, const ResultsShard& shard) const {
  if (node < 0 || node >= what_.count || !nodes_.has(node))
    corrupt_file(shard.file("ids").path, "it has changed while it was read");
  return nodes_.rank(node);
}

void Gathering::complain_of_twice(std::int64_t node) const {
  std::vector<std::string> where;
  for_shards([&](const ResultsShard& shard, std::span<const std::int64_t> ids) {
    for (std::int64_t left = std::ranges::count(ids, node); left > 0 && where.size() < 2; --left)
      where.push_back(shard.file("ids").path.string());
  });
  throw Error(ErrorCode::kInvalid,
              fmt::format("node {} of '{}' is there twice, in {}; name the folder of each machine once", node,
                          what_.node_type, fmt::join(where, " and in ")));
}

void Gathering::require_all() const {
  const std::int64_t wanted = what_.chosen.value_or(what_.count);
  if (rows() == wanted || options_.some) return;
  if (wanted < what_.count)
    throw Error(ErrorCode::kInvalid,
                fmt::format("{}: there are rows of {} nodes of '{}', and {} were chosen; name the folders of "
                            "all machines, or give --some for these rows alone",
                            names_of(folders_), rows(), what_.node_type, wanted));
  const std::int64_t others = what_.count - rows() - 1;
  throw Error(
      ErrorCode::kInvalid,
      fmt::format(
          "{}: there is no row of node {} of '{}'{}; name the folders of all machines, or give --some for "
          "these rows alone",
          names_of(folders_), nodes_.next(0, false), what_.node_type,
          others > 0 ? fmt::format(" and of {} other{}", others, others > 1 ? "s" : "") : ""));
}

void Gathering::choose_keys() {
  if (options_.keys_from.empty()) {
    keys_left_out_ =
        std::ranges::any_of(folders_, [&](const ResultsFolder& one) { return one.keys != what_.keys; });
    if (!keys_left_out_) keys_ = what_.keys;
    return;
  }
  const DatasetMeta meta = read_meta(options_.keys_from);
  if (meta.fingerprint != what_.fingerprint)
    throw Error(
        ErrorCode::kInvalid,
        fmt::format("--keys-from {} is another dataset than the results are of: its fingerprint is {} "
                    "and not {}; name the one that they were computed over",
                    options_.keys_from.string(), meta.fingerprint, what_.fingerprint));
  const NodeTypeMeta& node = meta.node_types[meta.node_type(what_.node_type)];
  if (node.count != what_.count)
    corrupt_file(meta_file_of(options_.keys_from), "it has another number of nodes than the results tell");
  given_keys_.emplace(options_.keys_from, node);
  if (given_keys_->digest() != node.keys.digest)
    corrupt_file(options_.keys_from / keys_path(node), "it is damaged: its digest is another");
  keys_ = given_keys_->type();
}

/// Files beside FILE.npy that would be taken for this one's.
void Gathering::require_no_others() const {
  const std::pair<const char*, bool> kinds[] = {{"ids", rows() < what_.count},
                                                {"keys", keys_ != KeyType::kNone},
                                                {"key_offsets", keys_ == KeyType::kString}};
  for (const auto& [kind, made] : kinds) {
    const fs::path path = beside(options_.out, kind);
    std::error_code ignored;
    if (!made && fs::exists(path, ignored))
      throw Error(ErrorCode::kInvalid, fmt::format("--out: {} is there, of other results: these have none; "
                                                   "remove it, or name another file",
                                                   path.string()));
  }
}

void Gathering::find_nodes() {
  std::int64_t done = 0;
  for_shards([&](const ResultsShard& shard, std::span<const std::int64_t> ids) {
    for (const std::int64_t node : ids) {
      if (node < 0 || node >= what_.count)
        corrupt_file(shard.file("ids").path, fmt::format("it has node {}, and there are {} of '{}'", node,
                                                         what_.count, what_.node_type));
      if (!nodes_.add(node)) complain_of_twice(node);
    }
    done += std::ssize(ids);
    progress_({"Reading ids", "rows", static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total_)});
  });
  require_all();
  require_no_others();
  nodes_.rank_all();
}

PlacedFile& Gathering::make(const fs::path& path, ElementType type, const std::vector<std::int64_t>& shape) {
  const std::optional<std::int64_t> bytes = bytes_of_array(type, shape);
  if (!bytes) throw Error(ErrorCode::kInvalid, path.string() + " would have more bytes than a file can");
  files_.push_back(std::make_unique<PlacedFile>(path, npy_descr(type), shape,
                                                static_cast<std::uint64_t>(*bytes), options_.memory));
  return *files_.back();
}

/// Rows that are all of one size: `row_shape` of each.
void Gathering::gather_fixed(PlacedFile& file, const std::string& kind, ElementType type,
                             const std::vector<std::int64_t>& row_shape, const char* step) {
  const auto row_bytes = static_cast<std::size_t>(bytes_of_row(type, row_shape).value());
  std::int64_t done = 0;
  for_shards([&](const ResultsShard& shard, std::span<const std::int64_t> ids) {
    std::vector<std::int64_t> shape{shard.rows};
    shape.insert(shape.end(), row_shape.begin(), row_shape.end());
    ShardArray array(shard.file(kind), type, shape);
    for (std::size_t at = 0; at < ids.size();) {
      const std::size_t block = std::min<std::size_t>(kBlockRows, ids.size() - at);
      const std::span<const std::byte> rows = array.next(block * row_bytes);
      for (std::size_t i = 0; i < block; ++i)
        file.put(static_cast<std::uint64_t>(place_of(ids[at + i], shard)) * row_bytes,
                 rows.subspan(i * row_bytes, row_bytes));
      at += block;
      done += static_cast<std::int64_t>(block);
      progress_({step, "rows", static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total_)});
    }
  });
  file.finish();
}

void Gathering::gather_rows() {
  PlacedFile& file = make(options_.out, what_.type(), {rows(), what_.width});
  gather_fixed(file, "rows", what_.type(), {what_.width}, "Writing rows");
}

void Gathering::gather_ids() {
  if (rows() == what_.count) return;
  PlacedFile& file = make(beside(options_.out, "ids"), ElementType::kInt64, {rows()});
  std::uint64_t at = 0;
  for_nodes([&](std::int64_t node) {
    file.put(at, std::as_bytes(std::span(&node, 1)));
    at += kNumberBytes;
  });
  file.finish();
}

/// Two passes: how long each key is, then the keys.
void Gathering::gather_texts() {
  std::vector<std::int64_t> begins(static_cast<std::size_t>(rows()) + 1);
  const auto offsets_of = [](const ResultsShard& shard) {
    return ShardArray(shard.file("key_offsets"), ElementType::kInt64, {shard.rows + 1});
  };
  for_shards([&](const ResultsShard& shard, std::span<const std::int64_t> ids) {
    ShardArray array = offsets_of(shard);
    const std::span<const std::int64_t> offsets = numbers_of(array.all());
    if (offsets.front() != 0 || !std::ranges::is_sorted(offsets) || offsets.back() > kMaxEdges)
      corrupt_file(shard.file("key_offsets").path, "its offsets do not rise from 0");
    for (std::size_t i = 0; i < ids.size(); ++i)
      begins[place_of(ids[i], shard) + 1] = offsets[i + 1] - offsets[i];
  });
  for (std::size_t i = 1; i < begins.size(); ++i)
    if (__builtin_add_overflow(begins[i], begins[i - 1], &begins[i]) || begins[i] > kMaxEdges)
      throw Error(ErrorCode::kCorrupt, names_of(folders_) + ": the keys have more bytes than there can be");
  PlacedFile& where = make(beside(options_.out, "key_offsets"), ElementType::kInt64, {rows() + 1});
  where.put(0, std::as_bytes(std::span(begins)));
  where.finish();
  PlacedFile& file = make(beside(options_.out, "keys"), ElementType::kUint8, {begins.back()});
  std::int64_t done = 0;
  for_shards([&](const ResultsShard& shard, std::span<const std::int64_t> ids) {
    ShardArray array = offsets_of(shard);
    const std::span<const std::int64_t> offsets = numbers_of(array.all());
    ShardArray keys(shard.file("keys"), ElementType::kUint8, {offsets.back()});
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::int64_t place = place_of(ids[i], shard), size = begins[place + 1] - begins[place];
      if (size != offsets[i + 1] - offsets[i])
        corrupt_file(shard.file("key_offsets").path, "it has changed while it was read");
      file.put(static_cast<std::uint64_t>(begins[place]), keys.next(static_cast<std::size_t>(size)));
    }
    done += std::ssize(ids);
    progress_({"Writing keys", "keys", static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total_)});
  });
  file.finish();
}

void Gathering::keys_from_dataset() {
  const NodeKeys& keys = *given_keys_;
  const bool texts = keys_ == KeyType::kString, numbers = keys_ == KeyType::kInt64;
  std::vector<std::int64_t> begins{0};
  if (texts) {
    begins.reserve(static_cast<std::size_t>(rows()) + 1);
    for_nodes([&](std::int64_t v) { begins.push_back(begins.back() + std::ssize(keys.bytes(v))); });
    PlacedFile& where = make(beside(options_.out, "key_offsets"), ElementType::kInt64, {rows() + 1});
    where.put(0, std::as_bytes(std::span(begins)));
    where.finish();
  }
  const std::vector<std::int64_t> shape = numbers ? std::vector<std::int64_t>{rows()}
                                          : texts ? std::vector<std::int64_t>{begins.back()}
                                                  : std::vector<std::int64_t>{rows(), kUuidBytes};
  PlacedFile& file =
      make(beside(options_.out, "keys"), numbers ? ElementType::kInt64 : ElementType::kUint8, shape);
  std::uint64_t at = 0;
  for_nodes([&](std::int64_t v) {
    const std::int64_t number = numbers ? keys.number(v) : 0;
    const std::span<const std::byte> key =
        numbers ? std::as_bytes(std::span(&number, 1)) : std::as_bytes(std::span(keys.bytes(v)));
    file.put(at, key);
    at += key.size();
  });
  file.finish();
}

void Gathering::gather_keys() {
  if (given_keys_) return keys_from_dataset();
  if (keys_ == KeyType::kString) return gather_texts();
  if (keys_ == KeyType::kInt64)
    gather_fixed(make(beside(options_.out, "keys"), ElementType::kInt64, {rows()}), "keys",
                 ElementType::kInt64, {}, "Writing keys");
  if (keys_ == KeyType::kUuid)
    gather_fixed(make(beside(options_.out, "keys"), ElementType::kUint8, {rows(), kUuidBytes}), "keys",
                 ElementType::kUint8, {kUuidBytes}, "Writing keys");
}

/// The rows come to their place last: who sees them has all.
GatherResult Gathering::commit() {
  GatherResult result{.output = what_.output,
                      .node_type = what_.node_type,
                      .dtype = what_.dtype,
                      .run = what_.run,
                      .fingerprint = what_.fingerprint,
                      .rows = rows(),
                      .width = what_.width,
                      .count = what_.count,
                      .keys = keys_,
                      .keys_left_out = keys_left_out_};
  for (const auto& file : files_) {
    result.files.push_back(file->path());
    result.bytes += file->file_bytes();
  }
  for (auto file = files_.rbegin(); file != files_.rend(); ++file) (*file)->commit();
  return result;
}

void require_place(const GatherOptions& options) {
  if (options.out.extension() != ".npy" || options.out.stem().empty())
    throw Error(ErrorCode::kInvalid, fmt::format("--out is {}; name a file FILE.npy", options.out.string()));
  const fs::path place = fs::weakly_canonical(fs::absolute(options.out));
  for (const fs::path& folder : options.folders) {
    const fs::path inside = (fs::weakly_canonical(fs::absolute(folder)) / "").parent_path();
    if (std::ranges::mismatch(inside, place).in1 == inside.end())
      throw Error(ErrorCode::kInvalid,
                  fmt::format("--out: {} lies in the results {}; choose a place outside of them",
                              options.out.string(), folder.string()));
  }
}

/// Of the nodes, of texts' offsets, and of rows that wait: of all of them where the limit is larger.
void require_memory_for(const std::vector<ResultsFolder>& folders, std::size_t memory) {
  const ResultsFolder& what = folders.front();
  std::int64_t rows = 0;
  for (const ResultsFolder& one : folders) rows = saturating_sum(rows, one.rows);
  const std::int64_t row_bytes = static_cast<std::int64_t>(element_bytes(what.type())) * what.width;
  std::uint64_t needed = NodeRanks::bytes(what.count) +
                         std::min<std::uint64_t>(memory, saturating_product(rows, row_bytes + kWaitingBytes));
  if (what.keys == KeyType::kString) needed += saturating_product(rows, kNumberBytes);
  require_memory(needed, available_memory(), "gathering these results", "give a smaller --memory");
}

}  // namespace

GatherResult gather_results(const GatherOptions& options, const Progress& progress) {
  if (options.folders.empty()) throw Error(ErrorCode::kInvalid, "name the folders of results, RESULTS...");
  require_place(options);
  std::vector<ResultsFolder> folders;
  for (const fs::path& folder : options.folders) {
    folders.push_back(read_results_folder(folder, options.output, options.node_type));
    require_same_results(folders.front(), folders.back());
  }
  require_memory_for(folders, options.memory);
  Gathering gathering(options, std::move(folders), progress);
  gathering.choose_keys();
  gathering.find_nodes();
  gathering.gather_rows();
  gathering.gather_ids();
  gathering.gather_keys();
  return gathering.commit();
}

}  // namespace hopfeed
