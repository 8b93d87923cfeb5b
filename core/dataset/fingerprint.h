// The dataset's Fingerprint is 128 bits that name the imported content and not the cut. Each node contributes
// a hash of its original id, its attributes' bytes and its in-edges (original source ids and edge ids, in
// imported order); contributions are added, so the order of the nodes on disk does not matter and threads may
// share the work. Counts, names and splits are hashed on top. It detects mix-ups and damage; it is no defence
// against forgery.
#pragma once
#include <xxhash.h>

#include <cstdint>
#include <span>
#include <string>

#include "core/dataset/dataset_meta.h"

namespace hopfeed {

class Fingerprint {
 public:
  /// Adds one attribute row of one node (row_bytes bytes, no padding).
  void add_attr(int node_type, std::int64_t original_id, int attr, std::span<const std::byte> row);
  /// Adds the in-edges of one node under one edge type. `edge_ids` is empty where the dataset stores none.
  /// Rows without neighbours need not be added: they contribute nothing.
  void add_row(int edge_type, std::int64_t original_id, std::span<const std::int64_t> original_sources,
               std::span<const std::int64_t> edge_ids);
  /// Adds one attribute of all in-edges of a node, in imported order (no padding between rows).
  void add_edge_attr(int edge_type, std::int64_t original_id, int attr, std::span<const std::byte> rows);
  /// Adds the original ids of a split in the imported order.
  void add_split(int node_type, const std::string& name, std::span<const std::int64_t> original_ids);
  /// LinkArray names an array of an edge split; its digest is XXH3-128 of its bytes, so that who writes it
  /// need not hold it.
  enum class LinkArray { kPairs, kLabels, kTimes };
  void add_links(int edge_type, const std::string& name, LinkArray array, XXH128_hash_t digest);
  /// Sums are what was added so far, for others to go on from.
  struct Sums {
    std::uint64_t low = 0, high = 0;
  };
  Sums sums() const { return {low_, high_}; }
  void add(const Sums& sums) {
    low_ += sums.low;
    high_ += sums.high;
  }
  /// Adds what another thread gathered.
  void merge(const Fingerprint& other) { add(other.sums()); }
  /// Returns 32 hex digits over all that was added and the names, counts and attribute types of `meta`.
  std::string finish(const DatasetMeta& meta) const;

 private:
  void add(XXH128_hash_t hash) {
    low_ += hash.low64;
    high_ += hash.high64;
  }
  std::uint64_t low_ = 0, high_ = 0;
};

}  // namespace hopfeed
