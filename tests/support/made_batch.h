// Makes a batch in memory for tests: dataset, seeds and maker in one line, the block owned.
#pragma once
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "core/batch/aligned_block.h"
#include "core/batch/batch_view.h"
#include "core/maker/batch_maker.h"

namespace hopfeed::testing {

struct Block {
  AlignedBlock memory;
  std::size_t size() const { return memory.bytes().size(); }
  BatchView view() const { return BatchView(memory.bytes()); }
};

inline Block make_block(BatchMaker& maker, const BatchKey& key) {
  Block block{.memory = AlignedBlock(maker.sample(key))};
  // A byte that the maker forgets shows in the digest.
  std::ranges::fill(block.memory.bytes(), std::byte{0xA5});
  maker.write(block.memory.bytes());
  return block;
}

struct SeedOrder {
  std::vector<std::int64_t> seeds;  // original ids
  bool shuffle = false;
};

/// Returns the batch of all `seeds` in one.
inline Block make_batch(const Dataset& dataset, const SeedOrder& seeds, const BatchOptions& options,
                        std::uint64_t seed = 1) {
  const NodeList list(seeds.seeds, {.node_type = 0, .shuffle = seeds.shuffle});
  BatchMaker maker(dataset, list, options);
  return make_block(maker, {.seed = seed, .epoch = 0, .first = 0, .count = list.size()});
}

struct LinkOrder {
  std::vector<std::int64_t> pairs;  // source, destination, source, ...
  std::vector<std::int64_t> labels = {}, times = {};
  bool shuffle = false;
};

/// Returns the batch of all links of the options' edge type in one.
inline Block make_link_batch(const Dataset& dataset, const LinkOrder& links, const BatchOptions& options,
                             std::uint64_t seed = 1) {
  const LinkList list(links.pairs, {.edge_type = dataset.meta().edge_type(options.link.edge_type),
                                    .shuffle = links.shuffle,
                                    .labels = links.labels,
                                    .times = links.times});
  BatchMaker maker(dataset, list, options);
  return make_block(maker, {.seed = seed, .epoch = 0, .first = 0, .count = list.size()});
}

inline std::vector<std::int64_t> ints(const ArrayView& array) {
  const auto values = array.as<std::int64_t>();
  return {values.begin(), values.end()};
}
inline std::vector<std::int64_t> ints(std::span<const std::int64_t> values) {
  return {values.begin(), values.end()};
}
inline std::vector<std::int64_t> source_row(const BatchView& batch) {
  const auto all = batch.edge_index().as<std::int64_t>();
  return {all.begin(), all.begin() + batch.num_edges()};
}
inline std::vector<std::int64_t> target_row(const BatchView& batch) {
  const auto all = batch.edge_index().as<std::int64_t>();
  return {all.begin() + batch.num_edges(), all.end()};
}

}  // namespace hopfeed::testing
