// BenchSeeds holds what the batches of a benchmark start from: the nodes of split "train", or, where the
// options ask for links, random edges of their type.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/batch/batch_options.h"
#include "core/dataset/dataset.h"
#include "core/maker/batch_maker.h"
#include "core/seeds/link_list.h"
#include "core/seeds/node_list.h"
#include "core/seeds/seed_fields.h"

namespace hopfeed::bench {

class BenchSeeds {
 public:
  /// `dataset` must outlive it.
  BenchSeeds(const Dataset& dataset, const BatchOptions& batch, bool shuffle);
  BenchSeeds(const BenchSeeds&) = delete;
  BenchSeeds& operator=(const BenchSeeds&) = delete;

  /// Returns the positions of an epoch.
  std::int64_t size() const { return links_ ? links_->size() : nodes_->size(); }
  /// Returns fields that view this object.
  std::unique_ptr<SeedFields> fields() const;
  BatchMaker maker() const;

 private:
  const Dataset& dataset_;
  const BatchOptions batch_;
  std::vector<std::int64_t> pairs_;  // original ids
  std::optional<NodeList> nodes_;
  std::optional<LinkList> links_;
};

}  // namespace hopfeed::bench
