// See column_shard.h.
#include "partition_tool/tables/column_shard.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/atomic_file.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/dataset/node_keys.h"
#include "partition_tool/tables/attr_column.h"
#include "partition_tool/tables/dataset_draft.h"
#include "partition_tool/tables/shard_folder.h"

namespace hopfeed {
namespace {

class ColumnShard {
 public:
  ColumnShard(ArrowStream& stream, const DatasetMeta& draft, const ColumnShardOptions& options,
              const std::filesystem::path& folder)
      : stream_(stream), draft_(draft), options_(options), out_(folder, draft) {}

  void run() {
    if (options_.kind == "new_ids")
      write_ids(new_ids_path(node()));
    else if (options_.kind == "original_ids")
      write_ids(all_original_ids_path(node()));
    else if (options_.kind == "keys")
      write_keys();
    else if (options_.kind == "split")
      write_split();
    else if (options_.kind == "bounds")
      write_bounds();
    else if (options_.kind == "link_pairs")
      write_links(link_pairs_path(edge(), options_.name), Fingerprint::LinkArray::kPairs, 2);
    else if (options_.kind == "link_labels")
      write_links(link_labels_path(edge(), options_.name), Fingerprint::LinkArray::kLabels, 1);
    else
      throw Error(ErrorCode::kInvalid, "no column of a dataset is called '" + options_.kind + "'");
    out_.commit(std::move(shard_));
  }

 private:
  const NodeTypeMeta& node() const { return node_type_of(draft_, options_.type); }
  const EdgeTypeMeta& edge() const { return edge_type_of(draft_, options_.type); }

  void require_type(const ArrowType& wanted) const {
    const ArrowType& found = stream_.type(0);
    const bool fits = found.kind == wanted.kind && !found.is_list &&
                      (found.kind != ArrowType::Kind::kNumbers || found.element == wanted.element) &&
                      (found.kind != ArrowType::Kind::kFixedBytes || found.width == wanted.width);
    require_valid(fits, fmt::format("a column of {} holds {} in each row, and {} is wanted", options_.kind,
                                    to_string(found), to_string(wanted)));
  }
  void require_rows(std::int64_t wanted) const {
    require_valid(stream_.rows() == wanted, fmt::format("a column of {} has {} rows, and {} are wanted",
                                                        options_.kind, stream_.rows(), wanted));
  }

  void require_node(std::int64_t id) const {
    require_valid(id >= 0 && id < node().count,
                  fmt::format("a column of {} has the node {}, and node type '{}' has {}", options_.kind, id,
                              node().name, node().count));
  }
  /// Keys are looked up by halving: each is behind the one before it.
  void require_rises(bool rises, std::int64_t row) const {
    require_valid(rises,
                  fmt::format("key {} of node type '{}' is not behind the one before it", row, node().name));
  }

  /// Calls take(numbers) for each batch.
  template <class Take>
  void each_number(const Take& take) {
    require_type({});
    std::vector<std::int64_t> numbers;
    while (const std::optional<ArrowBatch> batch = stream_.next()) {
      numbers.resize(static_cast<std::size_t>(batch->rows()));
      stream_.column_of(*batch, 0).read(0, batch->rows(), std::as_writable_bytes(std::span(numbers)));
      take(std::span<const std::int64_t>(numbers));
    }
  }

  void write_ids(const std::string& path) {
    const ElementType type = node().new_id_type;
    NpyWriter file = out_.open(path, npy_descr(type), {node().count});
    std::vector<std::int32_t> narrow;
    each_number([&](std::span<const std::int64_t> ids) {
      for (const std::int64_t id : ids) require_node(id);
      if (type == ElementType::kInt64) return file.write<std::int64_t>(ids);
      narrow.assign(ids.begin(), ids.end());
      file.write<std::int32_t>(narrow);
    });
    require_rows(node().count);
    out_.close(path, std::move(file));
  }

  void write_split() {
    const auto found = node().splits.find(options_.name);
    require_valid(found != node().splits.end(), "the draft has no split '" + options_.name + "'");
    std::vector<std::int64_t> all;
    each_number([&](std::span<const std::int64_t> ids) {
      for (const std::int64_t id : ids) require_node(id);
      all.insert(all.end(), ids.begin(), ids.end());
    });
    require_rows(found->second);
    out_.write<std::int64_t>(split_path(node(), options_.name), all, {found->second});
    Fingerprint fingerprint;
    fingerprint.add_split(options_.type, options_.name, all);
    shard_.fingerprint = fingerprint.sums();
  }

  void write_bounds() {
    std::vector<std::int64_t> all;
    each_number(
        [&](std::span<const std::int64_t> times) { all.insert(all.end(), times.begin(), times.end()); });
    require_valid(
        std::ranges::find(edge().times, options_.name) != edge().times.end(),
        fmt::format("the draft has no time '{}' of edge type '{}'", options_.name, edge().folder()));
    require_time_bounds(options_.name, all);
    out_.write<std::int64_t>(time_bounds_path(edge(), options_.name), all, {std::ssize(all)});
  }

