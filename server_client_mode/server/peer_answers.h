// PeerAnswers is what a server answers to machines that have other partitions of its datasets: on threads of
// its own, from its own partitions alone, beside all that it does for clients.
#pragma once
#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "core/base/error.h"
#include "core/maker/partition_owner.h"
#include "server_client_mode/server/served_datasets.h"
#include "server_client_mode/server/thread_pool.h"
#include "wire/messages.h"

namespace hopfeed {

class PeerAnswers {
 public:
  /// `datasets` must outlive it; `loop` is where answers are handed out.
  PeerAnswers(const ServedDatasets& datasets, boost::asio::any_io_executor loop, std::size_t num_threads);
  ~PeerAnswers();

  /// Returns the dataset with a fingerprint. Throws kNotFound naming the datasets that it has.
  const ServedDataset& dataset(const std::string& fingerprint) const {
    return datasets_.by_fingerprint(fingerprint);
  }
  /// Without a word about state and results.
  static wire::Partitions partitions_of(const ServedDataset& dataset);

  using Done = std::function<void(PeerAnswer answer, const std::optional<Error>& error)>;
  /// Answers a question about the dataset, with a checksum behind the answer; `done` is called by the loop's
  /// thread.
  void answer(const ServedDataset& dataset, std::uint64_t request, wire::Bytes question, Done done);

  struct Counts {
    std::atomic<std::int64_t> questions{0}, refused{0}, question_bytes{0}, answer_bytes{0};
  };
  const Counts& counts() const { return counts_; }
  /// Returns the counts of the owners of all datasets together.
  PartitionOwner::Counts owner_counts() const;

 private:
  const ServedDatasets& datasets_;
  boost::asio::any_io_executor loop_;
  std::map<const ServedDataset*, std::unique_ptr<PartitionOwner>> owners_;
  Counts counts_;
  ThreadPool threads_;
};

/// Makes an answer on one of the threads, with a checksum behind it; `done` gets it, or what `make` has
/// thrown, in the loop's thread.
void answer_on(ThreadPool& threads, boost::asio::any_io_executor loop, std::uint64_t request,
               std::function<PeerBytes()> make, PeerAnswers::Done done);

}  // namespace hopfeed
