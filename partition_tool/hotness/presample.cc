// See presample.h.
#include "partition_tool/hotness/presample.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <numeric>

#include "core/base/parallel_ranges.h"
#include "core/batch/aligned_block.h"
#include "core/batch/batch_view.h"
#include "core/batch/deal.h"
#include "core/batch/field_names.h"
#include "core/maker/batch_maker.h"
#include "core/seeds/node_list.h"

namespace hopfeed {
namespace {

std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (std::size_t i = begin; i < end; ++i) ranks[order[i]] = static_cast<double>(begin + end - 1) / 2;
  }
  return ranks;
}

}  // namespace

std::vector<std::vector<std::int64_t>> presample(const Dataset& dataset, std::span<const std::int64_t> seeds,
                                                 const PresampleOptions& options) {
  return count_reads(dataset, seeds, {.fanouts = options.fanouts}, options);
}

std::vector<std::vector<std::int64_t>> count_reads(const Dataset& dataset,
                                                   std::span<const std::int64_t> seeds, BatchOptions batch,
                                                   const PresampleOptions& options) {
  batch.dataset_ids = true;
  batch.edge_ids = false;
  batch.attrs.emplace();
  batch.edge_attrs.clear();
  const NodeList list(seeds, {.node_type = options.node_type});
  const Deal deal({.batch_size = options.batch_size}, list.size());
  std::vector<std::vector<std::int64_t>> counts;
  for (int t = 0; t < dataset.num_node_types(); ++t) counts.emplace_back(dataset.num_nodes(t));
  std::mutex mutex;
  std::atomic<std::int64_t> made = 0;
  parallel_ranges(
      options.threads, deal.steps() * options.epochs, [&](int worker, std::int64_t begin, std::int64_t end) {
        BatchMaker maker(dataset, list, batch);
        AlignedBlock buffer;
        std::vector<std::vector<std::int64_t>> own;
        for (const std::vector<std::int64_t>& type : counts) own.emplace_back(type.size());
        for (std::int64_t i = begin; i < end; ++i) {
          const Deal::Range range = deal.batch(i % deal.steps(), 0);
          const auto block = buffer.resize(maker.sample(
              {.seed = options.seed, .epoch = i / deal.steps(), .first = range.first, .count = range.count}));
          maker.write(block);
          const BatchView made_batch(block);
          for (int t = 0; t < dataset.num_node_types(); ++t) {
            for (std::int64_t v : made_batch.get(batch_field::kDatasetId, Store::kNode, t).as<std::int64_t>())
              ++own[t][v];
          }
          ++made;
          if (worker == 0 && options.progress) options.progress(made, deal.steps() * options.epochs);
        }
        const std::lock_guard lock(mutex);
        for (std::size_t t = 0; t < counts.size(); ++t) {
          for (std::size_t v = 0; v < counts[t].size(); ++v) counts[t][v] += own[t][v];
        }
      });
  return counts;
}

double rank_correlation(std::span<const double> a, std::span<const double> b) {
  const std::vector<double> x = ranks_of(a), y = ranks_of(b);
  const double mean = (static_cast<double>(x.size()) - 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0.0;
}

}  // namespace hopfeed
