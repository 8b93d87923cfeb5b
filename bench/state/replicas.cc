// See replicas.h. trainer/dist_embedding.cc is what it stands for.
#include "bench/state/replicas.h"

#include <time.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "core/base/parallel_ranges.h"

namespace hopfeed::bench {
namespace {

double process_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

ParallelFor on_threads(int threads) {
  return [threads](std::int64_t count, const std::function<void(std::int64_t, std::int64_t)>& body) {
    parallel_ranges(threads, count, [&body](int, std::int64_t begin, std::int64_t end) {
      if (begin < end) body(begin, end);
    });
  };
}

}  // namespace

Replicas::Replicas(std::unique_ptr<LearnedTable> table, int threads)
    : table_(std::move(table)), parallel_(on_threads(threads)) {}

/// To one rank: the sums of all.
void Replicas::exchange(const std::vector<Learned>& by_rank) {
  exchanged_.resize(by_rank.size());
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const Learned& from = by_rank[rank];
    Learned& to = exchanged_[rank];
    to.rows = from.rows;
    to.sums.resize(from.sums.size());
    parallel_(std::ssize(from.sums), [&](std::int64_t begin, std::int64_t end) {
      std::copy(from.sums.begin() + begin, from.sums.begin() + end, to.sums.begin() + begin);
    });
  }
}

double Replicas::step(const std::vector<const std::vector<std::int64_t>*>& lookups, const float* gradients) {
  const std::int64_t width = table_->options().width;
  const auto ranks = std::ssize(lookups);
  learned_.resize(lookups.size());
  const double begin = process_cpu_seconds();
  for (std::size_t rank = 0; rank < lookups.size(); ++rank) {
    const std::vector<std::int64_t>& ids = *lookups[rank];
    read_.resize(ids.size() * static_cast<std::size_t>(width));
    table_->read(ids, read_.data(), parallel_);
    const RowGroups groups(ids);
    learned_[rank].rows = groups.rows();
    learned_[rank].sums.resize(groups.rows().size() * static_cast<std::size_t>(width));
    groups.sum(gradients, width, learned_[rank].sums.data(), parallel_);
  }
  const double own = process_cpu_seconds();
  if (ranks > 1) exchange(learned_);
  std::vector<RowSums> by_rank;
  for (const Learned& learned : ranks > 1 ? exchanged_ : learned_)
    by_rank.push_back({learned.rows, learned.sums.data()});
  table_->step(by_rank, ranks, parallel_);
  return (own - begin) + static_cast<double>(ranks) * (process_cpu_seconds() - own);
}

}  // namespace hopfeed::bench
