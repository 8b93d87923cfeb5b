// See roc_auc.h.
#include "trainer/roc_auc.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace hopfeed {
namespace {

struct Scored {
  double score;
  bool positive;
};

std::vector<Scored> by_score(const torch::Tensor& scores, const torch::Tensor& labels) {
  const torch::Tensor values = scores.detach().to(torch::kCPU, torch::kFloat64).contiguous(),
                      positives = labels.detach().to(torch::kCPU).gt(0).contiguous();
  const double* value = values.const_data_ptr<double>();
  const bool* positive = positives.const_data_ptr<bool>();
  std::vector<Scored> sorted(static_cast<std::size_t>(values.numel()));
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    require_valid(!std::isnan(value[i]), "score " + std::to_string(i) +
                                             " is NaN, so links cannot be ordered by it; is the learning "
                                             "rate too high?");
    sorted[i] = {value[i], positive[i]};
  }
  std::sort(sorted.begin(), sorted.end(), [](const Scored& a, const Scored& b) { return a.score < b.score; });
  return sorted;
}

}  // namespace

double roc_auc(const torch::Tensor& scores, const torch::Tensor& labels) {
  require_valid(scores.dim() == 1 && labels.dim() == 1 && scores.size(0) == labels.size(0),
                "roc_auc takes a label for each score: vectors of one length");
  const std::vector<Scored> sorted = by_score(scores, labels);
  std::uint64_t positives = 0, negatives = 0;  // so far, from the lowest score on
  std::uint64_t half_wins = 0;                 // two for a pair that is won, one for a tie
  for (std::size_t begin = 0; begin < sorted.size();) {
    std::uint64_t tied[2] = {0, 0};  // negatives, positives of one score
    const double score = sorted[begin].score;
    for (; begin < sorted.size() && sorted[begin].score == score; ++begin) ++tied[sorted[begin].positive];
    half_wins += tied[1] * (2 * negatives + tied[0]);
    negatives += tied[0];
    positives += tied[1];
  }
  require_valid(positives > 0 && negatives > 0,
                "ROC-AUC compares positives with negatives, of which there are " + std::to_string(positives) +
                    " and " + std::to_string(negatives) + "; draw negatives (binary)");
  return static_cast<double>(half_wins) / 2 / static_cast<double>(positives) / static_cast<double>(negatives);
}

}  // namespace hopfeed
