// See tune_measure.h.
#include "partition_tool/tune/tune_measure.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/batch/aligned_block.h"
#include "core/batch/batch_view.h"
#include "core/batch/deal.h"
#include "core/batch/field_names.h"
#include "core/batch/held_share.h"
#include "core/maker/batch_maker.h"
#include "core/seeds/node_list.h"
#include "partition_tool/tune/hit_curve.h"

namespace hopfeed {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_from(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

constexpr int kRatios = 101;  // 0%, 1%, ... 100%

std::vector<HeldShare> ratio_grid() {
  std::vector<HeldShare> shares;
  for (std::uint32_t i = 0; i < kRatios; ++i)
    shares.push_back({.millionths = i * (HeldShare::kAll / (kRatios - 1))});
  return shares;
}

class AbsentFeatures final : public FeatureSource {
 public:
  std::size_t prepare(std::span<const std::int64_t> ids) override { return ids.size(); }
  void gather(std::size_t, std::byte*) override {}
  TierCounts counts() const override { return {}; }
};

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

FeatureSourceFactory absent_features() {
  return [](const Dataset&, const FeatureName&) { return std::make_unique<AbsentFeatures>(); };
}

bool carries(const BatchOptions& batch, const std::string& attr) {
  return !batch.attrs || std::ranges::find(*batch.attrs, attr) != batch.attrs->end();
}

TunePass measure_batches(const Dataset& dataset, std::span<const std::int64_t> seeds,
                         const TunePassOptions& options) {
  const NodeList list(seeds, {.node_type = options.node_type});
  const Deal deal({.batch_size = options.batch_size}, list.size());
  BatchMaker maker(dataset, list, options.batch, nullptr, absent_features());
  TunePass pass{.epoch_batches = deal.steps()};
  for (int t = 0; t < dataset.num_node_types(); ++t) {
    pass.counts.emplace_back(dataset.num_nodes(t));
    pass.row_bytes.push_back(0);
    for (const AttrMeta& attr : dataset.meta().node_types[t].attrs)
      if (carries(options.batch, attr.name)) pass.row_bytes.back() += attr.row_bytes();
  }
  pass.places.resize(pass.counts.size());
  if (options.keep_trace) pass.places = places_of_rows(dataset, pass, pass.trace.num_rows);
  const std::int64_t planned = std::min(options.most_batches, deal.steps());
  AlignedBlock buffer;
  const auto begin = Clock::now();
  for (std::int64_t i = 0; i < planned && (i == 0 || seconds_from(begin) < options.most_seconds); ++i) {
    const Deal::Range range = deal.batch(i * deal.steps() / planned, 0);
    const auto block = buffer.resize(maker.sample(
        {.seed = options.seed, .epoch = options.epoch, .first = range.first, .count = range.count}));
    maker.write(block);
    const BatchView batch(block);
    if (pass.ids.size() == kIdBatches) pass.ids.erase(pass.ids.begin());
    pass.ids.emplace_back(pass.counts.size());
    if (options.keep_trace) pass.trace.batches.emplace_back();
    for (int t = 0; t < dataset.num_node_types(); ++t) {
      const auto nodes = batch.get(batch_field::kNId, Store::kNode, t).as<std::int64_t>();
      std::vector<std::int64_t>& ids = pass.ids.back()[t];
      ids.resize(nodes.size());
      dataset.dataset_ids(t, nodes, ids);
      for (const std::int64_t v : ids) ++pass.counts[t][v];
      if (pass.places[t].empty()) continue;
      for (const std::int64_t v : ids) pass.trace.batches.back().push_back(pass.places[t][v]);
    }
    pass.block_bytes += static_cast<double>(batch.bytes().size());
    ++pass.batches;
    if (options.progress) options.progress(i + 1, planned);
  }
  pass.block_bytes /= static_cast<double>(pass.batches);
  return pass;
}

std::vector<HeldReads> held_curve(const Dataset& dataset, const TunePass& pass,
                                  const std::vector<std::vector<std::int64_t>>& orders) {
  const std::vector<HeldShare> shares = ratio_grid();
  std::vector<HeldReads> curve(shares.size());
  for (HeldReads& reads : curve) reads.left.resize(pass.counts.size());
  for (std::size_t t = 0; t < pass.counts.size(); ++t) {
    if (pass.row_bytes[t] == 0) continue;
    const RowReads reads{.counts = pass.counts[t],
                         .partition_offsets = dataset.meta().node_types[t].partition_offsets};
    const std::vector<std::int64_t> held = held_reads(reads, orders[t], shares);
    const auto batches = static_cast<double>(pass.batches);
    for (std::size_t i = 0; i < shares.size(); ++i) {
      curve[i].rows += static_cast<double>(held.back()) / batches;  // the last share is all
      curve[i].held += static_cast<double>(held[i]) / batches;
      curve[i].left[t] = static_cast<double>(held.back() - held[i]) / batches;
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
