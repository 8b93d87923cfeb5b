// RawSources are what an owner of partitions has in the place of a table of local ids: sources stay dataset
// ids, one for each drawn edge, for the machine that asked (row_drawer.h). They have the contract of the
// tables in relabel_table.h.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/scratch.h"
#include "core/draws/relabel_table.h"

namespace hopfeed {

class RawSources {
 public:
  static constexpr bool kTrees = true;  // a batch without trees is one tree of number 0
  explicit RawSources(int node_bits) : mask_((std::uint64_t{1} << node_bits) - 1) {}

  void begin_batch(LocalNodes& nodes) { nodes.count = 0, count_ = 0; }
  void make_room(LocalNodes& /*nodes*/, std::size_t more) { sources_.reserve(count_ + more); }

  class Inserter {
   public:
    Inserter(RawSources& owner, LocalNodes& /*nodes*/, std::uint32_t* /*locals*/)
        : owner_(owner), to_(owner.sources_.data()), mask_(owner.mask_), next_(owner.count_) {}
    void prefetch(std::uint64_t /*node*/) const {}
    void insert(std::uint64_t node, std::size_t /*at*/) {
      to_[next_++] = static_cast<std::int64_t>(node & mask_);
    }
    void close() const { owner_.count_ = next_; }

   private:
    RawSources& owner_;
    std::int64_t* const to_;
    const std::uint64_t mask_;
    std::size_t next_;
  };

  std::span<const std::int64_t> sources() const { return {sources_.data(), count_}; }
  std::size_t bytes() const { return sources_.bytes(); }
  std::size_t max_bytes(std::size_t nodes) const { return decltype(sources_)::max_bytes(nodes); }

 private:
  const std::uint64_t mask_;
  ScratchArray<std::int64_t> sources_;
  std::size_t count_ = 0;
};

}  // namespace hopfeed
