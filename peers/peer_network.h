// A PeerNetwork asks the machines that have the partitions of a dataset which are not on this one: it is
// PartitionPeers over sockets. A thread of its own keeps a connection to each server, connects anew where one
// is lost, and sends what is outstanding to a replica, or to the same server once it is back. What one server
// of a partition refuses is asked of its others, once of each. Answers are the same whoever gives them, so
// nothing but time is lost.
//
// Of several servers of a partition the one is asked that answers soonest (replica_choice.h). One that is
// late with an answer stays asked, and another is asked too, within a budget (second_asks.h): the first
// answer is taken. Connections that are not needed, since another server of each partition is connected, are
// closed when they are idle, and opened when a question comes or the other is lost.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/dataset/dataset_meta.h"
#include "core/dataset/partition_peers.h"
#include "peers/partition_servers.h"
#include "peers/peer_options.h"

namespace hopfeed {

/// How long a PeerNetwork waits before it asks a second server, and keeps a connection that nothing needs.
struct PeerPatience {
  std::chrono::milliseconds late{20};  // an answer is, after this and its server's 99th percentile
  std::chrono::milliseconds idle{30'000};
};

class PeerNetwork final : public PartitionPeers {
 public:
  /// Begins to connect; `own` are the partitions on this machine. A question that needs a partition whose
  /// server has been lost for longer than `options.deadline` is an error after a second and a half. A note
  /// (core/base/notes.h) tells of a partition that has been without a server for five seconds, once each time
  /// that it is lost.
  /// `while_waiting` is called ten times a second by each thread that waits here; what it throws leaves the
  /// wait, and the same may be waited for again. Throws kInvalid for addresses and files that cannot be.
  PeerNetwork(const DatasetMeta& meta, std::vector<int> own, const PeerOptions& options,
              PeerService service = PeerService::kPartitions, std::function<void()> while_waiting = {},
              PeerPatience patience = {});
  /// Ends the network: nobody waits for an answer any more.
  ~PeerNetwork() override;

  /// Waits until each partition that is not on this machine has a server. Throws after connect_timeout,
  /// naming the partition that nobody serves and what each server said: kNotFound; kTimeout where some do not
  /// answer; kInvalid where more than `replicas` serve one, or more than one its state or results;
  /// kUnsupported where those that have it keep no state, or serve no results; what a server refused, of
  /// another dataset or cut.
  void wait_until_known();

  /// Returns the number, in options.peers, of a server of each partition; -1: none has been there.
  std::vector<int> servers() const;

  /// As PartitionPeers say; of state and results each question leaves at once.
  Ticket ask(int partition, PeerBytes question) override;
  PeerAnswer wait(Ticket ticket) override;
  void drop(Ticket ticket) noexcept override;
  void send_asked() override;
  Asked take_counts() noexcept override;
  std::vector<MissingPartition> missing() const;

  struct Counts {
    std::int64_t questions = 0, answers = 0;
    std::int64_t asked_again = 0;               // since its server was lost or refused it
    std::int64_t asked_twice = 0;               // of a second server too, since the first was late
    std::int64_t wakeups = 0;                   // times that the thread was told of questions
    std::uint64_t bytes_out = 0, bytes_in = 0;  // payloads, without headers
  };
  Counts counts() const;
  /// Returns how many servers are connected now, of those that are there.
  std::size_t open_connections() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hopfeed
