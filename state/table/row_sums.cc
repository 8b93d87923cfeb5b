// See row_sums.h.
#include "state/table/row_sums.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/prefetch.h"
#include "state/table/row_formulas.h"

namespace hopfeed {
namespace {

constexpr std::size_t kGradientsAhead = 4;  // lie anywhere, so each is asked for before it is read

void prefetch_gradient(const float* row, std::int64_t width) {
  for (std::int64_t f = 0; f < width; f += 16) prefetch_line(row + f);
}

}  // namespace

void serial_for(std::int64_t count, const std::function<void(std::int64_t, std::int64_t)>& body) {
  if (count > 0) body(0, count);
}

RowGroups::RowGroups(std::span<const std::int64_t> lookups) {
  require_valid(lookups.size() < UINT32_MAX, "a step looks up 2^32 rows or more; use smaller batches");
  std::vector<std::pair<std::int64_t, std::uint32_t>> sorted(lookups.size());  // a row, and which lookup
  for (std::size_t i = 0; i < lookups.size(); ++i) sorted[i] = {lookups[i], static_cast<std::uint32_t>(i)};
  std::ranges::sort(sorted);
  order_.reserve(sorted.size());
  for (const auto& [row, lookup] : sorted) {
    if (rows_.empty() || rows_.back() != row) {
      rows_.push_back(row);
      begin_.push_back(static_cast<std::uint32_t>(order_.size()));
    }
    order_.push_back(lookup);
  }
  begin_.push_back(static_cast<std::uint32_t>(order_.size()));
}

void RowGroups::sum(const float* gradients, std::int64_t width, float* out,
                    const ParallelFor& parallel) const {
  parallel(static_cast<std::int64_t>(rows_.size()), [&](std::int64_t first, std::int64_t last) {
    for (auto group = static_cast<std::size_t>(first); group < static_cast<std::size_t>(last); ++group) {
      float* sum = out + static_cast<std::int64_t>(group) * width;
      for (std::size_t i = begin_[group]; i < begin_[group + 1]; ++i) {
        if (i + kGradientsAhead < order_.size())
          prefetch_gradient(gradients + order_[i + kGradientsAhead] * width, width);
        const float* gradient = gradients + order_[i] * width;
        if (i == begin_[group])
          std::copy_n(gradient, width, sum);
        else
          add_row(gradient, width, sum);
      }
    }
  });
}

void RowGroups::spread(const float* values, std::int64_t width, float* out,
                       const ParallelFor& parallel) const {
  parallel(static_cast<std::int64_t>(rows_.size()), [&](std::int64_t first, std::int64_t last) {
    for (auto group = static_cast<std::size_t>(first); group < static_cast<std::size_t>(last); ++group)
      for (std::size_t i = begin_[group]; i < begin_[group + 1]; ++i)
        std::copy_n(values + static_cast<std::int64_t>(group) * width, width, out + order_[i] * width);
  });
}

}  // namespace hopfeed
