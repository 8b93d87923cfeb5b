// LinkFields are links as the seeds of a batch, with their negatives: the seeds are the nodes at their ends
// (PyG's order, docs/batch.md), each once and by original id, or, in disjoint batches, each in a tree of its
// own: sources, negative sources, destinations, negative destinations.
#pragma once
#include <optional>
#include <vector>

#include "core/batch/batch_options.h"
#include "core/dataset/dataset.h"
#include "core/draws/excluded_edges.h"
#include "core/sampler/peer_ids.h"
#include "core/seeds/link_list.h"
#include "core/seeds/negative_draws.h"
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
  void expect(const BatchKey& key) override { list_.expect(key, positions_); }
  const ExcludedEdges* excluded() const override {
    return options_.exclude == Exclude::kNone ? nullptr : &excluded_;
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
  };
  std::size_t num_types() const { return src_type_ == dst_type_ ? 1 : 2; }
  int type_of(std::size_t entry) const { return entry == 0 ? src_type_ : dst_type_; }
  static KnownLinks known_links(const Dataset& dataset, const LinkList& list);
  void ask_links();
  void take_ids_of_links();
  void ask_ids_left(std::size_t number);
  bool triplet() const { return options_.negatives.mode == NegativeMode::kTriplet; }
  bool labelled() const;
  void check() const;
  void check_batch() const;
  void find_reverse();
  void exclude_links();
  void seed_together();
  void seed_apart();
  void write_labels(const SeedArrays& at, BlockWriter& out) const;
  void write_triplets(const SeedArrays& at, BlockWriter& out) const;

  const Dataset& dataset_;
  const LinkList& list_;
  const LinkOptions options_;
  const bool trees_, timed_;
  const int src_type_, dst_type_;
  int reverse_type_ = -1;  // of edges, that are excluded too
  std::optional<NegativeDraws> negatives_;

  // What follows is of the batch under way.
  PeerIds peer_ids_;
  LinkList::Positions positions_;
  SplitEntries links_;  // where the list lies in ranges
  ExcludedEdges excluded_;
  NegativeDraws::Negatives drawn_;
  Ids sources_, destinations_;              // original ids, negatives behind the links
  Ids source_locals_, destination_locals_;  // local ids of these
  Entry entries_[2];                        // of both ends, or the first of all where they are of one type
  TypedSeeds seeds_[2];
};

}  // namespace hopfeed
