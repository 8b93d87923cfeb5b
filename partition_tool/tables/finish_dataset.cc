// See finish_dataset.h.
#include "partition_tool/tables/finish_dataset.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <string_view>
#include <utility>

#include "core/base/atomic_file.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/parallel_ranges.h"
#include "core/dataset/dataset_writer.h"
#include "core/dataset/npy.h"
#include "partition_tool/tables/dataset_draft.h"
#include "partition_tool/tables/shard_folder.h"

namespace hopfeed {
namespace fs = std::filesystem;
namespace {

struct ShardFile {
  fs::path shard;
  FileMeta file;
};

/// The arrays of ids and splits where every machine has all of them; labels of links where they are `there`.
std::vector<std::string> whole_id_files(const DatasetMeta& meta,
                                        const std::map<std::string, ShardFile>& there) {
  std::vector<std::string> files;
  for (const NodeTypeMeta& node : meta.node_types) {
    files.push_back(new_ids_path(node));
    if (meta.partitions > 1) files.push_back(all_original_ids_path(node));
    for (const auto& [split, count] : node.splits) files.push_back(split_path(node, split));
  }
  for (const EdgeTypeMeta& edge : meta.edge_types) {
    for (const auto& [split, count] : edge.splits) {
      files.push_back(link_pairs_path(edge, split));
      if (std::string labels = link_labels_path(edge, split); there.contains(labels))
        files.push_back(std::move(labels));
    }
  }
  return files;
}

/// Those of sharded ids, which are made of them.
std::vector<std::string> sharded_id_files(const DatasetMeta& meta,
                                          const std::map<std::string, ShardFile>& there) {
  std::vector<std::string> files;
  for (int p = 0; p < meta.partitions; ++p) {
    for (const NodeTypeMeta& node : meta.node_types) {
      for (const auto path : {new_ids_shard_path, remote_ids_path, id_buckets_path})
        files.push_back(path(p, node));
      for (const auto& [split, count] : node.splits) files.push_back(split_shard_path(p, node, split));
    }
    for (const EdgeTypeMeta& edge : meta.edge_types) {
      for (const auto& [split, count] : edge.splits) {
        files.push_back(link_pairs_shard_path(p, edge, split));
        if (there.contains(link_labels_path(edge, split)))
          files.push_back(link_labels_shard_path(p, edge, split));
      }
    }
  }
  return files;
}

/// All arrays that a dataset of this draft has.
std::vector<std::string> wanted_files(const DatasetMeta& meta,
                                      const std::map<std::string, ShardFile>& there) {
  std::vector<std::string> wanted =
      meta.sharded_ids ? sharded_id_files(meta, there) : whole_id_files(meta, there);
  for (const NodeTypeMeta& node : meta.node_types) {
    if (node.has_keys()) wanted.push_back(keys_path(node));
    if (node.keys.type == KeyType::kString) wanted.push_back(key_offsets_path(node));
    for (int p = 0; p < meta.partitions; ++p) {
      wanted.push_back(hotness_path(p, node));
      if (!meta.has_rows(node)) wanted.push_back(original_ids_path(p, node));
      for (const AttrMeta& attr : node.attrs) wanted.push_back(attr_path(p, node, attr.name));
    }
  }
  for (const EdgeTypeMeta& edge : meta.edge_types) {
    for (const std::string& time : edge.times) wanted.push_back(time_bounds_path(edge, time));
    for (int p = 0; p < meta.partitions; ++p) {
      wanted.push_back(rows_path(p, edge));
      wanted.push_back(indices_path(p, edge));
      if (edge.has_edge_ids) wanted.push_back(edge_ids_path(p, edge));
      for (const AttrMeta& attr : edge.attrs) wanted.push_back(edge_attr_path(p, edge, attr.name));
      for (const std::string& weight : edge.weights) wanted.push_back(alias_path(p, edge, weight));
      for (const std::string& time : edge.times)
        for (const auto path : {time_order_path, times_path, time_codes_path, time_indices_path})
          wanted.push_back(path(p, edge, time));
      if (edge.has_by_id) wanted.push_back(by_id_path(p, edge));
    }
  }
  return wanted;
}

class Finish {
 public:
  Finish(DatasetMeta draft, const FinishOptions& options)
      : meta_(std::move(draft)), draft_(draft_name(meta_)), options_(options) {}

