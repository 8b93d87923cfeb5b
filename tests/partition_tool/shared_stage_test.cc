// Edge list to rows, the one order, and the files: each against the obvious serial way.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/base/error.h"
#include "tests/partition_tool/made_dataset.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;
using testing::BuildCut;
using testing::no_progress;
using testing::raw_graph_of;
using testing::TempFolder;
using testing::TinyCut;
using testing::TinyGraph;

std::vector<std::int64_t> widened(const IdArray& ids) {
  return std::visit([](const auto& items) { return std::vector<std::int64_t>(items.begin(), items.end()); },
                    ids);
}

TEST(EdgesToCsc, RowsKeepTheImportedOrder) {
  // Edges in order: 2->1, 0->1, 2->0, 2->1 again, 1->1.
  const std::vector<std::int64_t> source{2, 0, 2, 2, 1}, destination{1, 1, 0, 1, 1};
  const Csc csc = edges_to_csc(std::span(source), std::span(destination), {.sources = 4, .destinations = 4},
                               {}, no_progress);
  EXPECT_EQ(csc.indptr, (std::vector<std::int64_t>{0, 1, 5, 5, 5}));
  EXPECT_EQ(widened(csc.indices), (std::vector<std::int64_t>{2, 2, 0, 2, 1}));
  EXPECT_EQ(widened(csc.edge_ids), (std::vector<std::int64_t>{2, 0, 1, 3, 4}));
}

