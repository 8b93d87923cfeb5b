// Attributes, weights and times of edges on their way through the shared stage: against the obvious serial
// writer, through cuts, and with input that cannot be served.
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "core/base/error.h"
#include "core/maker/batch_maker.h"
#include "partition_tool/edge_array_checks.h"
#include "partition_tool/edge_arrays.h"
#include "partition_tool/partition_nodes.h"
#include "partition_tool/read_dataset.h"
#include "tests/partition_tool/typed_raw_graph.h"
#include "tests/support/dataset_files.h"
#include "tests/support/made_batch.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;
using testing::edge_attr_of;
using testing::no_progress;
using testing::raw_graph_of;
using testing::TempFolder;
using testing::TypedGraph;
using testing::verify;
using Ints = std::vector<std::int64_t>;

constexpr int kNodes = 300;

/// One type of nodes and edges, whose times are those of the edges or of the nodes.
TypedGraph timed_graph(bool edge_times) {
  std::mt19937_64 random(7);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  testing::TypedNodes nodes{
      .count = kNodes, .x = {}, .x_width = 4, .y = {}, .time = {}, .num_classes = 3, .splits = {}};
  for (int i = 0; i < 4 * kNodes; ++i) nodes.x.push_back(static_cast<float>(below(1'000)) / 8.0F);
  for (int v = 0; v < kNodes; ++v) {
    nodes.y.push_back(below(3));
    nodes.time.push_back(below(50) - 10);
    nodes.splits["train"].push_back(v);
  }
  testing::TypedEdges edges{.sources = {}, .destinations = {}, .weight = {}, .time = {}};
  std::vector<bool> has_weight(kNodes);
  for (int e = 0; e < 5'000; ++e) {
    edges.sources.push_back(below(kNodes));
    edges.destinations.push_back(below(1 + below(kNodes - 20)));  // hubs, and rows without edges
    const double weights[] = {0, 1, 0.25, 1e-9, 1e6, static_cast<double>(1 + below(1'000)) / 7};
    const auto v = edges.destinations.back();
    edges.weight.push_back(weights[has_weight[v] ? below(6) : 1 + below(5)]);
    has_weight[v] = true;
    if (edge_times) edges.time.push_back(below(50) - 10);
  }
  TypedGraph graph;
  graph.nodes.push_back(std::move(nodes));
  graph.edges.push_back(std::move(edges));
  return graph;
}

std::vector<std::int32_t> three_parts() {
  std::vector<std::int32_t> partition_of;
  std::mt19937_64 random(5);
  for (int v = 0; v < kNodes; ++v) partition_of.push_back(static_cast<std::int32_t>(random() % 3));
  return partition_of;
}

TEST(EdgeArrays, SameFilesAsTheObviousWriterWithAnyNumberOfThreads) {
  const TempFolder folder;
  for (const bool edge_times : {true, false}) {
    const TypedGraph typed = timed_graph(edge_times);
    for (const bool edge_ids : {true, false}) {
      const RawGraph graph = raw_graph_of(typed, edge_ids);
      for (const auto& partition_of : {std::vector<std::int32_t>{}, three_parts()}) {
        testing::BuildCut cut{.partitions = partition_of.empty() ? 1 : 3, .partition_of = partition_of};
        const std::vector<NodeOrder> orders =
            order_nodes(graph, partition_of, cut.partitions, cut.hotness, no_progress);
        testing::TypedCut slow{.partitions = cut.partitions,
                               .partition_of = {},
                               .order = {orders[0].original},
                               .edge_ids = edge_ids,
                               .bounds_apart = 1};
        if (!partition_of.empty()) slow.partition_of = {{partition_of.begin(), partition_of.end()}};
        testing::write_typed_dataset(folder.path() / "slow", typed, slow);
        const DatasetMeta oracle = Dataset(folder.path() / "slow").meta();
        for (const int threads : {1, 2, 4}) {
          SCOPED_TRACE(std::to_string(threads) + " threads, " + std::to_string(cut.partitions) +
                       " partitions");
          cut.hotness.threads = threads;
          fs::remove_all(folder.path() / "fast");
          const DatasetMeta meta = testing::write_dataset(folder.path() / "fast", graph, cut);
          verify(folder.path() / "fast");
          EXPECT_EQ(meta.fingerprint, oracle.fingerprint);
          ASSERT_EQ(testing::files_but_remote_rows(meta), oracle.files.size());
          for (const auto& [path, file] : oracle.files) {
            if (path.ends_with("hotness.npy")) continue;  // made-up numbers there
            EXPECT_EQ(testing::file_bytes(folder.path() / "fast" / path),
                      testing::file_bytes(folder.path() / "slow" / path))
                << path;
          }
        }
      }
    }
  }
}

/// Each kind of batch that reads what is under test.
std::vector<BatchOptions> kinds() {
  BatchOptions weighted{.fanouts = {5, 3}, .weight = "weight", .edge_ids = true, .edge_attrs = {"weight"}};
  BatchOptions replaced = weighted;
  replaced.replace = true;
  BatchOptions temporal{.fanouts = {5, 3}, .time = "time", .edge_ids = true};
  BatchOptions last = temporal;
  last.temporal_strategy = TemporalStrategy::kLast;
  return {weighted, replaced, temporal, last};
}

TEST(EdgeArrays, BatchesAreTheSameBytesWhateverTheCut) {
  const TempFolder folder;
  for (const bool edge_times : {true, false}) {
    const fs::path whole_path = folder.path() / (edge_times ? "edges" : "nodes");
    const DatasetMeta meta = testing::write_dataset(whole_path, raw_graph_of(timed_graph(edge_times)));
    const Dataset whole(whole_path);
    const NodeList seeds(whole.split(0, "train"), {});
    fs::path from = whole_path;  // each cut is made of the one before
    for (const int partitions : {3, 2, 1}) {
      const Dataset input(from);
      const RawGraph graph = read_dataset(input, 2, no_progress);
      const fs::path to = whole_path.string() + std::to_string(partitions);
      const auto partition_of =
          partition_randomly(graph, {.partitions = partitions, .seed = 1, .threads = 2});
      const DatasetMeta cut =
          testing::write_dataset(to, graph, {.partitions = partitions, .partition_of = partition_of});
      verify(to);
      EXPECT_EQ(cut.fingerprint, meta.fingerprint);
      const Dataset dataset(to);
      const NodeList own_seeds(dataset.split(0, "train"), {});
      for (const BatchOptions& options : kinds()) {
        BatchMaker maker(whole, seeds, options), own_maker(dataset, own_seeds, options);
        for (const std::int64_t first : {0, 64, 200}) {
          const BatchKey key{.seed = 9, .epoch = 2, .first = first, .count = 64};
          const testing::Block expected = testing::make_block(maker, key);
          EXPECT_GT(expected.view().num_edges(), 0);
          EXPECT_EQ(testing::make_block(own_maker, key).view().digest(), expected.view().digest())
              << partitions << " partitions, " << options.to_json();
        }
      }
      from = to;
    }
    for (const auto& [path, file] : meta.files)
      EXPECT_EQ(Dataset(from).meta().files.at(path).xxh3, file.xxh3) << path;
  }
}

TEST(EdgeArrays, WideRowsArePaddedAndKeepTheirValues) {
  TypedGraph typed = timed_graph(false);
  constexpr std::int64_t kWidth = 1'023;  // 20 MB in all, so that they are written in several blocks
  auto values = std::make_shared<std::vector<float>>();
  for (std::int64_t i = 0; i < std::ssize(typed.edges[0].sources) * kWidth; ++i)
    values->push_back(static_cast<float>(i));
  RawGraph graph = raw_graph_of(typed);
  graph.edges[0].attrs.push_back(edge_attr_of<float>("wide", values, {kWidth}));
  const TempFolder folder;
  const DatasetMeta meta =
      testing::write_dataset(folder.path() / "a", graph, {.partitions = 3, .partition_of = three_parts()});
  EXPECT_EQ(meta.edge_types[0].attrs[1].stride_bytes, 4'096);
  const Dataset a(folder.path() / "a");
  EXPECT_EQ(testing::write_dataset(folder.path() / "b", read_dataset(a, 2, no_progress)).fingerprint,
            meta.fingerprint);
  for (const char* name : {"a", "b"}) {
    verify(folder.path() / name);
    const Dataset dataset(folder.path() / name);
    const AttrView view = dataset.edge_attr(0, "wide");
    const CscView csc = dataset.csc(0);
    for (std::size_t p = 0; p < csc.parts.size(); ++p) {
      const auto* ids = static_cast<const std::int32_t*>(csc.parts[p].edge_ids);
      for (std::int64_t e = 0; e < csc.parts[p].num_edges; ++e)
        ASSERT_EQ(
            std::memcmp(view.parts[p] + e * view.stride_bytes, values->data() + ids[e] * kWidth, kWidth * 4),
            0);
    }
  }
}

TEST(EdgeArrays, VerifyFindsAFlippedBitInEachFile) {
  const TempFolder folder;
  const DatasetMeta meta = testing::write_dataset(folder.path() / "d", raw_graph_of(timed_graph(true)),
                                                  {.partitions = 3, .partition_of = three_parts()});
  int flipped = 0;
  for (const auto& [path, file] : meta.files) {
    if (path.find("/attrs/") == std::string::npos && path.find("/alias/") == std::string::npos &&
        path.find("/time_order/") == std::string::npos && path.find("/times/") == std::string::npos &&
        path.find("/time_indices/") == std::string::npos && path.find("/time_codes/") == std::string::npos &&
        !path.starts_with("time_bounds/"))
      continue;
    const std::string good = testing::file_bytes(folder.path() / "d" / path);
    for (const std::size_t at : {good.size() / 3, good.size() - 1}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 4);
      std::ofstream(folder.path() / "d" / path, std::ios::binary) << bad;
      try {
        verify(folder.path() / "d");
        ADD_FAILURE() << path << " accepted";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
        EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
      }
    }
    std::ofstream(folder.path() / "d" / path, std::ios::binary) << good;
    ++flipped;
  }
  EXPECT_EQ(flipped, 3 * 7 + 1);
  verify(folder.path() / "d");
}

void expect_graph_refused(const RawGraph& graph, const std::string& part,
                          ErrorCode code = ErrorCode::kInvalid) {
  const TempFolder folder;
  try {
    testing::write_dataset(folder.path() / "d", graph);
    ADD_FAILURE() << "accepted; expected: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(EdgeArrays, AWeightThatCannotBeDrawnByIsNamedWithItsEdge) {
  const TypedGraph good = timed_graph(true);
  const std::int64_t node = good.edges[0].destinations[1'234];
  for (const auto& [bad, text] : {std::pair(-1.0, "is -1"), std::pair(std::nan(""), "is nan"),
                                  std::pair(std::numeric_limits<double>::infinity(), "is inf")}) {
    TypedGraph typed = good;
    typed.edges[0].weight[1'234] = bad;
    expect_graph_refused(raw_graph_of(typed), "weight 'weight' of edge 1234, which ends at node " +
                                                  std::to_string(node) + ", " + text);
  }
}

TEST(EdgeArrays, RowsMayWeighNothingAndArePartitionedWithTheRest) {
  TypedGraph typed = timed_graph(true);
  const std::int64_t node = typed.edges[0].destinations[1'234];
  for (std::size_t e = 0; e < typed.edges[0].weight.size(); ++e)
    if (typed.edges[0].destinations[e] == node) typed.edges[0].weight[e] = 0;
  const TempFolder folder;
  testing::write_dataset(folder.path() / "d", raw_graph_of(typed));
  testing::verify(folder.path() / "d");
  const Dataset dataset(folder.path() / "d");
  testing::write_dataset(folder.path() / "again", read_dataset(dataset, 2, testing::no_progress));
  testing::verify(folder.path() / "again");
  EXPECT_EQ(Dataset(folder.path() / "again").meta().fingerprint, dataset.meta().fingerprint);
}

TEST(EdgeArrays, NamesAndTypesOfWeightsAndTimesAreChecked) {
  const TypedGraph typed = timed_graph(true);
  const auto refused = [&](const std::function<void(RawGraph&)>& spoil, const std::string& part) {
    RawGraph graph = raw_graph_of(typed);
    spoil(graph);
    expect_graph_refused(graph, part);
  };
  refused([](RawGraph& g) { g.edges[0].weights = {"wieght"}; },
          "weight 'wieght' is no attribute of the edges; they have: weight, time");
  refused([](RawGraph& g) { g.edges[0].weights = {"weight", "weight"}; }, "weight 'weight' is given twice");
  refused([](RawGraph& g) { g.edges[0].times = {"when"}; },
          "time 'when' is no attribute of the edges, which have: weight, time, nor of the nodes, which have: "
          "x, y, time");
  refused([](RawGraph& g) { g.edges[0].times = {"weight"}; },
          "time 'weight' has the element type float64; convert it to int64");
  refused([](RawGraph& g) { g.edges[0].times = {"x"}; }, "time 'x' has 4 numbers each; it must have one");
  refused([](RawGraph& g) { g.edges[0].attrs[0].type = ElementType::kUint8; },
          "weight 'weight' has the element type uint8; convert it to one of: float32, float64, int32, int64");
}

// The rows of such a node cannot be made here; they are counted before any is read.
TEST(EdgeArrays, ARowThatIsTooLongForAWeightOrATimeIsRefusedBeforeItIsRead) {
  RawGraph graph = graph_of_one_type("long row");
  // emplaced, since g++ 12 warns of the assignment under AddressSanitizer, where nothing is wrong
  graph.edges[0].csc.make_row.emplace<MakeRow<std::int32_t>>(
      [](std::int64_t, std::span<std::int32_t>) { ADD_FAILURE() << "read"; });
  graph.edges[0].attrs = {{.name = "w", .type = ElementType::kInt64, .shape = {}, .read_rows = {}}};
  const auto check = [&](std::int64_t degree) {
    graph.edges[0].csc.indptr = {0, 3, 3 + degree, 5 + degree};
    try {
      check_edge_arrays(graph);
      return std::string("ok");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      return std::string(error.what());
    }
  };
  constexpr std::int64_t kTwoTo31 = std::int64_t{1} << 31;
  EXPECT_EQ(check(4 * kTwoTo31), "ok");
  graph.edges[0].times = {"w"};
  EXPECT_EQ(check(2 * kTwoTo31 - 1), "ok");
  EXPECT_EQ(check(2 * kTwoTo31),
            "node 1 has 4294967296 in-edges; with the time 'w' a node has at most 4294967295");
  graph.edges[0].weights = {"w"};
  EXPECT_EQ(check(kTwoTo31 - 1), "ok");
  EXPECT_EQ(check(kTwoTo31),
            "node 1 has 2147483648 in-edges; with the weight 'w' a node has at most 2147483647");
}

TEST(EdgeArrays, NonFiniteValuesOfEdgesAreCountedAndKept) {
  TypedGraph typed = timed_graph(true);
  typed.edges[0].weight[17] = std::nan("");
  RawGraph graph = raw_graph_of(typed);
  graph.edges[0].weights.clear();
  const TempFolder folder;
  DatasetWriter writer(folder.path() / "d");
  const std::vector<NodeOrder> orders = order_nodes(graph, {}, 1, {}, no_progress);
  const DatasetBuildResult result = build_dataset(writer, graph, orders, {.threads = 2}, no_progress);
  EXPECT_EQ(result.nonfinite, (std::map<std::string, std::int64_t>{{"node__to__node/weight", 1}}));
  DatasetWriter other(folder.path() / "e");
  EXPECT_THROW(build_dataset(other, graph, orders, {.reject_nonfinite = true}, no_progress), Error);
}

}  // namespace
}  // namespace hopfeed
