// LaborPicker takes layer-dependent neighbours by labor_rule.h: it reads whole rows, and takes of each the
// edges whose sources have a variate below the row's threshold. picker.h says what a picker is.
//
// Rows are read once: what is taken of them is copied, sources and positions, and the stages to come read the
// copy.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <string>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/prefetch.h"
#include "core/dataset/dataset.h"
#include "core/dataset/graph_view.h"
#include "core/draws/drawn_rows.h"
#include "core/draws/labor_kept.h"
#include "core/draws/labor_memory.h"
#include "core/draws/labor_rule.h"
#include "core/draws/labor_variates.h"
#include "core/draws/left_out.h"
#include "core/draws/picker.h"
#include "core/draws/vector_draws.h"

namespace hopfeed {

class LaborPicker {
 public:
  static constexpr std::uint32_t kStepsToDraw = 1;

  /// `options.stream` is keyed for kLabor; its node is the source.
  LaborPicker(const PickOptions& options, std::uint32_t hop, const Dataset& dataset, const CscView& csc,
              const LaborTables& tables, PickScratch& scratch)
      : options_(options),
        hop_(hop),
        dataset_(dataset),
        csc_(csc),
        variates_(tables.variates),
        kept_(tables.kept),
        scratch_(scratch) {}

  void look(DrawnRow& row, int /*part*/, std::int64_t /*begin*/) {
    take_population(row, row.degree);
    row.extra_at = kNotSought;
    if (kept_ && draws(row)) kept_->prefetch(row.node);
    ahead_[num_ahead_++ % DrawnGroup::kRows] = &row;
    if (draws(row) && row.degree > kMaxLaborDegree) {
      throw Error(
          ErrorCode::kUnsupported,
          "node " + std::to_string(row.original_id) + " has " + std::to_string(row.degree) +
              " in-edges; layer-dependent draws take rows of less than 2^32, so sample without labor");
    }
  }

  void take_population(DrawnRow& row, std::uint64_t population) const {
    row.population = population;
    row.most = options_.fanout == 0 ? 0 : population;
  }

  /// Returns what the copies of two groups take; LaborMemory tells of the tables.
  static PickScratch::Most most_scratch(const PickBounds& bounds) {
    return {.taken = bounds.group + kMarkedTogether};
  }

  /// Leaves each row that draws with the sources that it takes, and where they are in it.
  void draw(DrawnGroup& group) {
    PickScratch::Taken& taken = scratch_.taken[num_drawn_++ % 2];
    const std::size_t room = group.most + kMarkedTogether;
    taken.sources.reserve((room * element_bytes(csc_.index_type) + sizeof(std::int64_t) - 1) /
                          sizeof(std::int64_t));
    taken.positions.reserve(room);
    if (csc_.index_type == ElementType::kInt32)
      draw_rows_of<std::int32_t>(group, taken);
    else
      draw_rows_of<std::int64_t>(group, taken);
    group.most = 0;
    for (std::uint32_t i = 0; i < group.count; ++i) group.most += group.rows[i].most;
  }

  /// Takes what it is to leave out from the copies of a row that has drawn.
  void drop(DrawnRow& row, const LeftOut& left_out) const {
    if (csc_.index_type == ElementType::kInt32)
      drop_from(reinterpret_cast<std::int32_t*>(row.index_at), row, left_out);
    else
      drop_from(reinterpret_cast<std::int64_t*>(row.index_at), row, left_out);
  }

  template <class Emit>
  void pick(const DrawnGroup&, const DrawnRow& row, Emit emit) {
    emit_places(emit, row.most, [](std::uint64_t j) { return j; });
  }

 private:
  static constexpr std::size_t kChunk = kMaxVariates;

  // row.extra_at of a row that draws is the address of its kept list, or 0.
  static constexpr std::uint64_t kNotSought = ~std::uint64_t{0};

  // Finds the list of a row that draws, and prefetches what draw() will read: that, or the row.
  void prefetch(DrawnRow& row) const {
    constexpr std::uint64_t kLine = 64, kMostBytes = 64 * kLine;  // the rest of a long row comes by itself
    if (row.extra_at != kNotSought || !draws(row)) return;
    row.extra_at = kept_ ? kept_->find(row.node) : 0;
    if (row.extra_at != 0) return;
    for (std::uint64_t line = 0; line < std::min(bytes_of(row), kMostBytes); line += kLine)
      prefetch_line(reinterpret_cast<const void*>(row.index_at + line));
  }

