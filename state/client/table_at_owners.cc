// See table_at_owners.h.
#include "state/client/table_at_owners.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <utility>

#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/base/limits.h"
#include "core/base/prefetch.h"

namespace hopfeed {
namespace {

constexpr std::size_t kMessage = std::size_t{1} << 20;  // bytes of rows
constexpr std::size_t kOutAhead = 8;                    // rows: they skip those of other owners
constexpr std::size_t kAtOnce = kMaxStateMessage / 8;   // bytes of rows

std::uint64_t new_client() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random() | 1;  // never 0
}

/// Asked are questions of one thread. What it has not waited for at the end is dropped.
class Asked {
 public:
  explicit Asked(StateNetwork& network) : network_(network) {}
  ~Asked() {
    for (const StateNetwork::Ticket ticket : tickets_) network_.drop(ticket);
  }
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;
  void ask(int owner, RecycledBytes question) {
    tickets_.push_back(network_.ask(owner, std::move(question)));
  }
  /// Returns the answer to the first that has not been waited for.
  std::shared_ptr<const RecycledBytes> wait() {
    std::shared_ptr<const RecycledBytes> answer = network_.wait(tickets_.front());
    tickets_.pop_front();
    return answer;
  }
  /// Waits for all that are left. Throws the first refusal once each has been answered, so that nobody is at
  /// it still when something else is asked.
  std::vector<std::shared_ptr<const RecycledBytes>> wait_for_all() {
    std::vector<std::shared_ptr<const RecycledBytes>> answers;
    std::optional<Error> refusal;
    while (!tickets_.empty()) {
      try {
        answers.push_back(wait());
      } catch (const Error& error) {
        if (!refusal) refusal = error;
        network_.drop(tickets_.front());
        tickets_.pop_front();
      }
    }
    if (refusal) throw Error(*refusal);
    return answers;
  }

 private:
  StateNetwork& network_;
  std::deque<StateNetwork::Ticket> tickets_;
};

}  // namespace

TableAtOwners::TableAtOwners(std::shared_ptr<StateNetwork> network, const DatasetMeta& dataset,
                             const TableSpec& spec, const RankOfRun& rank)
    : network_(std::move(network)), spec_(spec), rank_(rank), client_(new_client()) {
  spec.validate();
  offsets_ =
      dataset.node_types[static_cast<std::size_t>(dataset.node_type(spec.node_type))].partition_offsets;
  for (int partition = 0; partition < dataset.partitions; ++partition)
    owners_.push_back(network_->owner_of(partition));
  const std::string opening = json_text({{"table", parse_json(spec.to_json())},
                                         {"fingerprint", dataset.fingerprint},
                                         {"ranks", rank.ranks},
                                         {"timeout_ms", rank.timeout_ms}});
  // The first owner decides which of two runs has the table: whom it refuses begins it anew at none.
  Asked asked(*network_);
  for (int owner = 0; owner < num_owners(); ++owner) {
    asked.ask(owner, write_opening({.run = rank.run, .attempt = rank.attempt}, opening));
    if (owner == 0) opened_.push_back(read_opened(*asked.wait()));
  }
  while (std::ssize(opened_) < num_owners()) opened_.push_back(read_opened(*asked.wait()));
  steps_applied_ = opened_.front().steps_applied;
  for (const OpenedTable& opened : opened_)
    if (opened.steps_applied != steps_applied_)
      throw Error(ErrorCode::kStateLost,
                  fmt::format("owners of table '{}' have applied {} and {} steps; go back to a checkpoint",
                              spec.name, steps_applied_, opened.steps_applied));
}

StateHead TableAtOwners::head(int owner, StateAsk ask, std::uint64_t number) const {
  const OpenedTable& opened = opened_[static_cast<std::size_t>(owner)];
  return {.ask = ask,
          .table = opened.table,
          .owner = opened.owner,
          .run = rank_.run,
          .attempt = rank_.attempt,
          .rank = static_cast<std::uint32_t>(rank_.rank),
          .number = number,
          .client = client_};
}

