// See split_arrays.h.
#include "partition_tool/split_arrays.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "core/base/error.h"
#include "core/dataset/id_at.h"
#include "core/dataset/id_ranges.h"

namespace hopfeed {
namespace {

constexpr std::size_t kBlockEntries = 1 << 16;

using PathOf = std::function<std::string(int file)>;

/// An int64 array on its way into files that each have a range of its entries: one for all, or one for each
/// partition.
class RangedFiles {
 public:
  /// `width` 1: of one dimension.
  RangedFiles(DatasetWriter& writer, PathOf path, IdRanges ranges, std::int64_t width)
      : writer_(writer), path_(std::move(path)), ranges_(ranges), width_(width) {}
  /// `numbers` are whole entries.
  void write(std::span<const std::int64_t> numbers) {
    while (!numbers.empty()) {
      if (left_ == 0) {
        next_file();
        continue;
      }
      const auto taken = static_cast<std::size_t>(std::min(left_, std::ssize(numbers) / width_));
      file_->write(numbers.first(taken * static_cast<std::size_t>(width_)));
      left_ -= static_cast<std::int64_t>(taken);
      numbers = numbers.subspan(taken * static_cast<std::size_t>(width_));
    }
  }
  void close() {
    while (opened_ < ranges_.partitions) next_file();
    close_file();
  }

 private:
  void close_file() {
    if (file_) writer_.close(path_(opened_ - 1), std::move(*file_));
    file_.reset();
  }
  void next_file() {
    close_file();
    if (opened_ == ranges_.partitions)
      throw Error(ErrorCode::kInvalid, path_(0) + " and those behind it get more entries than were promised");
    left_ = ranges_.size(opened_);
    std::vector<std::int64_t> shape{left_};
    if (width_ > 1) shape.push_back(width_);
    file_ =
        std::make_unique<NpyWriter>(writer_.open(path_(opened_++), npy_descr(ElementType::kInt64), shape));
  }

  DatasetWriter& writer_;
  const PathOf path_;
  const IdRanges ranges_;
  const std::int64_t width_;
  std::unique_ptr<NpyWriter> file_;
  int opened_ = 0;
  std::int64_t left_ = 0;  // entries of the open one that are to come
};

/// Writes entries of original ids; with sharded ids their dataset ids come behind them.
class IdEntries {
 public:
  /// `orders` of the types whose ids an entry has.
  IdEntries(const SplitWriting& out, std::vector<const NodeOrder*> orders, std::int64_t count, PathOf whole,
            PathOf shard)
      : orders_(std::move(orders)),
        sharded_(out.meta.sharded_ids),
        files_(out.writer, sharded_ ? std::move(shard) : std::move(whole),
               {.count = count, .partitions = sharded_ ? out.meta.partitions : 1},
               std::ssize(orders_) * (sharded_ ? 2 : 1)) {}

  void write(std::span<const std::int64_t> originals) {
    if (!sharded_) return files_.write(originals);
    const std::size_t ids = orders_.size();
    for (; !originals.empty();
         originals = originals.subspan(std::min(ids * kBlockEntries, originals.size()))) {
      const auto block = originals.first(std::min(ids * kBlockEntries, originals.size()));
      entries_.clear();
      for (std::size_t i = 0; i < block.size(); i += ids) {
        entries_.insert(entries_.end(), block.begin() + static_cast<std::ptrdiff_t>(i),
                        block.begin() + static_cast<std::ptrdiff_t>(i + ids));
        for (std::size_t k = 0; k < ids; ++k)
          entries_.push_back(std::visit([v = static_cast<std::size_t>(block[i + k])](
                                            const auto& new_ids) -> std::int64_t { return new_ids[v]; },
                                        orders_[k]->new_ids));
      }
      files_.write(entries_);
    }
  }
  void close() { files_.close(); }

 private:
  const std::vector<const NodeOrder*> orders_;
  const bool sharded_;
  RangedFiles files_;
  std::vector<std::int64_t> entries_;
};

/// The hash of an array of links, as it passes.
class LinkHash {
 public:
  LinkHash() : hash_(XXH3_createState(), &XXH3_freeState) { XXH3_128bits_reset(hash_.get()); }
  void add(std::span<const std::int64_t> numbers) {
    XXH3_128bits_update(hash_.get(), numbers.data(), numbers.size_bytes());
  }
  XXH128_hash_t digest() const { return XXH3_128bits_digest(hash_.get()); }

 private:
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash_;
};

/// Labels or times of links.
struct LinkNumbers {
  RangedFiles files;
  LinkHash hash;
  std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
  void write(std::span<const std::int64_t> numbers) {
    files.write(numbers), hash.add(numbers);
    for (const std::int64_t number : numbers) smallest = std::min(smallest, number);
  }
};

}  // namespace

void write_splits(const SplitWriting& out, int node_type) {
  const NodeTypeMeta& node = out.meta.node_types[node_type];
  for (const auto& [name, ids] : out.graph.nodes[node_type].splits) {
    IdEntries file(
        out, {&out.orders[node_type]}, std::ssize(ids), [&](int) { return split_path(node, name); },
        [&](int p) { return split_shard_path(p, node, name); });
    file.write(ids);
    file.close();
    out.fingerprint.add_split(node_type, name, ids);
  }
}

void write_links(const SplitWriting& out, int edge_type, const Progress& progress) {
  using enum Fingerprint::LinkArray;
  const RawEdges& edges = out.graph.edges[edge_type];
  EdgeTypeMeta& edge = out.meta.edge_types[edge_type];
  const bool sharded = out.meta.sharded_ids;
  for (const auto& [name, links] : edges.splits) {
    const std::string step = "Writing edge split " + name;
    IdEntries pairs(
        out, {&out.orders[edges.src_type], &out.orders[edges.dst_type]}, links.count,
        [&](int) { return link_pairs_path(edge, name); },
        [&](int p) { return link_pairs_shard_path(p, edge, name); });
    LinkHash hash;
    const auto numbers = [&](bool there, auto whole, auto shard) -> std::unique_ptr<LinkNumbers> {
      if (!there) return nullptr;
      const PathOf path = [=, &edge, &name](int p) {
        return sharded ? shard(p, edge, name) : whole(edge, name);
      };
      const IdRanges ranges{.count = links.count, .partitions = sharded ? out.meta.partitions : 1};
      return std::unique_ptr<LinkNumbers>(new LinkNumbers{.files{out.writer, path, ranges, 1}, .hash{}});
    };
    const auto labels = numbers(links.has_labels, link_labels_path, link_labels_shard_path),
               times = numbers(links.has_times, link_times_path, link_times_shard_path);
    std::int64_t done = 0;
    links.read(edges, [&](const LinkBlock& block) {
      pairs.write(block.pairs);
      hash.add(block.pairs);
      if (labels) labels->write(block.labels);
      if (times) times->write(block.times);
      done += std::ssize(block.pairs) / 2;
      progress(
          {step.c_str(), "links", static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(links.count)});
    });
    pairs.close();
    out.fingerprint.add_links(edge_type, name, kPairs, hash.digest());
    if (labels)
      labels->files.close(), out.fingerprint.add_links(edge_type, name, kLabels, labels->hash.digest());
    if (labels && sharded) edge.smallest_labels[name] = links.count > 0 ? labels->smallest : 0;
    if (times) times->files.close(), out.fingerprint.add_links(edge_type, name, kTimes, times->hash.digest());
  }
}

}  // namespace hopfeed
