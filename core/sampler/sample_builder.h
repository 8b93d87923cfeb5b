// A SampleBuilder puts a sample together node by node and edge by edge, in the order that every batch has:
// local ids by first appearance, seeds first; edges hop by hop, within a hop grouped by destination. It is
// for samplers that are no pipeline of their own (custom_sampler.h).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/scratch.h"
#include "core/batch/batch_options.h"
#include "core/dataset/dataset.h"
#include "core/draws/any_relabel.h"
#include "core/sampler/row_reader.h"
#include "core/sampler/sampler.h"

namespace hopfeed {

class SampleBuilder {
 public:
  /// `dataset` must outlive the builder. Throws kUnsupported for edge ids that are not stored.
  SampleBuilder(const Dataset& dataset, const BatchOptions& options);

  /// Begins a sample: its first nodes are the distinct seeds.
  void begin(const SampleRequest& request);
  /// Returns the local id of a node, which joins the sample unless it is there. Throws kInvalid where
  /// `dataset_id` is no node.
  std::uint32_t add_node(int node_type, std::int64_t dataset_id);
  /// Adds edge i of a row of the edge type, between nodes that are there. Throws kInvalid for a local id that
  /// is not given, a row of another edge type and ends that are not that edge's, and kUnsupported for an edge
  /// that the batch excludes: the sampler does not look at SampleRequest::excluded.
  void add_edge(int edge_type, std::uint32_t source, std::uint32_t target, const Row& row, std::uint64_t i);
  /// Ends a hop: the nodes and edges since the last call were one. It is called num_hops times between begin
  /// and finish.
  void end_hop();
  /// Adds an int64 array of the batch beside what every batch has, zeros at first; fill it before finish().
  std::span<std::int64_t> add_array(const ArraySpec& spec);
  /// Returns the local ids of the seeds' positions.
  std::span<const std::uint32_t> seed_locals() const { return {seed_locals_.data(), num_positions_}; }
  /// Returns the dataset ids of the nodes that are there, by local id.
  std::span<const std::int64_t> nodes(int node_type) const {
    return {nodes_[node_type].local.ids.data(), nodes_[node_type].local.count};
  }
  const Sample& finish();

  std::size_t scratch_bytes() const;
  std::size_t max_scratch_bytes(const SampleBounds& bounds) const;

 private:
  struct Nodes {
    explicit Nodes(std::int64_t num_nodes) : relabel(make_relabel(num_nodes)), count(num_nodes) {}
    AnyRelabel relabel;
    std::int64_t count;
    LocalNodes local;
    std::vector<std::int64_t> per_hop;
  };
  struct Edges {
    int src_type = 0, dst_type = 0;
    ScratchArray<std::uint32_t> sources, targets;
    ScratchArray<std::int64_t> positions, ids;
    std::size_t count = 0, hop_begin = 0;
    std::vector<std::int64_t> per_hop;
  };
  void group_by_target(Edges& edges);
  template <class T>
  void permute(ScratchArray<T>& values, std::size_t begin, std::size_t count);

  const Dataset& dataset_;
  const bool edge_ids_;
  std::vector<Nodes> nodes_;
  std::vector<Edges> edges_;
  std::vector<ScratchArray<std::int64_t>> arrays_;
  ScratchArray<std::uint32_t> seed_locals_;
  ScratchArray<std::uint64_t> order_, permuted_;
  const ExcludedEdges* excluded_ = nullptr;
  std::size_t num_positions_ = 0;
  std::int64_t num_seeds_ = 0;
  Sample result_;
};

}  // namespace hopfeed
