// ServedResults is what a server answers about the folder in which an inference computes beside it (results):
// on threads of its own, whatever clients and other peers ask meanwhile.
#pragma once
#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

#include "results/results_answers.h"
#include "server_client_mode/server/peer_answers.h"
#include "server_client_mode/server/served_datasets.h"
#include "server_client_mode/server/thread_pool.h"

namespace hopfeed {

class ServedResults {
 public:
  /// `folder` need not be there yet; `loop` is where answers are handed out. Throws kInvalid where it is no
  /// folder.
  ServedResults(const std::string& folder, boost::asio::any_io_executor loop, std::size_t num_threads);
  ~ServedResults();

  /// As PeerAnswers::answer; `dataset` must outlive the answer.
  void answer(const ServedDataset& dataset, std::uint64_t request, wire::Bytes question,
              PeerAnswers::Done done);
  /// Once a second.
  void tick();

  struct Counts {
    ResultsAnswers::Counts of;
    std::int64_t refused = 0;
  };
  Counts counts() const { return {.of = answers_.counts(), .refused = refused_}; }

 private:
  PeerBytes answer_now(const ServedDataset& dataset, const wire::Bytes& question);

  const std::string folder_;  // its whole path
  ResultsAnswers answers_;
  boost::asio::any_io_executor loop_;
  std::atomic<std::int64_t> refused_{0};
  ThreadPool threads_;
};

}  // namespace hopfeed
