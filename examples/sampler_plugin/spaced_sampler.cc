// A sampler of one's own in thirty lines: of each row it takes neighbours that are evenly spaced over the
// imported order, from a start that is drawn. It is built as a shared library, which loaders and workers
// load:
//
//   hopfeed-sample DATASET --plugin libspaced_sampler.so --sampler spaced --sampler-options 10,5
//
// --sampler-options are the neighbours that a row gives at most, hop by hop.
#include <algorithm>

#include "core/sampler/row_by_row_sampler.h"
#include "core/sampler/sampler_plugin.h"

namespace {

class SpacedSampler : public hopfeed::RowByRowSampler {
 public:
  SpacedSampler(const hopfeed::Dataset& dataset, const hopfeed::BatchOptions& options)
      : RowByRowSampler(dataset, hopfeed::parse_fanouts(options.sampler_options, "sampler_options")) {}

  // Draws are keyed by batch, hop, edge type and node: the same wherever and whenever the batch is made.
  void pick(const hopfeed::HopRow& row, std::vector<std::uint64_t>& picks) override {
    const std::uint64_t taken = std::min(row.degree, row.most);
    const std::uint64_t start = row.degree > taken ? draw_below_wide(row.draws, 0, row.degree) : 0;
    for (std::uint64_t j = 0; j < taken; ++j) picks.push_back((start + j * row.degree / taken) % row.degree);
  }
};

}  // namespace

HOPFEED_SAMPLER_PLUGIN("spaced", SpacedSampler)
