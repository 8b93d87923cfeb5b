// See shard_folder.h.
#include "partition_tool/tables/shard_folder.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/base/atomic_file.h"
#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/base/limits.h"
#include "core/base/temporary_owner.h"
#include "core/dataset/meta_json.h"
#include "partition_tool/tables/dataset_draft.h"

namespace hopfeed {
namespace fs = std::filesystem;
namespace {

constexpr const char* kName = "shard.json";

std::string hex64(std::uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace

ShardFolder::ShardFolder(const fs::path& folder, const DatasetMeta& draft)
    : target_(fs::absolute(folder).lexically_normal()), draft_(draft_name(draft)) {
  sweep_abandoned(target_);
  begin(temporary_beside(target_), Sync::kYes);
}

ShardFolder::~ShardFolder() {
  std::error_code ignored;  // the next writer sweeps
  if (!committed_) fs::remove_all(temporary_folder(), ignored);
}

bool ShardFolder::is_there(const fs::path& folder) { return fs::exists(folder / kName); }

void ShardFolder::commit(Shard shard) {
  nlohmann::json document = {{"checksum", "0000000000000000"},
                             {"fingerprint", {hex64(shard.fingerprint.low), hex64(shard.fingerprint.high)}},
                             {"draft", draft_},
                             {"edges_cut", shard.edges_cut},
                             {"nonfinite", nlohmann::json::object()},
                             {"files", nlohmann::json::object()}};
  for (const auto& [attr, count] : shard.nonfinite) document["nonfinite"][attr] = count;
  for (const auto& [path, file] : files())
    document["files"][path] = {{"bytes", file.bytes}, {"xxh3", hex64(file.xxh3)}};
  if (!shard.key_digest.empty()) document["key_digest"] = shard.key_digest;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(temporary_folder()))
    if (entry.is_directory()) sync_folder(entry.path());
  AtomicFile file(temporary_folder() / kName, "", Sync::kYes);
  file.write(seal_meta(json_text(document, 1) + "\n"));
  file.commit();
  if (std::rename(temporary_folder().c_str(), target_.c_str()) != 0) {  // never over a folder that has files
    if ((errno != EEXIST && errno != ENOTEMPTY) || !is_there(target_))
      throw_errno("cannot rename " + temporary_folder().string() + " to " + target_.string(), errno);
    return;  // the destructor removes this one
  }
  committed_ = true;
  sync_folder(target_.parent_path());
}

Shard ShardFolder::read(const fs::path& folder) {
  const fs::path path = folder / kName;
  const std::string text = read_text_file(path, kMaxMetaBytes);
  const nlohmann::json document = parse_json(text);
  if (document.is_discarded())
    throw Error(ErrorCode::kCorrupt, path.string() + " is no valid JSON: " + json_complaint(text));
  if (seal_meta(text) != text)
    throw Error(ErrorCode::kCorrupt,
                path.string() + " was changed after it was written; remove its folder, and it is made again");
  const MetaFields in(document, path.string(), "");
  Shard shard{.edges_cut = in.whole("edges_cut", 0, kMaxEdges)};
  const std::vector<std::string> sums = in.texts("fingerprint", 2);
  if (sums.size() != 2) in.fail("has a 'fingerprint' that is not two sums");
  const auto number = [&](const std::string& hex) {
    return in.child({{"sum", hex}}, "fingerprint").hex("sum");
  };
  shard.fingerprint = {.low = number(sums[0]), .high = number(sums[1])};
  const MetaFields nonfinite = in.child(in.at("nonfinite"), "nonfinite");
  for (const auto& [attr, count] : in.at("nonfinite").items())
    shard.nonfinite[attr] = nonfinite.whole(attr.c_str(), 0, INT64_MAX);
  for (const auto& [name, value] : in.at("files").items()) {
    const MetaFields file = in.child(value, "file " + name);
    shard.files[name] = {.bytes = static_cast<std::uint64_t>(file.whole("bytes", 0, INT64_MAX)),
                         .xxh3 = file.hex("xxh3")};
  }
  shard.draft = in.text("draft");
  if (in.has("key_digest")) shard.key_digest = in.text("key_digest");
  return shard;
}

}  // namespace hopfeed
