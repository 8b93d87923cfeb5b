// A PartitionOwner answers what other machines ask of partitions that are on this one
// (core/sampler/peer_questions.h). It reads these alone: an owner never asks anybody, so owners cannot wait
// for each other in a circle.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/base/thread_annotations.h"
#include "core/dataset/dataset.h"
#include "core/sampler/peer_questions.h"
#include "core/sampler/row_drawer.h"

namespace hopfeed {

class PartitionOwner {
 public:
  /// `dataset` must outlive it.
  explicit PartitionOwner(const Dataset& dataset) : dataset_(dataset) {}
  /// Answers a question, on any thread, any number at a time. Throws kCorrupt for bytes that are no question,
  /// or that ask for what is not there; kUnsupported for a partition that is not here, kNoSpace for an answer
  /// larger than kMaxPeerAnswer, and what the dataset throws where it is damaged.
  PeerBytes answer(std::span<const std::byte> question);
  /// Counts what was answered since the owner was made.
  struct Counts {
    std::int64_t drawn_rows = 0, drawn_edges = 0;      // rows of hops, and what they gave
    std::int64_t whole_rows = 0, whole_row_edges = 0;  // rows that were asked for as they are
    std::int64_t feature_rows = 0, edges_looked_up = 0;
    // Where ids are sharded: original ids of rows; dataset ids of nodes, and entries of splits.
    std::int64_t original_ids = 0, mapped_ids = 0;
  };
  Counts counts() const;

 private:
  /// A Job has options that were told, and drawers that nobody uses just now: as many as there were questions
  /// at a time.
  struct Job {
    std::string text;
    BatchOptions options;
    std::vector<std::unique_ptr<RowDrawer>> idle;
    std::uint64_t last_used = 0;
  };
  enum class Nested { kNo, kYes };
  PeerBytes answer_one(std::span<const std::byte> question, Nested nested);
  void keep_job(std::uint64_t job, const std::string& told);
  bool draw(const PeerQuestionHead& head, PeerReader& in, PeerBytes& out);
  void rows(std::uint32_t partition, PeerReader& in, PeerWriter& out);
  void edges(std::uint32_t partition, PeerReader& in, PeerWriter& out);
  void degrees(std::uint32_t partition, PeerReader& in, PeerWriter& out) const;
  void features(std::uint32_t partition, PeerReader& in, PeerWriter& out);
  void new_ids(std::uint32_t partition, PeerReader& in, PeerWriter& out);
  void old_ids(std::uint32_t partition, PeerReader& in, PeerWriter& out);
  void split(std::uint32_t partition, PeerReader& in, PeerWriter& out);
  void require_sharded() const;

  const Dataset& dataset_;
  std::atomic<std::int64_t> drawn_rows_{0}, drawn_edges_{0}, whole_rows_{0}, whole_row_edges_{0},
      feature_rows_{0}, edges_looked_up_{0}, original_ids_{0}, mapped_ids_{0};
  Mutex mutex_;
  std::map<std::uint64_t, Job> jobs_ GUARDED_BY(mutex_);
  std::uint64_t uses_ GUARDED_BY(mutex_) = 0;
};

}  // namespace hopfeed
