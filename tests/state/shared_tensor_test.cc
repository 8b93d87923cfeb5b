// A table that anybody writes: what is read back, of every type, and that a message is done once.
#include "state/owner/shared_tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "core/base/half_floats.h"
#include "tests/state/owners_fixture.h"

namespace hopfeed {
namespace {

using testing::CutGraph;
using testing::refusal;
using How = SharedTensor::How;

class SharedTensorTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { graph_ = new CutGraph(60); }
  static void TearDownTestSuite() { delete graph_; }
  static inline CutGraph* graph_ = nullptr;

  static TableSpec spec(ElementType type, TableSpec::FirstValues first = TableSpec::FirstValues::kZeros) {
    return {
        .name = "state", .node_type = "node", .dtype = type, .width = 3, .first_values = first, .seed = 2};
  }
  template <class Number>
  static std::vector<Number> read(const SharedTensor& tensor, const std::vector<std::int64_t>& ids) {
    std::vector<Number> rows(ids.size() * 3);
    tensor.read(ids, reinterpret_cast<std::byte*>(rows.data()));
    return rows;
  }
  template <class Number>
  static void write(SharedTensor& tensor, std::uint64_t number, const std::vector<std::int64_t>& ids,
                    const std::vector<Number>& rows, How how = How::kReplace, std::uint64_t client = 1) {
    tensor.write(client, number, ids, std::as_bytes(std::span(rows)), how);
  }

