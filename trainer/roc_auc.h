// Computes the area under the ROC curve exactly: the share of all pairs of a positive and a negative in which
// the positive has the higher score, a tie counted as half. It counts in integers on sorted scores, so
// neither order nor threads change the result.
#pragma once
#include <torch/torch.h>

namespace hopfeed {

/// Returns the area. `scores` [n] are of any real type; `labels` [n] above 0 are positives. Throws kInvalid
/// where lengths differ, a score is NaN, or one of the two kinds is missing.
double roc_auc(const torch::Tensor& scores, const torch::Tensor& labels);

}  // namespace hopfeed
