// Layer-dependent neighbours by the rule of labor_rule.h: whole rows are read, and of each the edges taken whose sources have a
// variate below the row's threshold. See uniform_picker.h for what a picker is.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "core/dataset.h"
#include "core/drawn_rows.h"
#include "core/graph_view.h"
#include "core/labor_rule.h"
#include "core/labor_variates.h"
#include "core/vector_draws.h"

namespace hopfeed {

class LaborPicker {
 public:
  static constexpr std::uint32_t kStepsToDraw = 1;

  /// `options.stream` is keyed for kLabor; its node is the source.
  /// `variates` of the sources, or none.
  LaborPicker(const PickOptions& options, const Dataset& dataset, const CscView& csc,
              const LaborVariates::View& variates, PickScratch& scratch)
      : options_(options), dataset_(dataset), csc_(csc), variates_(variates), scratch_(scratch) {}

  void look(DrawnRow& row, int /*part*/, std::int64_t /*begin*/) const {
    row.most = options_.fanout == 0 ? 0 : row.degree;
    if (takes_all(row)) return;
    // The rest of a long row comes by itself.
    constexpr std::uint64_t kLine = 64, kLines = 16;
    const std::uint64_t bytes = std::min(row.degree * element_bytes(csc_.index_type), kLines * kLine);
    for (std::uint64_t at = 0; at < bytes; at += kLine)
      __builtin_prefetch(reinterpret_cast<const void*>(row.index_at + at));
  }

  /// Leaves each row with how many edges it gives, and where their positions begin.
  void draw(DrawnGroup& group) {
    scratch_.wide_picks.reserve(group.most + kChunk);
    if (csc_.index_type == ElementType::kInt32)
      draw_rows_of<std::int32_t>(group);
    else
      draw_rows_of<std::int64_t>(group);
    group.most = 0;
    for (std::uint32_t i = 0; i < group.count; ++i) group.most += group.rows[i].most;
  }

  template <class Emit>
  void pick(const DrawnGroup&, const DrawnRow& row, Emit emit) {
    if (takes_all(row)) return emit(row.most, [](std::uint64_t j) { return j; });
    const std::uint64_t* picks = scratch_.wide_picks.data() + row.extra_at;
    emit(row.most, [picks](std::uint64_t j) { return picks[j]; });
  }

 private:
  static constexpr std::size_t kChunk = kMaxVariates;
  static constexpr std::uint64_t kPiece =
      4096;  // of a row: what is left of it stays in the first-level cache
  static std::uint16_t upper_of(std::uint64_t threshold) {
    constexpr int kVariateBits = 63, kUpperBits = 16;
    return static_cast<std::uint16_t>(threshold >> (kVariateBits - kUpperBits));
  }

  bool takes_all(const DrawnRow& row) const {
    return options_.fanout < 0 || row.degree <= static_cast<std::uint64_t>(options_.fanout);
  }

  bool draws(const DrawnRow& row) const { return row.most > 0 && !takes_all(row); }
  std::uint64_t threshold_of(const DrawnRow& row) const {
    return labor_threshold(static_cast<std::uint64_t>(options_.fanout), row.degree);
  }

  // With tables twice over the rows: what the second time reads is prefetched in the first.
  template <class Index>
  void draw_rows_of(DrawnGroup& group) {
    std::size_t used = 0;
    for (std::uint32_t i = 0; i < group.count; ++i) {
      DrawnRow& row = group.rows[i];
      if (!draws(row)) continue;
      row.extra_at = used;
      row.most = variates_.uppers ? find_by_bits<Index>(row) : take_by_ids<Index>(row);
      used += row.most;
    }
    if (variates_.uppers) take_found<Index>(group);
  }

  // Those that the bits leave.
  template <class Index>
  std::size_t find_by_bits(const DrawnRow& row) {
    const auto* indices = reinterpret_cast<const Index*>(row.index_at);
    const std::uint8_t* bits = variates_.bits_above(upper_of(threshold_of(row)));
    std::uint64_t* picks = scratch_.wide_picks.data() + row.extra_at;
    scratch_.picks.reserve(kPiece + kMarkedTogether);
    const std::uint32_t* left = scratch_.picks.data();
    std::size_t found = 0;
    for (std::uint64_t begin = 0; begin < row.degree; begin += kPiece) {
      const Index* piece = indices + begin;
      const std::size_t count = leave(std::span(piece, std::min(kPiece, row.degree - begin)), bits);
      for (std::size_t j = 0; j < count; ++j) {
        __builtin_prefetch(variates_.uppers + piece[left[j]]);
        picks[found++] = begin + left[j];
      }
    }
    return found;
  }

