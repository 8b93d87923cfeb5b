// A StateOwner has the tables of state that lie at a server: of each the rows of the partitions that the
// server has. Tables come into being when they are opened. Those that ranks learn belong to their run;
// another run gets such a table, empty, once nobody of the run that has it is connected any more.
//
// State is in memory: who asks names the start of the owner that it knows, and hears kStateLost where this is
// another one, since what it relied on is gone.
//
// Questions of one lane are given in their order, one after the other; of different lanes on any threads.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
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
#include "state/owner/table_checkpoint.h"

namespace hopfeed {

struct StateOwnerOptions {
  int threads = 1;                    // that apply steps
  std::filesystem::path folder = {};  // of checkpoints (shard_file.h); empty: none can be written
  std::size_t max_memory = 0;         // bytes of all tables, once all their rows are written; 0: any
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;  // for tests
};

/// A TableStatus is what there is of a table at its owner.
struct TableStatus {
  TableSpec spec;
  std::int64_t rows = 0, written = 0;  // that lie here, and those of them that take memory
  std::size_t bytes = 0;               // of the index and of written rows
  std::size_t held_bytes = 0;          // of sums that wait for those of other ranks
  // ---- of embeddings
  std::uint64_t run = 0;
  std::uint32_t attempt = 0;
  std::int64_t ranks = 0, steps_applied = 0;
  std::size_t connections = 0;  // of the run
};

class StateOwner {
 public:
  using Clock = std::chrono::steady_clock;
  /// `dataset` must outlive it.
  explicit StateOwner(const Dataset& dataset, StateOwnerOptions options = {});

  /// Returns the lane of a question: its table, 0 for those that open one.
  static std::uint32_t lane_of(std::span<const std::byte> question);
  /// Answers a question of `connection`, a number that names who asks for as long as it is connected. `done`
  /// is called at once or once others have done their part; a refusal is a StateReply too.
  void answer(std::uint64_t connection, std::shared_ptr<const RecycledBytes> question, StateDone done);
  /// That connection is over. It may be said again, behind questions that were still under way.
  void disconnected(std::uint64_t connection);
  /// Once a second, on any thread: who is late (shared_embedding.h).
  void tick();
  /// Returns its tables, by name. A table that applies a step is waited for.
  std::vector<TableStatus> status() const;

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
    bool over = false;                    // another one has its name
    std::atomic<bool> at_files{false};    // the lane is held for as long as files take
    // What was asked last of checkpoints: a message that comes again changes nothing any more.
    std::uint64_t checkpoint_client = 0, checkpoint_message = 0;
    RecycledBytes checkpoint_answer;
    TableStatus last_status;  // with the owner's mutex
    Mutex lane;
  };
  struct CheckpointQuestion {  // save, restore, keep
    StateHead head;
    std::vector<std::int64_t> numbers;
    std::vector<ShardSum> shards;
  };
  void give(std::uint64_t connection, const std::shared_ptr<const RecycledBytes>& message, StateDone done);
  RecycledBytes open(std::uint64_t connection, const StateQuestion& question);
  std::shared_ptr<Table> joined(const TableSpec& spec, const RanksOfRun& ranks, const StateHead& head) const;
  std::vector<std::shared_ptr<Table>> all_tables() const;
  void take_gone();
  void require_room(const TableSpec& spec) const;
  [[noreturn]] static void refuse_begun_anew(std::uint32_t table);
  std::shared_ptr<Table> make(const TableSpec& spec, std::uint64_t run, std::uint32_t attempt,
                              const RanksOfRun& ranks);
  std::shared_ptr<Table> table_of(const StateHead& head) const;
  static void require_run(const Table& table, const StateHead& head);
  void ask_checkpoint(Table& table, const StateQuestion& question, StateDone done) const;
  RecycledBytes checkpoint(Table& table, const CheckpointQuestion& question) const;
  static void ask_tensor(Table& table, const StateQuestion& question, const StateDone& done);
  static void ask_embedding(Table& table, std::uint64_t connection, const StateQuestion& question,
                            const std::shared_ptr<const RecycledBytes>& message, StateDone done);

  const Dataset& dataset_;
  const StateOwnerOptions options_;
  const std::uint64_t start_;                           // of this owner
  Mutex opening_;                                       // one at a time; locked before the others
  mutable Mutex mutex_;                                 // never while a lane is waited for
  std::vector<std::uint64_t> gone_ GUARDED_BY(mutex_);  // connections that some table still counts
  std::map<std::uint32_t, std::shared_ptr<Table>> tables_ GUARDED_BY(mutex_);  // by number
  std::map<std::string, std::uint32_t> by_name_ GUARDED_BY(mutex_);
  std::uint32_t last_number_ GUARDED_BY(mutex_) = 0;
};

}  // namespace hopfeed
