// Answers what other machines ask of partitions that are on this one (core/partition/peer_questions.h). From
// these alone: an owner never asks anybody, so owners cannot wait for each other in a circle.
#pragma once
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
#include "core/partition/peer_questions.h"
#include "core/sampler/row_drawer.h"

namespace hopfeed {

class PartitionOwner {
 public:
  /// `dataset` must outlive it.
  explicit PartitionOwner(const Dataset& dataset) : dataset_(dataset) {}
  /// Any thread, any number at a time. Throws kCorrupt for bytes that are no question, or that ask for what
  /// is not there; kUnsupported for a partition that is not here, kNoSpace for an answer larger than
  /// kMaxPeerAnswer, and what the dataset throws where it is damaged.
  PeerBytes answer(std::span<const std::byte> question);

 private:
  /// Options that were told, and drawers that nobody uses just now: as many as there were questions at a
  /// time.
  struct Job {
    std::string text;
    BatchOptions options;
    std::vector<std::unique_ptr<RowDrawer>> idle;
    std::uint64_t last_used = 0;
  };
  void keep_job(std::uint64_t job, const std::string& told);
  bool draw(const PeerQuestionHead& head, PeerReader& in, PeerBytes& out);
  void rows(std::uint32_t partition, PeerReader& in, PeerWriter& out) const;
  void edges(std::uint32_t partition, PeerReader& in, PeerWriter& out) const;
  void features(std::uint32_t partition, PeerReader& in, PeerWriter& out) const;

  const Dataset& dataset_;
  Mutex mutex_;
  std::map<std::uint64_t, Job> jobs_ GUARDED_BY(mutex_);
  std::uint64_t uses_ GUARDED_BY(mutex_) = 0;
};

}  // namespace hopfeed
