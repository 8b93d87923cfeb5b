// No 32-bit truncation anywhere: a graph of three billion nodes and five billion edges, of which a few are there and the rest is a
// hole in the files.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "core/error.h"
#include "core/npy.h"
#include "tests/core/made_batch.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;
using Ints = std::vector<std::int64_t>;

constexpr std::int64_t kNodes = 3'000'000'000, kEdges = 5'000'000'000;
constexpr std::int64_t kA = (std::int64_t{1} << 31) + 5, kB = (std::int64_t{1} << 31) + 9, kC = kNodes - 1;
constexpr std::int64_t kLow = 7, kEdge = (std::int64_t{1} << 31) - 1;  // without in-edges
constexpr std::int64_t kHub = 100, kHubDegree = 4'400'000'000;         // a row of more than 2^32 edges

/// A file of the dataset: a head, and a hole with a few elements in it.
class SparseFile {
 public:
  SparseFile(DatasetMeta& meta, const fs::path& folder, const std::string& relative, const std::string& descr,
             const std::vector<std::int64_t>& shape, std::size_t item_bytes)
      : item_bytes_(item_bytes) {
    fs::create_directories((folder / relative).parent_path());
    const std::string head = npy_head(descr, shape);
    std::ofstream(folder / relative, std::ios::binary) << head;
    const std::uint64_t bytes = head.size() + static_cast<std::uint64_t>(shape[0]) * item_bytes;
    fs::resize_file(folder / relative, bytes);
    meta.files[relative] = {.bytes = bytes, .xxh3 = 0};
    head_bytes_ = head.size();
    file_.open(folder / relative, std::ios::binary | std::ios::in | std::ios::out);
  }
  template <class T>
  void put(std::int64_t at, T value) {
    file_.seekp(static_cast<std::streamoff>(head_bytes_ + static_cast<std::size_t>(at) * item_bytes_));
    file_.write(reinterpret_cast<const char*>(&value), sizeof(value));
  }

 private:
  std::size_t item_bytes_, head_bytes_ = 0;
  std::fstream file_;
};

