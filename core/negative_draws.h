// Draws the negatives of a batch of links by the rule of negative_rule.h: uniformly or by weight, strict or not, of nodes that exist
// at the time of their link.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/batch_layout.h"
#include "core/batch_options.h"
#include "core/dataset.h"
#include "core/edge_membership.h"
#include "core/graph_view.h"
#include "core/keyed_random.h"

namespace hopfeed {

class NegativeDraws {
 public:
  /// `dataset` must outlive it. With weights it holds 8 bytes per node. Throws kNotFound and kInvalid for weights that are not there or
  /// cannot be drawn by.
  NegativeDraws(const Dataset& dataset, int edge_type, const BatchOptions& options);

  /// The links of a batch, which covers the positions of its key.
  struct Links {
    BatchKey key;
    std::span<const std::int64_t> sources;   // [P] original ids
    std::span<const std::int64_t> times;     // [P]; empty: no time is sampled by
    std::span<const std::int64_t> input_id;  // [P] names links in errors
  };
  struct Negatives {
    std::vector<std::int64_t> sources;       // [N] original ids; of triplets none
    std::vector<std::int64_t> destinations;  // [N]
    std::int64_t retries = 0;                // draws that were thrown away
  };
  /// Into reused memory. Throws kInvalid where a link has no negative that could be.
  void draw(const Links& links, Negatives& out) const;
  std::size_t bytes() const;

 private:
  struct End {
    int node_type = 0;
    std::int64_t count = 0;
    std::vector<AliasEntry> table;  // by original id; empty: uniform
    std::optional<AttrView> time;   // when its nodes begin to exist, where they know
  };
  struct Pair {
    std::int64_t source = 0, destination = 0;  // original ids
  };
  /// One negative that is to be drawn.
  struct Draw {
    NodeStream source, destination;
    std::optional<std::int64_t> time;  // of its link
    std::int64_t link = 0;             // its input_id
  };
  End end_of(int node_type, const std::string& weight, const BatchOptions& options) const;
  bool exists(const End& end, std::int64_t node, std::optional<std::int64_t> time) const;
  bool can_be(const Pair& pair, std::optional<std::int64_t> time) const;
  bool joined(const Pair& pair) const;
  Pair draw_one(const Draw& draw, Pair pair, std::int64_t& retries) const;
  /// What each node weighs at that time; of those that do not exist, 0.
  std::vector<std::uint64_t> weights_at(const End& end, std::optional<std::int64_t> time) const;
  Pair scan(const Draw& draw, const Pair& pair) const;
  std::int64_t scan_destinations(const Draw& draw, std::int64_t source) const;
  Pair scan_pairs(const Draw& draw) const;
  [[noreturn]] void refuse(const Draw& draw, const std::string& what) const;
  std::vector<std::int64_t> sources_joined_to(std::int64_t destination) const;

  const Dataset& dataset_;
  const int edge_type_;
  const NegativeOptions options_;
  End src_, dst_;
  std::optional<EdgeMembership> edges_;  // of strict negatives
};

}  // namespace hopfeed
