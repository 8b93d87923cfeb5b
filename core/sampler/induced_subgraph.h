// The sample has all edges between the nodes that another sampler gives, of every edge type, but those that
// the batch excludes: row by row in local-id order of the destinations, inside a row in imported order. Whole
// rows are read, and each source is looked up among the nodes of the batch.
#pragma once
#include <memory>
#include <vector>

#include "core/batch/batch_options.h"
#include "core/dataset/dataset.h"
#include "core/draws/any_relabel.h"
#include "core/draws/relabel_table.h"
#include "core/sampler/row_reader.h"
#include "core/sampler/sampler.h"

namespace hopfeed {

class InducedSubgraph : public Sampler {
 public:
  /// `dataset` must outlive it. Of the options it looks at the edge ids and edge attributes that are asked
  /// for. Throws kUnsupported for edge ids that are not stored.
  InducedSubgraph(std::unique_ptr<Sampler> nodes, const Dataset& dataset, const BatchOptions& options);

  /// Gives the nodes of the other sampler; there are no hops.
  const Sample& sample(const SampleRequest& request) override;
  SampleBounds bounds(SeedCounts seeds) const override;
  std::size_t num_hops() const override { return 0; }
  std::size_t scratch_bytes() const override;
  std::size_t later_table_bytes() const override { return sampler_->later_table_bytes(); }
  std::size_t max_scratch_bytes(SeedCounts seeds) const override;

 private:
  struct Nodes {
    AnyRelabel relabel;
    LocalNodes local;
    std::int64_t count = 0;  // per_hop of a batch without hops
  };
  struct Edges {
    CscView csc;
    bool positions = false;  // an attribute of it is gathered
    ScratchArray<std::uint32_t> sources, per_dst;
    ScratchArray<std::int64_t> edge_ids, edge_positions;
    std::size_t count = 0;
  };

  void index_nodes(std::size_t type, std::span<const std::int64_t> dataset_ids);
  struct Place {
    int part = 0;
    std::int64_t row = 0;                    // of the partition
    std::span<const std::int64_t> excluded;  // sources
  };
  void take_edges(Edges& edges, int type, const ExcludedEdges* excluded);
  template <class Index, class Table>
  void take_row(Edges& edges, Table& table, const Place& place);
  template <class Table>
  void take_fetched(Edges& edges, Table& table, const Row& row, const Place& place);

  std::unique_ptr<Sampler> sampler_;
  const Dataset& dataset_;
  const bool edge_ids_;
  std::vector<Nodes> nodes_;
  std::vector<Edges> edges_;
  std::vector<RowReader> readers_;  // by edge type; of rows on other machines
  ScratchArray<std::uint32_t> locals_;
  Sample result_;
};

}  // namespace hopfeed
