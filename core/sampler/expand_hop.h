// Expands the rows of one edge type in one hop by whichever picker: finds the form of row_pipeline.h for
// the index type and the relabel table.
//
// Each form is compiled for each picker, and most time goes into that, so those of pickers that exclude edges
// have a unit of their own (expand_hop.cc).
#pragma once
#include <cstdint>
#include <type_traits>
#include <variant>

#include "core/draws/excluding_picker.h"
#include "core/draws/labor_picker.h"
#include "core/draws/one_tree_relabel.h"
#include "core/draws/raw_sources.h"
#include "core/draws/relabel_table.h"
#include "core/draws/temporal_picker.h"
#include "core/draws/uniform_picker.h"
#include "core/draws/weighted_picker.h"
#include "core/sampler/row_pipeline.h"

namespace hopfeed {

/// A sampler has one of these tables; RawSources are for another machine (row_drawer.h).
using SamplerRelabel = std::variant<DirectRelabel, HashRelabel, TreeRelabel, OneTreeRelabel, RawSources>;

/// HopRows are destinations with local ids [lo, hi).
struct HopRows {
  const ExpandEnds& ends;
  const ExpandOptions& options;
  SamplerRelabel& relabel;  // of the sources
  ExpandScratch& scratch;
  std::uint32_t lo, hi;
};

template <Picker P>
inline constexpr bool kWantsTrees = false;
template <>
inline constexpr bool kWantsTrees<TemporalPicker> = true;
template <>
inline constexpr bool kWantsTrees<ExcludingPicker<TemporalPicker>> = true;

static_assert(Picker<ExcludingPicker<UniformPicker>> && ClosingInPicker<ExcludingPicker<TemporalPicker>>);

/// Expands the rows. Throws DamagedRow, and what the picker throws.
template <Picker P>
void expand_hop(const HopRows& rows, const P& picker) {
  const auto run = [&]<class Index>(Index, auto& relabel) {
    using Relabel = std::decay_t<decltype(relabel)>;
    if constexpr (Relabel::kTrees || !kWantsTrees<P>)
      RowPipeline<Index, Relabel, P>(rows.ends, rows.options, picker, relabel, rows.scratch)
          .expand(rows.lo, rows.hi);
  };
  std::visit(
      [&](auto& relabel) {
        if (rows.ends.csc.index_type == ElementType::kInt32)
          run(std::int32_t{}, relabel);
        else
          run(std::int64_t{}, relabel);
      },
      rows.relabel);
}

extern template void expand_hop(const HopRows&, const ExcludingPicker<UniformPicker>&);
extern template void expand_hop(const HopRows&, const ExcludingPicker<WeightedPicker>&);
extern template void expand_hop(const HopRows&, const ExcludingPicker<TemporalPicker>&);
extern template void expand_hop(const HopRows&, const ExcludingPicker<LaborPicker>&);

}  // namespace hopfeed
