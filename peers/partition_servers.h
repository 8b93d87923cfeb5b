// PartitionServers is what is known of the servers that have the partitions of a dataset: which are there,
// which were lost and when, and what each said. Its owner's lock guards it.
#pragma once
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "peers/peer_options.h"

namespace hopfeed {

/// PeerService is what servers are asked for.
enum class PeerService {
  kPartitions,  // rows of partitions; a partition may have several servers
  kState,       // state that training learns or writes (state/owner): a partition has one owner, which may
                // answer as late as it likes while it is connected
  kResults,     // rows that an inference beside the server computes (results): a partition has one server
};

/// A MissingPartition is one that nobody answers for at the moment.
struct MissingPartition {
  int partition = 0;
  std::chrono::milliseconds since{};  // it was lost, or looked for in vain
  std::string why;                    // what the servers said that may have it
};

class PartitionServers {
 public:
  using Clock = std::chrono::steady_clock;
  /// A State is what is known of one server of options.peers, as its PeerLink tells it.
  struct State {
    bool ready = false;           // it is there
    bool tried = false;           // it has been asked for once, whatever came of it
    bool refused = false;         // it is there, and has said that it is not the right one
    bool serves = true;           // what is asked for; false: it has its partitions, and that of none of them
    std::vector<int> partitions;  // as it said last; empty: it never did
    std::string said;             // why it is not ready
    ErrorCode code = ErrorCode::kTimeout;
  };

  /// `own` are the partitions that need none. `options` must outlive it.
  PartitionServers(std::size_t num_partitions, std::vector<int> own, const PeerOptions& options,
                   PeerService service);
  void note(std::size_t server, State state);

  /// Returns the number of a server that has each partition, or had it when it was there; -1: none had it.
  std::vector<int> by_partition() const;
  /// Returns whether it is on this machine, and needs no server.
  bool is_own(int partition) const;
  /// Returns whether somebody should have it, and nobody has.
  bool is_missing(std::size_t partition) const;
  /// Returns whether it was there once, and has been missing for longer than options.deadline.
  bool is_given_up(std::size_t partition, Clock::time_point now) const;
  /// Returns the partitions that nobody has, now.
  std::vector<MissingPartition> missing(Clock::time_point now) const;
  /// Returns a line for each partition that has been missing for five seconds, once each time that it is
  /// lost.
  std::vector<std::string> new_losses(Clock::time_point now);
  /// Returns what those said that may have the partition.
  std::string why_silent(int partition, const std::function<bool(std::size_t server)>& left_out = {}) const;

  /// Returns whether waiting can bring no other server: all were tried, and those that did not answer are not
  /// needed.
  bool settled() const;
  /// Throws for a partition that nobody has, naming it and what each server said: kNotFound; kTimeout where
  /// some do not answer; kUnsupported where those that have it keep no state, or serve no results; kInvalid
  /// where more than options.replicas have one, or more than one its state or results; what a server refused.
  void require_all() const;

 private:
  std::optional<std::size_t> first_missing() const;
  [[noreturn]] void throw_missing(std::size_t partition) const;
  void append(std::string& told, std::size_t server) const;
  std::vector<std::string> owners_of(std::size_t partition) const;

  const std::vector<int> own_;
  const PeerOptions& options_;
  const PeerService service_;
  std::vector<State> states_;  // by server
  struct Partition {
    int servers = 0;  // servers that have the partition now
    Clock::time_point since;
    bool was_there = false, told = false;
  };
  std::vector<Partition> partitions_;
};

}  // namespace hopfeed
