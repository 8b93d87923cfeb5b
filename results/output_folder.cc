// See output_folder.h.
#include "results/output_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/base/atomic_file.h"
#include "core/base/disk_room.h"
#include "core/base/error.h"
#include "core/base/half_floats.h"
#include "core/base/json_text.h"
#include "core/base/mapped_file.h"
#include "core/dataset/npy.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "manifest.json";
constexpr const char* kBegun = ".begun.json";  // which run has begun to write, until the manifest says it
constexpr std::size_t kMostManifest = std::size_t{256} << 20;

OwnedFd output_lock(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw_errno("cannot make the folder " + folder.string(), error.value());
  OwnedFd file(::open((folder / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!file) throw_errno("cannot open " + (folder / ".lock").string(), errno);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0)
    throw Error(ErrorCode::kBusy,
                "another run writes to " + folder.string() + "; wait for it, or give another folder");
  return file;
}

/// A JSON file of ours; null where there is none, or it is damaged.
nlohmann::json read_json(const fs::path& path) {
  try {
    return parse_json(read_text_file(path, kMostManifest));
  } catch (const Error&) {
    return nullptr;
  }
}

void write_json(const fs::path& path, const nlohmann::json& json) {
  AtomicFile file(path);
  file.write(json_text(json, 1));
  file.commit();
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

/// Which run has made a folder's manifest, or has begun to, and of what; empty where it does not say.
nlohmann::json maker_of(const nlohmann::json& told) {
  nlohmann::json maker = {{"run", ""}, {"output", ""}, {"dtype", ""}, {"signature", ""}, {"partitions", ""}};
  if (!told.is_object()) return maker;
  for (auto& [name, value] : maker.items()) {
    if (told.contains(name) && told[name].is_string()) value = told[name];
  }
  const nlohmann::json::json_pointer of_manifest("/outputs/0/name");
  if (told.contains(of_manifest) && told[of_manifest].is_string()) maker["output"] = told[of_manifest];
  const auto output = maker["output"].get<std::string>();  // it becomes part of a path
  if (output.starts_with('.') || output.find('/') != std::string::npos) maker["output"] = "";
  return maker;
}

/// Throws unless the folder has nothing but results of this name, and what starts with a dot.
void require_results(const fs::path& folder, const std::string& output) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with('.') && (output.empty() || (name != output && name != kManifest)))
      throw Error(ErrorCode::kInvalid,
                  folder.string() + " has '" + name + "', which is no result; give a new folder");
  }
}

void require_our_manifest(const nlohmann::json& told, const fs::path& folder) {
  if (!told.is_object() || told.value("format", nlohmann::json()) != "hopfeed-results" ||
      !told.value("run", nlohmann::json()).is_string())
    throw Error(
        ErrorCode::kInvalid,
        folder.string() + " has a manifest.json that is damaged, or of something else; give a new folder");
}

/// Nothing is made in a folder of something else.
const fs::path& looked_at(const fs::path& folder) {
  if (is_there(folder / kManifest))
    require_our_manifest(read_json(folder / kManifest), folder);
  else if (!is_there(folder / kBegun))
    require_results(folder, "");
  return folder;
}

/// Results in .npy may be rewritten as Parquet, and not the other way.
bool may_become(const nlohmann::json& manifest, const std::string& format) {
  const nlohmann::json is = manifest.value("file_format", nlohmann::json());
  return is == format || is == "npy";
}

