// See free_pairs.h.
#include "partition_tool/free_pairs.h"

#include <algorithm>
#include <numeric>

#include "core/base/parallel_ranges.h"

namespace hopfeed {

FreePairs::FreePairs(const Csc& csc, const std::vector<std::pair<std::int64_t, std::int64_t>>& taken,
                     const Options& options)
    : csc_(csc), options_(options), before_(csc.num_rows() + 1) {
  taken_.reserve(taken.size());
  for (const auto& [source, destination] : taken) taken_.emplace_back(destination, source);
  std::ranges::sort(taken_);
  parallel_ranges(options_.threads, csc_.num_rows(), [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t v = begin; v < end; ++v) before_[v + 1] = options_.num_sources - std::ssize(blocked(v));
  });
  std::partial_sum(before_.begin(), before_.end(), before_.begin());
}

std::vector<std::int64_t> FreePairs::blocked(std::int64_t destination) const {
  std::vector<std::int64_t> sources;
  std::visit(
      [&](const auto& ids) {
        sources.assign(ids.begin() + csc_.indptr[destination], ids.begin() + csc_.indptr[destination + 1]);
      },
      csc_.indices);
  for (auto at = std::ranges::lower_bound(taken_, std::pair(destination, std::int64_t{0}));
       at != taken_.end() && at->first == destination; ++at)
    sources.push_back(at->second);
  if (options_.square) sources.push_back(destination);
  std::ranges::sort(sources);
  sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
  return sources;
}

std::pair<std::int64_t, std::int64_t> FreePairs::pair(std::int64_t number) const {
  const std::int64_t destination = std::ranges::upper_bound(before_, number) - before_.begin() - 1;
  // i of the sources below blocked[i] are blocked, so blocked[i] - i are free.
  const std::vector<std::int64_t> sources = blocked(destination);
  const std::int64_t rank = number - before_[destination];
  std::int64_t low = 0, high = std::ssize(sources);
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    sources[middle] - middle <= rank ? low = middle + 1 : high = middle;
  }
  return {rank + low, destination};
}

}  // namespace hopfeed
