// See results_folder.h. What a manifest says is checked before anything goes by it; docs/formats.md has its
// fields.
#include "partition_tool/gather/results_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <new>
#include <nlohmann/json.hpp>

#include "core/base/json_fields.h"
#include "core/base/json_text.h"
#include "core/base/limits.h"
#include "core/dataset/corrupt_file.h"

namespace hopfeed {
namespace fs = std::filesystem;
using nlohmann::json;
namespace {

constexpr const char* kManifest = "manifest.json";
constexpr const char* kFormat = "hopfeed-results";
constexpr std::int64_t kVersion = 1;
constexpr std::size_t kMaxManifestBytes = std::size_t{1} << 30;
constexpr const char* kRemedy = "restore it, or compute the results anew";
constexpr std::string_view kTypes[] = {"float16", "float32", "float64", "int64"};

json read_manifest(const fs::path& folder) {
  const fs::path path = folder / kManifest;
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    throw Error(ErrorCode::kNotFound,
                fmt::format("{} holds no results: there is no {}, which is written last", folder.string(),
                            kManifest));
  json manifest = parse_json(read_text_file(path, kMaxManifestBytes));
  const auto format = manifest.is_object() ? manifest.find("format") : manifest.end();
  if (!manifest.is_object() || format == manifest.end() || *format != kFormat)
    corrupt_file(path, "it is no manifest of results, or damaged");
  const JsonFields fields(manifest, path.string(), ErrorCode::kCorrupt);
  if (const std::int64_t version = fields.whole("version", 0, INT64_MAX); version != kVersion)
    throw Error(ErrorCode::kVersion,
                fmt::format("{} has version {}; this hopfeed reads {}", path.string(), version, kVersion));
  return manifest;
}

/// The object of the list that has this name; of a list of one, also where no name is given.
const json& chosen(const json& list, const std::string& name, const fs::path& folder, const char* what,
                   const char* option) {
  std::vector<std::string> names;
  const json* found = nullptr;
  for (const json& one : list) {
    names.push_back(JsonFields(one, (folder / kManifest).string(), ErrorCode::kCorrupt).text("name"));
    if (names.back() == name) found = &one;
  }
  if (found) return *found;
  if (name.empty() && names.size() == 1) return list.front();
  throw Error(ErrorCode::kNotFound, name.empty()
                                        ? fmt::format("{} has the {}s {}; choose one ({})", folder.string(),
                                                      what, fmt::join(names, ", "), option)
                                        : fmt::format("{} has no {} '{}'; it has {} ({})", folder.string(),
                                                      what, name, fmt::join(names, ", "), option));
}

/// Of a file in the folder: no path of a manifest leads out of it.
ResultsFile file_of(const json& described, const fs::path& folder) {
  const std::string manifest = (folder / kManifest).string();
  const JsonFields fields(described, manifest, ErrorCode::kCorrupt);
  const fs::path path = fields.text("path");
  if (path.empty() || path.is_absolute() || std::ranges::find(path, fs::path("..")) != path.end())
    corrupt_file(manifest, fmt::format("'{}' is no file of the folder", json_shown(fields.at("path"))));
  const std::string digits = fields.text("xxh3");
  std::uint64_t sum = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), sum, 16);
  if (digits.size() != 16 || error != std::errc{} || end != digits.data() + digits.size())
    corrupt_file(manifest, fmt::format("{} has no checksum", path.string()));
  return {.path = folder / path,
          .bytes = static_cast<std::uint64_t>(fields.whole("bytes", 0, INT64_MAX)),
          .xxh3 = sum};
}

ResultsShard shard_of(const json& described, const fs::path& folder) {
  const JsonFields fields(described, (folder / kManifest).string(), ErrorCode::kCorrupt);
  ResultsShard shard{.rows = fields.whole("rows", 0, kMaxNodes)};
  const json& files = fields.at("files");
  if (!files.is_object()) corrupt_file(folder / kManifest, "a shard's files are not described");
  for (const auto& [kind, file] : files.items()) shard.files[kind] = file_of(file, folder);
  return shard;
}

}  // namespace

const ResultsFile& ResultsShard::file(const std::string& kind) const {
  const auto found = files.find(kind);
  if (found != files.end()) return found->second;
  const std::string some = files.empty() ? "a shard" : files.begin()->second.path.string();
  throw Error(ErrorCode::kCorrupt,
              fmt::format("the manifest has no file of {} beside {}; {}", kind, some, kRemedy));
}

