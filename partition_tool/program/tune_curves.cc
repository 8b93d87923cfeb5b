// See tune_curves.h.
#include "partition_tool/program/tune_curves.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "partition_tool/tune/hit_curve.h"
#include "partition_tool/tune/next_use.h"
#include "partition_tool/tune/tune_files.h"

namespace hopfeed {
namespace {

/// Percents at which reads are counted; between them lines are drawn.
constexpr int kGrid[] = {0, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100};
/// Batches whose reads are counted.
constexpr std::size_t kReadBatches = 3;

/// float16, bfloat16 and what has a scale: a trainer makes float32 of it.
bool is_converted(ElementType type) {
  const std::string name = to_string(type);
  return name.ends_with("float16") || name.ends_with("_scaled");
}

/// Bytes of float32 that become of a row of each type.
std::vector<std::int64_t> converted_row_bytes(const Dataset& dataset, const BatchOptions& batch) {
  std::vector<std::int64_t> bytes;
  for (const NodeTypeMeta& type : dataset.meta().node_types) {
    bytes.push_back(0);
    for (const AttrMeta& attr : type.attrs)
      if (carries(batch, attr.name) && is_converted(attr.type)) bytes.back() += 4 * attr.row_elements();
  }
  return bytes;
}

double of_types(const std::vector<double>& rows, const std::vector<std::int64_t>& row_bytes) {
  double bytes = 0;
  for (std::size_t t = 0; t < rows.size(); ++t) bytes += rows[t] * static_cast<double>(row_bytes[t]);
  return bytes;
}

}  // namespace

TuneCurves::TuneCurves(const Dataset& dataset, const TuneJob& job, const TunePass& pass,
                       const TuneRates& rates, const RowCache& row_cache)
    : dataset_(dataset),
      job_(job),
      pass_(pass),
      rates_(rates),
      row_cache_(row_cache),
      file_bytes_(file_row_bytes(dataset, job.files)),
      convert_bytes_(converted_row_bytes(dataset, job.batch)) {
  // Rows of types that have nothing in files are in no cache; the others are numbered anew, in their order.
  numbers_.assign(static_cast<std::size_t>(pass.trace.num_rows), -1);
  for (std::size_t t = 0; t < pass.places.size(); ++t)
    for (const std::int64_t row : pass.places[t])
      if (file_bytes_[t] > 0) numbers_[static_cast<std::size_t>(row)] = 0;
  for (std::int64_t& number : numbers_)
    if (number == 0) number = trace_.num_rows++;
  for (const std::vector<std::int64_t>& batch : pass.trace.batches) {
    std::vector<std::int64_t>& to = trace_.batches.emplace_back();
    for (const std::int64_t row : batch)
      if (numbers_[static_cast<std::size_t>(row)] >= 0) to.push_back(numbers_[static_cast<std::size_t>(row)]);
  }
}

TuneCurves::Tier TuneCurves::tier(std::int64_t capacity, const std::vector<std::vector<bool>>& held) const {
  const std::size_t count = std::min(kReadBatches, pass_.ids.size());
  const BatchIds last(pass_.ids.end() - static_cast<std::ptrdiff_t>(count), pass_.ids.end());
  const auto is_held = [&](int type, std::int64_t id) {
    const auto t = static_cast<std::size_t>(type);
    return !held.empty() && held[t][static_cast<std::size_t>(id)];
  };
  Tier tier;
  if (capacity == 0) {
    const FileReads reads =
        count_reads(dataset_, job_.files, last,
                    [&](std::size_t, int type, std::int64_t id) { return !is_held(type, id); });
    return {.hit_rate = 0, .reads = reads.reads, .read_bytes = reads.read_bytes};
  }
  const auto number = [&](std::size_t type, std::int64_t id) {
    return static_cast<std::size_t>(
        numbers_[static_cast<std::size_t>(pass_.places[type][static_cast<std::size_t>(id)])]);
  };
  // Rows that the consumer holds are never asked for: the others are numbered anew.
  std::vector<std::int64_t> asked(static_cast<std::size_t>(trace_.num_rows), 0);
  for (std::size_t t = 0; t < held.size(); ++t)
    for (std::int64_t id = 0; file_bytes_[t] > 0 && id < std::ssize(held[t]); ++id)
      if (held[t][static_cast<std::size_t>(id)]) asked[number(t, id)] = -1;
  RowTrace trace;
  for (std::int64_t& row : asked)
    if (row == 0) row = trace.num_rows++;
  for (const std::vector<std::int64_t>& batch : trace_.batches) {
    std::vector<std::int64_t>& to = trace.batches.emplace_back();
    for (const std::int64_t row : batch)
      if (asked[static_cast<std::size_t>(row)] >= 0) to.push_back(asked[static_cast<std::size_t>(row)]);
  }
  const std::int64_t first_of_last = std::ssize(trace.batches) - static_cast<std::int64_t>(count);
  std::vector<std::vector<bool>> missed(count, std::vector<bool>(static_cast<std::size_t>(trace.num_rows)));
  const CacheHits hits = simulate_belady(
      trace, capacity,
      {.window = row_cache_.window, .begins_full = true, .missed = [&](std::int64_t batch, std::int64_t row) {
         if (batch >= first_of_last)
           missed[static_cast<std::size_t>(batch - first_of_last)][static_cast<std::size_t>(row)] = true;
       }});
  const FileReads reads =
      count_reads(dataset_, job_.files, last, [&](std::size_t batch, int type, std::int64_t id) {
        const auto t = static_cast<std::size_t>(type);
        if (file_bytes_[t] == 0) return false;
        const std::int64_t row = asked[number(t, id)];
        return row >= 0 && missed[batch][static_cast<std::size_t>(row)];
      });
  tier.hit_rate = hits.rate();
  tier.reads = reads.reads;
  tier.read_bytes = reads.read_bytes;
  return tier;
}

/// At every percent, from what `at` says of the percents of the grid.
std::vector<TuneCurves::Tier> TuneCurves::along_grid(const std::function<Tier(int percent)>& at) const {
  std::vector<Tier> tiers(101);
  if (job_.files.empty()) return tiers;
  int before = 0;
  tiers[0] = at(0);
  for (const int percent : kGrid) {
    if (percent == 0) continue;
    const Tier from = tiers[static_cast<std::size_t>(before)], to = at(percent);
    for (int i = before + 1; i <= percent; ++i) {
      const double way = static_cast<double>(i - before) / (percent - before);
      const auto between = [way](double a, double b) { return a + way * (b - a); };
      tiers[static_cast<std::size_t>(i)] = {.hit_rate = between(from.hit_rate, to.hit_rate),
                                            .reads = between(from.reads, to.reads),
                                            .read_bytes = between(from.read_bytes, to.read_bytes)};
    }
    before = percent;
  }
  return tiers;
}

void TuneCurves::add(TuneCurve& curve, std::int64_t bytes, const HeldReads& held, const Tier& tier) const {
  const auto i = static_cast<double>(curve.points.size());
  const double left = of_types(held.left, pass_.row_bytes), files = of_types(held.left, file_bytes_);
  curve.sent_bytes.push_back(left);
  curve.held_bytes.push_back(held.held_bytes);
  curve.cached_bytes.push_back(files * tier.hit_rate);
  curve.file_bytes.push_back(files * (1 - tier.hit_rate));
  curve.reads.push_back(tier.reads);
  curve.read_bytes.push_back(tier.read_bytes);
  curve.points.push_back({.ratio = i / 100.0,
                          .held_bytes = bytes,
                          .times = model_epoch(rates_, {.batches = static_cast<double>(pass_.epoch_batches),
                                                        .block_bytes = pass_.block_bytes,
                                                        .held_bytes = held.held_bytes,
                                                        .file_bytes = curve.file_bytes.back(),
                                                        .reads = tier.reads,
                                                        .convert_bytes = convert_bytes_a_batch()})});
}

double TuneCurves::convert_bytes_a_batch() const {
  double bytes = 0;
  for (std::size_t t = 0; t < convert_bytes_.size(); ++t) {
    if (convert_bytes_[t] == 0) continue;
    std::int64_t rows = 0;
    for (const std::int64_t count : pass_.counts[t]) rows += count;
    bytes += static_cast<double>(rows * convert_bytes_[t]) / static_cast<double>(pass_.batches);
  }
  return bytes;
}

TuneCurve TuneCurves::held(const std::string& policy, const std::vector<std::vector<std::int64_t>>& orders) {
  const std::vector<HeldReads> reads = held_curve(dataset_, pass_, orders);
  const std::vector<std::int64_t> sizes = held_sizes(dataset_, pass_);
  if (stored_.empty()) {
    const double share = row_cache_share(dataset_, job_.files, row_cache_.bytes);
    const auto capacity = static_cast<std::int64_t>(share * static_cast<double>(trace_.num_rows));
    stored_ = along_grid([&](int percent) { return tier(capacity, held_rows_at(percent)); });
    stored_reads_ = held_curve(dataset_, pass_, std::vector<std::vector<std::int64_t>>(pass_.counts.size()));
  }
  TuneCurve curve{.policy = policy};
  std::size_t same = 0;
  for (std::size_t i = 0; i < reads.size(); ++i) {
    // Who hits as often leaves about the same to be read.
    while (same + 1 < stored_.size() && stored_reads_[same].held < reads[i].held) ++same;
    curve.hit_rate.push_back(reads[i].hit_rate());
    add(curve, sizes[i], reads[i], stored_[same]);
  }
  return curve;
}

TuneCurve TuneCurves::cached() const {
  const HeldReads none =
      held_curve(dataset_, pass_, std::vector<std::vector<std::int64_t>>(pass_.counts.size())).front();
  const std::vector<Tier> tiers =
      along_grid([&](int percent) { return tier(trace_.num_rows * percent / 100, {}); });
  TuneCurve curve{.policy = "row cache"};
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    curve.hit_rate.push_back(tiers[i].hit_rate);
    const std::int64_t bytes =
        i == 0 ? 0 : row_cache_bytes(dataset_, job_.files, static_cast<double>(i) / 100);
    add(curve, bytes, none, tiers[i]);
  }
  return curve;
}

/// [type][id]: whether the row is among the first of its partition.
std::vector<std::vector<bool>> TuneCurves::held_rows_at(int percent) const {
  const HeldShare share{.millionths = static_cast<std::uint32_t>(percent) * (HeldShare::kAll / 100)};
  std::vector<std::vector<bool>> held(pass_.counts.size());
  for (std::size_t t = 0; t < held.size(); ++t) {
    const std::vector<std::int64_t>& offsets = dataset_.meta().node_types[t].partition_offsets;
    held[t].resize(static_cast<std::size_t>(offsets.back()));
    for (std::size_t p = 0; p + 1 < offsets.size(); ++p)
      std::fill_n(held[t].begin() + offsets[p], share.rows(offsets[p + 1] - offsets[p]), true);
  }
  return held;
}

}  // namespace hopfeed
