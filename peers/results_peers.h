// ResultsPeers are the servers beside the runs of other machines (hopfeed-server --results): BoundaryPeers
// over sockets.
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/dataset/dataset_meta.h"
#include "peers/peer_network.h"
#include "peers/peer_options.h"
#include "results/boundary_peers.h"
#include "results/results_questions.h"

namespace hopfeed {

class ResultsPeers final : public BoundaryPeers {
 public:
  /// Connects to options.peers, one of which serves results of each partition that is not `own`.
  /// `while_waiting` is called ten times a second by whoever waits here; what it throws leaves the wait.
  /// Throws what PeerNetwork::wait_until_known throws.
  ResultsPeers(const DatasetMeta& meta, std::vector<int> own, const PeerOptions& options,
               std::function<void()> while_waiting = {});

  /// Rows are asked for in blocks of some 8 MiB, several at a time. While the run there computes what is
  /// asked for, it is waited for without an end. Any thread. Throws, where for options.deadline nobody
  /// computes it there: kTimeout naming partition and server, also where no server answers, kInvalid naming
  /// the server where another run is computed, as an earlier one that is not yet over may be. Throws kCorrupt
  /// naming it, and what it refused.
  void fetch(RunId run, const LayerName& name, int partition, std::span<const std::uint32_t> rows,
             std::int64_t row_bytes, std::byte* out) override;
  /// Tells the server of each other partition. With `wait` it does so until all have noted it, but not for
  /// longer than options.deadline. Returns whether they have: the run of who has not keeps the rows for
  /// longer.
  bool note_fetched(RunId run, const LayerName& name, bool wait = false) override;

  struct Counts {
    std::int64_t questions = 0, rows = 0;
    std::uint64_t bytes_out = 0, bytes_in = 0;  // payloads, without headers
  };
  Counts counts() const;

 private:
  class Blocks;

  ResultsAnswer read_answer(int partition, std::span<const std::byte> bytes, std::size_t count,
                            std::size_t row_bytes) const;
  [[noreturn]] void throw_nobody(int partition, ResultsSays says) const;
  bool is_noted(int partition, PartitionPeers::Ticket ticket);
  void sleep(std::chrono::milliseconds time) const;
  std::string server_of(int partition) const;

  const std::vector<int> own_;
  const PeerOptions options_;
  const std::function<void()> while_waiting_;
  PeerNetwork network_;
  std::atomic<std::int64_t> rows_{0};
};

}  // namespace hopfeed