/// Whether all files that a manifest names are as they were written: each is read once.
bool is_whole(const nlohmann::json& manifest, const fs::path& folder) {
  try {
    for (const nlohmann::json& shard : manifest.at("shards"))
      for (const nlohmann::json& file : shard.at("files")) {
        const MappedFile there(folder / file.at("path").get<std::string>());
        const std::span<const std::byte> bytes = there.bytes();
        if (bytes.size() != file.at("bytes").get<std::uint64_t>() ||
            fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size())) !=
                file.at("xxh3").get<std::string>())
          return false;
      }
    return manifest.at("outputs").at(0).at("node_types").is_array();
  } catch (const Error&) {  // a file is gone
    return false;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

std::vector<std::byte> converted(const std::byte* rows, std::size_t numbers, ElementType type) {
  std::vector<std::byte> out(numbers * element_bytes(type));
  if (type != ElementType::kFloat16) {
    std::memcpy(out.data(), rows, out.size());
    return out;
  }
  const auto* from = reinterpret_cast<const float*>(rows);
  auto* to = reinterpret_cast<std::uint16_t*>(out.data());
  std::transform(from, from + numbers, to, float16_from);
  return out;
}

/// Throws naming the first node with a number that float16 has not.
void require_float16(const std::byte* rows, std::span<const std::int64_t> ids, std::int64_t width) {
  constexpr float kMost = 65'519.996F;  // what is larger is rounded to infinity
  const auto* values = reinterpret_cast<const float*>(rows);
  for (std::size_t i = 0; i < ids.size() * static_cast<std::size_t>(width); ++i)
    if (std::isfinite(values[i]) && std::abs(values[i]) > kMost)
      throw Error(ErrorCode::kInvalid,
                  fmt::format("node {} has {}, which is too large for float16; leave --float16 out",
                              ids[i / static_cast<std::size_t>(width)], values[i]));
}

}  // namespace

OutputFolder::OutputFolder(const Dataset& dataset, RunId run, OutputOptions options,
                           std::vector<OutputType> types)
    : dataset_(dataset),
      run_(run),
      options_(std::move(options)),
      types_(std::move(types)),
      lock_(output_lock(looked_at(options_.folder))),
      keys_(dataset.meta().node_types.size()) {
  begin();
  for (const OutputType& type : types_) {
    const NodeTypeMeta& node = dataset.meta().node_types[static_cast<std::size_t>(type.node_type)];
    if (!node.has_keys()) continue;
    try {
      keys_[static_cast<std::size_t>(type.node_type)].emplace(dataset.folder(), node);
    } catch (const Error& error) {  // another machine's folder has them; hopfeed-partition gather adds them
      if (error.code() != ErrorCode::kNotFound) throw;
    }
  }
}

/// What decides the files: they are another run's where it differs.
nlohmann::json OutputFolder::maker() const {
  std::string partitions;
  for (const int part : dataset_.partitions())
    partitions += (partitions.empty() ? "" : ",") + std::to_string(part);
  return {{"run", to_text(run_)},
          {"output", options_.name},
          {"dtype", to_string(options_.type)},
          {"signature", options_.signature},
          {"partitions", partitions}};
}

void OutputFolder::begin() {
  const fs::path& folder = options_.folder;
  const bool has_manifest = is_there(folder / kManifest), begun = is_there(folder / kBegun);
  if (has_manifest || begun) {
    const nlohmann::json told = read_json(folder / (has_manifest ? kManifest : kBegun));
    const nlohmann::json before = maker_of(told);
    if (before == maker() && (!has_manifest || may_become(told, options_.format))) {
      if (has_manifest) take_finished(told);
      return;
    }
    if (!options_.overwrite)
      throw Error(ErrorCode::kInvalid,
                  folder.string() + " has results of another run; give --overwrite or another folder");
    const auto output = before["output"].get<std::string>();
    require_results(folder, output);
    std::error_code error;
    fs::remove(folder / kManifest, error);  // first: what is left without it is no result
    if (!error && !output.empty()) fs::remove_all(folder / output, error);
    if (error) throw_errno("cannot remove the results in " + folder.string(), error.value());
  }
  require_results(folder, "");
  write_json(folder / kBegun, maker());
}

/// Of a manifest of this run: whether its files are as they were written; else they are written again.
void OutputFolder::take_finished(const nlohmann::json& manifest) {
  finished_ = is_whole(manifest, options_.folder);
  if (finished_) {
    for (const nlohmann::json& type : manifest["outputs"][0]["node_types"])
      rows_ += type["rows"].get<std::int64_t>();
    return;
  }
  write_json(options_.folder / kBegun, maker());
  std::error_code error;
  fs::remove(options_.folder / kManifest, error);
  if (error) throw_errno("cannot remove the manifest in " + options_.folder.string(), error.value());
}

