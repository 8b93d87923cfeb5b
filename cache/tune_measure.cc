// See tune_measure.h.
#include "cache/tune_measure.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "cache/hit_curve.h"
#include "core/batch/aligned_block.h"
#include "core/batch/batch_view.h"
#include "core/batch/deal.h"
#include "core/batch/held_share.h"
#include "core/dataset/row_gather.h"
#include "core/maker/batch_maker.h"
#include "core/seeds/node_list.h"

namespace hopfeed {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_from(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

constexpr int kRatios = 101;  // 0%, 1%, ... 100%

std::vector<HeldShare> ratio_grid() {
  std::vector<HeldShare> shares;
  for (std::uint32_t i = 0; i < kRatios; ++i)
    shares.push_back({.millionths = i * (HeldShare::kAll / (kRatios - 1))});
  return shares;
}

bool carries(const BatchOptions& batch, const std::string& attr) {
  return !batch.attrs || std::ranges::find(*batch.attrs, attr) != batch.attrs->end();
}

/// Bytes a second of a consumer that puts rows together which it holds: the batch's nodes, from memory that
/// lies as densely as held rows do; 0 where batches carry none.
double complete_rate(const Dataset& dataset, const TunePassOptions& options, const BatchView& batch) {
  double bytes = 0, seconds = 0;
  std::vector<std::byte> out;
  for (int t = 0; t < dataset.num_node_types(); ++t) {
    const auto ids = batch.get("n_id", Store::kNode, t).as<std::int64_t>();
    for (const AttrMeta& attr : dataset.meta().node_types[t].attrs) {
      if (!carries(options.batch, attr.name) || ids.empty()) continue;
      const AttrView view = dataset.attr(t, attr.name);
      out.resize(std::max<std::size_t>(out.size(), ids.size() * static_cast<std::size_t>(view.row_bytes)));
      gather_rows(view, ids, out.data());  // the pages of `out` are there from now on, as pooled memory's are
      const auto begin = Clock::now();
      gather_rows(view, ids, out.data());
      seconds += seconds_from(begin);
      bytes += static_cast<double>(ids.size()) * static_cast<double>(view.row_bytes);
    }
  }
  return seconds > 0 ? bytes / seconds : 0.0;
}

/// Per type with rows, each row's place in an order of all rows whose prefixes are the same share of every
/// type and partition: by how far behind it stands in its partition.
std::vector<std::vector<std::int64_t>> places_of_rows(const Dataset& dataset, const TunePass& pass,
                                                      std::int64_t& count) {
  struct Row {
    double behind = 0;
    std::size_t type = 0;
    std::int64_t id = 0;
  };
  std::vector<Row> rows;
  std::vector<std::vector<std::int64_t>> places(pass.row_bytes.size());
  for (std::size_t t = 0; t < places.size(); ++t) {
    if (pass.row_bytes[t] == 0) continue;
    const std::vector<std::int64_t>& offsets = dataset.meta().node_types[t].partition_offsets;
    places[t].resize(offsets.back());
    for (std::size_t p = 0; p + 1 < offsets.size(); ++p) {
      const auto size = static_cast<double>(offsets[p + 1] - offsets[p]);
      for (std::int64_t id = offsets[p]; id < offsets[p + 1]; ++id)
        rows.push_back({.behind = static_cast<double>(id - offsets[p] + 1) / size, .type = t, .id = id});
    }
  }
  std::ranges::stable_sort(rows, {}, &Row::behind);
  for (const Row& row : rows) places[row.type][row.id] = count++;
  return places;
}

}  // namespace

TunePass measure_batches(const Dataset& dataset, std::span<const std::int64_t> seeds,
                         const TunePassOptions& options) {
  BatchOptions batch_options = options.batch;
  batch_options.dataset_ids = true;
  const NodeList list(seeds, {.node_type = options.node_type});
  const Deal deal({.batch_size = options.batch_size}, list.size());
  BatchMaker maker(dataset, list, batch_options);
  TunePass pass{.epoch_batches = deal.steps()};
  for (int t = 0; t < dataset.num_node_types(); ++t) {
    pass.counts.emplace_back(dataset.num_nodes(t));
    pass.row_bytes.push_back(0);
    for (const AttrMeta& attr : dataset.meta().node_types[t].attrs)
      if (carries(options.batch, attr.name)) pass.row_bytes.back() += attr.row_bytes();
  }
  std::vector<std::vector<std::int64_t>> places(pass.counts.size());
  if (options.keep_trace) places = places_of_rows(dataset, pass, pass.trace.num_rows);
  const std::int64_t planned = std::min(options.most_batches, deal.steps());
  std::vector<double> sample_seconds, gather_rates, complete_rates;
  AlignedBlock buffer;
  const auto begin = Clock::now();
  const auto make = [&](std::int64_t step) {
    const Deal::Range range = deal.batch(step, 0);
    auto at = Clock::now();
    const std::size_t bytes = maker.sample(
        {.seed = options.seed, .epoch = options.epoch, .first = range.first, .count = range.count});
    sample_seconds.push_back(seconds_from(at));
    const auto block = buffer.resize(bytes);
    at = Clock::now();
    maker.write(block);
    gather_rates.push_back(static_cast<double>(bytes) / seconds_from(at));
    return BatchView(block);
  };
  make(0);  // scratch grows, pages of the block are made: as at a worker's start, and not counted
  sample_seconds.clear();
  gather_rates.clear();
  for (std::int64_t i = 0; i < planned && (i == 0 || seconds_from(begin) < options.most_seconds); ++i) {
    const BatchView batch = make(i * deal.steps() / planned);
    if (options.keep_trace) pass.trace.batches.emplace_back();
    for (int t = 0; t < dataset.num_node_types(); ++t) {
      const auto ids = batch.get("n_id", Store::kNode, t).as<std::int64_t>();
      for (const std::int64_t v : ids) ++pass.counts[t][v];
      if (places[t].empty()) continue;
      for (const std::int64_t v : ids) pass.trace.batches.back().push_back(places[t][v]);
    }
    pass.block_bytes += static_cast<double>(batch.bytes().size());
    if (i < 5) complete_rates.push_back(complete_rate(dataset, options, batch));
    ++pass.batches;
    if (options.progress) options.progress(i + 1, planned);
  }
  pass.block_bytes /= static_cast<double>(pass.batches);
  pass.sample_seconds = median(sample_seconds);
  pass.gather_bytes_per_second = median(gather_rates);
  pass.complete_bytes_per_second = median(complete_rates);
  return pass;
}

std::vector<HeldReads> held_curve(const Dataset& dataset, const TunePass& pass,
                                  const std::vector<std::vector<std::int64_t>>& orders) {
  const std::vector<HeldShare> shares = ratio_grid();
  std::vector<HeldReads> curve(shares.size());
  for (std::size_t t = 0; t < pass.counts.size(); ++t) {
    if (pass.row_bytes[t] == 0) continue;
    const RowReads reads{.counts = pass.counts[t],
                         .partition_offsets = dataset.meta().node_types[t].partition_offsets};
    const std::vector<std::int64_t> held = held_reads(reads, orders[t], shares);
    const auto batches = static_cast<double>(pass.batches);
    for (std::size_t i = 0; i < shares.size(); ++i) {
      curve[i].rows += static_cast<double>(held.back()) / batches;  // the last share is all
      curve[i].held += static_cast<double>(held[i]) / batches;
      curve[i].held_bytes += static_cast<double>(held[i] * pass.row_bytes[t]) / batches;
    }
  }
  return curve;
}

std::vector<std::int64_t> held_sizes(const Dataset& dataset, const TunePass& pass) {
  std::vector<std::int64_t> sizes;
  for (const HeldShare share : ratio_grid()) {
    sizes.push_back(0);
    for (std::size_t t = 0; t < pass.row_bytes.size(); ++t)
      sizes.back() += held_rows_of(dataset.meta().node_types[t].partition_offsets, share) * pass.row_bytes[t];
  }
  return sizes;
}

}  // namespace hopfeed