int TableAtOwners::owner_of(std::int64_t dataset_id) const {
  if (dataset_id < 0 || dataset_id >= rows())
    throw Error(ErrorCode::kInvalid, fmt::format("node {} (dataset id) has no row in table '{}' of {} rows",
                                                 dataset_id, spec_.name, rows()));
  return owners_[partition_of(dataset_id)];
}

/// Of few partitions by looking at all, which no processor has to guess at.
std::size_t TableAtOwners::partition_of(std::int64_t dataset_id) const {
  constexpr std::size_t kFew = 16;
  if (owners_.size() > kFew)
    return static_cast<std::size_t>(std::ranges::upper_bound(offsets_, dataset_id) - offsets_.begin()) - 1;
  std::size_t partition = 0;
  for (std::size_t i = 1; i < owners_.size(); ++i) partition += offsets_[i] <= dataset_id ? 1 : 0;
  return partition;
}

std::vector<TableAtOwners::Part> TableAtOwners::split(std::span<const std::int64_t> dataset_ids) const {
  std::vector<Part> parts(static_cast<std::size_t>(num_owners()));
  std::vector<std::uint32_t> owners(dataset_ids.size());
  std::vector<std::size_t> counts(parts.size(), 0);
  for (std::size_t i = 0; i < dataset_ids.size(); ++i) {
    owners[i] = static_cast<std::uint32_t>(owner_of(dataset_ids[i]));
    ++counts[owners[i]];
  }
  for (std::size_t owner = 0; owner < parts.size(); ++owner) {
    parts[owner].ids.reserve(counts[owner]);
    parts[owner].positions.reserve(counts[owner]);
  }
  for (std::size_t i = 0; i < dataset_ids.size(); ++i) {
    parts[owners[i]].ids.push_back(dataset_ids[i]);
    parts[owners[i]].positions.push_back(static_cast<std::uint32_t>(i));
  }
  return parts;
}

std::size_t TableAtOwners::rows_of_a_message() const {
  return std::max<std::size_t>(1, kMessage / static_cast<std::size_t>(spec_.row_bytes()));
}

std::size_t TableAtOwners::rows_at_once() const {
  return std::max<std::size_t>(1, kAtOnce / static_cast<std::size_t>(spec_.row_bytes()));
}

void TableAtOwners::pull(std::uint64_t at, std::span<const std::int64_t> dataset_ids, std::byte* out) const {
  const auto row_bytes = static_cast<std::size_t>(spec_.row_bytes());
  while (!dataset_ids.empty()) {
    const std::size_t count = std::min(dataset_ids.size(), rows_at_once());
    pull_part(at, dataset_ids.first(count), out);
    dataset_ids = dataset_ids.subspan(count);
    out += count * row_bytes;
  }
}

void TableAtOwners::pull_part(std::uint64_t at, std::span<const std::int64_t> dataset_ids,
                              std::byte* out) const {
  const std::vector<Part> parts = split(dataset_ids);
  const auto row_bytes = static_cast<std::size_t>(spec_.row_bytes());
  Asked asked(*network_);
  struct UnderWay {
    std::size_t owner;
    Piece piece;
  };
  std::deque<UnderWay> under_way;                   // as `asked` has them
  std::vector<std::size_t> begun(parts.size(), 0);  // rows that were asked for, by owner
  const auto ask_next = [&](std::size_t owner) {
    if (begun[owner] == parts[owner].ids.size()) return;
    const Piece piece(parts[owner], begun[owner], rows_of_a_message());
    begun[owner] += piece.ids.size();
    under_way.push_back({owner, piece});
    const auto number = static_cast<int>(owner);
    asked.ask(number, write_state_question(head(number, StateAsk::kPull, at), piece.ids));
  };
  for (std::size_t i = 0; i < kUnderWay; ++i)
    for (std::size_t owner = 0; owner < parts.size(); ++owner) ask_next(owner);
  while (!under_way.empty()) {
    const auto answer = asked.wait();
    const auto [owner, piece] = under_way.front();
    under_way.pop_front();
    ask_next(owner);
    const std::span<const std::byte> rows = read_rows(*answer, piece.ids.size(), row_bytes);
    for (std::size_t i = 0; i < piece.positions.size(); ++i) {
      if (i + kOutAhead < piece.positions.size())
        for (std::size_t b = 0; b < row_bytes; b += 64)
          prefetch_line_to_write(out + piece.positions[i + kOutAhead] * row_bytes + b);
      std::memcpy(out + piece.positions[i] * row_bytes, rows.data() + i * row_bytes, row_bytes);
    }
  }
}