std::uint64_t OutputFolder::bytes() const {
  std::uint64_t bytes = 0;
  for (const OutputType& type : types_) {
    const auto& keys = keys_[static_cast<std::size_t>(type.node_type)];
    const bool texts = keys && keys->type() == KeyType::kString;
    std::uint64_t a_row = static_cast<std::uint64_t>(type.width) * element_bytes(options_.type) + 8;
    if (keys) a_row += keys->type() == KeyType::kUuid ? kUuidBytes : 8;
    const NodeTypeMeta& node = dataset_.meta().node_types[static_cast<std::size_t>(type.node_type)];
    for (const int part : dataset_.partitions()) {
      const auto p = static_cast<std::size_t>(part);
      const std::int64_t rows = node.partition_offsets[p + 1] - node.partition_offsets[p];
      if (type.wanted == nullptr && !texts) {
        bytes += static_cast<std::uint64_t>(rows) * a_row;
        continue;
      }
      const OriginalIds ids = dataset_.original_ids(type.node_type, part);
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t id = ids.first[row * ids.stride];
        if (id < 0 || id >= node.count) continue;  // write() says so
        if (type.wanted != nullptr && !(*type.wanted)[static_cast<std::size_t>(id)]) continue;
        bytes += a_row + (texts ? keys->bytes(id).size() : 0);
      }
    }
  }
  return bytes;
}

std::uint64_t OutputFolder::written() const { return bytes_in(options_.folder / options_.name); }

OutputFolder::File OutputFolder::put(const std::string& kind, const std::string& path,
                                     const std::string& descr, const std::vector<std::int64_t>& shape,
                                     std::span<const std::byte> bytes) const {
  const fs::path whole = options_.folder / path;
  const std::string head = npy_head(descr, shape);
  XXH3_state_t* const hash = XXH3_createState();
  if (hash == nullptr) throw std::bad_alloc();
  XXH3_64bits_reset(hash);
  XXH3_64bits_update(hash, head.data(), head.size());
  XXH3_64bits_update(hash, bytes.data(), bytes.size());
  const File file{
      .kind = kind, .path = path, .bytes = head.size() + bytes.size(), .xxh3 = XXH3_64bits_digest(hash)};
  XXH3_freeState(hash);
  if (is_there(whole)) {
    const MappedFile there(whole);
    if (there.bytes().size() == file.bytes &&
        XXH3_64bits(there.bytes().data(), there.bytes().size()) == file.xxh3)
      return file;
  }
  std::error_code error;
  fs::create_directories(whole.parent_path(), error);
  if (error) throw_errno("cannot make the folder " + whole.parent_path().string(), error.value());
  AtomicFile made(whole);
  made.write(head);
  made.write(bytes);
  made.commit();
  return file;
}

void OutputFolder::put_keys(Shard& shard, const std::string& below, std::span<const std::int64_t> ids) const {
  const auto& keys = keys_[static_cast<std::size_t>(shard.node_type)];
  if (!keys) return;
  const std::int64_t count = std::ssize(ids);
  std::vector<std::byte> bytes;
  const auto append = [&](std::span<const std::byte> more) {
    bytes.insert(bytes.end(), more.begin(), more.end());
  };
  if (keys->type() == KeyType::kInt64) {
    for (const std::int64_t id : ids) {
      const std::int64_t key = keys->number(id);
      append(std::as_bytes(std::span(&key, 1)));
    }
    shard.files.push_back(put("keys", below + ".keys.npy", "<i8", {count}, bytes));
    return;
  }
  std::vector<std::int64_t> offsets = {0};
  for (const std::int64_t id : ids) {
    append(std::as_bytes(std::span(keys->bytes(id))));
    offsets.push_back(std::ssize(bytes));
  }
  if (keys->type() == KeyType::kUuid) {
    shard.files.push_back(
        put("keys", below + ".keys.npy", "|u1", {count, static_cast<std::int64_t>(kUuidBytes)}, bytes));
    return;
  }
  shard.files.push_back(put("keys", below + ".keys.npy", "|u1", {std::ssize(bytes)}, bytes));
  shard.files.push_back(
      put("key_offsets", below + ".key_offsets.npy", "<i8", {count + 1}, std::as_bytes(std::span(offsets))));
}

