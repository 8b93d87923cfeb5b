// FairPlan says whose batch is made next. The requests of all clients wait here, those of one by number
// (lower first), and worker seconds are shared fairly among the clients, however different their batches are
// (virtual_time.h). A batch is charged when it is planned, by what batches of its kind took lately
// (batch_costs.h), and corrected once it is known.
//
// Long and short batches are two queues: clients take turns within each, and the two take turns by how many
// clients they have. While others ask for short batches, a client's long ones leave one worker free, where
// there are two or more; what the one queue cannot use the other has, and owes nothing for.
//
// A client holds at most its share of the slots and of the memory, and some of both stay free for whoever
// comes next. So one that takes nothing holds up itself alone.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "channel/batch_plan.h"
#include "server_client_mode/server/batch_costs.h"
#include "server_client_mode/server/virtual_time.h"

namespace hopfeed {

struct FairPlanOptions {
  std::int64_t workers = 1;
  std::int64_t slots = 64;  // of the channel
  std::size_t bytes = 0;    // bytes that blocks may take in all
  /// What is planned cannot be overtaken any more. Each worker has one batch; where batches are small, there
  /// are so many planned as make `ahead` seconds of work for each; between these two batches for each and two
  /// more, as long as that is no longer than `longest_ahead`.
  double ahead = 0.001, longest_ahead = 0.02;
  /// Batches of so many seconds and more are long ones, which short batches of others should not wait for.
  double takes_long = 0.2;
  /// A worker is kept free for so many seconds for those who asked for a short batch last.
  double kept_free = 1;
  std::function<double()> clock = nullptr;  // seconds; none: the steady clock
};

/// It is guarded by the lock of the channel, as every BatchPlan is.
class FairPlan final : public BatchPlan {
 public:
  explicit FairPlan(const FairPlanOptions& options);
  ~FairPlan() override;

  /// Adds a client. `who` is what one that comes back is known by; it still owes what it owed when it left.
  void join(std::uint64_t client, const std::string& who = {});
  /// Forgets a client with all that it asked for, blocks that it still holds included. Returns the sequences
  /// that are under way, to be abandoned.
  std::vector<std::uint64_t> leave(std::uint64_t client);
  /// Adds a request; `request` is a number of the client's, which is not waiting or under way.
  void push(std::uint64_t client, std::uint64_t request, const BatchRequest& batch);
  /// Forgets a request that waits. One that is under way is made all the same, for nobody: its client is
  /// charged what it cost, which is not known before, and could else have work done for nothing.
  void withdraw(std::uint64_t client, std::uint64_t request);
  /// Forgets the requests of a job, whoever asked; returns the sequences that are under way, to be abandoned.
  std::vector<std::uint64_t> refuse(std::uint32_t job);
  /// Forgets what was learnt of a job that nobody has open any more.
  void forget(std::uint32_t job) { costs_.forget(job); }

  std::optional<PlannedBatch> next() override;
  std::int64_t left() const override { return waiting_; }

  /// Made is a batch of this plan that is made, or failed (no bytes).
  struct Made {
    std::uint64_t sequence = 0;
    double seconds = 0;     // of a worker
    std::size_t bytes = 0;  // bytes that its block takes from its client's share until freed()
  };
  struct Whose {
    std::uint64_t client = 0, request = 0;
    std::uint32_t job = 0;
  };
  /// Returns whose batch it is; nothing where nobody wants it any more; then it counts for nobody.
  std::optional<Whose> made(const Made& batch);
  /// Notes that a block's slot is free again; does nothing where the client is gone.
  void freed(std::uint64_t client, std::size_t bytes);

  /// Returns whether requests of the client wait and cannot be planned because of the blocks that it holds.
  bool held_back(std::uint64_t client) const;
  /// Returns the lowest request of the client that waits.
  std::optional<std::uint64_t> lowest(std::uint64_t client) const;

  struct ClientLoad {
    std::int64_t waiting = 0, under_way = 0, blocks = 0;
    std::size_t block_bytes = 0;
    double worker_seconds = 0;  // worker seconds that the client has had
  };
  ClientLoad load(std::uint64_t client) const;
  /// Returns whether all that is asked for is one batch, so small that going to sleep and being woken costs
  /// more. Several that are made meanwhile are sent together, which costs less than each by itself.
  bool expects_soon() const;
  std::int64_t under_way() const { return static_cast<std::int64_t>(under_way_.size()); }

 private:
  enum Queue : std::uint8_t { kShort, kLong };
  template <class T>
  using OfQueues = std::array<T, 2>;
  struct Client;
  struct UnderWay {
    std::uint64_t client = 0, request = 0;
    BatchCosts::Kind kind;
    Queue queue = kShort;
    double charged = 0;
    std::size_t bytes = 0;   // expected bytes of the block
    bool withdrawn = false;  // by its client
  };
  struct Picked {
    Client* client = nullptr;
    BatchCosts::Cost cost;
    Queue queue() const { return cost.is_long ? kLong : kShort; }
  };
  double now() const;
  bool leaves_one_free(const Client& client) const;
  bool room_for_long(const Client& client) const;
  bool room_for_short() const;
  bool is_tried(const BatchRequest& batch) const;
  bool may_have(const Client& client, const BatchCosts::Cost& cost) const;
  bool fits(const BatchCosts::Cost& cost) const;
  OfQueues<Picked> least_of_queues();
  std::optional<Picked> pick();
  void charge(Client& client, Queue queue, double seconds);
  void note_short(const Client& client);
  void drop_idle();
  void forget_under_way(const UnderWay& batch);
  void rest_if_idle(Client& client);
  void remember_debt(const Client& gone);

  const FairPlanOptions options_;
  BatchCosts costs_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Client>> clients_;
  std::vector<Client*> active_;  // with something that waits, is under way or held; others at times
  std::unordered_map<std::uint64_t, UnderWay> under_way_;  // by sequence
  std::map<std::string, OfQueues<double>> debts_;          // virtual times of who left, by `who`
  std::uint64_t next_sequence_ = 0;
  std::int64_t waiting_ = 0, blocks_ = 0;  // of all clients
  OfQueues<VirtualTime> within_;           // of the clients of each queue
  VirtualTime between_;
  OfQueues<Turn> queues_;
  OfQueues<std::int64_t> clients_of_{1, 1};  // at the last pick
  OfQueues<std::int64_t> under_way_of_{};
  OfQueues<double> charged_ahead_{};  // of what is under way
  std::size_t bytes_in_use_ = 0;      // of blocks, and expected of what is under way
  /// AskedShort are the last two clients that had short batches planned, the last first.
  struct AskedShort {
    std::uint64_t client = 0;
    double when = -1e18;
  };
  std::array<AskedShort, 2> asked_short_;
};

}  // namespace hopfeed
