// LinkFields are links as the seeds of a batch, with their negatives: the seeds are the nodes at their ends
// (PyG's order, docs/batch.md), each once and by original id, or, in disjoint batches, each in a tree of its
// own: sources, negative sources, destinations, negative destinations.
#pragma once
#include <array>
#include <optional>
#include <vector>

#include "core/batch/batch_options.h"
#include "core/dataset/dataset.h"
#include "core/draws/excluded_edges.h"
#include "core/sampler/peer_ids.h"
#include "core/seeds/link_list.h"
#include "core/seeds/made_ahead.h"
#include "core/seeds/negative_draws.h"
#include "core/seeds/ordered_ids.h"
#include "core/seeds/seed_fields.h"

namespace hopfeed {

class LinkFields : public SeedFields {
 public:
  /// `dataset` and `list` must outlive it. Throws kInvalid for labels, times and options that do not go
  /// together, what NegativeDraws throws, and with strict negatives what check_links() throws of any link;
  /// without them seeds() throws it of the batch's links.
  LinkFields(const Dataset& dataset, const LinkList& list, const BatchOptions& options);
  std::int64_t size() const override { return list_.size(); }
  std::span<const TypedSeeds> seeds(const BatchKey& key) override;
  void expect(const BatchKey& key) override;
  const ExcludedEdges* excluded() const override {
    return options_.exclude == Exclude::kNone ? nullptr : &made_.now().excluded;
  }
  std::vector<SeedCount> most_seeds(std::int64_t positions) const override;
  void lay_out(Store store, int type, const SeedRoom& room, BlockWriter& out, SeedArrays& at) const override;
  void write(const Sample& sample, const SeedArrays& at, BlockWriter& out) const override;
  void write_owners(std::span<const std::int64_t> trees, std::int64_t* out) const override;
  std::size_t bytes() const override;
  std::size_t table_bytes() const override { return negatives_ ? negatives_->bytes() : 0; }
  std::size_t scratch_bytes(std::int64_t positions) const override;

 private:
  using Ids = std::vector<std::int64_t>;
  /// An Entry has the seeds of one node type.
  struct Entry {
    Ids originals, ids, times;
    std::vector<std::size_t> left;  // those whose ids are looked up
    Ids left_originals, left_ids;
    std::size_t bytes() const;
  };
  /// Made has the seeds of one batch.
  struct Made {
    LinkList::Positions positions;
    SplitEntries links;  // where the list lies in ranges
    ExcludedEdges excluded;
    NegativeDraws::Negatives drawn;
    Ids sources, destinations;              // original ids, negatives behind the links
    Ids source_locals, destination_locals;  // local ids of these
    std::array<Entry, 2> entries;           // of both ends, or the first of all where they are of one type
    std::array<TypedSeeds, 2> seeds;
    std::size_t bytes() const;
  };
  std::size_t num_types() const { return src_type_ == dst_type_ ? 1 : 2; }
  int type_of(std::size_t entry) const { return entry == 0 ? src_type_ : dst_type_; }
  static KnownLinks known_links(const Dataset& dataset, const LinkList& list);
  void make(const BatchKey& key, Made& made);
  void ask_links(Made& made);
  void take_ids_of_links(Made& made) const;
  void ask_ids_left(std::size_t number, Made& made);
  bool triplet() const { return options_.negatives.mode == NegativeMode::kTriplet; }
  bool labelled() const;
  void check() const;
  void check_batch(const LinkList::Positions& positions) const;
  void find_reverse();
  void exclude_links(Made& made) const;
  void seed_together(Made& made);
  void seed_apart(Made& made) const;
  void write_labels(const SeedArrays& at, BlockWriter& out) const;
  void write_triplets(const SeedArrays& at, BlockWriter& out) const;

  const Dataset& dataset_;
  const LinkList& list_;
  const LinkOptions options_;
  const bool trees_, timed_;
  const int src_type_, dst_type_;
  int reverse_type_ = -1;  // of edges, that are excluded too
  std::optional<NegativeDraws> negatives_;
  PeerIds peer_ids_;
  OrderedIds ordered_;
  MadeAhead<Made> made_;
};

}  // namespace hopfeed
