// These are fillers without processes, for the conformance suite of SlotFillers: threads that block, one for
// each filler, and one event loop that is keeper and fillers in one thread, as the I/O thread of a client is:
// it holds several claims for each filler, never waits for one of them, and sleeps in poll(). Both make the
// same blocks as hopfeed-worker, and both can be told that a filler is dead.
#pragma once
#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "channel/worker_port.h"
#include "core/base/scratch.h"
#include "core/dataset/dataset.h"
#include "core/maker/batch_maker.h"
#include "core/maker/batch_source.h"
#include "stream/slot_fillers.h"
#include "stream/slot_keeper.h"

namespace hopfeed {

/// A ThreadMaker makes batches for one thread, of the training nodes of a dataset.
class ThreadMaker {
 public:
  ThreadMaker(const std::filesystem::path& dataset, const BatchOptions& options, std::uint64_t seed)
      : seed_(seed),
        dataset_(dataset.string()),
        source_(std::make_unique<NodeSet>(dataset_, 0, NodeInput{.split = "train"}),
                NodeSet::ListOptions{.node_type = 0, .shuffle = true}),
        maker_(source_.maker(dataset_, options)) {}

  std::int64_t size() const { return source_.size(); }
  BatchMaker& maker() { return maker_; }
  std::size_t sample(const PlannedBatch& batch) {
    return maker_.sample({.seed = seed_, .epoch = batch.epoch, .first = batch.first, .count = batch.count});
  }
  /// Returns the whole block.
  std::span<const std::byte> make(const PlannedBatch& batch) {
    const std::size_t bytes = sample(batch);
    block_.reserve(bytes);
    maker_.write({block_.data(), bytes});
    return {block_.data(), bytes};
  }

 private:
  std::uint64_t seed_;
  Dataset dataset_;
  BatchSource source_;
  BatchMaker maker_;
  ScratchArray<std::byte> block_;
};
using MakeThreadMaker = std::function<std::unique_ptr<ThreadMaker>()>;

/// DoomedFillers is what both have in common: a thread that keeps the slots, and fillers that somebody may
/// doom.
class DoomedFillers : public SlotFillers {
 public:
  explicit DoomedFillers(std::shared_ptr<ChannelHost> host)
      : host_(std::move(host)), doomed_(host_->view().shape().num_workers) {}
  void wait_until_ready() override {
    if (await_ready(*host_, std::chrono::seconds(60))) throw Error(ErrorCode::kTimeout, "not ready");
  }
  std::vector<int> pids() const override { return {}; }
  /// Dooms filler `number`: it dies at its next step, whatever it holds.
  void doom(std::uint32_t number) {
    doomed_[number] = true;
    ring(host_->fillers_bell().fd());
  }

 protected:
  std::uint32_t num_fillers() const { return static_cast<std::uint32_t>(doomed_.size()); }

  const std::shared_ptr<ChannelHost> host_;
  std::vector<std::atomic<bool>> doomed_;
  std::atomic<bool> stopping_{false};
};

class ThreadFillers final : public DoomedFillers {
 public:
  ThreadFillers(std::shared_ptr<ChannelHost> host, MakeThreadMaker make)
      : DoomedFillers(std::move(host)),
        make_(std::move(make)),
        dead_(num_fillers()),
        threads_(num_fillers()) {
    keeping_ = std::thread([this] { keep(); });
  }
  ~ThreadFillers() override {
    stopping_ = true;
    ring(host_->doorbell().fd());
    keeping_.join();
  }

 private:
  void keep() {
    SlotKeeper keeper(host_);
    for (std::uint32_t i = 0; i < num_fillers(); ++i) start(keeper, i);
    while (!stopping_) {
      pollfd doorbell{.fd = host_->doorbell().fd(), .events = POLLIN, .revents = 0};
      poll(&doorbell, 1, 20);
      host_->doorbell().drain();
      for (std::uint32_t i = 0; i < num_fillers(); ++i) {
        if (!dead_[i].exchange(false)) continue;
        threads_[i].join();
        keeper.bury(i);
        start(keeper, i);
      }
      keeper.serve();
      keeper.reclaim_ownerless(host_->filling());
    }
    host_->terminate();
    for (std::thread& thread : threads_) thread.join();
  }
  void start(SlotKeeper& keeper, std::uint32_t number) {
    keeper.welcome(number);
    threads_[number] = std::thread([this, number] { fill(number); });
  }
  void fill(std::uint32_t number) {
    WorkerPort port(host_->view(), number, host_->doorbell().fd());
    const std::unique_ptr<ThreadMaker> maker = make_();
    port.report_ready();
    while (!port.terminating()) {
      std::optional<Claim> claim = port.claim(std::chrono::milliseconds(20));
      if ((!claim || serve(port, *claim, *maker, number)) && !doomed_[number]) continue;
      if (port.terminating()) return;
      doomed_[number] = false;
      dead_[number] = true;
      return ring(host_->doorbell().fd());
    }
  }
  /// Serves a claim; false where it died on the way.
  bool serve(WorkerPort& port, Claim& claim, ThreadMaker& maker, std::uint32_t number) {
    const std::size_t bytes = maker.sample(claim.batch);
    port.note_sampled(claim);
    port.ask(claim, bytes);
    WorkerPort::Grant grant = WorkerPort::Grant::kWaiting;
    while ((grant = port.await_grant(claim, bytes, std::chrono::milliseconds(20))) ==
           WorkerPort::Grant::kWaiting) {
      if (port.terminating() || doomed_[number]) return false;
    }
    if (grant == WorkerPort::Grant::kAbandoned) return port.publish(claim, 0);
    std::memset(port.block(claim, bytes).data(), 0xEE, bytes / 2);
    if (doomed_[number]) return false;
    port.note_writing(claim);
    maker.maker().write(port.block(claim, bytes));
    port.note_gathered(claim);
    return port.publish(claim, bytes);
  }

