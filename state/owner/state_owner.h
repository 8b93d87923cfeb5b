// A StateOwner has the tables of state that lie at a server: of each the rows of the partitions that the
// server has. Tables come into being when they are opened. Those that ranks learn belong to their run;
// another run gets such a table, empty, once nobody of the run that has it is connected any more.
//
// State is in memory: who asks names the start of the owner that it knows, and hears kPeerDied where this is
// another one, since what it relied on is gone.
//
// Questions of one lane are given in their order, one after the other; of different lanes on any threads.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "core/base/thread_annotations.h"
#include "core/dataset/dataset.h"
#include "state/owner/owned_rows.h"
#include "state/owner/shared_embedding.h"
#include "state/owner/shared_tensor.h"
#include "state/owner/state_questions.h"
#include "state/owner/state_reply.h"

namespace hopfeed {

class StateOwner {
 public:
  using Clock = std::chrono::steady_clock;
  /// `dataset` must outlive it; steps are applied by `threads`. Tests bring a clock of their own.
  StateOwner(const Dataset& dataset, int threads, std::function<Clock::time_point()> now = Clock::now);

  /// Returns the lane of a question: its table, 0 for those that open one.
  static std::uint32_t lane_of(std::span<const std::byte> question);
  /// Answers a question of `connection`, a number that names who asks for as long as it is connected. `done`
  /// is called at once or once others have done their part; a refusal is a StateReply too.
  void answer(std::uint64_t connection, std::shared_ptr<const RecycledBytes> question, StateDone done);
  /// That connection is over. It may be said again, behind questions that were still under way.
  void disconnected(std::uint64_t connection);
  /// Once a second, on any thread: who is late (shared_embedding.h).
  void tick();

 private:
  /// A table of a number. `lane` is entered by one thread at a time.
  struct Table {
    std::uint32_t number = 0;
    TableSpec spec;
    std::unique_ptr<OwnedRows> rows;
    std::unique_ptr<SharedTensor> tensor;
    std::unique_ptr<SharedEmbedding> embedding;
    std::uint64_t run = 0;  // of an embedding
    std::uint32_t attempt = 0;
    RanksOfRun ranks;
    std::set<std::uint64_t> connections;  // of the run
    Clock::time_point abandoned;          // when the last of them left
    Mutex lane;
  };
  void give(std::uint64_t connection, const std::shared_ptr<const RecycledBytes>& message, StateDone done);
  RecycledBytes open(std::uint64_t connection, const StateQuestion& question);
  std::shared_ptr<Table> joined(const TableSpec& spec, const RanksOfRun& ranks, const StateHead& head) const;
  std::vector<std::shared_ptr<Table>> all_tables() const;
  std::shared_ptr<Table> make(const TableSpec& spec, std::uint64_t run, std::uint32_t attempt,
                              const RanksOfRun& ranks);
  std::shared_ptr<Table> table_of(const StateHead& head) const;
  static void require_run(const Table& table, const StateHead& head);
  static void ask_tensor(Table& table, const StateQuestion& question, const StateDone& done);
  static void ask_embedding(Table& table, std::uint64_t connection, const StateQuestion& question,
                            const std::shared_ptr<const RecycledBytes>& message, StateDone done);

  const Dataset& dataset_;
  const int threads_;
  const std::function<Clock::time_point()> now_;
  const std::uint64_t start_;  // of this owner
  Mutex opening_;              // one at a time; locked before the others
  mutable Mutex mutex_;        // never while a lane is waited for
  std::map<std::uint32_t, std::shared_ptr<Table>> tables_ GUARDED_BY(mutex_);  // by number
  std::map<std::string, std::uint32_t> by_name_ GUARDED_BY(mutex_);
  std::uint32_t last_number_ GUARDED_BY(mutex_) = 0;
};

}  // namespace hopfeed