  const std::unique_ptr<Dataset> dataset_ = graph_->open({0, 2});
  const OwnedRows rows_{*dataset_, 0};
  const std::int64_t a_ = rows_.dataset_id(0), b_ = rows_.dataset_id(rows_.count() - 1);
};

TEST_F(SharedTensorTest, RowsThatNobodyWroteAreZerosOrOfTheirOriginalId) {
  SharedTensor zeros(spec(ElementType::kInt64), rows_);
  EXPECT_EQ(read<std::int64_t>(zeros, {a_, b_}), std::vector<std::int64_t>(6, 0));
  const auto uniform = TableSpec::FirstValues::kUniform;
  SharedTensor floats(spec(ElementType::kFloat32, uniform), rows_),
      halves(spec(ElementType::kFloat16, uniform), rows_),
      brains(spec(ElementType::kBfloat16, uniform), rows_);
  std::vector<float> expected(3);
  first_values(2, graph_->whole().original_id(0, b_), std::sqrt(3 / 3.0F), 3, expected.data());
  EXPECT_EQ(read<float>(floats, {b_}), expected);
  for (std::size_t f = 0; f < 3; ++f) {
    EXPECT_EQ(read<std::uint16_t>(halves, {b_})[f], float16_from(expected[f]));
    EXPECT_EQ(read<std::uint16_t>(brains, {b_})[f], bfloat16_from(expected[f]));
  }
  EXPECT_EQ(floats.store().num_written(), 0) << "reading writes nothing";
}

TEST_F(SharedTensorTest, TheLastOfTwoReplaces_AndBothAreAdded) {
  SharedTensor tensor(spec(ElementType::kFloat32), rows_);
  write<float>(tensor, 1, {a_, b_, a_}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_EQ(read<float>(tensor, {b_, a_}), (std::vector<float>{4, 5, 6, 7, 8, 9}));
  write<float>(tensor, 2, {a_, a_}, {1, 1, 1, 2, 2, 2}, How::kAdd);
  EXPECT_EQ(read<float>(tensor, {a_}), (std::vector<float>{10, 11, 12}));
  EXPECT_EQ(tensor.store().num_written(), 2);
}

TEST_F(SharedTensorTest, SumsOfEveryType) {
  SharedTensor whole(spec(ElementType::kInt64), rows_), half(spec(ElementType::kFloat16), rows_),
      brain(spec(ElementType::kBfloat16), rows_);
  write<std::int64_t>(whole, 1, {a_, a_}, {INT64_MAX, 5, -7, 1, 5, 7}, How::kAdd);
  EXPECT_EQ(read<std::int64_t>(whole, {a_}), (std::vector<std::int64_t>{INT64_MIN, 10, 0}));
  const std::vector<std::uint16_t> h(3, float16_from(0.1F)), b(3, bfloat16_from(0.1F));
  for (std::uint64_t number : {1, 2}) {
    write<std::uint16_t>(half, number, {a_}, h, How::kAdd);
    write<std::uint16_t>(brain, number, {a_}, b, How::kAdd);
  }
  EXPECT_EQ(read<std::uint16_t>(half, {a_})[0], float16_from(2 * from_float16(h[0])));
  EXPECT_EQ(read<std::uint16_t>(brain, {a_})[0], bfloat16_from(2 * from_bfloat16(b[0])));
}

TEST_F(SharedTensorTest, ASumToARowThatNobodyWroteBeginsWithItsFirstValue) {
  SharedTensor tensor(spec(ElementType::kFloat32, TableSpec::FirstValues::kUniform), rows_);
  const std::vector<float> first = read<float>(tensor, {a_});
  write<float>(tensor, 1, {a_}, {1, 1, 1}, How::kAdd);
  EXPECT_EQ(read<float>(tensor, {a_}), (std::vector<float>{first[0] + 1, first[1] + 1, first[2] + 1}));
}

TEST_F(SharedTensorTest, AMessageIsDoneOnceForEachClient) {
  SharedTensor tensor(spec(ElementType::kInt64), rows_);
  for (const std::uint64_t client : {7, 8})
    for (int times = 0; times < 3; ++times)
      write<std::int64_t>(tensor, 1, {a_}, {1, 1, 1}, How::kAdd, client);
  EXPECT_EQ(read<std::int64_t>(tensor, {a_})[0], 2);
  EXPECT_NE(refusal([&] {
              write<std::int64_t>(tensor, 3, {a_}, {1, 1, 1}, How::kAdd, 7);
            }).find("message 3 to table 'state' came before message 2"),
            std::string::npos);
}

TEST_F(SharedTensorTest, WhatIsRefusedIsOneLineAndWritesNothing) {
  SharedTensor tensor(spec(ElementType::kInt64), rows_);
  const auto elsewhere = graph_->open({1});
  const std::int64_t other = OwnedRows(*elsewhere, 0).dataset_id(0);
  EXPECT_NE(refusal([&] {
              write<std::int64_t>(tensor, 1, {a_, other}, {1, 1, 1, 1, 1, 1});
            }).find("not in a partition of this owner"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              write<std::int64_t>(tensor, 1, {a_, b_}, {1, 1, 1});
            }).find("too short for its 2 rows"),
            std::string::npos);
  EXPECT_EQ(tensor.store().num_written(), 0);
  write<std::int64_t>(tensor, 1, {a_}, {1, 1, 1});
  EXPECT_EQ(tensor.store().num_written(), 1);
}

TEST_F(SharedTensorTest, OneThatHasNotAllRowsOfACheckpointAnswersNothing) {
  SharedTensor tensor(spec(ElementType::kInt64), rows_);
  write<std::int64_t>(tensor, 1, {a_}, {1, 2, 3});
  tensor.clear();
  const std::vector<std::int64_t> row{4, 5, 6};
  tensor.restore(0, std::as_bytes(std::span(row)).data());
  for (const std::string& said : {refusal([&] { read<std::int64_t>(tensor, {a_}); }), refusal([&] {
                                    write<std::int64_t>(tensor, 1, {a_}, {1, 2, 3});
                                  }),
                                  refusal([&] { tensor.require_whole(); })})
    testing::expect_in(said, "has not all its rows; go back to a checkpoint again");
  tensor.restored();
  EXPECT_EQ(read<std::int64_t>(tensor, {a_}), row);
}

}  // namespace
}  // namespace hopfeed
