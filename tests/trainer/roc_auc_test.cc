// ROC-AUC on scores whose answer is written out, and against the count of all pairs.
#include "trainer/roc_auc.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/base/error.h"

namespace hopfeed {
namespace {

double auc(const std::vector<double>& scores, const std::vector<float>& labels) {
  return roc_auc(torch::tensor(scores, torch::kFloat64), torch::tensor(labels));
}

std::string refusal(const std::vector<double>& scores, const std::vector<float>& labels) {
  try {
    auc(scores, labels);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalid);
    return error.what();
  }
  return "accepted";
}

TEST(RocAuc, HandWrittenAnswers) {
  EXPECT_EQ(auc({0.1, 0.4, 0.35, 0.8}, {0, 0, 1, 1}), 0.75) << "scikit-learn's own example";
  EXPECT_EQ(auc({1, 2, 3, 4}, {0, 0, 1, 1}), 1);
  EXPECT_EQ(auc({4, 3, 2, 1}, {0, 0, 1, 1}), 0);
  EXPECT_EQ(auc({3, 1, 2}, {1, 0, 0}), 1);
  EXPECT_EQ(auc({1, 2, 3, 4, 5, 6}, {0, 1, 0, 1, 0, 1}), 6.0 / 9);
}

TEST(RocAuc, ATieIsHalfAWin) {
  EXPECT_EQ(auc({5, 5, 5, 5}, {0, 1, 1, 0}), 0.5);
  EXPECT_EQ(auc({1, 2, 2, 3}, {0, 0, 1, 1}), 3.5 / 4);
  EXPECT_EQ(auc({0.0, -0.0}, {1, 0}), 0.5) << "the two zeros are equal";
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(auc({infinity, infinity, -infinity}, {1, 0, 0}), 0.75);
}

TEST(RocAuc, LabelsOfAnyTypeAndScoresOfAnyType) {
  EXPECT_EQ(roc_auc(torch::tensor({1.5F, 0.5F, 2.5F}), torch::tensor({0, 0, 3}, torch::kInt64)), 1);
  EXPECT_EQ(roc_auc(torch::tensor({1, 2, 2}, torch::kInt64), torch::tensor({0, 0, 1}, torch::kInt64)), 0.75);
}

TEST(RocAuc, EqualsTheCountOfAllPairs) {
  torch::manual_seed(3);
  for (int round = 0; round < 20; ++round) {
    const torch::Tensor scores = torch::randint(12, {200}, torch::kFloat32),
                        labels = torch::randint(2, {200}, torch::kInt64);
    const torch::Tensor positive = scores.masked_select(labels > 0).unsqueeze(1),
                        negative = scores.masked_select(labels <= 0).unsqueeze(0);
    const double wins = (positive > negative).sum().item<double>(),
                 ties = (positive == negative).sum().item<double>();
    EXPECT_NEAR(roc_auc(scores, labels), (wins + ties / 2) / (positive.numel() * negative.numel()), 1e-14);
    const torch::Tensor order = torch::randperm(200);
    EXPECT_EQ(roc_auc(scores.index_select(0, order), labels.index_select(0, order)), roc_auc(scores, labels));
  }
}

TEST(RocAuc, WhatHasNoAnswerIsRefused) {
  EXPECT_NE(refusal({1, 2}, {1, 1}).find("are 2 and 0"), std::string::npos);
  EXPECT_NE(refusal({1, 2}, {0, 0}).find("are 0 and 2"), std::string::npos);
  EXPECT_NE(refusal({}, {}).find("are 0 and 0"), std::string::npos);
  EXPECT_NE(refusal({1, std::numeric_limits<double>::quiet_NaN()}, {0, 1}).find("score 1 is NaN"),
            std::string::npos);
  EXPECT_NE(refusal({1, 2, 3}, {0, 1}).find("one length"), std::string::npos);
}

}  // namespace
}  // namespace hopfeed
