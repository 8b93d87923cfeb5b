// Makes the lists of remote sources (remote_ids.h) of a dataset with sharded ids from its other arrays, and
// compares them with these. A list goes to its file as it is made: what is held is a bit for each node of a
// type.
#pragma once
#include <atomic>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "core/base/parallel_ranges.h"
#include "core/dataset/array_folder.h"
#include "core/dataset/dataset_meta.h"
#include "core/dataset/dataset_writer.h"
#include "core/dataset/graph_view.h"
#include "core/dataset/id_at.h"
#include "core/dataset/npy.h"

namespace hopfeed {

/// NodeBits are some nodes of a type, by dataset id.
class NodeBits {
 public:
  explicit NodeBits(std::int64_t nodes) : words_(static_cast<std::size_t>((nodes + 63) / 64)) {}
  /// `ids` are in range. The result is the same with any number of threads.
  void add(const void* ids, ElementType type, std::int64_t count, int threads = 1) {
    parallel_ranges(threads, count, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto id = static_cast<std::uint64_t>(id_at(ids, type, i));
        const std::uint64_t bit = std::uint64_t{1} << id % 64;
        const std::atomic_ref<std::uint64_t> word(words_[id / 64]);
        if ((word.load(std::memory_order_relaxed) & bit) == 0) word.fetch_or(bit, std::memory_order_relaxed);
      }
    });
  }
  /// Takes [begin, end) out.
  void remove(std::int64_t begin, std::int64_t end) {
    for (std::int64_t id = begin; id < end; ++id) remove(id);
  }
  void remove(std::int64_t id) {
    words_[static_cast<std::size_t>(id / 64)] &= ~(std::uint64_t{1} << id % 64);
  }
  std::int64_t count() const {
    std::int64_t count = 0;
    for (const std::uint64_t word : words_) count += std::popcount(word);
    return count;
  }
  /// Calls `visit(id)` by rising id.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (std::size_t w = 0; w < words_.size(); ++w)
      for (std::uint64_t bits = words_[w]; bits != 0; bits &= bits - 1)
        visit(static_cast<std::int64_t>(w) * 64 + std::countr_zero(bits));
  }

 private:
  std::vector<std::uint64_t> words_;
};

/// OriginalIdFiles tell the original ids of all nodes of a type, in a folder that has all partitions.
class OriginalIdFiles {
 public:
  OriginalIdFiles(const std::filesystem::path& folder, const DatasetMeta& meta, const NodeTypeMeta& node);
  std::int64_t at(std::int64_t dataset_id) const {
    const auto p = static_cast<std::size_t>(partition_of(node_.partition_offsets, dataset_id));
    const OriginalIds& ids = ids_[p];
    return ids.first[(dataset_id - node_.partition_offsets[p]) * ids.stride];
  }

 private:
  const NodeTypeMeta& node_;
  std::vector<NpyArray> arrays_;  // [partition], as below
  std::vector<OriginalIds> ids_;
};

/// Returns the nodes of other partitions that the rows of this one have edges from.
NodeBits remote_sources(const std::filesystem::path& folder, const DatasetMeta& meta, int node_type,
                        int partition, int threads = 1);

/// Returns the original id of a dataset id.
using OriginalIdOf = std::function<std::int64_t(std::int64_t dataset_id)>;
/// Writes the list of a partition, or of a halo: `part` as the path functions take it.
void write_remote_ids(ArrayFolder& out, int part, const NodeTypeMeta& node, const NodeBits& sources,
                      const OriginalIdOf& original_of);
/// Writes the lists of all partitions and notes their sizes in `meta`, whose rows, edges and original ids
/// `writer` has finished. Tells how many lists of all are done.
void write_remote_ids(DatasetWriter& writer, DatasetMeta& meta, int threads,
                      const std::function<void(std::uint64_t done, std::uint64_t total)>& done);

/// Throws kCorrupt naming the file and its entry where the list of a part is another.
void check_remote_ids(const std::filesystem::path& folder, int part, const NodeTypeMeta& node,
                      const NodeBits& sources, const OriginalIdFiles& originals);

}  // namespace hopfeed
