// Generated graphs: the same everywhere, with the properties that they promise.
#include "partition_tool/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "core/base/error.h"
#include "tests/partition_tool/made_dataset.h"

namespace hopfeed {
namespace {

using testing::no_progress;
using testing::TempFolder;

std::vector<std::int64_t> labels_of(const RawGraph& graph) {
  std::vector<std::int64_t> labels(graph.num_nodes());
  for (std::int64_t v = 0; v < graph.num_nodes(); ++v)
    graph.nodes[0].attrs.back().read_row(v, std::as_writable_bytes(std::span(&labels[v], 1)));
  return labels;
}

std::vector<std::int64_t> degrees_of(const RawGraph& graph) {
  std::vector<std::int64_t> degrees;
  for (std::int64_t v = 0; v < graph.num_nodes(); ++v)
    degrees.push_back(graph.edges[0].csc.indptr[v + 1] - graph.edges[0].csc.indptr[v]);
  return degrees;
}

/// The sources of all edges, row after row.
std::vector<std::int64_t> sources_of(const RawGraph& graph) {
  std::vector<std::int64_t> sources;
  for_row_blocks(
      graph.edges[0].csc.indptr, graph.edges[0].csc.rows(), 1, [](std::int64_t) { return true; },
      [&](std::int64_t, std::int64_t, auto ids) { sources.insert(sources.end(), ids.begin(), ids.end()); });
  return sources;
}

const GenerateOptions kMiddle{
    .num_nodes = 20'000, .num_edges = 400'000, .num_features = 32, .num_classes = 10, .seed = 1};

TEST(Generate, AnyNumberOfThreadsWritesTheSameBytes) {
  const TempFolder folder;
  std::map<int, std::map<std::string, std::uint64_t>> sums;  // by threads
  for (int threads : {1, 2, 4}) {
    GenerateOptions options = kMiddle;
    options.num_edges = 2'500'000;  // several blocks
    options.threads = threads;
    const RawGraph graph = generate_graph(options, no_progress);
    const DatasetMeta meta = testing::write_dataset(folder.path() / std::to_string(threads), graph,
                                                    {.hotness = {.threads = threads}});
    for (const auto& [path, file] : meta.files) sums[threads][path] = file.xxh3;
  }
  EXPECT_GT(sums[1].size(), 5U);
  EXPECT_EQ(sums[1], sums[2]);
  EXPECT_EQ(sums[1], sums[4]);
}

// The bytes that are asked of the machine hang on the nodes; of the edges only the longest row counts.
TEST(Generate, MemoryGrowsWithNodesAndNotWithEdges) {
  const auto bytes = [](std::int64_t nodes, std::int64_t edges) {
    return generate_bytes({.num_nodes = nodes, .num_edges = edges, .num_classes = 1});
  };
  EXPECT_LT(bytes(20'000'000, 1'000'000'000), std::uint64_t{1'400'000'000});
  EXPECT_LT(bytes(1'000'000, 100'000'000), bytes(1'000'000, 5'000'000) * 11 / 10);
  EXPECT_GT(bytes(2'000'000, 1'000), bytes(1'000'000, 1'000) * 19 / 10);
  EXPECT_GT(bytes(1, 1'000'000'000), std::uint64_t{28'000'000'000}) << "one row is held while it is written";
}

// A made graph never lies in memory; what its passes read is what a held copy of it would give.
TEST(Generate, MadeRowsAndHeldRowsGiveTheSameDataset) {
  const TempFolder folder;
  const RawGraph made = generate_graph(kMiddle, no_progress);
  RawGraph held = made;
  const auto sources = sources_of(made);
  held.edges[0].csc.make_row = {};
  held.edges[0].csc.indices = std::vector<std::int32_t>(sources.begin(), sources.end());
  const auto a = testing::write_dataset(folder.path() / "made", made),
             b = testing::write_dataset(folder.path() / "held", held);
  ASSERT_EQ(a.files.size(), b.files.size());
  for (const auto& [path, file] : a.files) EXPECT_EQ(b.files.at(path).xxh3, file.xxh3) << path;
}

// The fingerprint of one small graph, so that another machine, compiler or release that makes another graph
// is noticed.
TEST(Generate, AGraphIsKnownByItsFingerprint) {
  const TempFolder folder;
  const RawGraph graph = generate_graph(
      {.num_nodes = 1'000, .num_edges = 10'000, .num_features = 8, .num_classes = 5, .seed = 42},
      no_progress);
  EXPECT_EQ(testing::write_dataset(folder.path() / "d", graph).fingerprint,
            "d8802180a6944fc749919412b9745304");
}

TEST(Generate, AnotherSeedIsAnotherGraph) {
  GenerateOptions other = kMiddle;
  other.seed = 2;
  const RawGraph a = generate_graph(kMiddle, no_progress), b = generate_graph(other, no_progress);
  EXPECT_NE(sources_of(a), sources_of(b));
  EXPECT_NE(labels_of(a), labels_of(b));
  EXPECT_NE(a.nodes[0].splits, b.nodes[0].splits);
}

TEST(Generate, NodesAndEdgesAreExactlyAsAsked) {
  for (const auto& [nodes, edges] :
       {std::pair<std::int64_t, std::int64_t>{1, 0}, {1, 5}, {2, 1}, {7, 1'000}, {1'000, 3}, {999, 12'345}}) {
    const RawGraph graph = generate_graph(
        {.num_nodes = nodes, .num_edges = edges, .num_features = 1, .num_classes = 1}, no_progress);
    EXPECT_EQ(graph.num_nodes(), nodes);
    EXPECT_EQ(graph.edges[0].csc.num_edges(), edges);
    EXPECT_TRUE(std::is_sorted(graph.edges[0].csc.indptr.begin(), graph.edges[0].csc.indptr.end()));
    for (std::int64_t v : sources_of(graph)) ASSERT_TRUE(v >= 0 && v < nodes) << v;
  }
}

TEST(Generate, DegreesAreSkewed) {
  std::vector<std::int64_t> degrees = degrees_of(generate_graph(kMiddle, no_progress));  // mean 20
  std::sort(degrees.begin(), degrees.end());
  EXPECT_NEAR(static_cast<double>(degrees.front()), 20 / 6.0, 1);
  EXPECT_NEAR(static_cast<double>(degrees[10'000]), 10, 1);
  EXPECT_GT(degrees.back(), 1'800);
  const std::int64_t hubs = std::accumulate(degrees.end() - 200, degrees.end(),
                                            std::int64_t{0});  // the first 1%: G(1 / 100) / G(1)
  EXPECT_NEAR(static_cast<double>(hubs) / 400'000, 0.16, 0.02);
}

TEST(Generate, SourcesAreSkewedToo) {
  const RawGraph graph = generate_graph(kMiddle, no_progress);
  std::vector<std::int64_t> out(20'000);
  for (std::int64_t u : sources_of(graph)) ++out[u];
  std::sort(out.begin(), out.end());
  const std::int64_t hubs =
      std::accumulate(out.end() - 200, out.end(), std::int64_t{0});  // (100^(-1/5) - 1/8) * 8/7
  EXPECT_NEAR(static_cast<double>(hubs) / 400'000, 0.31, 0.02);
  EXPECT_LT(out.back(), 10'000);  // cut off: nobody feeds everybody
}

TEST(Generate, EdgesKeepToTheirClass) {
  for (const auto& [homophily, expected] : {std::pair{0.0, 0.1}, {0.6, 0.64}, {1.0, 1.0}}) {
    GenerateOptions options = kMiddle;
    options.homophily = homophily;
    const RawGraph graph = generate_graph(options, no_progress);
    const auto labels = labels_of(graph);
    std::int64_t same = 0;
    const auto sources = sources_of(graph);
    for (std::int64_t v = 0; v < graph.num_nodes(); ++v) {
      for (std::int64_t e = graph.edges[0].csc.indptr[v]; e < graph.edges[0].csc.indptr[v + 1]; ++e)
        same += labels[sources[e]] == labels[v];
    }
    EXPECT_NEAR(static_cast<double>(same) / 400'000, expected, 0.01) << homophily;
  }
}

TEST(Generate, FeaturesSaySomethingAboutTheClass) {
  const RawGraph graph = generate_graph(kMiddle, no_progress);
  const auto labels = labels_of(graph);
  std::vector<std::vector<double>> centre(10, std::vector<double>(32));
  std::vector<float> row(32);
  const auto read = [&](std::int64_t v) {
    graph.nodes[0].attrs[0].read_row(v, std::as_writable_bytes(std::span(row)));
  };
  for (std::int64_t v = 0; v < 10'000; ++v) {
    read(v);
    for (int f = 0; f < 32; ++f) centre[labels[v]][f] += row[f] / 1'000.0;
  }
  int right = 0;
  for (std::int64_t v = 10'000; v < 20'000; ++v) {
    read(v);
    int best = 0;
    double nearest = 1e300;
    for (int c = 0; c < 10; ++c) {
      double distance = 0;
      for (int f = 0; f < 32; ++f) distance += (row[f] - centre[c][f]) * (row[f] - centre[c][f]);
      if (distance < nearest) nearest = distance, best = c;
    }
    right += best == labels[v];
  }
  EXPECT_GT(right, 5'000);  // far better than one in ten
  EXPECT_LT(right, 9'500);  // but the graph has something to add
}

TEST(Generate, SplitsShareTheNodes) {
  GenerateOptions options = kMiddle;
  options.train_fraction = 0.5;
  options.valid_fraction = 0.2;
  const RawGraph graph = generate_graph(options, no_progress);
  EXPECT_EQ(graph.nodes[0].splits.at("train").size(), 10'000U);
  EXPECT_EQ(graph.nodes[0].splits.at("valid").size(), 4'000U);
  EXPECT_EQ(graph.nodes[0].splits.at("test").size(), 6'000U);
  std::vector<int> seen(20'000);
  for (const auto& [name, ids] : graph.nodes[0].splits) {
    for (std::int64_t v : ids) ++seen[v];
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), 20'000);
}

TEST(Generate, OptionsOutOfRangeAreNamed) {
  const auto refused = [](GenerateOptions options, const std::string& name) {
    try {
      generate_graph(options, no_progress);
      ADD_FAILURE() << name << " accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalid);
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  };
  refused({.num_nodes = 0, .num_edges = 1, .num_classes = 1}, "--nodes");
  refused({.num_nodes = (std::int64_t{1} << 48) + 1, .num_edges = 1, .num_classes = 1}, "--nodes");
  refused({.num_nodes = 5, .num_edges = -1, .num_classes = 1}, "--edges");
  refused({.num_nodes = 5, .num_edges = (std::int64_t{1} << 48) + 1, .num_classes = 1}, "--edges");
  refused({.num_nodes = 5, .num_edges = 1, .num_features = (16 << 20) / 4 + 1, .num_classes = 1},
          "--features");
  refused({.num_nodes = 5, .num_edges = 1, .num_classes = 6}, "--classes");
  refused({.num_nodes = 5, .num_edges = 1, .num_classes = 1, .homophily = 1.5}, "--homophily");
  refused({.num_nodes = 5, .num_edges = 1, .num_classes = 1, .train_fraction = 0.9, .valid_fraction = 0.2},
          "--train-fraction");
}

}  // namespace
}  // namespace hopfeed