  // Of these the ones below the threshold. Hardly ever do the upper bits not tell.
  template <class Index>
  void take_found(DrawnGroup& group) {
    const std::uint16_t* uppers = variates_.uppers;
    std::uint64_t* picks = scratch_.wide_picks.data();
    std::size_t taken = 0;
    for (std::uint32_t i = 0; i < group.count; ++i) {
      DrawnRow& row = group.rows[i];
      if (!draws(row)) continue;
      const auto* indices = reinterpret_cast<const Index*>(row.index_at);
      const std::uint64_t threshold = threshold_of(row);
      const std::uint16_t upper = upper_of(threshold);
      const std::uint64_t* found = picks + row.extra_at;
      row.extra_at = taken;
      for (std::uint64_t j = 0; j < row.most; ++j) {
        const std::int64_t source = indices[found[j]];
        picks[taken] = found[j];
        taken += uppers[source] == upper ? variate_of(source) < threshold : uppers[source] < upper;
      }
      row.most = taken - row.extra_at;
    }
  }

  // The positions in a piece of a row, of those with a bit, or of all without bits, into scratch_.picks.
  template <class Index>
  std::size_t leave(std::span<const Index> sources, const std::uint8_t* bits) {
    const auto num_src = static_cast<std::uint64_t>(csc_.num_src_nodes);
    std::uint32_t* out = scratch_.picks.data();
    std::size_t left = 0;
    if constexpr (sizeof(Index) == sizeof(std::int32_t)) {
      if (bits) {
        left = take_marked(sources, static_cast<std::uint32_t>(num_src), bits, out);
        if (left == kNoNode) refuse_damaged(sources);
        return left;
      }
    }
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const auto source = static_cast<std::uint64_t>(std::int64_t{sources[i]});
      if (source >= num_src) refuse_damaged(sources);
      out[left] = static_cast<std::uint32_t>(i);
      left += !bits || (bits[source / 8] >> source % 8 & 1);
    }
    return left;
  }
  template <class Index>
  [[noreturn]] void refuse_damaged(std::span<const Index> sources) const {
    const auto damaged = std::ranges::find_if(sources, [&](std::int64_t source) {
      return static_cast<std::uint64_t>(source) >= static_cast<std::uint64_t>(csc_.num_src_nodes);
    });
    throw DamagedRow{DamagedRow::What::kSource, 0, 0, std::int64_t{*damaged}};
  }

  std::uint64_t variate_of(std::int64_t source) const {
    const auto node = static_cast<std::uint64_t>(dataset_.original_id(csc_.src_type, source));
    return labor_variate({options_.stream.key, 0, node, 0});
  }

  template <class Index>
  std::size_t take_by_ids(const DrawnRow& row) {
    const auto* indices = reinterpret_cast<const Index*>(row.index_at);
    const std::uint64_t degree = row.degree, threshold = threshold_of(row);
    std::uint64_t* picks = scratch_.wide_picks.data() + row.extra_at;
    std::size_t taken = 0;
    for (std::uint64_t begin = 0; begin < degree; begin += kChunk) {
      const std::size_t count = std::min<std::uint64_t>(kChunk, degree - begin);
      for (std::size_t i = 0; i < count; ++i) {
        sources_[i] = indices[begin + i];
        if (static_cast<std::uint64_t>(sources_[i]) >= static_cast<std::uint64_t>(csc_.num_src_nodes))
          throw DamagedRow{DamagedRow::What::kSource, 0, 0, sources_[i]};
      }
      dataset_.original_ids(csc_.src_type, {sources_, count}, original_ids_);
      taken += take_below({original_ids_, count}, options_.stream.key, threshold, begin, picks + taken);
    }
    return taken;
  }

  const PickOptions options_;
  const Dataset& dataset_;
  const CscView& csc_;
  const LaborVariates::View variates_;
  PickScratch& scratch_;
  std::int64_t sources_[kChunk];
  alignas(64) std::int64_t original_ids_[kChunk] = {};
};

}  // namespace hopfeed
