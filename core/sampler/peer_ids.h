// PeerIds looks up ids of nodes, and entries of splits, where each machine has those of its partitions'
// ranges alone (sharded ids): what is here is read, for the rest one question goes to each partition, all
// under way together. Where this machine has all ids nobody is asked.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/batch/batch_layout.h"
#include "core/dataset/dataset.h"
#include "core/sampler/peer_questions.h"
#include "core/sampler/peer_round.h"
#include "core/sampler/split_entries.h"

namespace hopfeed {

/// Returns the bytes of an id of a node type on the wire: 4 or 8.
inline int id_width(const Dataset& dataset, int node_type) {
  return static_cast<int>(
      element_bytes(dataset.meta().node_types[static_cast<std::size_t>(node_type)].new_id_type));
}

class PeerIds {
 public:
  /// `dataset` must outlive it.
  explicit PeerIds(const Dataset& dataset) : dataset_(dataset) {}
  ~PeerIds() { drop(); }
  PeerIds(const PeerIds&) = delete;
  PeerIds& operator=(const PeerIds&) = delete;

  /// Fills out[i] = dataset id of originals[i], now or in take(); both must hold until then. Throws kInvalid
  /// naming an id that is out of range, and what PartitionPeers throws.
  void ask_dataset_ids(int node_type, std::span<const std::int64_t> originals, std::span<std::int64_t> out);
  /// Fills out[i] = original id of ids[i], which are in range, likewise.
  void ask_original_ids(int node_type, std::span<const std::int64_t> ids, std::int64_t* out);
  /// Fills `out` with the entries at `positions` of a split of a node type (Store::kNode) or of an edge type,
  /// likewise. Throws kNotFound naming the splits that exist.
  void ask_split(Store store, int type, const std::string& split, std::span<const std::int64_t> positions,
                 SplitEntries& out);
  /// Waits for all that was asked. Throws what PartitionPeers throws, kCorrupt for answers that cannot be.
  void take();
  /// Forgets what was asked and not taken. So does an error of the functions above.
  void drop() noexcept;

 private:
  /// An Asked is what one partition is asked.
  struct Asked {
    std::vector<std::size_t> at;  // which of those of the caller
    std::vector<std::int64_t> places;
  };
  using Read = std::function<void(PeerReader& in, const std::vector<std::size_t>& at)>;
  template <class Head>
  void ask(int partition, PeerAsk kind, Head head, bool wide, Asked asked, Read read);
  /// Does what may throw; then nothing is left under way.
  template <class Action>
  void or_drop(const Action& action) {
    try {
      action();
    } catch (...) {
      drop();
      throw;
    }
  }
  void ask_for_dataset_ids(int node_type, std::span<const std::int64_t> originals,
                           std::span<std::int64_t> out);
  void ask_for_original_ids(int node_type, std::span<const std::int64_t> ids, std::int64_t* out);
  void ask_for_split(Store store, int type, const std::string& split, std::span<const std::int64_t> positions,
                     SplitEntries& out);

  struct Question {
    std::vector<std::size_t> at;
    Read read;
    PartitionPeers::Ticket ticket = 0;
    int partition = 0;
    bool under_way = false;
  };
  const Dataset& dataset_;
  std::vector<Question> questions_;
};

/// Returns all entries of a split, some at a time, into memory. Throws kNoSpace where they do not fit.
SplitEntries whole_split(const Dataset& dataset, Store store, int type, const std::string& split);

/// Returns the original ids of the nodes of a split, in the imported order, whoever has them.
std::vector<std::int64_t> original_ids_of_split(const Dataset& dataset, int node_type,
                                                const std::string& split);
/// Returns the dataset ids of the nodes of a split likewise.
std::vector<std::int64_t> dataset_ids_of_split(const Dataset& dataset, int node_type,
                                               const std::string& split);

/// Returns the dataset ids of these nodes, whoever has them.
std::vector<std::int64_t> dataset_ids_of_all(const Dataset& dataset, int node_type,
                                             std::span<const std::int64_t> originals);
std::vector<std::int64_t> original_ids_of_all(const Dataset& dataset, int node_type,
                                              std::span<const std::int64_t> ids);
/// Calls each(first, dataset ids of the original ids from `first` on) for all nodes of a type, some at a
/// time, by rising original id. Few need all: weights and times of negatives, clusters.
using EachIds = std::function<void(std::int64_t first, std::span<const std::int64_t> ids)>;
void for_all_dataset_ids(const Dataset& dataset, int node_type, const EachIds& each);
/// Likewise each(first, original ids of the dataset ids from `first` on).
void for_all_original_ids(const Dataset& dataset, int node_type, const EachIds& each);

}  // namespace hopfeed
