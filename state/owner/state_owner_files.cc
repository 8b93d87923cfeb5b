// See state_owner.h. Its tables at their files: what is asked of checkpoints, and what waits meanwhile.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "state/owner/state_owner.h"

namespace hopfeed {
namespace {

constexpr std::size_t kMostCheckpoints = 4'096;  // that a question about checkpoints names
constexpr std::size_t kMostShards = 65'536;      // of a table: one for each partition at most

void require_step(const SharedEmbedding& embedding, std::int64_t step) {
  require_valid(embedding.steps_applied() == step,
                fmt::format("a checkpoint of step {} of table '{}' is asked for, and {} steps have been "
                            "applied; all ranks stop for it",
                            step, embedding.spec().name, embedding.steps_applied()));
}

/// Does what answers a question later; `done` hears why it cannot be done.
template <class Body>
void or_refuse(const StateDone& done, const Body& body) {
  const StateReply refusal = reply_of([&] {
    body();
    return RecycledBytes();
  });
  if (std::holds_alternative<Error>(refusal)) done(refusal);
}

[[noreturn]] void refuse_end(const TableSpec& table) {
  throw Error(ErrorCode::kStateLost,
              fmt::format("the owner of table '{}' ends; go back to a checkpoint when it is there again",
                          table.name));
}

bool makes_sense(const StateQuestion& question) {
  const bool saves = question.head.ask == StateAsk::kSave, restores = question.head.ask == StateAsk::kRestore;
  const std::size_t numbers = question.ids.size(), shards = question.rest.size() / sizeof(ShardSum);
  return (saves      ? numbers == 2
          : restores ? numbers == 3
                     : numbers >= 2) &&
         numbers <= kMostCheckpoints && shards <= (restores ? kMostShards : 0) && question.ids[0] >= 1 &&
         std::ranges::all_of(question.ids, [](auto number) { return number >= 0; });
}

/// For whoever reads it far from the owner's folder, which the message does not name there.
Error of_checkpoint(const Error& error, StateAsk ask, std::int64_t checkpoint, const std::string& table) {
  const bool saves = ask == StateAsk::kSave;
  return {error.code(),
          fmt::format(
              "checkpoint {} of table '{}' cannot be {}: {}{}", checkpoint, table,
              saves ? "written" : "restored", error.message(),
              saves ? "; those before it stand: give its owner's --state folder room, and save again" : "")};
}

}  // namespace

/// Questions about checkpoints wait for each other. A checkpoint that is written has the rows as they are;
/// the sums of steps an embedding holds itself.
bool StateOwner::is_held(const Table& table, StateAsk ask) {
  if (!table.at_files) return false;
  if (table.goes_back() || ask >= StateAsk::kSave) return true;
  return table.at_files->head.ask == StateAsk::kSave && (ask == StateAsk::kWrite || ask == StateAsk::kAdd);
}

void StateOwner::hold(Table& table, std::deque<Question>& queue, const Question& given) const {
  const std::size_t bytes = given.message->size();
  if (table.held_bytes > 0 && table.held_bytes + bytes > options_.max_held)
    throw Error(ErrorCode::kBusy,
                fmt::format("table '{}' is at a checkpoint, and {} bytes of questions wait for it already; "
                            "stop for a checkpoint, or ask again when it is over",
                            table.spec.name, table.held_bytes));
  queue.push_back(given);
  table.held_bytes += bytes;
}

void StateOwner::ask_checkpoint(Table& table, const StateQuestion& question, const Question& given) {
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
  if (!makes_sense(question))
    throw Error(ErrorCode::kCorrupt, fmt::format("a question about table '{}' names no checkpoint", name));
  CheckpointQuestion asked{.head = head, .numbers = {}, .shards = {}, .done = nullptr};
  asked.numbers.assign(question.ids.begin(), question.ids.end());
  asked.shards.resize(question.rest.size() / sizeof(ShardSum));
  if (!asked.shards.empty())
    std::memcpy(asked.shards.data(), question.rest.data(), asked.shards.size() * sizeof(ShardSum));
  table.attempt = head.attempt;
  if (head.ask != StateAsk::kSave || table.tensor) return begin_at_files(table, std::move(asked), given);
  table.embedding->when(
      static_cast<std::int64_t>(head.number),
      [this, &table, asked, given](const StateDone& done) {
        or_refuse(done, [&] { begin_at_files(table, asked, given); });
      },
      given.done);
}

/// Once, however often it is asked: whoever asked may have gone on since. In the table's lane.
void StateOwner::begin_at_files(Table& table, CheckpointQuestion asked, const Question& given) {
  if (is_held(table, asked.head.ask)) return hold(table, table.held, given);  // of several that were due
  const auto message = static_cast<std::uint64_t>(asked.numbers[0]);
  if (asked.head.client == table.checkpoint_client && message <= table.checkpoint_message) {
    if (message == table.checkpoint_message) return given.done(table.checkpoint_answer);
    throw Error(ErrorCode::kInvalid, fmt::format("message {} about a checkpoint of table '{}' came after {}",
                                                 message, table.spec.name, table.checkpoint_message));
  }
  if (ends_) refuse_end(table.spec);
  const bool saves = asked.head.ask == StateAsk::kSave;
  if (saves && table.tensor) table.tensor->require_whole();
  if (saves && table.embedding) require_step(*table.embedding, static_cast<std::int64_t>(asked.head.number));
  asked.done = given.done;
  if (asked.head.ask == StateAsk::kRestore) table.last_status = status_of(table);
  auto work = std::make_unique<CheckpointQuestion>(std::move(asked));
  {
    const MutexLock lock(mutex_);
    begun_.push_back(table.weak_from_this());
  }
  if (saves && table.embedding) table.embedding->pause();
  table.at_files = std::move(work);
}

/// Behind each lane: nobody who is in one is at files.
void StateOwner::go_to_files() {
  for (;;) {
    std::weak_ptr<Table> table;
    {
      const MutexLock lock(mutex_);
      if (begun_.empty()) return;
      table = std::move(begun_.front());
      begun_.pop_front();
    }
    if (!options_.at_files) {
      do_at_files(table.lock());
      continue;
    }
    const StateReply refusal = reply_of([&] {
      options_.at_files([this, table] { do_at_files(table.lock()); });
      return RecycledBytes();
    });
    if (std::holds_alternative<Error>(refusal)) end_at_files(table.lock(), refusal);
  }
}

void StateOwner::do_at_files(std::shared_ptr<Table> table) {
  const CheckpointQuestion* asked = nullptr;  // nobody else changes it until it is over
  {
    const MutexLock lane(table->lane);
    asked = table->at_files.get();
  }
  const CheckpointQuestion& question = *asked;
  StateReply reply = reply_of([&] {
    try {
      return checkpoint(*table, question);
    } catch (const Error& error) {
      if (ends_) refuse_end(table->spec);
      if (table->given_up) refuse_begun_anew(table->number);
      throw of_checkpoint(error, question.head.ask, question.numbers[1], table->spec.name);
    }
  });
  end_at_files(std::move(table), std::move(reply));
}

RecycledBytes StateOwner::checkpoint(Table& table, const CheckpointQuestion& question) const {
  const OwnedTable mine{.spec = table.spec,
                        .rows = *table.rows,
                        .fingerprint = dataset_.meta().fingerprint,
                        .tensor = table.tensor.get(),
                        .embedding = table.embedding.get(),
                        .given_up = &table.given_up};
  const std::span<const std::int64_t> numbers = std::span(question.numbers).subspan(1);
  if (question.head.ask == StateAsk::kKeep) {
    keep_checkpoints(options_.folder, static_cast<std::uint64_t>(numbers[0]), numbers.subspan(1), mine);
    return write_steps_applied(0);
  }
  const std::filesystem::path folder =
      checkpoint_folder(options_.folder, question.head.run, static_cast<std::uint64_t>(numbers[0]));
  if (question.head.ask == StateAsk::kSave) return write_shard_sum(save_table(folder, mine));
  const FoundShards found(folder, question.shards, numbers[1] != 0 ? Shards::kAll : Shards::kOwn, mine);
  return restore(table, mine, found);
}

/// All that the table is asked is held meanwhile; ticks are not.
RecycledBytes StateOwner::restore(Table& table, const OwnedTable& mine, const FoundShards& found) {
  {
    const MutexLock lane(table.lane);
    if (table.tensor) table.tensor->clear();
    if (table.embedding) table.embedding->begin_to_restore();
  }
  const RestoredShard restored = found.put_into(mine);
  const MutexLock lane(table.lane);
  if (table.tensor) table.tensor->restored();
  if (table.embedding) table.embedding->restored(found.head().steps, found.head().count);
  return write_restored(restored);
}

/// Nothing is thrown on the threads of files: whoever is concerned hears of it.
void StateOwner::end_at_files(std::shared_ptr<Table> table, StateReply reply) {
  {
    const MutexLock lane(table->lane);
    const std::unique_ptr<CheckpointQuestion> over = std::move(table->at_files);
    table->given_up = false;
    if (const auto* answer = std::get_if<RecycledBytes>(&reply)) {
      const StateReply kept = reply_of([&] { return table->checkpoint_answer = *answer; });
      if (std::holds_alternative<RecycledBytes>(kept)) {
        table->checkpoint_client = over->head.client;
        table->checkpoint_message = static_cast<std::uint64_t>(over->numbers[0]);
      } else {
        reply = kept;
      }
    }
    or_refuse(over->done, [&] { over->done(std::move(reply)); });
    if (over->head.ask == StateAsk::kSave && table->embedding) table->embedding->go_on();
    ask_again(*table);
  }
  open_again(std::move(table));
  if (options_.at_files) go_to_files();  // else whoever has come here looks again
}

/// What was held comes in its order, before what comes now. In the table's lane.
void StateOwner::ask_again(Table& table) {
  std::deque<Question> held = std::exchange(table.held, {});
  for (const Question& given : held) table.held_bytes -= given.message->size();
  for (const Question& given : held) or_refuse(given.done, [&] { give_in_lane(table, given); });
}

/// Whoever opens it again may begin it anew: then its memory is given back before there is more.
void StateOwner::open_again(std::shared_ptr<Table> table) {
  const MutexLock one(opening_);
  std::deque<Question> opens;
  {
    const MutexLock lane(table->lane);
    opens = std::exchange(table->held_opens, {});
    for (const Question& given : opens) table->held_bytes -= given.message->size();
  }
  table.reset();
  for (const Question& given : opens)
    or_refuse(given.done, [&] { open(read_state_question(*given.message), given); });
}

}  // namespace hopfeed
