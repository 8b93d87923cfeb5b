// LaborMemory keeps what layer-dependent draws leave from hop to hop and from batch to batch: the variates
// that hops and batches share, and what rows have taken of them.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/dataset/dataset.h"
#include "core/dataset/graph_view.h"
#include "core/draws/labor_kept.h"
#include "core/draws/labor_variates.h"

namespace hopfeed {

/// LaborTables are those of one hop over one edge type.
struct LaborTables {
  LaborVariates::View variates;  // of the sources, or none
  LaborKept* kept = nullptr;     // of the rows, or null: nothing is kept
};

class LaborMemory {
 public:
  LaborMemory(std::size_t num_edge_types, std::size_t num_hops)
      : num_hops_(num_hops), kept_(num_edge_types * num_hops) {}

  struct Hop {
    std::size_t edge_type, number;
    std::uint64_t key;    // of the variates
    std::uint64_t looks;  // neighbours of the rows, counted up to looks_that_matter()
    bool keep;            // other batches draw the same from these rows
  };
  static std::uint64_t looks_that_matter(const CscView& csc) {
    return std::max(LaborVariates::has_tables(csc) ? LaborVariates::looks_that_pay(csc) : 0,
                    LaborKept::has_places(csc) ? LaborKept::looks_that_pay(csc) : 0);
  }

  LaborTables of(const Dataset& dataset, const CscView& csc, const Hop& hop) {
    LaborTables tables;
    if (LaborVariates::has_tables(csc) && hop.looks >= LaborVariates::looks_that_pay(csc))
      tables.variates = variates_.of(dataset, {.node_type = csc.src_type,
                                               .key = hop.key,
                                               .first_hop = static_cast<std::uint32_t>(hop.number),
                                               .end_hop = static_cast<std::uint32_t>(num_hops_)});
    if (hop.keep && LaborKept::has_places(csc) && hop.looks >= LaborKept::looks_that_pay(csc)) {
      tables.kept = &kept_[hop.edge_type * num_hops_ + hop.number];
      tables.kept->begin(csc, hop.key);
    }
    return tables;
  }

  /// Returns the most scratch with batches of so many hops, that share variates or do not.
  static std::size_t max_scratch_bytes(const Dataset& dataset, std::size_t num_hops, bool shared) {
    std::size_t variates = 0, kept = 0;
    for (int t = 0; t < dataset.num_node_types(); ++t)
      variates = std::max(variates, LaborVariates::max_scratch_bytes(dataset.num_nodes(t), num_hops));
    for (int e = 0; shared && num_hops > 0 && e < dataset.num_edge_types(); ++e)
      kept += (num_hops - 1) * LaborKept::max_scratch_bytes(dataset.csc(e));  // the seeds' rows are not kept
    return variates + kept;
  }
  std::size_t scratch_bytes() const {
    std::size_t bytes = variates_.scratch_bytes();
    for (const LaborKept& kept : kept_) bytes += kept.scratch_bytes();
    return bytes;
  }

 private:
  std::size_t num_hops_;
  LaborVariates variates_;
  std::vector<LaborKept> kept_;  // by edge type and hop
};

}  // namespace hopfeed
