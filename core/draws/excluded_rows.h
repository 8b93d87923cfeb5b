// ExcludedRows is what a sampler finds out about the rows of a sample that have excluded edges
// (excluded_edges.h): which places are left out, and for weighted draws the alias table of what is left. A
// row is looked through once, however many trees or walks come to it.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/element_type.h"
#include "core/base/scratch.h"
#include "core/dataset/alias_table.h"
#include "core/dataset/graph_view.h"
#include "core/draws/excluded_edges.h"
#include "core/draws/left_out.h"

namespace hopfeed {

class ExcludedRows {
 public:
  /// Neighbors is a row as it is searched: its neighbours, in whichever order the sampler reads them, the
  /// same in all of a sample.
  struct Neighbors {
    std::uint64_t at = 0;  // address of the first
    std::uint64_t degree = 0;
    ElementType type = ElementType::kInt32;  // or kInt64
  };
  /// A Row has excluded edges, if only pairs without an edge.
  struct Row {
    std::uint64_t generation = 0, first = 0, count = 0;  // in the lists of places
    std::uint64_t table = 0;                             // where its alias table begins; kNoTable, kNoWeight
  };

  /// Begins a sample of the batch whose edges these are; null: nothing is excluded.
  void begin(const ExcludedEdges* excluded);
  bool any(int edge_type) const { return excluded_ && excluded_->any(edge_type); }
  std::span<const std::int64_t> sources_of(int edge_type, std::int64_t dst) const {
    return any(edge_type) ? excluded_->sources_of(edge_type, dst) : std::span<const std::int64_t>();
  }
  /// Forgets what it knows where that has become much: called where nothing of what the functions below gave
  /// is in use.
  void make_room();

  /// Returns the row of these `sources`, those of its destination, not empty. It is good until make_room() or
  /// begin().
  Row& row(int edge_type, std::span<const std::int64_t> sources, const Neighbors& neighbors);
  LeftOut left_out(const Row& row) const { return {lists_, row.first, row.count}; }

  /// Weights are the weights of a row's edges, an attribute of the edges.
  struct Weights {
    const AttrView& view;
    std::int64_t position = 0;  // of the row's first edge in the dataset's order
    std::uint64_t degree = 0;
  };
  /// Makes the alias table of what is left of a row; false where all that is left weighs nothing. Throws
  /// kInvalid for weights that cannot be.
  bool make_table(Row& row, const Weights& weights);
  /// Returns the table, until another is made.
  const AliasEntry* table(const Row& row) const { return tables_.data() + row.table; }

  std::size_t bytes() const;
  /// Most bounds samples: they have at most so many pairs of an edge type.
  struct Most {
    std::size_t edge_types = 0, pairs = 0;
    std::size_t longest = 0, together = 0;  // neighbours of a row, and of all rows that are in use together
    bool weighted = false;
  };
  static std::size_t max_bytes(const Most& most);

 private:
  static constexpr std::uint64_t kNoTable = ~std::uint64_t{0}, kNoWeight = kNoTable - 1;
  static constexpr std::uint64_t kKept = std::uint64_t{1}
                                         << 20;  // places, and entries of tables: 16 MB in all

  template <class Index>
  void search(const Index* row, std::uint64_t degree, std::span<const std::int64_t> sources);

  const ExcludedEdges* excluded_ = nullptr;
  std::uint64_t generation_ = 0;         // rows of an earlier one are forgotten
  std::vector<ScratchArray<Row>> rows_;  // per edge type, by ExcludedEdges::number_of
  ScratchArray<std::uint64_t> lists_;    // LeftOut has the layout
  ScratchArray<AliasEntry> tables_;
  std::uint64_t num_listed_ = 0, num_entries_ = 0;
  ScratchArray<double> weights_;  // of the row under way
  AliasBuilder builder_;
};

}  // namespace hopfeed
