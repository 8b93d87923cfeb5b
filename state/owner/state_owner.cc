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
    give({.connection = connection, .message = std::move(question), .done = [given, done](StateReply reply) {
            if (!given->exchange(true)) done(std::move(reply));
          }});
    return RecycledBytes();
  });
  if (std::holds_alternative<Error>(refusal) && !given->exchange(true)) done(refusal);
  go_to_files();
}

void StateOwner::give(const Question& given) {
  const StateQuestion question = read_state_question(*given.message);
  if (question.head.ask == StateAsk::kOpen) {
    const MutexLock one(opening_);
    return open(question, given);
  }
  const std::shared_ptr<Table> table = table_of(question.head);
  const MutexLock lane(table->lane);
  give_in_lane(*table, given);
}

void StateOwner::give_in_lane(Table& table, const Question& given) {
  const StateQuestion question = read_state_question(*given.message);
  if (table.over) refuse_begun_anew(table.number);  // while this waited
  require_run(table, question.head);
  if (is_held(table, question.head.ask)) return hold(table, table.held, given);
  if (question.head.ask >= StateAsk::kSave) return ask_checkpoint(table, question, given);
  if (table.tensor) return ask_tensor(table, question, given.done);
  if (question.head.ask != StateAsk::kPull) table.connections.insert(given.connection);  // it may be back
  ask_embedding(table, given.connection, question, given.message, given.done);
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
void StateOwner::open(const StateQuestion& question, const Question& given) {
  const StateHead& head = question.head;
  const auto [spec, fingerprint, ranks] = read_opening(question.rest);
  require_valid(fingerprint == dataset_.meta().fingerprint,
                fmt::format("table '{}' is of another dataset than '{}', which this owner has", spec.name,
                            dataset_.meta().name));
  require_valid(spec.kind == TableSpec::Kind::kTensor || head.run != 0,
                fmt::format("table '{}' is learned by a run of number 0; give the run a number", spec.name));
  std::shared_ptr<Table> table = joined(spec, ranks, head);
  if (!table) {
    require_room(spec);
    std::shared_ptr<Table> old;
    {
      const MutexLock lock(mutex_);
      const auto named = by_name_.find(spec.name);
      require_valid(tables_.size() < kMaxTables || named != by_name_.end(),
                    fmt::format("this owner has {} tables already, as many as it takes", kMaxTables));
      if (named != by_name_.end()) old = tables_.at(named->second);
    }
    if (old && !end_table(*old, given)) return;
    if (old) forget(*old);
    old.reset();  // its memory is given back before there is more
    table = make(spec, head.run, head.attempt, ranks);
    const MutexLock lock(mutex_);
    table->number = ++last_number_;  // a question about the one before is refused
    tables_[table->number] = table;
    by_name_[spec.name] = table->number;
  }
  const MutexLock lane(table->lane);
  if (table->goes_back()) return hold(*table, table->held_opens, given);
  const SharedEmbedding* const embedding = table->embedding.get();
  if (embedding != nullptr) table->connections.insert(given.connection);
  given.done(write_opened({.table = table->number,
                           .owner = start_,
                           .steps_applied = embedding != nullptr ? embedding->steps_applied() : 0,
                           .rows = table->rows->count(),
                           .learned = embedding != nullptr ? embedding->table().num_learned()
                                                           : table->tensor->store().num_written()}));
}

/// Ends a table that is begun anew. One that is at its files gives that up first: false, and `given` comes
/// again then.
bool StateOwner::end_table(Table& old, const Question& given) {
  const MutexLock lane(old.lane);
  if (old.at_files) {
    old.given_up = true;
    hold(old, old.held_opens, given);
    return false;
  }
  old.over = true;
  if (old.embedding)
    old.embedding->abandon(Error(
        ErrorCode::kStateLost,
        fmt::format("table '{}' was begun anew by another run or attempt; end this one", old.spec.name)));
  return true;
}

void StateOwner::forget(const Table& old) {
  const MutexLock lock(mutex_);
  tables_.erase(old.number);
  by_name_.erase(old.spec.name);
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

/// What it has asked and is held is not done any more: it would count as connected. What is opened again
/// behind a table's files is either held yet, or its connection counts.
void StateOwner::disconnected(std::uint64_t connection) {
  std::vector<Question> dropped;
  const MutexLock one(opening_);
  for (const std::shared_ptr<Table>& table : all_tables()) {
    const MutexLock lane(table->lane);
    for (std::deque<Question>* queue : {&table->held, &table->held_opens})
      std::erase_if(*queue, [&](Question& held) {
        if (held.connection != connection) return false;
        table->held_bytes -= held.message->size();
        dropped.push_back(std::move(held));
        return true;
      });
    if (table->connections.erase(connection) > 0 && table->connections.empty())
      table->abandoned = options_.now();
  }
  for (const Question& question : dropped) question.done(AskedAgain{});
}

void StateOwner::tick() {
  for (const std::shared_ptr<Table>& table : all_tables()) {
    const MutexLock lane(table->lane);
    if (table->embedding) table->embedding->tick(options_.now());
  }
}

void StateOwner::give_up() {
  ends_ = true;
  for (const std::shared_ptr<Table>& table : all_tables()) table->given_up = true;
}

std::vector<TableStatus> StateOwner::status() const {
  std::vector<TableStatus> all;
  for (const std::shared_ptr<Table>& table : all_tables()) {
    const MutexLock lane(table->lane);
    all.push_back(status_of(*table));
  }
  std::ranges::sort(all, {}, [](const TableStatus& status) { return status.spec.name; });
  return all;
}

/// In its lane. Of a table that goes back to a checkpoint, as it was before.
TableStatus StateOwner::status_of(const Table& table) {
  if (table.goes_back()) {
    TableStatus was = table.last_status;
    was.held_bytes += table.held_bytes;
    return was;
  }
  TableStatus status{.spec = table.spec, .rows = table.rows->count(), .held_bytes = table.held_bytes};
  if (const SharedEmbedding* const embedding = table.embedding.get()) {
    status.written = embedding->table().num_learned();
    status.bytes = embedding->table().bytes();
    status.held_bytes += embedding->held_bytes();
    status.run = table.run;
    status.attempt = table.attempt;
    status.ranks = table.ranks.ranks;
    status.steps_applied = embedding->steps_applied();
    status.connections = table.connections.size();
  } else {
    status.written = table.tensor->store().num_written();
    status.bytes = table.tensor->store().bytes();
  }
  return status;
}

}  // namespace hopfeed