  FinishResult run() {
    for (const fs::path& shard : options_.shards) add(shard);
    const std::vector<std::string> wanted = wanted_files(meta_, files_);
    if (meta_.sharded_ids) count_shards_of_ids();
    for (const std::string& path : wanted)
      if (!files_.contains(path)) throw Error(ErrorCode::kNotFound, "no shard has the array " + path);
    const std::set<std::string_view> known(wanted.begin(), wanted.end());
    for (const auto& [path, file] : files_)
      require_valid(known.contains(path),
                    fmt::format("the shard {} has the array {}, which the draft does not know",
                                file.shard.string(), path));
    compare();
    DatasetWriter writer(options_.folder, {.overwrite = options_.overwrite});
    for (const std::string& path : wanted) {
      const ShardFile& found = files_.at(path);
      writer.adopt(found.shard / path, path, found.file);
    }
    if (!options_.tables.empty()) {
      AtomicFile file(writer.temporary_folder() / "tables.json", "", Sync::kYes);
      file.write(options_.tables);
      file.commit();
    }
    meta_.made_by = options_.made_by;
    meta_.fingerprint = fingerprint_.finish(meta_);
    writer.commit(meta_);
    return {.meta = std::move(meta_), .nonfinite = std::move(nonfinite_)};
  }

 private:
  /// Notes in the manifest what only the shards know, and leaves out the arrays that they were made of.
  void count_shards_of_ids() {
    const auto open = [&](const std::string& path) {
      const auto found = files_.find(path);
      if (found == files_.end()) throw Error(ErrorCode::kNotFound, "no shard has the array " + path);
      return NpyArray(found->second.shard / path, HugePages::kNever);
    };
    for (NodeTypeMeta& node : meta_.node_types)
      for (int p = 0; p < meta_.partitions; ++p)
        node.remote_sources[static_cast<std::size_t>(p)] = open(remote_ids_path(p, node)).header().shape[0];
    for (EdgeTypeMeta& edge : meta_.edge_types) {
      for (const auto& [split, count] : edge.splits) {
        if (!files_.contains(link_labels_path(edge, split))) continue;
        const NpyArray labels = open(link_labels_path(edge, split));
        const std::span<const std::int64_t> numbers = labels.as<std::int64_t>();
        edge.smallest_labels[split] = numbers.empty() ? 0 : *std::ranges::min_element(numbers);
      }
    }
    for (const std::string& path : whole_id_files(meta_, files_)) files_.erase(path);
  }

  void add(const fs::path& folder) {
    const Shard shard = ShardFolder::read(folder);
    require_valid(shard.draft == draft_,
                  fmt::format("the shard {} is of another draft than this dataset; remove it, and it is made "
                              "again",
                              folder.string()));
    fingerprint_.add(shard.fingerprint);
    meta_.cut.edges_cut += shard.edges_cut;
    for (const auto& [attr, count] : shard.nonfinite) nonfinite_[attr] += count;
    for (const auto& [path, file] : shard.files) {
      const auto [found, is_new] = files_.try_emplace(path, ShardFile{.shard = folder, .file = file});
      require_valid(is_new, fmt::format("the array {} is in two shards, {} and {}", path,
                                        found->second.shard.string(), folder.string()));
      total_ += file.bytes;
    }
    if (shard.key_digest.empty()) return;
    for (NodeTypeMeta& node : meta_.node_types)
      if (shard.files.contains(keys_path(node))) node.keys.digest = shard.key_digest;
  }

  /// All files are read once more: what a task wrote may have been damaged on its way here.
  void compare() {
    std::vector<std::pair<const std::string*, const ShardFile*>> all;
    for (const auto& [path, file] : files_) all.emplace_back(&path, &file);
    std::atomic<std::uint64_t> done = 0;
    std::atomic<std::size_t> next = 0;
    parallel_ranges(options_.threads, options_.threads, [&](int worker, std::int64_t, std::int64_t) {
      for (std::size_t i = next++; i < all.size(); i = next++) {
        const auto& [path, file] = all[i];
        const MappedFile found(file->shard / *path);
        const bool same = found.bytes().size() == file->file.bytes &&
                          XXH3_64bits(found.bytes().data(), found.bytes().size()) == file->file.xxh3;
        if (!same)
          throw Error(
              ErrorCode::kCorrupt,
              fmt::format("{} is not what its shard.json says; remove that shard, and it is made again",
                          found.path().string()));
        done += found.bytes().size();
        if (worker == 0 && options_.progress) options_.progress(done, total_);
      }
    });
  }

  DatasetMeta meta_;
  const std::string draft_;
  const FinishOptions& options_;
  std::map<std::string, ShardFile> files_;
  Fingerprint fingerprint_;
  std::map<std::string, std::int64_t> nonfinite_;
  std::uint64_t total_ = 0;
};

}  // namespace

FinishResult finish_dataset(DatasetMeta draft, const FinishOptions& options) {
  return Finish(std::move(draft), options).run();
}

}  // namespace hopfeed