void OutputFolder::write(const OutputType& type, int partition, std::int64_t number, std::int64_t first,
                         std::int64_t count, const std::byte* rows) {
  const OriginalIds all = dataset_.original_ids(type.node_type, partition);
  std::vector<std::int64_t> ids;
  std::vector<std::byte> kept;
  const auto row_bytes = static_cast<std::size_t>(type.width) *
                         (options_.type == ElementType::kInt64 ? sizeof(std::int64_t) : sizeof(float));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t id = all.first[(first + i) * all.stride];
    if (id < 0 || id >= dataset_.num_nodes(type.node_type))
      throw Error(ErrorCode::kCorrupt, dataset_.folder().string() +
                                           ": an original id that is no node; run hopfeed-partition verify");
    if (type.wanted != nullptr && !(*type.wanted)[static_cast<std::size_t>(id)]) continue;
    ids.push_back(id);
    if (type.wanted != nullptr) {
      const std::byte* const row = rows + static_cast<std::size_t>(i) * row_bytes;
      kept.insert(kept.end(), row, row + row_bytes);
    }
  }
  if (type.wanted != nullptr) rows = kept.data();
  const NodeTypeMeta& node = dataset_.meta().node_types[static_cast<std::size_t>(type.node_type)];
  const std::string below =
      fmt::format("{}/{}/part-{:04d}-{:05d}", options_.name, node.name, partition, number);
  Shard shard{.node_type = type.node_type, .partition = partition, .rows = std::ssize(ids), .files = {}};
  if (options_.type == ElementType::kFloat16) require_float16(rows, ids, type.width);
  const std::vector<std::byte> stored =
      converted(rows, ids.size() * static_cast<std::size_t>(type.width), options_.type);
  shard.files.push_back(
      put("rows", below + ".npy", npy_descr(options_.type), {shard.rows, type.width}, stored));
  shard.files.push_back(put("ids", below + ".ids.npy", "<i8", {shard.rows}, std::as_bytes(std::span(ids))));
  put_keys(shard, below, ids);
  rows_ += shard.rows;
  shards_.push_back(std::move(shard));
}

std::string OutputFolder::manifest() const {
  nlohmann::json types = nlohmann::json::array(), shards = nlohmann::json::array();
  for (const OutputType& type : types_) {
    const NodeTypeMeta& node = dataset_.meta().node_types[static_cast<std::size_t>(type.node_type)];
    std::int64_t rows = 0;
    for (const Shard& shard : shards_) rows += shard.node_type == type.node_type ? shard.rows : 0;
    const std::int64_t chosen =
        type.wanted == nullptr ? node.count : std::count(type.wanted->begin(), type.wanted->end(), true);
    nlohmann::json keys = nullptr;
    if (keys_[static_cast<std::size_t>(type.node_type)]) keys = to_string(node.keys.type);
    types.push_back({{"name", node.name},
                     {"width", type.width},
                     {"rows", rows},
                     {"chosen", chosen},
                     {"count", node.count},
                     {"keys", std::move(keys)}});
  }
  for (const Shard& shard : shards_) {
    nlohmann::json files = nlohmann::json::object();
    for (const File& file : shard.files)
      files[file.kind] = {
          {"path", file.path}, {"bytes", file.bytes}, {"xxh3", fmt::format("{:016x}", file.xxh3)}};
    shards.push_back(
        {{"output", options_.name},
         {"node_type", dataset_.meta().node_types[static_cast<std::size_t>(shard.node_type)].name},
         {"partition", shard.partition},
         {"rows", shard.rows},
         {"files", std::move(files)}});
  }
  return json_text({{"format", "hopfeed-results"},
                    {"version", 1},
                    {"run", to_text(run_)},
                    {"signature", options_.signature},
                    {"partitions", maker()["partitions"]},
                    {"dataset", dataset_.meta().name},
                    {"fingerprint", dataset_.meta().fingerprint},
                    {"dtype", to_string(options_.type)},
                    {"file_format", "npy"},
                    {"outputs", {{{"name", options_.name}, {"node_types", std::move(types)}}}},
                    {"shards", std::move(shards)},
                    {"torch", options_.torch},
                    {"processor", options_.processor}},
                   1);
}

void OutputFolder::finish() {
  AtomicFile file(options_.folder / kManifest);
  file.write(manifest());
  file.commit();
  std::error_code error;
  fs::remove(options_.folder / kBegun, error);
  finished_ = true;
}

}  // namespace hopfeed