ResultsFolder read_results_folder(const fs::path& folder, const std::string& output,
                                  const std::string& node_type) {
  const json manifest = read_manifest(folder);
  const std::string path = (folder / kManifest).string();
  const JsonFields fields(manifest, path, ErrorCode::kCorrupt);
  const json& chosen_output = chosen(fields.list("outputs"), output, folder, "output", "--output");
  const json& node =
      chosen(JsonFields(chosen_output, path, ErrorCode::kCorrupt).list("node_types", kMaxTypes), node_type,
             folder, "node type", "--node-type");
  const JsonFields of(node, path, ErrorCode::kCorrupt);
  ResultsFolder results{.folder = folder,
                        .run = fields.text("run"),
                        .fingerprint = fields.text("fingerprint"),
                        .output = chosen_output["name"],
                        .node_type = node["name"],
                        .dtype = fields.text("dtype"),
                        .width = of.whole("width", 1, kMaxRowBytes),
                        .rows = of.whole("rows", 0, kMaxNodes),
                        .count = of.whole("count", 0, kMaxNodes)};
  if (fields.text("file_format") == "parquet")
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{0} holds Parquet, and gather takes npy: write the results as npy, or let a "
                            "reader of Parquet order them (DuckDB: FROM '{0}/{1}/{2}/*.parquet' ORDER BY id)",
                            folder.string(), results.output, results.node_type));
  if (std::ranges::find(kTypes, results.dtype) == std::end(kTypes))
    corrupt_file(path, fmt::format("its dtype is '{}'", results.dtype));
  if (of.has("chosen")) results.chosen = of.whole("chosen", results.rows, results.count);
  if (fields.has("signature")) results.signature = fields.text("signature");
  if (of.has("keys") && !of.at("keys").is_null()) results.keys = key_type_from(of.text("keys"));
  std::int64_t rows = 0;
  for (const json& shard : fields.list("shards")) {
    const JsonFields whose(shard, path, ErrorCode::kCorrupt);
    if (whose.text("output") != results.output || whose.text("node_type") != results.node_type) continue;
    results.shards.push_back(shard_of(shard, folder));
    rows += results.shards.back().rows;
  }
  if (rows != results.rows)
    corrupt_file(path, fmt::format("the shards of '{}' have {} rows and not {}; {}", results.node_type, rows,
                                   results.rows, kRemedy));
  return results;
}

void require_same_results(const ResultsFolder& first, const ResultsFolder& second) {
  const auto require = [&](const char* what, const auto& a, const auto& b) {
    if (a != b)
      throw Error(
          ErrorCode::kInvalid,
          fmt::format("{} and {} are not of one run: the {} is {} there and {} here; name the folders "
                      "that one run has written",
                      first.folder.string(), second.folder.string(), what, a, b));
  };
  require("dataset's fingerprint", first.fingerprint, second.fingerprint);
  require("output", first.output, second.output);
  require("node type", first.node_type, second.node_type);
  require("number of nodes", first.count, second.count);
  require("type of the rows", first.dtype, second.dtype);
  require("width", first.width, second.width);
  require("run", first.run, second.run);
  require("signature", first.signature, second.signature);
}

ShardArray::ShardArray(const ResultsFile& file, ElementType type, const std::vector<std::int64_t>& shape)
    : path_(file.path), wanted_(file.xxh3) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path_, error);
  if (error) throw Error(ErrorCode::kCorrupt, fmt::format("{} is gone; {}", path_.string(), kRemedy));
  if (size != file.bytes)
    throw Error(ErrorCode::kCorrupt, fmt::format("{} has {} bytes and was written with {}; {}",
                                                 path_.string(), size, file.bytes, kRemedy));
  array_ = NpyArray(path_);
  const NpyHeader& header = array_.header();
  const bool fits = std::ranges::equal(header.shape, shape, [](std::int64_t there, std::int64_t wanted) {
    return wanted < 0 || there == wanted;
  });
  if (!fits || header.descr != npy_descr(type))
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{} is damaged: it has elements {} in the shape [{}]; {}", path_.string(),
                            header.descr, fmt::join(header.shape, ", "), kRemedy));
  elements_ = array_.bytes();
  if (!hash_) throw std::bad_alloc();
  XXH3_64bits_reset(hash_.get());
  XXH3_64bits_update(hash_.get(), elements_.data() - header.data_offset, header.data_offset);
  if (elements_.empty()) compare();
}

std::span<const std::byte> ShardArray::next(std::size_t bytes) {
  const std::span<const std::byte> found = elements_.subspan(at_, bytes);
  XXH3_64bits_update(hash_.get(), found.data(), found.size());
  at_ += bytes;
  if (bytes > 0 && at_ == elements_.size()) compare();
  return found;
}

void ShardArray::compare() {
  if (XXH3_64bits_digest(hash_.get()) != wanted_)
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{} is damaged: its checksum is another; {}", path_.string(), kRemedy));
}

}  // namespace hopfeed
