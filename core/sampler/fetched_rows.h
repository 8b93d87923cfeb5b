// FetchedRows are whole rows of partitions that are not on this machine, for samplers that look at rows as
// they like (walks, clusters, subgraphs, samplers of one's own): asked of their owners, all that are known to
// be needed together, and kept for a while. A sampler that does not say beforehand which rows it reads waits
// for each.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/dataset/dataset.h"
#include "core/sampler/peer_questions.h"

namespace hopfeed {

class FetchedRows {
 public:
  /// `dataset` must outlive it.
  FetchedRows(const Dataset& dataset, int edge_type);

  /// A Row is a row as RowReader wants it; addresses hold while the row is kept.
  struct Row {
    const std::byte *neighbors = nullptr, *edge_ids = nullptr;
    std::uint32_t neighbor_bytes = 4, edge_id_bytes = 4;
    std::uint64_t degree = 0;
    std::int64_t first_edge = 0;  // in the dataset's order
    std::int64_t original_id = 0;
  };
  /// Asks for the rows that are not here yet, in one go. Nodes whose rows are on this machine are passed
  /// over. The rows stay at least until kKept others have come. Throws what PartitionPeers throws.
  void fetch(std::span<const std::int64_t> nodes);
  /// Returns the row of a node in another partition; asks for it where it is not here. It stays as rows of
  /// fetch() do.
  Row row(std::int64_t node);
  std::size_t bytes() const { return bytes_ + retired_bytes_; }

 private:
  static constexpr std::size_t kKept = 8'192, kKeptBytes = std::size_t{64} << 20;
  struct Answer {
    PeerAnswer bytes;
    std::vector<std::int64_t> nodes;
  };
  void take(int partition, std::vector<std::int64_t> nodes, PeerAnswer answer);
  void forget();

  const Dataset& dataset_;
  const int edge_type_;
  const CscView csc_;
  std::unordered_map<std::int64_t, Row> rows_;
  std::deque<Answer> answers_;  // oldest first
  struct Retired {
    PeerAnswer bytes;
    std::uint64_t when = 0;  // how many rows had come
  };
  std::deque<Retired> retired_;  // not found any more, but maybe in use; oldest first
  std::uint64_t came_ = 0;       // rows, ever
  std::size_t bytes_ = 0, retired_bytes_ = 0;
};

}  // namespace hopfeed
