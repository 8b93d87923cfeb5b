// One above each limit is refused with a line that names it; the limit itself is not.
#include "core/base/limits.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "core/base/error.h"
#include "core/batch/batch_options.h"
#include "core/batch/block_writer.h"
#include "core/batch/deal.h"
#include "core/dataset/alias_table.h"
#include "core/dataset/dataset_meta.h"
#include "core/draws/labor_picker.h"
#include "core/draws/relabel_table.h"
#include "core/draws/weighted_picker.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

template <class Body>
ErrorCode code_of(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorCode::kIo;
}

// F30
TEST(Limits, Fanouts) {
  EXPECT_NO_THROW(BatchOptions({.fanouts = {kMaxFanout, 1, 0, -1}}).validate());
  for (std::int64_t bad : {std::int64_t{-2}, kMaxFanout + 1, INT64_MAX, INT64_MIN}) {
    EXPECT_EQ(code_of([&] { BatchOptions({.fanouts = {5, bad}}).validate(); }), ErrorCode::kInvalid) << bad;
  }
}

TEST(Limits, Hops) {
  EXPECT_NO_THROW(BatchOptions({.fanouts = std::vector<std::int64_t>(kMaxHops, 1)}).validate());
  EXPECT_EQ(code_of([] { BatchOptions({.fanouts = std::vector<std::int64_t>(kMaxHops + 1, 1)}).validate(); }),
            ErrorCode::kInvalid);
}

TEST(Limits, Walks) {
  const auto walks = [](std::int64_t length, std::int64_t per_seed) {
    return BatchOptions{.sampler = BatchOptions::kWalkSampler,
                        .walk = {.length = length, .per_seed = per_seed}};
  };
  EXPECT_NO_THROW(walks(kMaxWalkLength, kMaxWalksPerSeed).validate());
  EXPECT_EQ(code_of([&] { walks(kMaxWalkLength + 1, 1).validate(); }), ErrorCode::kInvalid);
  EXPECT_EQ(code_of([&] { walks(1, kMaxWalksPerSeed + 1).validate(); }), ErrorCode::kInvalid);
}

TEST(Limits, BatchAndWorldSize) {
  EXPECT_EQ(Deal({.batch_size = kMaxBatchSize}, kMaxBatchSize).steps(), 1);
  EXPECT_EQ(code_of([] { Deal({.batch_size = kMaxBatchSize + 1}, 10); }), ErrorCode::kInvalid);
  EXPECT_NO_THROW(Deal({.world_size = kMaxWorldSize}, kMaxWorldSize));
  EXPECT_EQ(code_of([] { Deal({.world_size = kMaxWorldSize + 1}, kMaxWorldSize + 1); }), ErrorCode::kInvalid);
}

TEST(Limits, Names) {
  EXPECT_NO_THROW(check_name(std::string(kMaxNameBytes - 1, 'a'), "split"));
  EXPECT_EQ(code_of([] { check_name(std::string(kMaxNameBytes, 'a'), "split"); }), ErrorCode::kInvalid);
  for (const char* bad : {"", ".hidden", "a/b", "a b", "a__b", "../x"})
    EXPECT_EQ(code_of([&] { check_name(bad, "split"); }), ErrorCode::kInvalid) << bad;
}

TEST(Limits, ArraysOfABlock) {
  BlockWriter writer;
  for (std::size_t i = 0; i < kMaxBlockArrays; ++i) writer.add({.name = "a", .shape = {1}});
  EXPECT_EQ(code_of([&] { writer.add({.name = "a", .shape = {1}}); }), ErrorCode::kInvalid);
}

TEST(Limits, EdgesOfAWeightedRow) {
  const std::byte* const part = nullptr;  // of a row that is looked at, only its length is read
  PickScratch scratch;
  const WeightedPicker picker({.fanout = 1, .replace = false, .stream = {}}, {.parts = {&part, 1}},
                              sizeof(std::int32_t), scratch);
  DrawnRow row{};
  row.degree = kMaxWeightedDegree;
  EXPECT_NO_THROW(picker.look(row, 0, 0));
  EXPECT_EQ(row.most, 1u);
  row.degree = kMaxWeightedDegree + 1;
  EXPECT_EQ(code_of([&] { picker.look(row, 0, 0); }), ErrorCode::kUnsupported);
}

