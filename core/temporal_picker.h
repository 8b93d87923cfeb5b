// Neighbours that are no later than the seed of the destination's tree: a binary search in the row's order of time, then the
// uniform rule over what it leaves, or the latest. Positions come in the order of the draws; `last` and whole rows in the order
// of time. See uniform_picker.h for what a picker is.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "core/batch_options.h"
#include "core/drawn_rows.h"
#include "core/graph_view.h"
#include "core/uniform_picker.h"

namespace hopfeed {

struct TemporalOptions {
  TimeView time;
  std::span<const std::int64_t> seed_times;  // [count], by the seed's position in the batch
  TemporalStrategy strategy = TemporalStrategy::kUniform;
  std::int64_t window = 0;  // neighbours in (seed time - window, seed time]; 0: all up to the seed's time
};

class TemporalPicker {
 public:
  TemporalPicker(const PickOptions& options, const TemporalOptions& temporal, PickScratch& scratch)
      : options_(options), temporal_(temporal), scratch_(scratch) {}

  void look(DrawnRow& row, int part, std::int64_t begin) const {
    row.most = num_drawn(row.degree, options_.fanout, options_.replace);
    const std::int64_t* times = temporal_.time.times[part] + begin;
    row.extra_at = reinterpret_cast<std::uint64_t>(times);
    row.order_at = reinterpret_cast<std::uint64_t>(temporal_.time.order[part] + begin);
    // The first steps of the search; short rows are all there then.
    __builtin_prefetch(times + row.degree / 2);
    __builtin_prefetch(times + row.degree / 4);
    __builtin_prefetch(times + row.degree / 4 * 3);
    if (row.degree > 0) __builtin_prefetch(reinterpret_cast<const void*>(row.order_at));
  }

  void draw(const DrawnGroup&) const {}

  template <class Emit>
  void pick(const DrawnGroup&, const DrawnRow& row, Emit emit) {
    const auto* times = reinterpret_cast<const std::int64_t*>(row.extra_at);
    const auto* order = reinterpret_cast<const std::uint32_t*>(row.order_at);
    const std::int64_t now = temporal_.seed_times[row.tree];
    const std::uint64_t end = count_until(times, row.degree, now);
    const std::uint64_t begin = has_window_begin(now) ? count_until(times, end, now - temporal_.window) : 0;
    const std::uint64_t size = end - begin;
    const std::uint64_t k = num_drawn(size, options_.fanout, options_.replace);
    const auto in_order = [&row, order](std::uint64_t from) {
      return [&row, order, from](std::uint64_t j) { return std::uint64_t{row.checked(order[from + j])}; };
    };
    if (size == 0) return;
    if (options_.fanout < 0 || (k == size && !options_.replace)) return emit(size, in_order(begin));
    if (temporal_.strategy == TemporalStrategy::kLast) return emit(k, in_order(end - k));
    SerialPicks(scratch_, options_.replace)
        .pick(options_.stream_of(row), size, static_cast<std::uint32_t>(k),
              [&](std::uint64_t count, auto position) {
                emit(count,
                     [&](std::uint64_t j) { return std::uint64_t{row.checked(order[begin + position(j)])}; });
              });
  }

 private:
  /// Whether any time can be too early.
  bool has_window_begin(std::int64_t now) const {
    return temporal_.window > 0 && now >= INT64_MIN + temporal_.window;
  }
  /// Of the first `size` times, in order: how many are no later than `now`.
  static std::uint64_t count_until(const std::int64_t* times, std::uint64_t size, std::int64_t now) {
    return static_cast<std::uint64_t>(std::upper_bound(times, times + size, now) - times);
  }

  const PickOptions options_;
  const TemporalOptions temporal_;
  PickScratch& scratch_;
};

}  // namespace hopfeed