StateNetwork::Ticket TableAtOwners::ask_with_rows(int owner, const StateHead& head, const Piece& piece,
                                                  const std::byte* rows) const {
  const auto row_bytes = static_cast<std::size_t>(spec_.row_bytes());
  return network_->ask(
      owner, write_state_question(head, piece.ids, piece.ids.size() * row_bytes, [&](std::byte* to) {
        for (const std::uint32_t position : piece.positions) {
          std::memcpy(to, rows + position * row_bytes, row_bytes);
          to += row_bytes;
        }
      }));
}

// ---- checkpoints

/// Asks all owners the same, at once; the message's number goes before `numbers`.
std::vector<std::shared_ptr<const RecycledBytes>> TableAtOwners::ask_all(
    StateAsk ask, std::int64_t steps, std::vector<std::int64_t> numbers,
    std::span<const std::byte> rest) const {
  numbers.insert(numbers.begin(), ++last_message_);
  Asked asked(*network_);
  for (int owner = 0; owner < num_owners(); ++owner)
    asked.ask(owner,
              write_state_question(head(owner, ask, static_cast<std::uint64_t>(steps)), numbers, rest.size(),
                                   [&](std::byte* out) { std::memcpy(out, rest.data(), rest.size()); }));
  return asked.wait_for_all();
}

std::vector<ShardSum> TableAtOwners::save(std::uint64_t checkpoint, std::int64_t steps) const {
  std::vector<ShardSum> shards;
  for (const auto& answer : ask_all(StateAsk::kSave, steps, {static_cast<std::int64_t>(checkpoint)}))
    shards.push_back(read_shard_sum(*answer));
  std::ranges::sort(shards, {}, &ShardSum::first_partition);
  return shards;
}

std::vector<RestoredShard> TableAtOwners::restored(std::uint64_t checkpoint,
                                                   const std::vector<ShardSum>& shards, Shards which) const {
  std::vector<RestoredShard> all;
  for (const auto& answer :
       ask_all(StateAsk::kRestore, 0, {static_cast<std::int64_t>(checkpoint), which == Shards::kAll ? 1 : 0},
               std::as_bytes(std::span(shards))))
    all.push_back(read_restored(*answer));
  return all;
}

std::int64_t TableAtOwners::restore(std::uint64_t checkpoint, const std::vector<ShardSum>& shards) const {
  std::int64_t rows = 0;
  for (const ShardSum& shard : shards) rows += shard.rows;
  const auto are_all = [rows](const std::vector<RestoredShard>& found) {
    std::int64_t sum = 0;
    for (const RestoredShard& part : found) sum += part.rows;
    return sum == rows;
  };
  // Rows that moved between owners lie in shards that the others have not read.
  std::vector<RestoredShard> found = restored(checkpoint, shards, Shards::kOwn);
  if (!are_all(found)) found = restored(checkpoint, shards, Shards::kAll);
  if (!are_all(found))
    throw Error(
        ErrorCode::kCorrupt,
        fmt::format("checkpoint {} of table '{}' has {} rows, and owners found another number; go back "
                    "to another one",
                    checkpoint, spec_.name, rows));
  return found.front().steps;
}

void TableAtOwners::keep(std::uint64_t run, std::vector<std::int64_t> checkpoints) const {
  checkpoints.insert(checkpoints.begin(), static_cast<std::int64_t>(run));
  ask_all(StateAsk::kKeep, 0, std::move(checkpoints));
}

}  // namespace hopfeed
