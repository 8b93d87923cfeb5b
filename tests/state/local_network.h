// A network to owners of this process: each has a thread, which gives questions in their order, some of them
// twice, as a connection that was lost does: the first time, or the last, over the older one.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "core/dataset/dataset.h"
#include "state/client/state_network.h"
#include "state/owner/state_owner.h"

namespace hopfeed::testing {

/// HeldFiles runs what an owner does at its files: at once, or when a test lets it.
class HeldFiles {
 public:
  void run(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      if (held_) works_.push_back(std::move(work));
    }
    changed_.notify_all();
    if (work) work();
  }
  void hold() {
    const std::lock_guard lock(mutex_);
    held_ = true;
  }
  /// Waits until somebody would be at them.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !works_.empty(); });
  }
  /// Does what was held, and holds nothing any more.
  void let_go() {
    std::unique_lock lock(mutex_);
    held_ = false;
    for (const std::deque<std::function<void()>> works = std::exchange(works_, {});
         const auto& work : works) {
      lock.unlock();
      work();
      lock.lock();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  std::deque<std::function<void()>> works_;
};

/// An OwnerThread is an owner of some partitions, which can be started again.
class OwnerThread {
 public:
  /// `folder` is that of its checkpoints; sizes are as StateOwnerOptions has them.
  OwnerThread(std::unique_ptr<Dataset> dataset, std::uint64_t seed, std::filesystem::path folder = {},
              std::size_t max_memory = 0, std::size_t max_held = StateOwnerOptions{}.max_held)
      : dataset_(std::move(dataset)),
        folder_(std::move(folder)),
        max_memory_(max_memory),
        max_held_(max_held),
        random_(seed) {
    make();
    thread_ = std::thread([this] { run(); });
  }
  ~OwnerThread() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  const Dataset& dataset() const { return *dataset_; }
  StateOwner& owner() { return *owner_; }
  HeldFiles& files() { return files_; }
  void post(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    changed_.notify_all();
  }
  /// All that it held is gone.
  void start_again() {
    post([this] { make(); });
  }
  bool sometimes() { return random_() % 6 == 0; }  // its thread
  /// The owner's clock goes on by so much.
  void let_pass(std::chrono::seconds time) { passed_ = passed_.load() + time; }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ends_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }
  void make() {
    owner_ = std::make_unique<StateOwner>(
        *dataset_,
        StateOwnerOptions{.folder = folder_,
                          .max_memory = max_memory_,
                          .max_held = max_held_,
                          .at_files = [this](std::function<void()> work) { files_.run(std::move(work)); },
                          .now = [this] { return StateOwner::Clock::now() + passed_.load(); }});
  }
  const std::unique_ptr<Dataset> dataset_;
  const std::filesystem::path folder_;
  const std::size_t max_memory_, max_held_;
  std::atomic<std::chrono::seconds> passed_{std::chrono::seconds(0)};
  HeldFiles files_;
  std::unique_ptr<StateOwner> owner_;
  std::mt19937_64 random_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool ends_ = false;
  std::thread thread_;
};

/// A LocalNetwork is that of one process: `connection` names it to the owners.
class LocalNetwork final : public StateNetwork {
 public:
  LocalNetwork(std::vector<OwnerThread*> owners, std::uint64_t connection)
      : owners_(std::move(owners)), connection_(connection) {}
  /// Questions come over two connections: what is lost over the older one, the others over one of this much
  /// higher a number.
  static constexpr std::uint64_t kNewer = 1'000;

  int num_owners() const override { return static_cast<int>(owners_.size()); }
  int owner_of(int partition) const override {
    for (std::size_t owner = 0; owner < owners_.size(); ++owner)
      if (owners_[owner]->dataset().has_partition(partition)) return static_cast<int>(owner);
    return -1;
  }
  Ticket ask(int owner, RecycledBytes question) override {
    const std::lock_guard lock(waits_->mutex);
    const Ticket ticket = ++waits_->last;
    waits_->replies[ticket];
    OwnerThread& to = *owners_[static_cast<std::size_t>(owner)];
    to.post([waits = waits_, connection = connection_, &to, ticket,
             message = std::make_shared<const RecycledBytes>(std::move(question))] {
      const auto lost = [connection, &to, message] {
        to.owner().answer(connection, message, [](StateReply) {});
      };
      if (to.sometimes()) lost();
      if (to.sometimes()) to.post(lost);  // behind others
      to.owner().answer(connection + kNewer, message, [waits, ticket](StateReply reply) {
        if (std::holds_alternative<AskedAgain>(reply)) return;
        {
          const std::lock_guard lock(waits->mutex);
          const auto found = waits->replies.find(ticket);
          if (found != waits->replies.end()) found->second.emplace(std::move(reply));
        }
        waits->changed.notify_all();
      });
    });
    return ticket;
  }
  std::shared_ptr<const RecycledBytes> wait(Ticket ticket) override {
    std::unique_lock lock(waits_->mutex);
    waits_->changed.wait(lock, [&] { return waits_->replies.at(ticket).has_value(); });
    const StateReply reply = std::move(*waits_->replies.at(ticket));
    waits_->replies.erase(ticket);
    if (const auto* error = std::get_if<Error>(&reply)) throw *error;
    return std::make_shared<const RecycledBytes>(std::get<RecycledBytes>(reply));
  }
  void drop(Ticket ticket) noexcept override {
    const std::lock_guard lock(waits_->mutex);
    waits_->replies.erase(ticket);
  }

 private:
  /// Owners may answer when the process is gone.
  struct Waits {
    std::mutex mutex;
    std::condition_variable changed;
    Ticket last = 0;
    std::map<Ticket, std::optional<StateReply>> replies;
  };
  const std::vector<OwnerThread*> owners_;
  const std::uint64_t connection_;
  const std::shared_ptr<Waits> waits_ = std::make_shared<Waits>();
};

}  // namespace hopfeed::testing
