// See state_owner.h.
#include "state/owner/state_owner.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <utility>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/base/json_text.h"
#include "core/base/limits.h"
#include "core/base/memory_limits.h"
#include "core/base/saturating.h"

namespace hopfeed {
namespace {

constexpr std::chrono::seconds kAway{5};  // a rank whose connection was lost has connected anew within it
constexpr std::int64_t kMaxRanks = 65'536;
constexpr std::size_t kMaxTables = 1'024;
constexpr std::size_t kMostCheckpoints = 4'096;  // that a question about checkpoints names
constexpr std::size_t kMostShards = 65'536;      // of a table: one for each partition at most

std::uint64_t random_number() {
  std::random_device random;
  return (std::uint64_t{random()} << 32 | random()) | 1;  // never 0
}

/// What open says beside the table.
struct Opening {
  TableSpec spec;
  std::string fingerprint;
  RanksOfRun ranks;
};

Opening read_opening(std::span<const std::byte> text) {
  require_valid(
      text.size() <= kMaxOpenBytes,
      fmt::format("a table is opened by {} bytes of JSON; at most {} are taken", text.size(), kMaxOpenBytes));
  const nlohmann::json json = parse_json({reinterpret_cast<const char*>(text.data()), text.size()});
  const JsonFields fields(json, "the question that opens a table", ErrorCode::kCorrupt);
  fields.only({"table", "fingerprint", "ranks", "timeout_ms"});
  return {.spec = TableSpec::from_json(json_text(fields.at("table"))),
          .fingerprint = fields.text("fingerprint"),
          .ranks = {.ranks = fields.whole("ranks", 1, kMaxRanks),
                    .timeout = std::chrono::milliseconds(fields.whole("timeout_ms", 1, kMaxDeadlineMs))}};
}

/// With all rows written: rows, their optimizer's state, and the index.
std::size_t most_bytes(const TableSpec& spec, std::int64_t rows) {
  return static_cast<std::size_t>(saturating_product(rows, stored_row_bytes(spec) + 4));
}

/// While it is there a table's lane is held by reads and writes of files.
class AtFiles {
 public:
  explicit AtFiles(std::atomic<bool>& at_files) : at_files_(at_files) { at_files_ = true; }
  ~AtFiles() { at_files_ = false; }
  AtFiles(const AtFiles&) = delete;
  AtFiles& operator=(const AtFiles&) = delete;

