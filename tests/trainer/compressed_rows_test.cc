// Compressed rows: what is refused, and the transposed ones against sets of edges.
#include "trainer/compressed_rows.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/trainer/random_edges.h"

namespace hopfeed {
namespace {

TEST(CompressRows, RefusesEdgesThatDoNotFit) {
  const auto refused = [](const torch::Tensor& edge_index) {
    try {
      compress_rows(edge_index.contiguous(), 3, 5);
    } catch (const Error& error) {
      return error.code() == ErrorCode::kCorrupt;
    }
    return false;
  };
  EXPECT_TRUE(refused(torch::tensor({{1, 5}, {0, 1}}, torch::kInt64))) << "source too large";
  EXPECT_TRUE(refused(torch::tensor({{1, -1}, {0, 1}}, torch::kInt64))) << "source negative";
  EXPECT_TRUE(refused(torch::tensor({{1, 2}, {0, 3}}, torch::kInt64))) << "destination too large";
  EXPECT_TRUE(refused(torch::tensor({{1, 2}, {-1, 0}}, torch::kInt64))) << "destination negative";
  EXPECT_TRUE(refused(torch::tensor({{1, 2}, {1, 0}}, torch::kInt64))) << "destinations fall";
  EXPECT_FALSE(refused(torch::tensor({{1, 4}, {0, 2}}, torch::kInt64)));
}

TEST(CompressedRows, TransposedHoldsEachEdgeOnce_InTheOrderOfTheEdges) {
  const testing::Edges edges = testing::random_edges(50, 30, 7, 1);
  const CompressedRows transposed =
      compress_rows(edges.edge_index, edges.rows, edges.sources).transposed(edges.sources);
  std::vector<std::vector<std::int64_t>> expected(static_cast<std::size_t>(edges.sources));
  for (std::int64_t k = 0; k < edges.edge_index.size(1); ++k)
    expected[edges.edge_index[0][k].item<std::int64_t>()].push_back(
        edges.edge_index[1][k].item<std::int64_t>());
  ASSERT_EQ(transposed.num_rows(), edges.sources);
  const std::int64_t* rowptr = transposed.rowptr.const_data_ptr<std::int64_t>();
  const std::int64_t* col = transposed.col.const_data_ptr<std::int64_t>();
  for (std::int64_t s = 0; s < edges.sources; ++s)
    EXPECT_EQ(std::vector<std::int64_t>(col + rowptr[s], col + rowptr[s + 1]), expected[s]) << "source " << s;
}

TEST(CompressedRows, TransposedOfAPrefixLeavesTheOtherEdgesOut) {
  const CompressedRows rows = compress_rows(torch::tensor({{1, 2, 1, 0}, {0, 0, 1, 2}}, torch::kInt64), 3, 3);
  const CompressedRows transposed = rows.prefix(2).transposed(3);
  EXPECT_TRUE(torch::equal(transposed.rowptr, torch::tensor({0, 0, 2, 3}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(transposed.col, torch::tensor({0, 1, 0}, torch::kInt64)));
}

TEST(FilledRows, HoldTheRowsWithEdgesAlone) {
  const CompressedRows all = compress_rows(torch::tensor({{1, 2, 1, 0}, {1, 1, 2, 4}}, torch::kInt64), 6, 3);
  const FilledRows filled(all);
  EXPECT_TRUE(torch::equal(filled.ids, torch::tensor({1, 2, 4}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(filled.rows.rowptr, torch::tensor({0, 2, 3, 4}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(filled.rows.col, torch::tensor({1, 2, 1, 0}, torch::kInt64)));
  const FilledRows below = filled.below(4);
  EXPECT_TRUE(torch::equal(below.ids, torch::tensor({1, 2}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(below.rows.col, torch::tensor({1, 2, 1}, torch::kInt64)));
  EXPECT_TRUE(filled.below(1).empty());
  EXPECT_TRUE(FilledRows(all.prefix(1)).empty());
}

}  // namespace
}  // namespace hopfeed