  const MakeThreadMaker make_;
  std::vector<std::atomic<bool>> dead_;
  std::vector<std::thread> threads_;  // the keeping thread's
  std::thread keeping_;
};

class EventLoopFillers final : public DoomedFillers {
 public:
  static constexpr std::size_t kClaims = 3;  // of each filler

  EventLoopFillers(std::shared_ptr<ChannelHost> host, MakeThreadMaker make)
      : DoomedFillers(std::move(host)), make_(std::move(make)) {
    thread_ = std::thread([this] { run(); });
  }
  ~EventLoopFillers() override {
    stopping_ = true;
    ring(host_->fillers_bell().fd());
    thread_.join();
  }

 private:
  /// A Connection is what a connection to a server is: a name, and batches that were asked for there.
  struct Connection {
    std::unique_ptr<WorkerPort> port;
    struct Reply {
      Claim claim;
      std::vector<std::byte> block;  // as it would come through a socket
    };
    std::vector<Reply> replies;
  };

  void run() {
    SlotKeeper keeper(host_);
    const std::unique_ptr<ThreadMaker> maker = make_();
    std::vector<Connection> connections(num_fillers());
    for (std::uint32_t i = 0; i < num_fillers(); ++i) connect(keeper, connections[i], i);
    SharedEvent& event = host_->view().control().work_event;
    while (!stopping_) {
      event.listen();
      if (!step(keeper, connections, *maker) && !stopping_) {
        pollfd fds[] = {{.fd = host_->fillers_bell().fd(), .events = POLLIN, .revents = 0},
                        {.fd = host_->doorbell().fd(), .events = POLLIN, .revents = 0}};
        poll(fds, 2, -1);  // for ever: no wake-up is lost
      }
      event.stop_listening();
      host_->fillers_bell().drain();
      host_->doorbell().drain();
    }
    host_->terminate();
  }
  void connect(SlotKeeper& keeper, Connection& connection, std::uint32_t number) {
    keeper.welcome(number);
    connection = {.port = std::make_unique<WorkerPort>(host_->view(), number, host_->doorbell().fd()),
                  .replies = {}};
    connection.port->report_ready();
  }
  /// Returns whether there was anything to do.
  bool step(SlotKeeper& keeper, std::vector<Connection>& connections, ThreadMaker& maker) {
    bool busy = false;
    keeper.serve();
    keeper.reclaim_ownerless(host_->filling());
    for (std::uint32_t i = 0; i < connections.size(); ++i) {
      Connection& connection = connections[i];
      if (doomed_[i].exchange(false)) {  // the connection is lost, with all it was asked for
        keeper.bury(i);
        connect(keeper, connection, i);
        busy = true;
      }
      if (connection.replies.size() < kClaims) busy |= ask(connection, maker);
      busy |= std::erase_if(connection.replies,
                            [&](Connection::Reply& reply) { return deliver(*connection.port, reply); }) > 0;
    }
    return busy;
  }
  static bool ask(Connection& connection, ThreadMaker& maker) {
    std::optional<Claim> claim = connection.port->try_claim();
    if (!claim) return false;
    const std::span<const std::byte> block = maker.make(claim->batch);
    connection.port->note_sampled(*claim);
    connection.port->ask(*claim, block.size());
    connection.replies.push_back({.claim = *claim, .block = {block.begin(), block.end()}});
    return true;
  }
  /// Returns whether the reply is done with.
  static bool deliver(WorkerPort& port, Connection::Reply& reply) {
    switch (port.grant(reply.claim, reply.block.size())) {
      case WorkerPort::Grant::kWaiting:
        return false;
      case WorkerPort::Grant::kAbandoned:
        return port.publish(reply.claim, 0);
      case WorkerPort::Grant::kGranted:
        break;
    }
    std::memcpy(port.block(reply.claim, reply.block.size()).data(), reply.block.data(), reply.block.size());
    port.note_writing(reply.claim);
    port.note_gathered(reply.claim);
    return port.publish(reply.claim, reply.block.size());
  }

  const MakeThreadMaker make_;
  std::thread thread_;
};

}  // namespace hopfeed