TEST(EdgesToCsc, AnyNumberOfThreadsAndWidthOfIdsGivesTheSame) {
  const TinyGraph tiny = testing::random_graph({.num_nodes = 300, .num_edges = 5'000});
  const Csc one = edges_to_csc(std::span(tiny.src), std::span(tiny.dst),
                               {.sources = 300, .destinations = 300}, {.threads = 1}, no_progress);
  const std::vector<std::int32_t> src(tiny.src.begin(), tiny.src.end()),
      dst(tiny.dst.begin(), tiny.dst.end());
  for (int threads : {2, 3, 7, 500}) {
    const Csc many = edges_to_csc(std::span(src), std::span(dst), {.sources = 300, .destinations = 300},
                                  {.threads = threads}, no_progress);
    EXPECT_EQ(many.indptr, one.indptr);
    EXPECT_EQ(many.indices, one.indices);
    EXPECT_EQ(many.edge_ids, one.edge_ids);
  }
}

TEST(EdgesToCsc, AnIdOutOfRangeIsNamedWithItsEdge) {
  const std::vector<std::int64_t> source{0, 1, 4}, destination{0, -1, 0};
  for (const auto& [a, b, text] :
       {std::tuple(source, std::vector<std::int64_t>{0, 0, 0}, "edge 2 has source node 4"),
        std::tuple(std::vector<std::int64_t>{0, 0, 0}, destination, "edge 1 has destination node -1")}) {
    try {
      edges_to_csc(std::span(a), std::span(b), {.sources = 4, .destinations = 4}, {.origin = "e.npy"},
                   no_progress);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalid);
      EXPECT_NE(std::string(error.what()).find(std::string("e.npy: ") + text), std::string::npos)
          << error.what();
    }
  }
}

TEST(NodeOrder, FallsByHotnessAndTiesGoToTheSmallerId) {
  // A star into node 3: its four in-neighbours are equally hot, node 3 (the only training node) is hottest.
  TinyGraph tiny;
  tiny.num_nodes = 6;
  tiny.src = {5, 4, 1, 0};
  tiny.dst = {3, 3, 3, 3};
  tiny.splits["train"] = {3};
  const NodeOrder order =
      order_nodes(raw_graph_of(tiny), {}, 1, {.fanouts = {2}, .batch_size = 1}, no_progress)[0];
  EXPECT_EQ(order.original, (std::vector<std::int64_t>{3, 0, 1, 4, 5, 2}));
  EXPECT_EQ(widened(order.new_ids), (std::vector<std::int64_t>{1, 2, 5, 0, 3, 4}));
  EXPECT_EQ(order.hotness, (std::vector<double>{1, 0.5, 0.5, 0.5, 0.5, 0}));
}

TEST(NodeOrder, EachPartitionCountsItsOwnTrainingNodes) {
  // 0 -> 2 and 1 -> 3; training nodes 2 and 3 lie in different partitions, so each heats its own in-neighbour
  // only.
  TinyGraph tiny;
  tiny.num_nodes = 6;
  tiny.src = {0, 1};
  tiny.dst = {2, 3};
  tiny.splits["train"] = {2, 3};
  const std::vector<std::int32_t> partition_of{1, 0, 0, 1, 2, 2};
  const NodeOrder order =
      order_nodes(raw_graph_of(tiny), partition_of, 3, {.fanouts = {1}, .batch_size = 1}, no_progress)[0];
  EXPECT_EQ(order.partition_offsets, (std::vector<std::int64_t>{0, 2, 4, 6}));
  // Partition 0 holds 1 and 2 (trains 2), partition 1 holds 0 and 3 (trains 3), partition 2 trains none: all
  // count.
  EXPECT_EQ(order.original, (std::vector<std::int64_t>{2, 1, 3, 0, 4, 5}));
  EXPECT_EQ(order.hotness, (std::vector<double>{1, 0, 1, 0, 0, 0}));
}

TEST(RowStride, PadsToCacheLinesWhereThatIsCheap) {
  for (const auto& [row, stride] : {std::pair<std::int64_t, std::int64_t>{8, 8},
                                    {60, 60},
                                    {64, 64},
                                    {100, 100},
                                    {400, 400},
                                    {512, 512},
                                    {1000, 1024},
                                    {1020, 1024},
                                    {1024, 1024},
                                    {1028, 1088},
                                    {1024 - 64 - 4, 960}}) {
    EXPECT_EQ(row_stride(row), stride) << row;
  }
}

// What the tiny dataset writer of the test support, the obvious way, makes of the same graph, cut and order.
void expect_same_files(const TinyGraph& tiny, const BuildCut& cut, bool edge_ids) {
  const TempFolder folder;
  const RawGraph graph = raw_graph_of(tiny, edge_ids);
  const DatasetMeta meta = testing::write_dataset(folder.path() / "fast", graph, cut);
  TinyCut slow{
      .partitions = cut.partitions,
      .partition_of = {cut.partition_of.begin(), cut.partition_of.end()},
      .order = order_nodes(graph, cut.partition_of, cut.partitions, cut.hotness, no_progress)[0].original,
      .edge_ids = edge_ids};
  testing::write_tiny_dataset(folder.path() / "slow", tiny, slow);
  const Dataset oracle(folder.path() / "slow");
  EXPECT_EQ(meta.fingerprint, oracle.meta().fingerprint);
  EXPECT_EQ(meta.cut.edges_cut, oracle.meta().cut.edges_cut);
  EXPECT_EQ(testing::files_but_remote_rows(meta), oracle.meta().files.size());
  for (const auto& [path, file] : oracle.meta().files) {
    if (path.ends_with("hotness.npy")) continue;  // made-up numbers there
    EXPECT_EQ(testing::file_bytes(folder.path() / "fast" / path),
              testing::file_bytes(folder.path() / "slow" / path))
        << path;
  }
  testing::verify(folder.path() / "fast");
}

TEST(DatasetBuild, SameFilesAsTheObviousWriter) {
  const TinyGraph tiny = testing::random_graph({.num_nodes = 400, .num_edges = 6'000, .x_width = 4});
  std::vector<std::int32_t> partition_of(400);
  std::mt19937_64 random(5);
  for (auto& p : partition_of) p = static_cast<std::int32_t>(random() % 3);
  for (int threads : {1, 2, 5}) {
    for (bool edge_ids : {true, false}) {
      expect_same_files(tiny,
                        {.partitions = 1,
                         .partition_of = {},
                         .hotness = {.fanouts = {3, 2}, .batch_size = 8, .threads = threads}},
                        edge_ids);
      expect_same_files(tiny,
                        {.partitions = 3,
                         .partition_of = partition_of,
                         .hotness = {.fanouts = {3, 2}, .batch_size = 8, .threads = threads}},
                        edge_ids);
    }
  }
}

TEST(DatasetBuild, AnEmptyPartitionIsKept) {
  const TinyGraph tiny =
      testing::random_graph({.num_nodes = 20, .num_edges = 50, .x_width = 4, .num_train = 10});
  expect_same_files(tiny, {.partitions = 3, .partition_of = std::vector<std::int32_t>(20, 2)}, true);
}

TEST(DatasetBuild, AGraphWithoutEdges) {
  TinyGraph tiny;
  tiny.num_nodes = 3;
  expect_same_files(tiny, {}, true);
}

TEST(DatasetBuild, NonFiniteValuesAreCountedAndKept) {
  TinyGraph tiny = testing::random_graph({.num_nodes = 30, .num_edges = 60, .x_width = 4, .num_train = 10});
  std::uint32_t bits = 0x7FC12345;  // a NaN with a payload
  std::memcpy(&tiny.x[7], &bits, 4);
  tiny.x[50] = std::numeric_limits<float>::infinity();
  const TempFolder folder;
  const RawGraph graph = raw_graph_of(tiny);
  const std::vector<NodeOrder> orders = order_nodes(graph, {}, 1, {}, no_progress);
  DatasetWriter writer(folder.path() / "d");
  const DatasetBuildResult result = build_dataset(writer, graph, orders, {}, no_progress);
  EXPECT_EQ(result.nonfinite, (std::map<std::string, std::int64_t>{{"x", 2}}));
  writer.commit(result.meta);
  const Dataset dataset(folder.path() / "d");
  const AttrView x = dataset.attr(0, "x");
  std::uint32_t stored = 0;
  std::memcpy(&stored, x.parts[0] + dataset.dataset_id(0, 1) * x.stride_bytes + 3 * 4, 4);
  EXPECT_EQ(stored, bits);
}

}  // namespace
}  // namespace hopfeed