  bool takes_all(const DrawnRow& row) const {
    return options_.fanout < 0 || row.population <= static_cast<std::uint64_t>(options_.fanout);
  }
  bool draws(const DrawnRow& row) const { return row.most > 0 && !takes_all(row); }
  std::uint64_t bytes_of(const DrawnRow& row) const { return row.degree * element_bytes(csc_.index_type); }
  std::uint64_t threshold_of(const DrawnRow& row) const {
    return labor_threshold(static_cast<std::uint64_t>(options_.fanout), row.population);
  }
  static std::uint16_t upper_of(std::uint64_t threshold) {
    constexpr int kVariateBits = 63, kUpperBits = 16;
    return static_cast<std::uint16_t>(threshold >> (kVariateBits - kUpperBits));
  }

  // With tables it goes twice over the rows: what the second time reads is prefetched in the first. Meanwhile
  // the next group's rows come, one for each that is read, so that neither waits for the other.
  template <class Index>
  void draw_rows_of(DrawnGroup& group, PickScratch::Taken& taken) {
    LaborKept::Taken next{.count = 0,
                          .sources_at = reinterpret_cast<std::uint64_t>(taken.sources.data()),
                          .positions_at = reinterpret_cast<std::uint64_t>(taken.positions.data())};
    static_assert(DrawnGroup::kRows <= 32);
    std::uint32_t anew = 0;
    for (std::uint32_t i = 0; i < group.count; ++i) {
      DrawnRow& row = group.rows[i];
      prefetch(row);  // if it was not, being of the first group
      if (ahead_[i]) prefetch(*ahead_[i]);
      if (!draws(row)) continue;
      if (row.extra_at != 0) {
        give(row, kept_->read(row.extra_at));
        continue;
      }
      const auto* indices = reinterpret_cast<const Index*>(row.index_at);
      auto* sources = reinterpret_cast<Index*>(next.sources_at);
      auto* positions = reinterpret_cast<std::uint32_t*>(next.positions_at);
      next.count = variates_.uppers ? find_by_bits(indices, row, sources, positions)
                                    : take_by_ids(indices, row, sources, positions);
      give(row, next);
      anew |= 1u << i;
      next.sources_at += next.count * sizeof(Index);
      next.positions_at += next.count * sizeof(std::uint32_t);
    }
    for (; anew != 0; anew &= anew - 1) {
      DrawnRow& row = group.rows[std::countr_zero(anew)];
      if (variates_.uppers) take_found<Index>(row);
      if (kept_)
        kept_->keep(row.node, {.count = row.most, .sources_at = row.index_at, .positions_at = row.order_at});
    }
  }

  // Sets what the row has to give from now on.
  static void give(DrawnRow& row, const LaborKept::Taken& taken) {
    row.most = taken.count;
    row.index_at = taken.sources_at;
    row.order_at = taken.positions_at;
  }

  // Takes those sources that the bits leave.
  template <class Index>
  std::size_t find_by_bits(const Index* indices, const DrawnRow& row, Index* sources,
                           std::uint32_t* positions) {
    const std::uint8_t* bits = variates_.bits_above(upper_of(threshold_of(row)));
    const std::size_t found = leave(std::span(indices, row.degree), bits, sources, positions);
    for (std::size_t j = 0; j < found; ++j) prefetch_line(variates_.uppers + sources[j]);
    return found;
  }

  // Takes those of the found sources that are below the threshold. Hardly ever do the upper bits not tell.
  template <class Index>
  void take_found(DrawnRow& row) {
    const std::uint16_t* uppers = variates_.uppers;
    const std::uint64_t threshold = threshold_of(row);
    const std::uint16_t upper = upper_of(threshold);
    auto* sources = reinterpret_cast<Index*>(row.index_at);
    auto* positions = reinterpret_cast<std::uint32_t*>(row.order_at);
    std::size_t taken = 0;
    for (std::uint64_t j = 0; j < row.most; ++j) {
      const Index source = sources[j];
      sources[taken] = source;
      positions[taken] = positions[j];
      taken += uppers[source] == upper ? variate_of(source) < threshold : uppers[source] < upper;
    }
    row.most = taken;
  }

