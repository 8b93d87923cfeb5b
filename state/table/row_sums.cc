// See row_sums.h.
#include "state/table/row_sums.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
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

struct Lookup {
  std::uint64_t key = 0;  // the row, from the least one on
  std::uint32_t number = 0;
};

/// Lookups by row, those of one row in their order: sorted by one digit of the key after the other, from the
/// lowest on (LSD radix sort), since many rows that lie anywhere are what a comparison guesses worst at.
std::vector<Lookup> sorted_by_row(std::span<const std::int64_t> rows) {
  constexpr int kMostBits = 11;  // of a digit: its counters stay in the nearest cache
  if (rows.empty()) return {};
  const auto [least, most] = std::ranges::minmax(rows);
  const auto key_of = [least = least](std::int64_t row) {
    return static_cast<std::uint64_t>(row) - static_cast<std::uint64_t>(least);
  };
  std::vector<Lookup> sorted(rows.size()), other(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) sorted[i] = {key_of(rows[i]), static_cast<std::uint32_t>(i)};
  const int bits = std::bit_width(key_of(most)), digits = (bits + kMostBits - 1) / kMostBits;
  for (int digit = 0; digit < digits; ++digit) {
    const int first = bits * digit / digits, end = bits * (digit + 1) / digits;
    const std::uint64_t mask = (std::uint64_t{1} << (end - first)) - 1;
    std::array<std::uint32_t, std::size_t{1} << kMostBits> at{};  // of each digit, where its next one goes
    for (const Lookup& lookup : sorted) ++at[lookup.key >> first & mask];
    std::exclusive_scan(at.begin(), at.end(), at.begin(), 0U);
    for (const Lookup& lookup : sorted) other[at[lookup.key >> first & mask]++] = lookup;
    std::swap(sorted, other);
  }
  return sorted;
}

}  // namespace

void serial_for(std::int64_t count, const std::function<void(std::int64_t, std::int64_t)>& body) {
  if (count > 0) body(0, count);
}

RowGroups::RowGroups(std::span<const std::int64_t> lookups) {
  require_valid(lookups.size() < UINT32_MAX, "a step looks up 2^32 rows or more; use smaller batches");
  order_.reserve(lookups.size());
  for (const auto& [key, lookup] : sorted_by_row(lookups)) {
    const std::int64_t row = lookups[lookup];
    if (rows_.empty() || rows_.back() != row) {
      rows_.push_back(row);
      begin_.push_back(static_cast<std::uint32_t>(order_.size()));
    }
    order_.push_back(lookup);
  }
  begin_.push_back(static_cast<std::uint32_t>(order_.size()));
}

void RowGroups::sum_of(std::size_t group, const float* gradients, std::int64_t width, float* sum) const {
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

void RowGroups::sum(const float* gradients, std::int64_t width, float* out,
                    const ParallelFor& parallel) const {
  parallel(static_cast<std::int64_t>(rows_.size()), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t group = first; group < last; ++group)
      sum_of(static_cast<std::size_t>(group), gradients, width, out + group * width);
  });
}

}  // namespace hopfeed