 private:
  std::atomic<bool>& at_files_;
};

void require_step(const SharedEmbedding& embedding, std::int64_t step) {
  require_valid(embedding.steps_applied() == step,
                fmt::format("a checkpoint of step {} of table '{}' is asked for, and {} steps have been "
                            "applied; all ranks stop for it",
                            step, embedding.spec().name, embedding.steps_applied()));
}

}  // namespace

StateOwner::StateOwner(const Dataset& dataset, StateOwnerOptions options)
    : dataset_(dataset), options_(std::move(options)), start_(random_number()) {}

std::uint32_t StateOwner::lane_of(std::span<const std::byte> question) {
  StateHead head;
  if (question.size() < sizeof head) return 0;  // it will be refused there
  std::memcpy(&head, question.data(), sizeof head);
  return head.ask == StateAsk::kOpen ? 0 : head.table;
}

void StateOwner::answer(std::uint64_t connection, std::shared_ptr<const RecycledBytes> question,
                        StateDone done) {
  // What is thrown is the answer, unless one has been given: a step is answered before it is applied.
  const auto given = std::make_shared<std::atomic<bool>>(false);
  const StateReply refusal = reply_of([&] {
    give(connection, question, [given, done](StateReply reply) {
      if (!given->exchange(true)) done(std::move(reply));
    });
    return RecycledBytes();
  });
  if (std::holds_alternative<Error>(refusal) && !given->exchange(true)) done(refusal);
}

void StateOwner::give(std::uint64_t connection, const std::shared_ptr<const RecycledBytes>& message,
                      StateDone done) {
  const StateQuestion question = read_state_question(*message);
  if (question.head.ask == StateAsk::kOpen) return done(open(connection, question));
  const std::shared_ptr<Table> table = table_of(question.head);
  const MutexLock lane(table->lane);
  if (table->over) refuse_begun_anew(table->number);  // while this waited
  require_run(*table, question.head);
  if (question.head.ask >= StateAsk::kSave) return ask_checkpoint(*table, question, std::move(done));
  if (table->tensor) return ask_tensor(*table, question, done);
  if (question.head.ask != StateAsk::kPull) table->connections.insert(connection);  // it may have come back
  ask_embedding(*table, connection, question, message, std::move(done));
}

// ---- tables

std::shared_ptr<StateOwner::Table> StateOwner::make(const TableSpec& spec, std::uint64_t run,
                                                    std::uint32_t attempt, const RanksOfRun& ranks) {
  auto table = std::make_shared<Table>();
  table->spec = spec;
  table->rows = std::make_unique<OwnedRows>(dataset_, dataset_.meta().node_type(spec.node_type));
  table->run = run;
  table->attempt = attempt;
  table->ranks = ranks;
  if (spec.kind == TableSpec::Kind::kTensor)
    table->tensor = std::make_unique<SharedTensor>(spec, *table->rows);
  else
    table->embedding = std::make_unique<SharedEmbedding>(spec, *table->rows, ranks, options_.threads);
  return table;
}

/// The table of that name, if it is to be joined; null: it is to be begun.
std::shared_ptr<StateOwner::Table> StateOwner::joined(const TableSpec& spec, const RanksOfRun& ranks,
                                                      const StateHead& head) const {
  std::shared_ptr<Table> table;
  {
    const MutexLock lock(mutex_);
    const auto named = by_name_.find(spec.name);
    if (named == by_name_.end()) return nullptr;
    table = tables_.at(named->second);
  }
  const MutexLock lane(table->lane);
  const bool learned = spec.kind == TableSpec::Kind::kEmbedding;
  if (learned != (table->embedding != nullptr)) table->spec.require_same(spec);
  if (learned && table->run != head.run) {
    if (!table->connections.empty() || options_.now() - table->abandoned < kAway)
      throw Error(
          ErrorCode::kBusy,
          fmt::format("table '{}' is learned by another run ({:016x}); end that one, or give the table "
                      "another name",
                      spec.name, table->run));
    return nullptr;
  }
  if (learned && head.attempt > table->attempt) return nullptr;
  table->spec.require_same(spec);
  if (!learned) return table;
  if (head.attempt != table->attempt)
    throw Error(ErrorCode::kBusy,
                fmt::format("table '{}' is learned by attempt {} of the run, and this is attempt {}",
                            spec.name, table->attempt, head.attempt));
  require_valid(ranks.ranks == table->ranks.ranks,
                fmt::format("table '{}' is learned by {} ranks, and this one says {}", spec.name,
                            table->ranks.ranks, ranks.ranks));
  return table;
}

/// A table that is there is joined; by a later attempt of its run, or by another run once its own is over, it
/// is begun anew.
RecycledBytes StateOwner::open(std::uint64_t connection, const StateQuestion& question) {
  const StateHead& head = question.head;
  const auto [spec, fingerprint, ranks] = read_opening(question.rest);
  require_valid(fingerprint == dataset_.meta().fingerprint,
                fmt::format("table '{}' is of another dataset than '{}', which this owner has", spec.name,
                            dataset_.meta().name));
  require_valid(spec.kind == TableSpec::Kind::kTensor || head.run != 0,
                fmt::format("table '{}' is learned by a run of number 0; give the run a number", spec.name));
  const MutexLock one(opening_);
  std::shared_ptr<Table> table = joined(spec, ranks, head);
  if (!table) {
    require_room(spec);
    {
      const MutexLock lock(mutex_);
      require_valid(tables_.size() < kMaxTables || by_name_.contains(spec.name),
                    fmt::format("this owner has {} tables already, as many as it takes", kMaxTables));
    }
    std::shared_ptr<Table> old;  // its memory is given back before there is more
    {
      const MutexLock lock(mutex_);
      if (const auto named = by_name_.find(spec.name); named != by_name_.end()) {
        old = std::move(tables_.at(named->second));
        tables_.erase(named->second);
        by_name_.erase(named);
      }
    }
    if (old) {
      const MutexLock lane(old->lane);
      old->over = true;
      if (old->embedding)
        old->embedding->abandon(Error(
            ErrorCode::kStateLost,
            fmt::format("table '{}' was begun anew by another run or attempt; end this one", spec.name)));
    }
    old.reset();
    table = make(spec, head.run, head.attempt, ranks);
    const MutexLock lock(mutex_);
    table->number = ++last_number_;  // a question about the one before is refused
    tables_[table->number] = table;
    by_name_[spec.name] = table->number;
  }
  const MutexLock lane(table->lane);
  const SharedEmbedding* const embedding = table->embedding.get();
  if (embedding != nullptr) table->connections.insert(connection);
  return write_opened({.table = table->number,
                       .owner = start_,
                       .steps_applied = embedding != nullptr ? embedding->steps_applied() : 0,
                       .rows = table->rows->count(),
                       .learned = embedding != nullptr ? embedding->table().num_learned()
                                                       : table->tensor->store().num_written()});
}

/// Whoever may open a table may fill it: so there is room for all its rows, before the first one is written.
void StateOwner::require_room(const TableSpec& spec) const {
  if (options_.max_memory == 0) return;
  std::size_t taken = 0;
  for (const std::shared_ptr<Table>& table : all_tables())
    if (table->spec.name != spec.name) taken += most_bytes(table->spec, table->rows->count());
  const std::int64_t rows = OwnedRows(dataset_, dataset_.meta().node_type(spec.node_type)).count();
  const std::size_t wanted = most_bytes(spec, rows);
  if (wanted <= options_.max_memory && taken <= options_.max_memory - wanted) return;
  throw Error(
      ErrorCode::kNoSpace,
      fmt::format("table '{}' takes up to {} for its {} rows at this owner, which has {} for state and "
                  "{} of them for other tables; start it with more --state-memory, take a smaller "
                  "width, or use more owners",
                  spec.name, format_bytes(wanted), rows, format_bytes(options_.max_memory),
                  format_bytes(taken)));
}

std::shared_ptr<StateOwner::Table> StateOwner::table_of(const StateHead& head) const {
  if (head.owner != start_)
    throw Error(ErrorCode::kStateLost,
                "this owner of state was started again, and what it held is gone; go back to a checkpoint");
  const MutexLock lock(mutex_);
  const auto found = tables_.find(head.table);
  if (found == tables_.end()) refuse_begun_anew(head.table);
  return found->second;
}

void StateOwner::refuse_begun_anew(std::uint32_t table) {
  throw Error(ErrorCode::kStateLost,
              fmt::format("table {} of state was begun anew by another run or attempt; end this one", table));
}

void StateOwner::require_run(const Table& table, const StateHead& head) {
  if (!table.embedding || head.ask == StateAsk::kPull) return;
  require_valid(
      head.run == table.run && head.attempt == table.attempt,
      fmt::format("a message of attempt {} of run {:016x} came to table '{}', which attempt {} of run "
                  "{:016x} learns",
                  head.attempt, head.run, table.spec.name, table.attempt, table.run));
}

// ---- questions

void StateOwner::ask_checkpoint(Table& table, const StateQuestion& question, StateDone done) const {
  const StateHead& head = question.head;
  const std::string& name = table.spec.name;
  if (options_.folder.empty())
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the owner of table '{}' has no folder for checkpoints", name));
  require_valid(
      head.run != 0,
      fmt::format("a checkpoint of table '{}' is of a run of number 0; give the run a number", name));
  require_valid(head.attempt >= table.attempt,
                fmt::format("table '{}' has gone on with attempt {} of the run, and this is attempt {}", name,
                            table.attempt, head.attempt));
  const bool saves = head.ask == StateAsk::kSave, restores = head.ask == StateAsk::kRestore;
  const std::size_t numbers = question.ids.size(), shards = question.rest.size() / sizeof(ShardSum);
  const bool makes_sense = (saves      ? numbers == 2
                            : restores ? numbers == 3
                                       : numbers >= 2) &&
                           numbers <= kMostCheckpoints && shards <= (restores ? kMostShards : 0) &&
                           std::ranges::all_of(question.ids, [](auto number) { return number >= 0; });
  if (!makes_sense)
    throw Error(ErrorCode::kCorrupt, fmt::format("a question about table '{}' names no checkpoint", name));
  CheckpointQuestion asked{.head = head, .numbers = {}, .shards = std::vector<ShardSum>(shards)};
  asked.numbers.assign(question.ids.begin(), question.ids.end());
  if (shards > 0) std::memcpy(asked.shards.data(), question.rest.data(), shards * sizeof(ShardSum));
  table.attempt = head.attempt;
  if (head.ask != StateAsk::kSave || table.tensor) return done(checkpoint(table, asked));
  table.embedding->when(
      static_cast<std::int64_t>(head.number), [this, &table, asked] { return checkpoint(table, asked); },
      std::move(done));
}

/// Once, however often it is asked: whoever asked may have gone on since.
RecycledBytes StateOwner::checkpoint(Table& table, const CheckpointQuestion& question) const {
  const StateHead& head = question.head;
  const auto message = static_cast<std::uint64_t>(question.numbers[0]);
  if (head.client == table.checkpoint_client && message <= table.checkpoint_message) {
    if (message == table.checkpoint_message) return table.checkpoint_answer;
    throw Error(ErrorCode::kInvalid, fmt::format("message {} about a checkpoint of table '{}' came after {}",
                                                 message, table.spec.name, table.checkpoint_message));
  }
  const OwnedTable mine{.spec = table.spec,
                        .rows = *table.rows,
                        .fingerprint = dataset_.meta().fingerprint,
                        .tensor = table.tensor.get(),
                        .embedding = table.embedding.get()};
  const std::span<const std::int64_t> numbers = std::span(question.numbers).subspan(1);
  const auto folder = [&] {
    return checkpoint_folder(options_.folder, head.run, static_cast<std::uint64_t>(numbers[0]));
  };
  RecycledBytes answer;
  const AtFiles at_files(table.at_files);
  if (head.ask == StateAsk::kSave) {
    if (mine.embedding != nullptr) require_step(*mine.embedding, static_cast<std::int64_t>(head.number));
    answer = write_shard_sum(save_table(folder(), mine));
  } else if (head.ask == StateAsk::kRestore) {
    const Shards which = numbers[1] != 0 ? Shards::kAll : Shards::kOwn;
    answer = write_restored(restore_table(folder(), question.shards, which, mine));
  } else {
    keep_checkpoints(options_.folder, static_cast<std::uint64_t>(numbers[0]), numbers.subspan(1), mine);
    answer = write_steps_applied(0);
  }
  table.checkpoint_client = head.client;
  table.checkpoint_message = message;
  table.checkpoint_answer = answer;
  return answer;
}

void StateOwner::ask_tensor(Table& table, const StateQuestion& question, const StateDone& done) {
  SharedTensor& tensor = *table.tensor;
  const auto row_bytes = static_cast<std::size_t>(table.spec.row_bytes());
  switch (question.head.ask) {
    case StateAsk::kPull:
      require_answer_holds(question.ids.size(), table.spec.row_bytes(), table.spec.name);
      return done(write_rows(question.ids.size(), row_bytes,
                             [&](std::byte* out) { tensor.read(question.ids, out); }));
    case StateAsk::kWrite:
    case StateAsk::kAdd:
      tensor.write(
          question.head.client, question.head.number, question.ids, question.rest,
          question.head.ask == StateAsk::kWrite ? SharedTensor::How::kReplace : SharedTensor::How::kAdd);
      return done(write_steps_applied(0));
    default:
      throw Error(ErrorCode::kInvalid,
                  fmt::format("table '{}' is not learned step by step", table.spec.name));
  }
}

void StateOwner::ask_embedding(Table& table, std::uint64_t connection, const StateQuestion& question,
                               const std::shared_ptr<const RecycledBytes>& message, StateDone done) {
  SharedEmbedding& embedding = *table.embedding;
  const StateHead& head = question.head;
  require_valid(
      head.number <= static_cast<std::uint64_t>(INT64_MAX) / 2,
      fmt::format("step {} of table '{}' is asked for; steps end below 2^62", head.number, table.spec.name));
  const SharedEmbedding::Asker asker{.rank = head.rank, .client = head.client, .connection = connection};
  const auto step = static_cast<std::int64_t>(head.number);
  switch (head.ask) {
    case StateAsk::kPull:
      return embedding.pull(step, question.ids, std::move(done));
    case StateAsk::kLook:
      return embedding.look(asker, step, question.ids, std::move(done));
    case StateAsk::kRest:
      return embedding.rest(asker, step, std::move(done));
    case StateAsk::kStep:
      if (question.rest.size() / sizeof(float) / static_cast<std::size_t>(table.spec.width) <
          question.ids.size())
        throw Error(ErrorCode::kCorrupt,
                    fmt::format("step {} of table '{}' is too short for its rows", step, table.spec.name));
      return embedding.step({.rank = head.rank,
                             .step = step,
                             .rows_of_all_owners = head.rows_of_all_owners,
                             .ids = question.ids,
                             .sums = reinterpret_cast<const float*>(question.rest.data()),
                             .message = message},
                            std::move(done));
    case StateAsk::kLeave:
      embedding.leave(head.rank);
      return done(write_steps_applied(embedding.steps_applied()));
    default:
      throw Error(ErrorCode::kInvalid,
                  fmt::format("table '{}' is learned, and nobody writes its rows", table.spec.name));
  }
}

// ---- connections

std::vector<std::shared_ptr<StateOwner::Table>> StateOwner::all_tables() const {
  const MutexLock lock(mutex_);
  std::vector<std::shared_ptr<Table>> all;
  for (const auto& [number, table] : tables_) all.push_back(table);
  return all;
}

/// A table that is at its files learns of it with a later tick.
void StateOwner::disconnected(std::uint64_t connection) {
  {
    const MutexLock lock(mutex_);
    gone_.push_back(connection);
  }
  take_gone();
}

void StateOwner::take_gone() {
  std::vector<std::uint64_t> gone;
  {
    const MutexLock lock(mutex_);
    gone.swap(gone_);
  }
  bool all = true;
  for (const std::shared_ptr<Table>& table : all_tables()) {
    if (gone.empty()) break;
    if (table->at_files) {
      all = false;
      continue;
    }
    const MutexLock lane(table->lane);
    std::size_t erased = 0;
    for (const std::uint64_t connection : gone) erased += table->connections.erase(connection);
    if (erased > 0 && table->connections.empty()) table->abandoned = options_.now();
  }
  if (all) return;
  const MutexLock lock(mutex_);
  gone_.insert(gone_.end(), gone.begin(), gone.end());
}

void StateOwner::tick() {
  take_gone();
  for (const std::shared_ptr<Table>& table : all_tables()) {
    if (table->at_files) continue;
    const MutexLock lane(table->lane);
    if (table->embedding) table->embedding->tick(options_.now());
  }
}

std::vector<TableStatus> StateOwner::status() const {
  std::vector<TableStatus> all;
  for (const std::shared_ptr<Table>& table : all_tables()) {
    if (table->at_files) {  // as it was before
      const MutexLock lock(mutex_);
      if (!table->last_status.spec.name.empty()) all.push_back(table->last_status);
      continue;
    }
    const MutexLock lane(table->lane);
    TableStatus status{.spec = table->spec, .rows = table->rows->count()};
    if (const SharedEmbedding* const embedding = table->embedding.get()) {
      status.written = embedding->table().num_learned();
      status.bytes = embedding->table().bytes();
      status.held_bytes = embedding->held_bytes();
      status.run = table->run;
      status.attempt = table->attempt;
      status.ranks = table->ranks.ranks;
      status.steps_applied = embedding->steps_applied();
      status.connections = table->connections.size();
    } else {
      status.written = table->tensor->store().num_written();
      status.bytes = table->tensor->store().bytes();
    }
    const MutexLock lock(mutex_);
    table->last_status = status;
    all.push_back(std::move(status));
  }
  std::ranges::sort(all, {}, [](const TableStatus& status) { return status.spec.name; });
  return all;
}

}  // namespace hopfeed
