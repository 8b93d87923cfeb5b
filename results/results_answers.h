// ResultsAnswers answer other machines' questions from a run's folder (run_folder.h), from shards alone that
// the run beside has renamed: nothing is waited for, and nothing is locked that the run would wait for.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "core/base/thread_annotations.h"
#include "core/dataset/partition_peers.h"
#include "results/results_questions.h"
#include "results/run_folder.h"

namespace hopfeed {

class ResultsAnswers {
 public:
  /// `folder` need not be there, now or later: nobody computes in it then.
  explicit ResultsAnswers(std::filesystem::path folder);
  ~ResultsAnswers();

  /// Answers a question; any thread. Throws kCorrupt naming a shard that is damaged, kNoSpace where an answer
  /// does not hold the rows, kIo.
  PeerBytes answer(const ResultsQuestion& question);
  /// Lets go of shards that the run has removed, whose disk space is taken until then, or that nobody has
  /// asked for lately. About once a second; any thread.
  void let_go();

  struct Counts {
    std::int64_t questions = 0, not_yet = 0;  // questions, and those among them whose answer was that
    std::int64_t rows = 0, bytes = 0;         // that were answered
    std::int64_t shards = 0;                  // that are mapped now
  };
  Counts counts() const;

 private:
  struct Kept;
  using Key = std::tuple<std::uint64_t, std::uint64_t, std::filesystem::path>;  // run, file

  RunState state_of(RunId run) const;
  std::optional<PeerBytes> rows_of(const ResultsQuestion& question);
  std::shared_ptr<const LayerShard> shard(const LayerFolder& layers, const LayerName& name, int partition,
                                          std::int64_t first);
  std::shared_ptr<Kept> kept(const Key& key);
  void forget(const Key& key);

  const std::filesystem::path folder_;
  Mutex noting_;
  mutable Mutex mutex_;
  std::map<Key, std::shared_ptr<Kept>> kept_ GUARDED_BY(mutex_);
  std::uint64_t uses_ GUARDED_BY(mutex_) = 0;   // of shards
  std::uint64_t looks_ GUARDED_BY(mutex_) = 0;  // calls of let_go()
  std::atomic<std::int64_t> questions_{0}, not_yet_{0}, rows_{0}, bytes_{0};
};

}  // namespace hopfeed
