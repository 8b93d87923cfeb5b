// Whose batch is made next. The requests of all clients wait here, those of one by their numbers (lower
// first), and worker seconds are shared fairly among the clients, however different their batches are:
// start-time fair queueing (Goyal et al., "Start-time Fair Queuing", 1996). Each client has a virtual time,
// the worker seconds that it has had; the one with the least is served. A batch is charged when it is
// planned, by what batches of its job took lately, and corrected once it is known. A client that had nothing
// to do, or could not be served because it takes nothing, goes on at about the time of the others: nobody
// saves up.
//
// A client holds at most its share of the slots and of the memory, and some of both stay free for whoever
// comes next. So one that takes nothing holds up itself alone.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "channel/batch_plan.h"

namespace hopfeed {

struct FairPlanOptions {
  std::int64_t workers = 1;
  std::int64_t slots = 64;  // of the channel
  std::size_t bytes = 0;    // that blocks may take in all
  /// What is planned cannot be overtaken any more. Each worker has one batch; where batches are small, there
  /// are so many planned as make `ahead` seconds of work for each; between these two batches for each and two
  /// more, as long as that is no longer than `longest_ahead`.
  double ahead = 0.001, longest_ahead = 0.02;
  /// Seconds of a batch that others should not wait for: as long as shorter ones are asked for, one worker
  /// takes none of those (where there are two or more).
  double takes_long = 0.2;
};

/// As every BatchPlan it is guarded by the lock of the channel.
class FairPlan final : public BatchPlan {
 public:
  explicit FairPlan(const FairPlanOptions& options);
  ~FairPlan() override;

  /// `who`: what a client that comes back is known by; it still owes what it owed when it left.
  void join(std::uint64_t client, const std::string& who = {});
  /// Forgets a client with all that it asked for, blocks that it still holds included. Returns the sequences
  /// that are under way, to be abandoned.
  std::vector<std::uint64_t> leave(std::uint64_t client);
  /// `request`: a number of the client's, which is not waiting or under way.
  void push(std::uint64_t client, std::uint64_t request, const BatchRequest& batch);
  /// Forgets a request that waits. One that is under way is made all the same, for nobody: its client is
  /// charged what it cost, which is not known before, and could else have work done for nothing.
  void withdraw(std::uint64_t client, std::uint64_t request);
  /// Forgets the requests of a job, whoever asked; returns the sequences that are under way, to be abandoned.
  std::vector<std::uint64_t> refuse(std::uint32_t job);
  /// Nobody has the job open any more: what was learnt of it is forgotten.
  void forget(std::uint32_t job);

  std::optional<PlannedBatch> next() override;
  std::int64_t left() const override { return waiting_; }

  /// A batch of this plan is made, or failed (no bytes).
  struct Made {
    std::uint64_t sequence = 0;
    double seconds = 0;     // of a worker
    std::size_t bytes = 0;  // that its block takes from its client's share until freed()
  };
  struct Whose {
    std::uint64_t client = 0, request = 0;
    std::uint32_t job = 0;
  };
  /// Nothing where nobody wants it any more; then it counts for nobody.
  std::optional<Whose> made(const Made& batch);
  /// A block's slot is free again. Nothing where the client is gone.
  void freed(std::uint64_t client, std::size_t bytes);

  /// Whether requests of the client wait and cannot be planned because of the blocks that it holds.
  bool held_back(std::uint64_t client) const;
  /// The lowest request that waits.
  std::optional<std::uint64_t> lowest(std::uint64_t client) const;

  struct ClientLoad {
    std::int64_t waiting = 0, under_way = 0, blocks = 0;
    std::size_t block_bytes = 0;
    double worker_seconds = 0;  // that it has had
  };
  ClientLoad load(std::uint64_t client) const;
  /// Whether all that is asked for is one batch, so small that going to sleep and being woken costs more. Of
  /// several, those that are made meanwhile are sent together, which costs less than each by itself.
  bool expects_soon() const;
  std::int64_t under_way() const { return static_cast<std::int64_t>(under_way_.size()); }

 private:
  struct Client;
  /// Batches that cost about the same: those of a job with about as many seeds.
  struct Kind {
    std::uint32_t job = 0;
    std::uint64_t seeds = 0;  // of their number the power of two
    friend auto operator<=>(const Kind&, const Kind&) = default;
  };
  struct UnderWay {
    std::uint64_t client = 0, request = 0;
    Kind kind;
    double charged = 0;
    std::size_t bytes = 0;   // that are expected
    bool is_long = false;    // as it was known when it was planned
    bool withdrawn = false;  // by its client
  };
  struct Cost {
    double seconds = 0;
    double bytes = 0;
  };
  bool is_long(const BatchRequest& batch) const;
  bool room_for(bool is_long) const;
  static Kind kind_of(const BatchRequest& batch);
  Cost cost_of(const BatchRequest& batch) const;
  bool is_tried(const BatchRequest& batch) const;
  bool may_have(const Client& client, const Cost& cost) const;
  bool fits(const Cost& cost) const;
  Client* pick();
  void drop_idle();
  void forget_under_way(const UnderWay& batch);
  void rest_if_idle(Client& client);
  void remember_debt(const Client& gone);

  const FairPlanOptions options_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Client>> clients_;
  std::vector<Client*> active_;  // with something that waits, is under way or held; others at times
  std::unordered_map<std::uint64_t, UnderWay> under_way_;  // by sequence
  std::map<Kind, Cost> costs_;                             // lately
  std::map<std::string, double> debts_;                    // virtual times of who left, by `who`
  std::uint64_t next_sequence_ = 0;
  std::int64_t waiting_ = 0, blocks_ = 0;  // of all clients
  double now_ = 0;                         // virtual time
  double charged_ahead_ = 0;               // of what is under way, but for long batches
  std::int64_t long_under_way_ = 0;
  double worked_ = 0, last_short_ = -1e9;  // worker seconds of all batches, and when one of them was short
  std::size_t bytes_in_use_ = 0;           // of blocks, and expected of what is under way
};

}  // namespace hopfeed
