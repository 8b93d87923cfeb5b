// A batch made in memory for tests: dataset, seeds and maker in one line, the block owned.
#pragma once
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "core/batch/batch_view.h"
#include "core/maker/batch_maker.h"

namespace hopfeed::testing {

struct Block {
  struct Free {
    void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  std::unique_ptr<std::byte[], Free> bytes;
  std::size_t size = 0;
  BatchView view() const { return BatchView({bytes.get(), size}); }
};

inline Block make_block(BatchMaker& maker, const BatchKey& key) {
  Block block;
  block.size = maker.sample(key);
  block.bytes.reset(static_cast<std::byte*>(::operator new[](block.size, std::align_val_t{64})));
  std::fill_n(block.bytes.get(), block.size,
              std::byte{0xA5});  // a byte that the maker forgets shows in the digest
  maker.write({block.bytes.get(), block.size});
  return block;
}

struct SeedOrder {
  std::vector<std::int64_t> seeds;  // original ids
  bool shuffle = false;
};

/// The batch of all `seeds` in one.
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

/// The batch of all links of the options' edge type in one.
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
