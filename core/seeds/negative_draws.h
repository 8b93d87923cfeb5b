// NegativeDraws draws the negatives of a batch of links by the rule of negative_rule.h: uniformly or by
// weight, strict or not, of nodes that exist at the time of their link.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/batch/batch_layout.h"
#include "core/batch/batch_options.h"
#include "core/dataset/dataset.h"
#include "core/draws/keyed_random.h"
#include "core/seeds/edge_membership.h"
#include "core/seeds/known_links.h"
#include "core/seeds/negative_nodes.h"
#include "core/seeds/nodes_by_time.h"

namespace hopfeed {

class NegativeDraws {
 public:
  /// Strict negatives are none of `links` either.
  /// `dataset` must outlive it. Holds tables of the graph's size where negatives are drawn by weight or by
  /// time, and 18 bytes for each of `links` where they are strict. Throws kNotFound and kInvalid for weights
  /// and times that are not there or cannot be drawn by.
  NegativeDraws(const Dataset& dataset, int edge_type, const BatchOptions& options, KnownLinks links = {});

  /// Links are those of a batch, which covers the positions of its key.
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
    /// Tries are the strict ones that are not drawn yet, and what they come to now.
    struct Tries {
      std::vector<std::int64_t> left;                   // numbers of negatives
      std::vector<std::int64_t> sources, destinations;  // original ids
      std::vector<std::int64_t> source_ids, destination_ids;
      std::vector<EdgeMembership::Edge> edges;
      std::vector<char> taken;
    } tries = {};
    std::size_t bytes() const;
    /// Returns what bytes() can come to with so many negatives.
    static std::size_t max_bytes(std::int64_t count, bool strict);
  };
  /// Draws into reused memory. Allocates nothing else, but for a bit for each source of the graph once a pair
  /// that is strict is found by no draw. Throws kInvalid naming a link that has no negative
  /// that could be, kCorrupt naming file and row where the graph is damaged; where several are wrong, any of
  /// them.
  void draw(const Links& links, Negatives& out);
  /// Returns the bytes of all that it holds, from the start on.
  std::size_t bytes() const;

 private:
  struct Pair {
    std::int64_t source = 0, destination = 0;  // original ids
  };
  /// A Draw is one negative that is to be drawn.
  struct Draw {
    NodeStream source, destination;
    std::optional<std::int64_t> time;            // of its link
    std::int64_t link = 0;                       // its input_id
    std::int64_t sources = 0, destinations = 0;  // nodes that exist at that time
  };
  bool binary() const { return options_.mode == NegativeMode::kBinary; }
  void require_nodes(const Draw& draw, const NegativeNodes& end, std::int64_t existing) const;
  Draw draw_of(const Links& links, std::int64_t number) const;
  /// Makes one attempt at a negative, which may be taken or not, and leaves it in `out`.
  Pair attempt(const Links& links, std::int64_t negative, std::uint32_t number, Negatives& out) const;
  void draw_strict(const Links& links, Negatives& out);
  /// Finds which of the tries are taken.
  void find_taken(Negatives::Tries& tries) const;
  /// Returns whether a pair is an edge or a link, which strict negatives must not be.
  bool taken(const Pair& pair) const;
  void scan(const Links& links, std::int64_t negative, Negatives& out);
  Pair scan_pairs(const Draw& draw);
  std::int64_t scan_destinations(const Draw& draw, std::int64_t source) const;
  template <class Take>
  void for_each_taken(std::int64_t destination, const Take& take) const;
  std::uint64_t weight_of_sources_left(const Draw& draw, std::int64_t destination);
  std::int64_t source_left(const Draw& draw, std::int64_t destination, unsigned __int128 at);
  [[noreturn]] void refuse(const Draw& draw, const std::string& why, const char* advice) const;
  std::string type_name() const { return dataset_.meta().edge_types[edge_type_].folder(); }

  const Dataset& dataset_;
  const int edge_type_, src_type_, dst_type_;
  const NegativeOptions options_;
  // Where both ends are of one type, they share one; the one of sources is null for triplets, which draw
  // none.
  const std::shared_ptr<const NodesByTime> dst_by_time_, src_by_time_;
  const NegativeNodes src_, dst_;
  NodeStream sources_{}, destinations_{};  // of the batch under way
  std::optional<EdgeMembership> edges_;    // of strict negatives, and these too:
  KnownLinks links_;
  std::vector<bool> marks_;  // sources that a destination is not drawn with; empty until scan_pairs()
};

}  // namespace hopfeed
