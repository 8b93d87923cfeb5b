// PeerRows are rows of an attribute that lie on other machines: one question for each machine, all under way
// together.
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

namespace hopfeed {

class PeerRows {
 public:
  /// Names an attribute of a node type (Store::kNode) or of an edge type (Store::kEdge). `dataset` must
  /// outlive it. Throws kNotFound naming the attributes that exist.
  PeerRows(const Dataset& dataset, Store store, int type, const std::string& name);
  ~PeerRows() { drop(); }
  PeerRows(const PeerRows&) = delete;
  PeerRows& operator=(const PeerRows&) = delete;

  std::size_t row_bytes() const { return static_cast<std::size_t>(attr_.row_bytes); }
  /// Asks for rows of partitions that are not on this machine, beside what it has asked for already; they
  /// leave as PartitionPeers::ask says. `tags[i]` names the i-th row for take(). Throws what PartitionPeers
  /// throws.
  void ask(std::span<const std::int64_t> ids, std::span<const std::size_t> tags);
  /// Waits for all that was asked; calls `row(tag, bytes)` for each. The bytes stay until the next ask()
  /// behind a drop().
  void take(const std::function<void(std::size_t tag, const std::byte* row)>& row);
  /// Forgets what was asked and taken.
  void drop() noexcept;

 private:
  struct Question {
    int partition = 0;
    std::vector<std::size_t> tags;
    PartitionPeers::Ticket ticket = 0;
    PeerAnswer answer;
    bool under_way = false;
  };
  const Dataset& dataset_;
  const bool is_edge_;
  const int type_;
  const AttrView attr_;
  std::uint32_t number_ = 0;
  std::vector<Question> questions_;
};

/// Writes out[i] = row ids[i], wherever it lies: what gather_rows() does where all partitions are here.
/// Throws what PartitionPeers throws.
void gather_rows_of_all(const Dataset& dataset, Store store, int type, const std::string& name,
                        std::span<const std::int64_t> ids, std::byte* out);
/// A WholeNodeAttr is an attribute of all nodes of a type as one array: the mapped one, or, where partitions
/// lie on other machines, a copy that they were asked for (row_bytes for each node of the graph). Few need
/// all of it: weights and times of negatives, clusters.
class WholeNodeAttr {
 public:
  /// Once memory is there for a copy, and for the `beside` bytes a node that its reader keeps with it, asks
  /// for the copy and tells so in a note. Throws kNotFound naming the attributes that exist, kNoSpace, and
  /// what PartitionPeers throws.
  WholeNodeAttr(const Dataset& dataset, int node_type, const std::string& name, std::size_t beside);
  WholeNodeAttr(const WholeNodeAttr&) = delete;
  WholeNodeAttr& operator=(const WholeNodeAttr&) = delete;
  const AttrView& view() const { return view_; }
  /// Returns the size of the copy; 0 where there is none.
  std::size_t bytes() const { return copy_.capacity(); }

 private:
  AttrView view_;
  std::vector<std::byte> copy_;
  const std::byte* first_ = nullptr;
  std::int64_t offsets_[2] = {0, 0};
};

}  // namespace hopfeed
