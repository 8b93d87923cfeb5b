// A StateOwner has the tables of state that lie at a server: of each the rows of the partitions that the
// server has. Tables come into being when they are opened. Those that ranks learn belong to their run;
// another run gets such a table, empty, once nobody of the run that has it is connected any more.
//
// State is in memory: who asks names the start of the owner that it knows, and hears kStateLost where this is
// another one, since what it relied on is gone.
//
// Questions of one lane are given in their order, one after the other; of different lanes on any threads.
//
// A table at its files holds no lane. While a checkpoint of it is written its rows are read, and what would
// move them is held until that is over; while it goes back to one, all is held. Of the questions about
// checkpoints of a table one is done after the other.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "core/base/limits.h"
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
  std::size_t max_held = kMaxStateMessage / 4;  // bytes of questions that wait for a table's files
  /// Runs what reads and writes files, on another thread; all of it ends before the owner does. Null: whoever
  /// asks does it.
  std::function<void(std::function<void()> work)> at_files = nullptr;
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;  // for tests
};

/// A TableStatus is what there is of a table at its owner.
struct TableStatus {
  TableSpec spec;
  std::int64_t rows = 0, written = 0;  // that lie here, and those of them that take memory
  std::size_t bytes = 0;               // of the index and of written rows
  std::size_t held_bytes = 0;          // of sums that wait for other ranks, and what waits for its files
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
  /// Gives up what tables do at their files: the owner is to end.
  void give_up();
  /// Returns its tables, by name. A table that applies a step is waited for.
  std::vector<TableStatus> status() const;

 private:
  struct Question {
    std::uint64_t connection = 0;
    std::shared_ptr<const RecycledBytes> message;
    StateDone done;
  };
  struct CheckpointQuestion {  // save, restore, keep
    StateHead head;
    std::vector<std::int64_t> numbers;
    std::vector<ShardSum> shards;
    StateDone done;
  };
  /// A table of a number. `lane` is entered by one thread at a time; `given_up` is read without it.
  struct Table : std::enable_shared_from_this<Table> {
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
    // What was asked last of checkpoints: a message that comes again changes nothing any more.
    std::uint64_t checkpoint_client = 0, checkpoint_message = 0;
    RecycledBytes checkpoint_answer;
    std::unique_ptr<CheckpointQuestion> at_files;  // what it does there; null: nothing
    std::deque<Question> held, held_opens;         // until that is over
    std::size_t held_bytes = 0;
    std::atomic<bool> given_up{false};  // nobody wants what it does at its files
    TableStatus last_status;            // before it went back to a checkpoint
    Mutex lane;

    bool goes_back() const { return at_files && at_files->head.ask == StateAsk::kRestore; }
  };
  void give(const Question& given);
  void give_in_lane(Table& table, const Question& given);
  void open(const StateQuestion& question, const Question& given);  // with opening_
  std::shared_ptr<Table> joined(const TableSpec& spec, const RanksOfRun& ranks, const StateHead& head) const;
  bool end_table(Table& old, const Question& given);
  void forget(const Table& old);
  std::vector<std::shared_ptr<Table>> all_tables() const;
  void require_room(const TableSpec& spec) const;
  [[noreturn]] static void refuse_begun_anew(std::uint32_t table);
  std::shared_ptr<Table> make(const TableSpec& spec, std::uint64_t run, std::uint32_t attempt,
                              const RanksOfRun& ranks);
  std::shared_ptr<Table> table_of(const StateHead& head) const;
  static void require_run(const Table& table, const StateHead& head);
  static void ask_tensor(Table& table, const StateQuestion& question, const StateDone& done);
  static void ask_embedding(Table& table, std::uint64_t connection, const StateQuestion& question,
                            const std::shared_ptr<const RecycledBytes>& message, StateDone done);
  static TableStatus status_of(const Table& table);

  // ---- checkpoints (state_owner_files.cc)
  static bool is_held(const Table& table, StateAsk ask);
  void hold(Table& table, std::deque<Question>& queue, const Question& given) const;
  void ask_checkpoint(Table& table, const StateQuestion& question, const Question& given);
  void begin_at_files(Table& table, CheckpointQuestion asked, const Question& given);
  void go_to_files();
  void do_at_files(std::shared_ptr<Table> table);
  void end_at_files(std::shared_ptr<Table> table, StateReply reply);
  void ask_again(Table& table);
  void open_again(std::shared_ptr<Table> table);
  RecycledBytes checkpoint(Table& table, const CheckpointQuestion& question) const;
  static RecycledBytes restore(Table& table, const OwnedTable& mine, const FoundShards& found);

  const Dataset& dataset_;
  const StateOwnerOptions options_;
  const std::uint64_t start_;      // of this owner
  std::atomic<bool> ends_{false};  // nothing more begins at files
  Mutex opening_;                  // one at a time; locked before the others
  mutable Mutex mutex_;            // never while a lane is waited for
  /// At files, by who is in their lanes. They stay among tables_ until that is over: nobody else owns them.
  std::deque<std::weak_ptr<Table>> begun_ GUARDED_BY(mutex_);
  std::map<std::uint32_t, std::shared_ptr<Table>> tables_ GUARDED_BY(mutex_);  // by number
  std::map<std::string, std::uint32_t> by_name_ GUARDED_BY(mutex_);
  std::uint32_t last_number_ GUARDED_BY(mutex_) = 0;
};

}  // namespace hopfeed
