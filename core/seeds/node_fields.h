// NodeFields are nodes as the seeds of a batch.
#pragma once
#include <algorithm>
#include <optional>
#include <vector>

#include "core/batch/batch_options.h"
#include "core/dataset/dataset.h"
#include "core/sampler/peer_ids.h"
#include "core/seeds/made_ahead.h"
#include "core/seeds/node_list.h"
#include "core/seeds/seed_fields.h"

namespace hopfeed {

class NodeFields : public SeedFields {
 public:
  /// `dataset` and `list` must outlive it. Throws kInvalid for times and options that do not go together,
  /// kNotFound for a time that is not there.
  NodeFields(const Dataset& dataset, const NodeList& list, const BatchOptions& options);
  std::int64_t size() const override { return list_.size(); }
  std::span<const TypedSeeds> seeds(const BatchKey& key) override;
  void expect(const BatchKey& key) override;
  const ExcludedEdges* excluded() const override { return nullptr; }
  std::vector<SeedCount> most_seeds(std::int64_t positions) const override;
  void lay_out(Store store, int type, const SeedRoom& room, BlockWriter& out, SeedArrays& at) const override;
  void write(const Sample& sample, const SeedArrays& at, BlockWriter& out) const override;
  void write_owners(std::span<const std::int64_t> trees, std::int64_t* out) const override {
    std::ranges::copy(trees, out);
  }
  std::size_t bytes() const override { return made_.bytes(); }
  std::size_t table_bytes() const override { return 0; }
  std::size_t scratch_bytes(std::int64_t positions) const override;

 private:
  /// Made has the seeds of one batch.
  struct Made {
    NodeList::Positions positions;
    SplitEntries entries;  // where the list lies in ranges
    std::vector<std::int64_t> ids, times;
    TypedSeeds seeds;
    std::size_t bytes() const;
  };
  void make(const BatchKey& key, Made& made);

  const Dataset& dataset_;
  const NodeList& list_;
  const bool timed_;  // the options name a time
  std::string time_;  // attribute of the seeds' type, where the list brings no times of its own
  PeerIds peer_ids_;
  MadeAhead<Made> made_;
};

}  // namespace hopfeed
