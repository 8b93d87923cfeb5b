// A custom sampler that does what it must not: one clear line, never a wild write.
#include "core/sampler/sample_builder.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <functional>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/sampler/custom_sampler_adapter.h"
#include "core/sampler/sampler_registry.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed {
namespace {

struct Custom : CustomSampler {
  std::function<void(SampleBuilder&)> body = [](SampleBuilder& out) { out.end_hop(); };
  SampleBounds what{.nodes = {10}, .edges = {10}, .seeds = 2, .arrays = {}};
  std::function<void()> on_bounds = [] {};
  void sample(const SampleRequest&, SampleBuilder& out) override { body(out); }
  std::size_t num_hops() const override { return 1; }
  SampleBounds bounds(SeedCounts) const override {
    on_bounds();
    return what;
  }
};

class WrongSamplers : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::write_tiny_dataset(folder_.path() / "graph", testing::ring_graph(6));
    dataset_.emplace(folder_.path() / "graph");
  }
  std::string said(const std::function<void(Custom&)>& change) {
    auto custom = std::make_unique<Custom>();
    change(*custom);
    try {
      CustomSamplerAdapter sampler("wrong", *dataset_, {}, std::move(custom));
      const SeedCount two{.node_type = 0, .count = 2};
      sampler.bounds({&two, 1});
      const std::vector<std::int64_t> seeds{1, 2};
      const TypedSeeds typed{.node_type = 0, .ids = seeds, .times = {}};
      sampler.sample({.key = {}, .seeds = {&typed, 1}});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  void expect(const std::function<void(Custom&)>& change, const std::string& part) {
    const std::string error = said(change);
    EXPECT_NE(error.find(part), std::string::npos) << "'" << error << "' has no '" << part << "'";
  }
  void expect_body(const std::function<void(SampleBuilder&)>& body, const std::string& part) {
    expect([&](Custom& custom) { custom.body = body; }, part);
  }

  testing::TempFolder folder_;
  std::optional<Dataset> dataset_;
};

TEST_F(WrongSamplers, RightOnesPass) {
  EXPECT_EQ(said([](Custom&) {}), "");
}

TEST_F(WrongSamplers, TypesNodesAndEdgesThatAreNotThere_AreNamed) {
  const RowReader reader(*dataset_, 0);
  const Row row = reader.row(1);
  expect_body([](SampleBuilder& out) { out.add_node(1, 0); }, "a node of type 1; there are 1");
  expect_body([](SampleBuilder& out) { out.add_node(-1, 0); }, "a node of type -1");
  expect_body([](SampleBuilder& out) { out.add_node(0, 6); }, "node 6 of type 'node', which has 6");
  expect_body([](SampleBuilder& out) { out.add_node(0, -1); }, "node -1");
  expect_body([&](SampleBuilder& out) { out.add_edge(1, 0, 0, row, 0); }, "an edge of type 1; there are 1");
  expect_body([&](SampleBuilder& out) { out.add_edge(0, 2, 0, row, 0); }, "between nodes 2 and 0");
  expect_body([&](SampleBuilder& out) { out.add_edge(0, 0, 2, row, 0); }, "between nodes 0 and 2");
  expect_body([&](SampleBuilder& out) { out.add_edge(0, 0, 1, row, 2); }, "neighbour 2 of 2");
}

// Edges that the graph does not have would come with the ids and attributes of others.
TEST_F(WrongSamplers, EndsThatAreNotTheEdges_AreNamed) {
  const RowReader reader(*dataset_, 0);
  const Row row =
      reader.row(1);  // of the seeds 1 and 2, whose local ids are 0 and 1; its neighbours are 0 and 2
  EXPECT_EQ(said([&](Custom& custom) {
              custom.body = [&](SampleBuilder& out) {
                out.add_edge(0, 1, 0, row, 1);
                out.end_hop();
              };
            }),
            "");
  expect_body([&](SampleBuilder& out) { out.add_edge(0, 0, 1, row, 1); },
              "from node 1 to node 2 (dataset ids) by a row of node 1, whose neighbour 1 is node 2");
  expect_body([&](SampleBuilder& out) { out.add_edge(0, 1, 0, row, 0); }, "whose neighbour 0 is node 0");
}

// Its bounds did not tell of it, so the names were not found to clash at start.
TEST_F(WrongSamplers, AnArrayThatTheBatchHasAlready_IsNamed) {
  const std::vector<std::int64_t> seeds{1, 2};
  const NodeList list(seeds, {});
  for (const std::string name : {"n_id", "num_sampled_nodes", ".held_rows", "mine"}) {
    register_sampler(name, [](const Dataset&, const BatchOptions& options) -> std::unique_ptr<CustomSampler> {
      auto custom = std::make_unique<Custom>();
      custom->body = [name = options.sampler](SampleBuilder& out) {
        out.add_array({.name = name, .store = Store::kNode, .shape = {1}});
        out.end_hop();
      };
      return custom;
    });
    std::string error;
    try {
      BatchMaker(*dataset_, list, {.sampler = name}).sample({.seed = 1, .epoch = 0, .first = 0, .count = 2});
    } catch (const Error& thrown) {
      error = thrown.what();
    }
    EXPECT_EQ(error,
              name == "mine"
                  ? ""
                  : fmt::format("sampler '{0}' added array '{0}', a name that is the batch's own; let it "
                                "have another name",
                                name));
  }
}

// Positions of edges of another type may be beyond this type's: attributes would be read from anywhere.
TEST_F(WrongSamplers, ARowOfAnotherEdgeType_IsNamed) {
  testing::write_typed_dataset(
      folder_.path() / "shop",
      {.nodes = {{.name = "user", .count = 9}, {.name = "item", .count = 9}},
       .edges = {
           {.src = "user", .rel = "buys", .dst = "item", .sources = {0}, .destinations = {0}},
           {.src = "item", .rel = "rev_buys", .dst = "user", .sources = {0, 1}, .destinations = {0, 0}}}});
  dataset_.emplace(folder_.path() / "shop");
  const auto expect_row = [&](Row row, const std::string& part) {
    row.degree = 1;
    expect(
        [&](Custom& custom) {
          custom.what = {.nodes = {10, 10}, .edges = {10, 10}, .seeds = 2, .arrays = {}};
          custom.body = [=](SampleBuilder& out) {
            out.add_edge(0, out.add_node(0, 0), out.add_node(1, 0), row, 0);
          };
        },
        part);
  };
  expect_row(RowReader(*dataset_, 1).row(0),
             "of type 'user__buys__item' by a row of type 'item__rev_buys__user'");
  expect_row(Row(), "by a row of type 'none'");
}

TEST_F(WrongSamplers, ArraysOfShapesThatCannotBe_AreNamed) {
  expect_body([](SampleBuilder& out) { out.add_array({.name = "a", .shape = {-1}}); },
              "array 'a' of a shape");
  expect_body(
      [](SampleBuilder& out) {
        out.add_array({.name = "a", .shape = {1, 1, 1, 1, 1}});
      },
      "array 'a' of a shape");
  const std::int64_t large = std::int64_t{1} << 40,
                     most = static_cast<std::int64_t>(kMaxBlockBytes / sizeof(std::int64_t)) / 256;
  for (const auto& [rows, columns] : {std::pair{large, large}, {most + 1, std::int64_t{1}}}) {
    expect_body(
        [&](SampleBuilder& out) {
          out.add_array({.name = "a", .shape = {rows, columns}});
        },
        "which no batch can hold");
  }
}

TEST_F(WrongSamplers, HopsThatDoNotAddUp_AreNamed) {
  expect_body([](SampleBuilder&) {}, "ended 0 hops and says that it has 1");
  expect_body(
      [](SampleBuilder& out) {
        out.end_hop();
        out.end_hop();
      },
      "ended 2 hops");
  expect_body(
      [](SampleBuilder& out) {
        out.end_hop();
        out.add_node(0, 5);
      },
      "1 nodes behind its last end_hop()");
}

TEST_F(WrongSamplers, BoundsThatCannotBe_AreNamed) {
  expect(
      [](Custom& custom) {
        custom.what.arrays = {{.name = "a", .shape = {2, -1}}};
      },
      "bounds array 'a' by a shape that cannot be");
  expect([](Custom& custom) { custom.what.nodes.clear(); }, "a count for each of 1 node types");
  expect([](Custom& custom) { custom.what.edges = {1, 2}; }, "a count for each of 1 node types");
  expect([](Custom& custom) { custom.what.nodes = {-1}; }, "a count for each of 1 node types");
  expect([](Custom& custom) { custom.on_bounds = [] { throw std::runtime_error("oh"); }; },
         "sampler 'wrong' failed: oh");
}

}  // namespace
}  // namespace hopfeed
