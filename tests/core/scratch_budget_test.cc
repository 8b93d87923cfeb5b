// The bound of what batches are sampled with: it holds at every moment, and a maker that it has stopped in
// the middle of a batch makes the next ones as one that never was stopped.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/scratch.h"
#include "core/base/scratch_budget.h"
#include "core/maker/batch_maker.h"
#include "tests/core/all_kinds.h"
#include "tests/support/made_batch.h"

namespace hopfeed {
namespace {

constexpr const char* kKnobs = "lower batch_size or fanouts, or raise max_batch_memory";

std::shared_ptr<ScratchBudget> budget_of(std::uint64_t bytes) {
  return std::make_shared<ScratchBudget>(bytes, kKnobs);
}

/// What is thrown; empty: nothing.
template <class Call>
std::string no_space_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNoSpace) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  return "";
}

TEST(ScratchBudget, AnArrayGrowsAsFarAsTheBudgetGoesAndKeepsWhatItHas) {
  const auto budget = budget_of(3 * kHugePageBytes);
  {
    ScratchBudget::Share share(budget);
    const ScratchBudget::Scope scope(&share);
    ScratchArray<std::uint32_t> array;
    array.reserve(kHugePageBytes / 2 / sizeof(std::uint32_t));
    EXPECT_EQ(budget->taken(), array.bytes());
    array[7] = 77;
    array.reserve(kHugePageBytes / sizeof(std::uint32_t) + 1);  // half as much again would be too much
    EXPECT_LE(budget->taken(), budget->limit());
    const std::string said = no_space_of([&] { array.reserve(kHugePageBytes); });
    EXPECT_EQ(said,
              "a batch needs 8388608 bytes of scratch memory or more, and 6291456 bytes is the most; "
              "lower batch_size or fanouts, or raise max_batch_memory");
    EXPECT_EQ(array[7], 77u);
    EXPECT_EQ(budget->taken(), array.bytes());
  }
  EXPECT_EQ(budget->taken(), 0u) << "a share goes back at its end";
}

TEST(ScratchBudget, WithoutAScopeNothingIsCounted) {
  const auto budget = budget_of(kPageBytes);
  ScratchBudget::Share share(budget);
  { const ScratchBudget::Scope scope(&share); }
  ScratchArray<std::uint32_t> array;
  array.reserve(kHugePageBytes);
  EXPECT_EQ(budget->taken(), 0u);
}

TEST(ScratchBudget, ARefusalSaysWhatOtherBatchesHave) {
  const auto budget = budget_of(10'000);
  ScratchBudget::Share one(budget), other(budget);
  one.take(6'000);
  const std::string said = no_space_of([&] { other.take(5'000); });
  EXPECT_NE(said.find("a batch needs 5000 bytes"), std::string::npos) << said;
  EXPECT_NE(said.find("10000 bytes is the most, of which other batches have 6000 bytes"), std::string::npos)
      << said;
  other.take(4'000);
  EXPECT_EQ(budget->taken(), 10'000u);
}

class BoundedKinds : public ::testing::TestWithParam<testing::Kind> {
 protected:
  static void SetUpTestSuite() {
    testing::register_own_sampler();
    folder_ = new testing::TempFolder;
    testing::write_all_kinds_graph(folder_->path() / "data", 3);
  }
  static void TearDownTestSuite() { delete folder_; }
  inline static testing::TempFolder* folder_ = nullptr;
};

TEST_P(BoundedKinds, ABatchThatTheBudgetStops_IsMadeByTheSameMakerOnceThereIsMore) {
  const Dataset dataset(folder_->path() / "data");
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < 500; ++i) ids.push_back(i % 400);
  const NodeList seeds(ids, {});
  const BatchKey large{.seed = 1, .epoch = 0, .first = 0, .count = 500},
      small{.seed = 1, .epoch = 0, .first = 100, .count = 2};
  const auto digest = [](BatchMaker& maker, const BatchKey& key) {
    return testing::make_block(maker, key).view().digest();
  };
  BatchMaker whole(dataset, seeds, GetParam().options);
  const std::uint64_t of_large = digest(whole, large), of_small = digest(whole, small);
  int stopped = 0;
  for (std::uint64_t more = 0;; more += 64 << 10) {
    BatchMaker maker(dataset, seeds, GetParam().options);
    const auto budget = budget_of(maker.scratch_bytes() + more);
    maker.bound_scratch(budget);
    const std::string said = no_space_of([&] { EXPECT_EQ(digest(maker, large), of_large); });
    EXPECT_LE(budget->taken(), budget->limit());
    if (said.empty()) break;
    EXPECT_NE(said.find("max_batch_memory"), std::string::npos) << said;
    ++stopped;
    maker.bound_scratch(budget_of(std::uint64_t{1} << 40));
    EXPECT_EQ(digest(maker, small), of_small);
    EXPECT_EQ(digest(maker, large), of_large);
    if (HasFailure()) return;
  }
  EXPECT_GT(stopped, 0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, BoundedKinds, ::testing::ValuesIn(testing::all_kinds()),
                         [](const auto& info) { return std::string(info.param.name); });

// Each tree may reach the whole graph, sixteen hops deep.
TEST(ScratchBudget, AHugeDisjointBatch_IsRefusedBeforeItTakesMoreThanTheBudget) {
  const testing::TempFolder folder;
  testing::write_all_kinds_graph(folder.path() / "data", 3);
  const Dataset dataset(folder.path() / "data");
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < 20'000; ++i) ids.push_back(i % 500);
  const NodeList seeds(ids, {});
  BatchMaker maker(dataset, seeds, {.fanouts = std::vector<std::int64_t>(16, -1), .disjoint = true});
  const auto budget = budget_of(16 << 20);
  maker.bound_scratch(budget);
  const std::string said =
      no_space_of([&] { maker.sample({.seed = 1, .epoch = 0, .first = 0, .count = 20'000}); });
  EXPECT_NE(said.find("16 MiB is the most"), std::string::npos) << said;
  EXPECT_LE(budget->taken(), budget->limit());
}

TEST(ScratchBudget, NegativesOfABatchAreAskedForBeforeTheyAreDrawn) {
  const testing::TempFolder folder;
  testing::write_all_kinds_types(folder.path() / "data", 3);
  const Dataset dataset(folder.path() / "data");
  std::vector<std::int64_t> pairs;
  for (std::int64_t i = 0; i < 500; ++i) pairs.insert(pairs.end(), {i % 300, i % 400});
  const LinkList links(pairs, {.edge_type = dataset.meta().edge_type("r1")});
  BatchOptions options{.fanouts = {-1}};
  options.link = {.edge_type = "r1", .negatives = {.mode = NegativeMode::kBinary, .amount = 60'000}};
  BatchMaker maker(dataset, links, options);
  maker.bound_scratch(budget_of(64 << 20));
  const std::string said =
      no_space_of([&] { maker.sample({.seed = 1, .epoch = 0, .first = 0, .count = 500}); });
  EXPECT_NE(said.find("64 MiB is the most"), std::string::npos) << said;
}

}  // namespace
}  // namespace hopfeed