class LargeIds : public ::testing::Test {
 protected:
  void SetUp() override {
    const fs::path folder = folder_.path() / "graph";
    NodeTypeMeta node{.count = kNodes,
                      .partition_offsets = {0, kNodes},
                      .new_id_type = ElementType::kInt64,
                      .attrs = {{.name = "x", .shape = {1}, .stride_bytes = 4}}};
    EdgeTypeMeta edge{.count = kEdges,
                      .partition_edges = {kEdges},
                      .index_type = ElementType::kInt64,
                      .has_edge_ids = true,
                      .edge_id_type = ElementType::kInt64};
    DatasetMeta meta{.name = "sparse", .fingerprint = std::string(32, '0'), .made_by = "test"};
    SparseFile new_ids(meta, folder, new_ids_path(node), npy_descr(ElementType::kInt64), {kNodes}, 8);
    SparseFile x(meta, folder, attr_path(0, node, "x"), npy_descr(ElementType::kFloat32), {kNodes, 1}, 4);
    SparseFile hotness(meta, folder, hotness_path(0, node), npy_descr(ElementType::kFloat64), {kNodes}, 8);
    SparseFile rows(meta, folder, rows_path(0, edge), kRowRecordDescr, {kNodes + 1}, sizeof(RowRecord));
    SparseFile indices(meta, folder, indices_path(0, edge), npy_descr(ElementType::kInt64), {kEdges}, 8);
    SparseFile edge_ids(meta, folder, edge_ids_path(0, edge), npy_descr(ElementType::kInt64), {kEdges}, 8);
    for (const std::int64_t v : {kA, kB, kC, kLow, kEdge, kHub}) {
      new_ids.put(v, v);
      x.put(v, static_cast<float>(v % 1'000));
      rows.put(v, RowRecord{.offset = 0, .original_id = v});
    }
    std::int64_t at = kHubDegree + 5;
    for (const auto& [v, sources] : rows_of_) {
      if (v == kC)
        at = kEdges - static_cast<std::int64_t>(sources.size());  // the last row ends with the edges
      rows.put(v, RowRecord{.offset = at, .original_id = v});
      for (const std::int64_t source : sources) {
        indices.put(at, source);
        edge_ids.put(at, at);
        ids_of_[v].push_back(at++);
      }
      rows.put(v + 1, RowRecord{.offset = at, .original_id = v == kC ? -1 : v + 1});
    }
    rows.put(kHub + 1, RowRecord{.offset = kHubDegree, .original_id = kHub + 1});
    meta.node_types = {node};
    meta.edge_types = {edge};
    std::ofstream(folder / "meta.json") << format_meta(meta);
  }

  testing::Block batch(const Ints& seeds, const BatchOptions& options) {
    dataset_.emplace(folder_.path() / "graph");
    return testing::make_batch(*dataset_, {.seeds = seeds}, options);
  }

  std::map<std::int64_t, Ints> rows_of_{{kA, {kB, kC, kLow}}, {kB, {kA, kA}}, {kC, {kA, kB, kC, kEdge}}};
  std::map<std::int64_t, Ints> ids_of_;
  testing::TempFolder folder_;
  std::optional<Dataset> dataset_;
};

/// (source, destination, edge id) of each edge, by original id, and that they are the rows'.
void expect_real(const BatchView& batch, const std::map<std::int64_t, Ints>& rows,
                 const std::map<std::int64_t, Ints>& ids) {
  const Ints sources = testing::source_row(batch), targets = testing::target_row(batch);
  const auto e_id = batch.get("e_id", Store::kEdge).as<std::int64_t>();
  EXPECT_FALSE(sources.empty());
  for (std::size_t e = 0; e < sources.size(); ++e) {
    const std::int64_t target = batch.n_id()[static_cast<std::size_t>(targets[e])];
    const Ints& of_row = ids.at(target);
    const auto at = std::find(of_row.begin(), of_row.end(), e_id[e]);
    ASSERT_NE(at, of_row.end()) << e_id[e];
    EXPECT_EQ(batch.n_id()[static_cast<std::size_t>(sources[e])],
              rows.at(target)[static_cast<std::size_t>(at - of_row.begin())]);
  }
  const auto x = batch.get("x", Store::kNode).as<float>();
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(x[i], static_cast<float>(batch.n_id()[i] % 1'000));
}

TEST_F(LargeIds, AllNeighbours_AreNamedInFull) {
  const testing::Block block = batch({kA, kC}, {.fanouts = {-1, -1}, .edge_ids = true});
  EXPECT_EQ(testing::ints(block.view().n_id()), (Ints{kA, kC, kB, kLow, kEdge}));
  EXPECT_EQ(testing::source_row(block.view()), (Ints{2, 1, 3, 0, 2, 1, 4, 0, 0}));
  EXPECT_EQ(testing::target_row(block.view()), (Ints{0, 0, 0, 1, 1, 1, 1, 2, 2}));
  expect_real(block.view(), rows_of_, ids_of_);
}

TEST_F(LargeIds, EveryKindOfDraw_TakesRealEdges) {
  BatchOptions walk{.sampler = BatchOptions::kWalkSampler};
  walk.walk = {.length = 6, .per_seed = 4};
  BatchOptions labor{.fanouts = {2, 2}}, induced{.fanouts = {2, 2}};
  labor.labor = true;
  induced.subgraph = Subgraph::kInduced;
  for (BatchOptions options :
       {BatchOptions{.fanouts = {2, 2}}, BatchOptions{.fanouts = {2, 2}, .replace = true},
        BatchOptions{.fanouts = {2, 2}, .disjoint = true}, labor, induced, walk}) {
    options.edge_ids = true;
    expect_real(batch({kC, kA, kB}, options).view(), rows_of_, ids_of_);
  }
}

// Its neighbours are the hole: node 0, edge id 0.
TEST_F(LargeIds, ARowOfMoreThan2To32Edges_IsDrawnFrom) {
  for (const bool replace : {false, true}) {
    const testing::Block block = batch({kHub}, {.fanouts = {3}, .replace = replace, .edge_ids = true});
    EXPECT_EQ(testing::ints(block.view().n_id()), (Ints{kHub, 0}));
    EXPECT_EQ(testing::source_row(block.view()), (Ints{1, 1, 1}));
  }
}

TEST_F(LargeIds, SeedsBeyondTheGraph_AreRefused) {
  for (const std::int64_t seed : {kNodes, kNodes + (std::int64_t{1} << 32), std::int64_t{1} << 62}) {
    try {
      batch({seed}, {.fanouts = {2}});
      FAIL() << seed;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(std::to_string(seed)), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace hopfeed