  template <class Index>
  static void drop_from(Index* sources, DrawnRow& row, const LeftOut& left_out) {
    auto* positions = reinterpret_cast<std::uint32_t*>(row.order_at);
    std::uint64_t kept = 0, next = 0;  // both lists rise
    for (std::uint64_t j = 0; j < row.most; ++j) {
      while (next < left_out.count() && left_out.absent(next) < positions[j]) ++next;
      sources[kept] = sources[j];
      positions[kept] = positions[j];
      kept += next == left_out.count() || left_out.absent(next) != positions[j];
    }
    row.most = kept;
  }

  // Finds the sources with a bit, or all where there are no bits.
  template <class Index>
  std::size_t leave(std::span<const Index> row, const std::uint8_t* bits, Index* sources,
                    std::uint32_t* positions) {
    const auto num_src = static_cast<std::uint64_t>(csc_.num_src_nodes);
    if constexpr (sizeof(Index) == sizeof(std::int32_t)) {
      if (bits) {
        const std::size_t left =
            take_marked(row, static_cast<std::uint32_t>(num_src), bits, {sources, positions});
        if (left == kNoNode) refuse_damaged(row);
        return left;
      }
    }
    std::size_t left = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const auto source = static_cast<std::uint64_t>(std::int64_t{row[i]});
      if (source >= num_src) refuse_damaged(row);
      sources[left] = row[i];
      positions[left] = static_cast<std::uint32_t>(i);
      left += !bits || (bits[source / 8] >> source % 8 & 1);
    }
    return left;
  }

  template <class Index>
  std::size_t take_by_ids(const Index* indices, const DrawnRow& row, Index* sources,
                          std::uint32_t* positions) {
    const VariatesBelow below{.key = options_.stream.key, .hop = hop_, .threshold = threshold_of(row)};
    std::size_t taken = 0;
    for (std::uint64_t begin = 0; begin < row.degree; begin += kChunk) {
      const std::span<const Index> chunk(indices + begin,
                                         std::min<std::uint64_t>(kChunk, row.degree - begin));
      std::ranges::copy(chunk, sources_);
      const bool damaged = std::ranges::any_of(chunk, [&](std::int64_t source) { return !is_node(source); });
      if (damaged) refuse_damaged(chunk);
      dataset_.original_ids(csc_.src_type, {sources_, chunk.size()}, original_ids_);
      const std::size_t more = take_below({original_ids_, chunk.size()}, below, places_);
      for (std::size_t j = 0; j < more; ++j, ++taken) {
        sources[taken] = chunk[places_[j]];
        positions[taken] = static_cast<std::uint32_t>(begin + places_[j]);
      }
    }
    return taken;
  }

  std::uint64_t variate_of(std::int64_t source) const {
    const auto node = static_cast<std::uint64_t>(dataset_.original_id(csc_.src_type, source));
    return labor_variate({options_.stream.key, 0, node, 0}, hop_);
  }

  bool is_node(std::int64_t source) const {
    return static_cast<std::uint64_t>(source) < static_cast<std::uint64_t>(csc_.num_src_nodes);
  }
  template <class Index>
  [[noreturn]] void refuse_damaged(std::span<const Index> sources) const {
    const auto damaged = std::ranges::find_if(sources, [&](std::int64_t source) { return !is_node(source); });
    throw DamagedRow{DamagedRow::What::kSource, 0, 0, std::int64_t{*damaged}};
  }

  const PickOptions options_;
  const std::uint32_t hop_;
  const Dataset& dataset_;
  const CscView& csc_;
  const LaborVariates::View variates_;
  LaborKept* const kept_;  // of nothing that is excluded
  PickScratch& scratch_;
  DrawnRow* ahead_[DrawnGroup::kRows] =
      {};  // the rows that were looked at last: of the group behind the one that draws
  std::uint32_t num_ahead_ = 0, num_drawn_ = 0;
  std::int64_t sources_[kChunk];
  alignas(64) std::int64_t original_ids_[kChunk] = {};
  std::uint64_t places_[kChunk];
};

static_assert(CopyingPicker<LaborPicker>);

}  // namespace hopfeed
