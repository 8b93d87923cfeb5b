// HopOverPartitions is one hop of the neighbour sampler over partitions of which some lie on other machines.
// The rows of each are drawn by who has them, here where a halo has copies: one question for each partition
// and hop, with the rows of all edge types, all under way while own rows are drawn. What comes is put into
// the order of the frontier, so that local ids come out as on one machine. DistDGL and GLT ask so.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/batch/batch_options.h"
#include "core/dataset/dataset.h"
#include "core/sampler/expand_hop.h"
#include "core/sampler/peer_questions.h"
#include "core/sampler/row_drawer.h"

namespace hopfeed {

class HopOverPartitions {
 public:
  /// `dataset`, which has peers, must outlive it.
  HopOverPartitions(const Dataset& dataset, const BatchOptions& options);

  struct Batch {
    BatchKey key;
    const ExcludedEdges* excluded = nullptr;
    std::span<const std::int64_t> seed_times;  // of each tree
  };
  /// A Frontier has the destinations of an edge type: dataset ids, in disjoint batches tree << node_bits |
  /// id. It is empty where nothing is drawn.
  using Frontier = std::span<const std::int64_t>;
  /// Draws the rows of all of them, by edge type. Throws what PartitionPeers throws, kCorrupt for an answer
  /// that is none.
  void draw(const Batch& batch, std::size_t hop, std::span<const Frontier> frontiers);

  struct Place {
    LocalNodes& src;
    SamplerRelabel& relabel;  // of src
    EdgeScratch& edges;
    std::uint32_t first = 0;  // local id of the frontier's first
    bool edge_ids = false, positions = false;
  };
  /// Gives local ids to what was drawn of one edge type.
  void place(std::size_t edge_type, const Place& place);

  std::size_t scratch_bytes() const;

 private:
  /// A Part is what one partition was asked of one edge type, and what it gave.
  struct Part {
    std::vector<std::uint32_t> rows, trees;
    std::vector<std::int64_t> excluded;
    PeerDrawn drawn;
    std::size_t row = 0, edge = 0;  // how far they were placed
  };
  struct Asked {
    PeerBytes own;      // the answer, where the partition is here
    PeerAnswer answer;  // else
    PartitionPeers::Ticket ticket = 0;
    bool any = false, under_way = false;
  };

  void route(const Batch& batch, std::size_t edge_type, Frontier frontier);
  PeerDrawQuestion question(const Batch& batch, std::size_t hop, std::size_t partition) const;
  /// Asks a partition; `tries` is how often it was asked in vain.
  void ask(const Batch& batch, std::size_t hop, std::size_t partition);
  void take(const Batch& batch, std::size_t hop, std::size_t partition);
  void read(std::size_t partition, std::span<const std::byte> answer);
  void drop_all() noexcept;
  Part& part(std::size_t edge_type, std::size_t partition) {
    return parts_[edge_type * asked_.size() + partition];
  }
  const Part& part(std::size_t edge_type, std::size_t partition) const {
    return parts_[edge_type * asked_.size() + partition];
  }
  std::int64_t node_of(std::int64_t id) const { return id & ((std::int64_t{1} << node_bits_) - 1); }
  template <class Relabel>
  void place_in(std::size_t edge_type, const Place& place, Relabel& relabel);

  const Dataset& dataset_;
  const BatchOptions options_;
  const std::uint64_t job_;
  const int node_bits_;
  std::vector<CscView> csc_;
  std::vector<char> positions_;  // [edge types] whether answers have them
  RowDrawer drawer_;
  std::vector<char> told_;                            // [parts] whether the owner knows the job
  std::vector<Asked> asked_;                          // [parts]
  std::vector<Part> parts_;                           // [edge types][parts]
  std::vector<std::vector<std::int64_t>> frontiers_;  // by edge type
  std::vector<std::vector<std::uint16_t>> drawn_by_;  // [edge type][frontier] partition or halo
  std::size_t scratch_ = 0, in_budget_ = 0;  // bytes: with the answers of this hop; of the thread's share
};

}  // namespace hopfeed
