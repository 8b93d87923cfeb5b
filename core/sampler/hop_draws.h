// HopDraws draws what the rows of one edge type give in one hop, whoever wants it: by the picker that the
// options ask for, over the pipeline of row_pipeline.h. The neighbour sampler gives what comes local ids; an
// owner of partitions sends it to the machine that asked (row_drawer.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/batch/batch_layout.h"
#include "core/batch/batch_options.h"
#include "core/dataset/dataset.h"
#include "core/draws/excluded_rows.h"
#include "core/draws/keyed_random.h"
#include "core/draws/labor_memory.h"
#include "core/draws/seed_places.h"
#include "core/sampler/edge_type_plan.h"
#include "core/sampler/expand_hop.h"

namespace hopfeed {

/// Returns the bits that a dataset id takes in ids of disjoint batches (tree << bits | node): of the node
/// type with the most.
int node_bits_of(const Dataset& dataset);

class HopDraws {
 public:
  /// `dataset` and `options`, which are valid, must outlive it. Throws what plan_edge_types throws.
  HopDraws(const Dataset& dataset, const BatchOptions& options);

  std::size_t num_types() const { return types_.size(); }
  const EdgeTypePlan& type(std::size_t edge_type) const { return types_[edge_type]; }

  /// Begins a batch: what it excludes (null: nothing), and the time of each tree's seed where the options
  /// name a time; `first_tree` is the first of those, for who asks for later ones only. Both must outlive its
  /// last expand().
  void begin(const ExcludedEdges* excluded, std::span<const std::int64_t> seed_times,
             std::uint32_t first_tree = 0);

  struct Hop {
    BatchKey key;
    std::size_t number = 0, edge_type = 0;
  };
  struct Rows {
    ExpandEnds ends;          // rows of ends.dst with local ids [lo, hi)
    SamplerRelabel& relabel;  // of the sources
    std::uint32_t lo, hi;
  };
  /// Expands rows. Throws kCorrupt naming file and row where the graph is damaged, and what pickers throw.
  void expand(const Hop& hop, const Rows& rows);

  std::size_t scratch_bytes() const;
  std::size_t later_table_bytes() const;
  /// Most bounds what it takes in batches of so many seeds and so many edges of each type; `group`: edges of
  /// destinations that are expanded together.
  struct Most {
    std::size_t bytes = 0, group = 0;
  };
  Most most(std::span<const std::int64_t> edges, std::size_t num_seeds) const;
  std::uint64_t rows_summed() const { return scratch_.picks.rows_summed; }

 private:
  NodeStream stream_of(const Hop& hop) const;
  LaborTables labor_tables(const Hop& hop, const Rows& rows, const PickOptions& pick);
  std::uint64_t neighbors_up_to(std::uint64_t enough, const Hop& hop, const Rows& rows) const;
  template <WholePicker P>
  void expand_with(const Hop& hop, const Rows& rows, const P& picker);
  std::size_t most_in_group(std::size_t edge_type, std::size_t all) const;
  PickScratch::Most most_of_picker(std::size_t edge_type, std::size_t group) const;

  const Dataset& dataset_;
  const BatchOptions& options_;
  const int node_bits_;
  const std::vector<EdgeTypePlan> types_;
  ExpandScratch scratch_;
  std::vector<SeedPlaces> time_places_;  // by edge type
  std::uint32_t first_tree_ = 0;         // of these
  std::optional<LaborMemory> labor_;
  ExcludedRows excluded_;
};

}  // namespace hopfeed