// The weights of seeds, say. 16 GiB of addresses that no memory is behind: only how many there are is looked
// at.
TEST(Limits, WeightsThatAreDrawnBy) {
  const std::size_t count = kMaxWeightedDegree + 1, bytes = count * sizeof(double);
  void* const weights = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(weights, MAP_FAILED);
  EXPECT_EQ(code_of([&] { alias_table({static_cast<const double*>(weights), count}); }), ErrorCode::kInvalid);
  munmap(weights, bytes);
}

TEST(Limits, EdgesOfALayerDependentRow) {
  const testing::TempFolder folder;
  testing::write_tiny_dataset(folder.path() / "d", testing::ring_graph(6));
  const Dataset dataset(folder.path() / "d");
  PickScratch scratch;
  const CscView csc{};
  LaborPicker picker({.fanout = 1, .replace = false, .stream = {}}, 0, dataset, csc, {}, scratch);
  DrawnRow row{};
  row.degree = kMaxLaborDegree;
  EXPECT_NO_THROW(picker.look(row, 0, 0));
  row.degree = kMaxLaborDegree + 1;
  EXPECT_EQ(code_of([&] { picker.look(row, 0, 0); }), ErrorCode::kUnsupported);
}

TEST(Limits, NodesOfABatch) {
  HashRelabel relabel(std::int64_t{1} << 40);
  LocalNodes nodes;  // room is reserved, not touched
  EXPECT_EQ(code_of([&] { relabel.make_room(nodes, kMaxBatchNodes + 1); }), ErrorCode::kUnsupported);
}

TEST(Fanouts, AreParsedFromTextOrRefusedByName) {
  EXPECT_EQ(parse_fanouts("15,10,-1"), (std::vector<std::int64_t>{15, 10, -1}));
  EXPECT_TRUE(parse_fanouts("").empty());
  for (const char* bad : {"15,", ",15", "1,,2", "a", "1.5", "99999999999999999999", " 1"}) {
    EXPECT_EQ(code_of([&] { parse_fanouts(bad); }), ErrorCode::kInvalid) << bad;
  }
}

TEST(Fanouts, OfEdgeTypesAreParsedOrRefused) {
  using Map = std::map<std::string, std::vector<std::int64_t>>;
  EXPECT_EQ(parse_edge_fanouts("a=15,10;b__c__d=0,-1"), (Map{{"a", {15, 10}}, {"b__c__d", {0, -1}}}));
  EXPECT_TRUE(parse_edge_fanouts("").empty());
  for (const char* bad : {"a", "=1", "a=1;a=2", "a=x", ";", "a=1,"}) {
    EXPECT_EQ(code_of([&] { parse_edge_fanouts(bad); }), ErrorCode::kInvalid) << bad;
  }
  EXPECT_EQ(parse_names("weight,time"), (std::vector<std::string>{"weight", "time"}));
  for (const char* bad : {",", "a,", ",a", "a,,b"}) {
    EXPECT_EQ(code_of([&] { parse_names(bad); }), ErrorCode::kInvalid) << bad;
  }
}

TEST(BatchOptions, SurviveJsonAndHashByValue) {
  const BatchOptions options{.fanouts = {3, -1},
                             .edge_fanouts = {{"cites", {0, 5}}},
                             .replace = true,
                             .time = "year",
                             .seed_time = "when",
                             .time_window = 7,
                             .edge_ids = true,
                             .attrs = std::vector<std::string>{"x"},
                             .edge_attrs = {"weight"}};
  EXPECT_EQ(BatchOptions::from_json(options.to_json()).to_json(), options.to_json());
  EXPECT_NE(options.hash(), BatchOptions{}.hash());
  EXPECT_EQ(code_of([] { BatchOptions::from_json("{\"fanouts\": 3}"); }), ErrorCode::kInvalid);
  EXPECT_EQ(code_of([] { BatchOptions::from_json("{"); }), ErrorCode::kInvalid);
}

}  // namespace
}  // namespace hopfeed