  /// An array of an edge split with `each` numbers a link: source and destination, or a label.
  void write_links(const std::string& path, Fingerprint::LinkArray array, std::int64_t each) {
    const auto found = edge().splits.find(options_.name);
    require_valid(
        found != edge().splits.end(),
        fmt::format("the draft has no edge split '{}' of edge type '{}'", options_.name, edge().folder()));
    const std::int64_t ends[2] = {draft_.node_types[draft_.edge_src_type(edge())].count,
                                  draft_.node_types[draft_.edge_dst_type(edge())].count};
    NpyWriter file = out_.open(path, npy_descr(ElementType::kInt64),
                               each == 1 ? std::vector{found->second} : std::vector{found->second, each});
    const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash(XXH3_createState(), &XXH3_freeState);
    XXH3_128bits_reset(hash.get());
    std::int64_t place = 0;
    each_number([&](std::span<const std::int64_t> numbers) {
      for (const std::int64_t number : numbers) {
        require_valid(each == 1 || (number >= 0 && number < ends[place % 2]),
                      fmt::format("link {} of edge split '{}' has the node {}, and there are {}",
                                  place / each, options_.name, number, ends[place % 2]));
        ++place;
      }
      file.write<std::int64_t>(numbers);
      XXH3_128bits_update(hash.get(), numbers.data(), numbers.size_bytes());
    });
    require_rows(found->second * each);
    out_.close(path, std::move(file));
    Fingerprint fingerprint;
    fingerprint.add_links(options_.type, options_.name, array, XXH3_128bits_digest(hash.get()));
    shard_.fingerprint = fingerprint.sums();
  }

  void write_keys() {
    KeyDigest digest;
    switch (node().keys.type) {
      case KeyType::kNone:
        throw Error(ErrorCode::kInvalid, "the draft has no keys of node type '" + node().name + "'");
      case KeyType::kInt64: {
        NpyWriter file = out_.open(keys_path(node()), npy_descr(ElementType::kInt64), {node().count});
        std::int64_t row = 0, last = 0;
        each_number([&](std::span<const std::int64_t> keys) {
          for (const std::int64_t key : keys) {
            require_rises(row == 0 || last < key, row);
            last = key;
            ++row;
          }
          file.write<std::int64_t>(keys);
          digest.add(std::as_bytes(keys));
        });
        require_rows(node().count);
        out_.close(keys_path(node()), std::move(file));
        break;
      }
      case KeyType::kUuid:
        write_uuids(digest);
        break;
      case KeyType::kString:
        write_strings(digest);
        break;
    }
    shard_.key_digest = digest.finish();
  }

  void write_uuids(KeyDigest& digest) {
    require_type({.kind = ArrowType::Kind::kFixedBytes, .width = kUuidBytes});
    NpyWriter file = out_.open(keys_path(node()), npy_descr(ElementType::kUint8), {node().count, kUuidBytes});
    std::vector<std::byte> keys;
    std::string last;
    while (const std::optional<ArrowBatch> batch = stream_.next()) {
      keys.resize(static_cast<std::size_t>(batch->rows()) * kUuidBytes);
      stream_.column_of(*batch, 0).read(0, batch->rows(), keys);
      for (std::int64_t i = 0; i < batch->rows(); ++i) {
        const std::string_view key(
            reinterpret_cast<const char*>(keys.data()) + static_cast<std::size_t>(i) * kUuidBytes,
            kUuidBytes);
        require_rises(last.empty() || last < key, stream_.rows() - batch->rows() + i);
        last = key;
      }
      file.write_bytes(keys);
      digest.add(keys);
    }
    require_rows(node().count);
    out_.close(keys_path(node()), std::move(file));
  }

  /// How many bytes they have is known at the end, and an array's length stands before it: so they lie in a
  /// file beside it first.
  void write_strings(KeyDigest& digest) {
    require_type({.kind = ArrowType::Kind::kText});
    NpyWriter offsets =
        out_.open(key_offsets_path(node()), npy_descr(ElementType::kInt64), {node().count + 1});
    const std::filesystem::path plain = out_.temporary_folder() / "keys.bytes";
    AtomicFile of_bytes(plain, "", Sync::kNo);
    std::int64_t bytes = 0, row = 0;
    std::string last, of_batch;
    while (const std::optional<ArrowBatch> batch = stream_.next()) {
      const ArrowColumn column = stream_.column_of(*batch, 0);
      of_batch.clear();
      for (std::int64_t i = 0; i < batch->rows(); ++i, ++row) {
        const std::string_view key = column.text(i);
        require_rises(row == 0 || last < key, row);
        last = key;
        offsets.write_one(bytes);
        of_batch += key;
        digest.add_string(key);
        bytes += std::ssize(key);
      }
      of_bytes.write(of_batch);
    }
    of_bytes.commit();
    offsets.write_one(bytes);
    require_rows(node().count);
    out_.close(key_offsets_path(node()), std::move(offsets));
    NpyWriter file = out_.open(keys_path(node()), npy_descr(ElementType::kUint8), {bytes});
    if (bytes > 0) file.write_bytes(MappedFile(plain).bytes());
    out_.close(keys_path(node()), std::move(file));
    std::filesystem::remove(plain);
  }

  ArrowStream& stream_;
  const DatasetMeta& draft_;
  const ColumnShardOptions& options_;
  ShardFolder out_;
  Shard shard_;
};

}  // namespace

void write_column_shard(ArrowStream& stream, const DatasetMeta& draft, const ColumnShardOptions& options,
                        const std::filesystem::path& folder) {
  if (!ShardFolder::is_there(folder)) ColumnShard(stream, draft, options, folder).run();
}

}  // namespace hopfeed
