// The sample has the edges that another sampler draws, each with its reverse, none twice (PyG's subgraph type
// bidirectional): grouped by destination over the whole batch, inside a group by source, both by local id.
//
// The reverses of edge type (a, r, b) are of the type that was declared as its reverse at the import, or
// else of type (b, rev_r, a) where there is one, and the other way round; else, where a is b, of the type
// itself. An edge id and the attributes are those of the drawn edge: of the first that was drawn in this
// direction, or else of the first that was drawn against it. They are refused for a pair of types, whose
// edges have no ids in each other's arrays. An edge that the batch excludes (excluded_edges.h) is not among
// them, though its reverse may have been drawn.
#pragma once
#include <memory>
#include <vector>

#include "core/base/scratch.h"
#include "core/batch/batch_options.h"
#include "core/dataset/dataset.h"
#include "core/sampler/sampler.h"

namespace hopfeed {

class BidirectionalSubgraph : public Sampler {
 public:
  /// `dataset` must outlive it. Of the options it looks at keep_orig_edges and at the edge ids and edge
  /// attributes that are asked for. Throws kInvalid naming an edge type without a reverse, and for edge ids
  /// or attributes of a pair of types.
  BidirectionalSubgraph(std::unique_ptr<Sampler> drawn, const Dataset& dataset, const BatchOptions& options);

  /// Gives the nodes of the other sampler. With keep_orig_edges hops are told too, of its edges, which
  /// `_orig_edge_index` has.
  const Sample& sample(const SampleRequest& request) override;
  SampleBounds bounds(SeedCounts seeds) const override;
  std::size_t num_hops() const override { return keep_orig_edges_ ? sampler_->num_hops() : 0; }
  std::size_t scratch_bytes() const override;
  std::size_t later_table_bytes() const override { return sampler_->later_table_bytes(); }
  std::size_t max_scratch_bytes(SeedCounts seeds) const override;

 private:
  /// An Entry is one direction of a drawn edge. Entries are ordered by what decides: by their ends, drawn
  /// before reversed, as drawn.
  struct Entry {
    std::uint64_t ends;    // destination << 32 | source
    std::uint64_t origin;  // reversed << 63 | number of the drawn edge
    friend auto operator<=>(const Entry&, const Entry&) = default;
  };
  struct Edges {
    std::size_t reverse = 0;  // edge type of the reverses
    ScratchArray<std::uint32_t> sources, targets;
    ScratchArray<std::int64_t> edge_ids, positions;
    ScratchArray<std::int64_t> drawn_index;  // [2, E] of `_orig_edge_index`
    std::size_t count = 0;
  };

  void pair_types(const BatchOptions& options);
  void merge(Edges& edges, const SampledEdges& drawn, const SampledEdges& reversed);
  void leave_out(std::size_t type, const ExcludedEdges& excluded);
  std::span<const std::int64_t> taken(const Edges& edges, std::span<const std::int64_t> drawn,
                                      ScratchArray<std::int64_t>& out);
  void keep(Sample& result, std::size_t type, const SampledEdges& drawn);

  std::unique_ptr<Sampler> sampler_;
  const Dataset& dataset_;
  const bool keep_orig_edges_;
  std::vector<Edges> edges_;
  ScratchArray<Entry> entries_;
  Sample result_;
};

}  // namespace hopfeed
