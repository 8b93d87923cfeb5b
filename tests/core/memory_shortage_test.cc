// Memory that ends at any point of a batch: the batch fails, and once there is memory again the same sampler
// makes it, and those it has made before, as one that never was short of any. A worker may so be told of a
// shortage and go on.
#include <gtest/gtest.h>

#include <new>
#include <vector>

#include "core/base/scratch.h"
#include "core/maker/batch_maker.h"
#include "tests/core/all_kinds.h"
#include "tests/core/counted_allocations.h"

namespace hopfeed {
namespace {

constexpr BatchKey kSmall{.seed = 1, .epoch = 0, .first = 0, .count = 3},
    kLarge{.seed = 1, .epoch = 0, .first = 100, .count = 400};

using Bytes = std::vector<std::byte>;

Bytes batch_of(BatchMaker& maker, const BatchKey& key, ScratchArray<std::byte>& block) {
  const std::size_t size = maker.sample(key);
  maker.write({block.data(), size});
  return {block.data(), block.data() + size};
}

struct Expected {
  Bytes small, large;
};

/// How often memory ended in the middle of the large batch: a sampler's first, or `after_small`.
template <class MakeMaker>
int count_shortages(const MakeMaker& make_maker, const Expected& expected, bool after_small,
                    ScratchArray<std::byte>& block) {
  for (int after = 0;; ++after) {
    const auto maker = make_maker();
    if (after_small) batch_of(*maker, kSmall, block);
    bool failed = false;
    {
      const testing::MemoryEnds ends(after);
      try {
        maker->write({block.data(), maker->sample(kLarge)});
      } catch (const std::bad_alloc&) {
        failed = true;
      }
    }
    EXPECT_TRUE(batch_of(*maker, kLarge, block) == expected.large) << "ended after " << after << " requests";
    EXPECT_TRUE(batch_of(*maker, kSmall, block) == expected.small) << "ended after " << after << " requests";
    if (!failed || ::testing::Test::HasFailure()) return after;
  }
}

/// `make_maker()` makes a new one.
template <class MakeMaker>
void expect_to_outlive_shortages(const MakeMaker& make_maker) {
  ScratchArray<std::byte> block;
  block.reserve(make_maker()->max_block_bytes(kLarge.count));
  const auto whole = make_maker();
  const Expected expected{batch_of(*whole, kSmall, block), batch_of(*whole, kLarge, block)};
  for (const bool after_small : {false, true})
    EXPECT_GT(count_shortages(make_maker, expected, after_small, block), 3);
}

class MemoryShortage : public ::testing::TestWithParam<testing::Kind> {
 protected:
  void SetUp() override { testing::register_own_sampler(); }
  void expect_to_outlive(const Dataset& dataset, const BatchOptions& options) {
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < 500; ++i) ids.push_back(i % 400);  // some seeds repeat
    const NodeList seeds(ids, {});
    expect_to_outlive_shortages([&] { return std::make_unique<BatchMaker>(dataset, seeds, options); });
  }
  const testing::TempFolder folder_;
};

TEST_P(MemoryShortage, TheBatchIsMadeOnceThereIsMemory) {
  testing::write_all_kinds_graph(folder_.path() / "data", 3);
  expect_to_outlive(Dataset(folder_.path() / "data"), GetParam().options);
}

TEST_P(MemoryShortage, TheBatchOfSeveralTypesIsMadeOnceThereIsMemory) {
  if (GetParam().options.subgraph == Subgraph::kBidirectional)
    GTEST_SKIP() << "a bidirectional sample of several types needs a reverse of each; r1 has none here";
  testing::write_all_kinds_types(folder_.path() / "data", 3);
  expect_to_outlive(Dataset(folder_.path() / "data"), testing::of_types(GetParam().options));
}

INSTANTIATE_TEST_SUITE_P(Kinds, MemoryShortage, ::testing::ValuesIn(testing::all_kinds()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(MemoryShortageOfLinks, TheBatchIsMadeOnceThereIsMemory) {
  const testing::TempFolder folder;
  testing::write_all_kinds_types(folder.path() / "data", 3);
  const Dataset dataset(folder.path() / "data");
  std::vector<std::int64_t> pairs, times(500, 60);
  for (std::int64_t i = 0; i < 500; ++i) pairs.insert(pairs.end(), {i % 300, i % 400});
  const LinkList links(pairs, {.edge_type = dataset.meta().edge_type("r1"), .times = times});
  const NegativeOptions binary{.mode = NegativeMode::kBinary, .strict = true, .src_weight = "time"},
      triplet{.mode = NegativeMode::kTriplet, .amount = 3, .dst_weight = "time"};
  BatchOptions none{.fanouts = {5, 5}, .weight = "weight"}, pairs_drawn{.fanouts = {5, 5}},
      triplets{.fanouts = {5, 5}, .time = "time"};
  none.link = {.edge_type = "r1"};
  pairs_drawn.link = {.edge_type = "r1", .negatives = binary};
  triplets.link = {.edge_type = "r1", .negatives = triplet};
  for (const BatchOptions& options : {none, pairs_drawn, triplets})
    expect_to_outlive_shortages([&] { return std::make_unique<BatchMaker>(dataset, links, options); });
}

}  // namespace
}  // namespace hopfeed
