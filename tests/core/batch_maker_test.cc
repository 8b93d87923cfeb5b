// BatchMaker's own promises; what is in a batch is told in kinds_oracle_test.cc.
#include "core/maker/batch_maker.h"

#include <gtest/gtest.h>

#include <iterator>
#include <memory>
#include <numeric>
#include <set>
#include <string>

#include "core/base/error.h"
#include "core/batch/field_names.h"
#include "core/sampler/sampler_registry.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed {
namespace {

/// A batch of all nodes: how often its maker said that it is nearly done, and how much of the features was
/// there by then.
struct Announced {
  int calls = 0;
  std::size_t rows_before = 0, rows = 0;
};

Announced write_all(std::int64_t num_nodes, std::int64_t width) {
  const testing::TempFolder folder;
  testing::TinyGraph graph = testing::ring_graph(num_nodes);
  graph.x_width = width;
  graph.x.assign(static_cast<std::size_t>(num_nodes * width), 1.0F);
  testing::write_tiny_dataset(folder.path() / "data", graph);
  const Dataset dataset(folder.path() / "data");
  std::vector<std::int64_t> seeds(static_cast<std::size_t>(num_nodes));
  std::iota(seeds.begin(), seeds.end(), 0);
  const NodeList list(seeds, {});
  BatchMaker maker(dataset, list, {.fanouts = {2}});
  const BatchKey key{.seed = 1, .epoch = 0, .first = 0, .count = num_nodes};
  const testing::Block plain = testing::make_block(maker, key);
  testing::Block told = testing::make_block(maker, key);
  std::ranges::fill(told.memory.bytes(), std::byte{0});
  maker.sample(key);
  Announced result;
  const auto x = [&] { return told.view().find("x", Store::kNode, 0).as<float>(); };
  maker.write(told.memory.bytes(), [&] {
    ++result.calls;
    while (x()[result.rows_before * static_cast<std::size_t>(width)] == 1.0F) ++result.rows_before;
  });
  result.rows = x().size() / static_cast<std::size_t>(width);
  EXPECT_EQ(told.view().digest(), plain.view().digest());
  return result;
}

TEST(BatchMaker, NearlyDone_IsToldWhenTheLastBytesAreLeft) {
  const Announced large = write_all(1'500, 256);  // 1.5 MB of features
  EXPECT_EQ(large.calls, 1);
  EXPECT_EQ((large.rows - large.rows_before) * 256 * sizeof(float), BatchMaker::kLastBytes);
}

TEST(BatchMaker, NearlyDone_IsNotToldOfASmallBatch) { EXPECT_EQ(write_all(900, 256).calls, 0); }

/// Brings an array that is called as the features are.
class Shadowing : public CustomSampler {
 public:
  void sample(const SampleRequest&, SampleBuilder&) override {}
  std::size_t num_hops() const override { return 0; }
  SampleBounds bounds(SeedCounts counts) const override {
    const std::int64_t seeds = total_of(counts);
    return {.nodes = {seeds},
            .edges = {0},
            .seeds = seeds,
            .arrays = {{.name = "x", .store = Store::kNode, .type = 0, .shape = {seeds}}}};
  }
};

// Who asks for a field by its name could get either.
TEST(BatchMaker, TwoFieldsOfOneName_AreRefused) {
  register_sampler("shadowing", [](const Dataset&, const BatchOptions&) -> std::unique_ptr<CustomSampler> {
    return std::make_unique<Shadowing>();
  });
  const testing::TempFolder folder;
  testing::write_tiny_dataset(folder.path() / "data", testing::labelled_ring());
  const Dataset dataset(folder.path() / "data");
  const NodeList list(dataset.split(0, "train"), {});
  BatchOptions options{.sampler = "shadowing"};
  try {
    const BatchMaker maker(dataset, list, options);
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "attribute 'x' of node type 'node' has the name of a field that the batch has already; "
                 "gather others (attrs, "
                 "edge_attrs), or import it under another name");
  }
  options.attrs = {"y"};
  EXPECT_NO_THROW(BatchMaker(dataset, list, options));
}

// Importers refuse these names, so an attribute can only have one that no batch needs.
TEST(BatchMaker, FieldsOfItsOwn_AreThoseOfTheList) {
  const testing::TempFolder folder;
  testing::write_typed_dataset(folder.path() / "data",
                               {.nodes = {{.name = "node", .count = 4, .time = {0, 1, 2, 3}}},
                                .edges = {{.sources = {0, 1, 2}, .destinations = {1, 2, 3}}}});
  const Dataset dataset(folder.path() / "data");
  const std::vector<std::string> none;
  BatchOptions walks{.sampler = BatchOptions::kWalkSampler, .walk = {.length = 2}, .attrs = none},
      both_ways{.fanouts = {2}, .subgraph = Subgraph::kBidirectional, .keep_orig_edges = true, .attrs = none};
  std::set<std::string> fields;
  const auto collect = [&](const BatchView& batch) {
    for (int i = 0; i < batch.num_arrays(); ++i) fields.emplace(batch.array(i).name);
  };
  for (const BatchOptions& options :
       {BatchOptions{.fanouts = {2}, .time = "time", .edge_ids = true, .dataset_ids = true, .attrs = none},
        walks, both_ways}) {
    const testing::Block block = testing::make_batch(dataset, {.seeds = {3, 2, 3}}, options);
    collect(block.view());
  }
  for (const NegativeMode mode : {NegativeMode::kBinary, NegativeMode::kTriplet}) {
    BatchOptions links{.fanouts = {2}, .time = "time", .attrs = none};
    links.link = {.edge_type = "to", .negatives = {.mode = mode, .strict = true}};
    collect(testing::make_link_batch(dataset, {.pairs = {0, 1}, .times = {3}}, links).view());
  }
  EXPECT_EQ(fields, std::set<std::string>(std::begin(kBatchFields), std::end(kBatchFields)));
}

}  // namespace
}  // namespace hopfeed
