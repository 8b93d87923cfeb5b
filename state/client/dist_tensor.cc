// See dist_tensor.h.
#include "state/client/dist_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "core/base/error.h"

namespace hopfeed {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPause{100};  // before an owner that is busy is asked again

}  // namespace

DistTensor::DistTensor(std::shared_ptr<StateNetwork> network, const DatasetMeta& dataset,
                       const TableSpec& spec, const RankOfRun& run)
    : table_(std::move(network), dataset, spec.require_kind(TableSpec::Kind::kTensor), run),
      timeout_(run.timeout_ms),
      last_number_(static_cast<std::size_t>(table_.num_owners()), 0) {}

void DistTensor::pull(std::span<const std::int64_t> ids, std::byte* out) const { table_.pull(0, ids, out); }

void DistTensor::push(std::span<const std::int64_t> ids, std::span<const std::byte> rows) {
  write(StateAsk::kWrite, ids, rows);
}

void DistTensor::add(std::span<const std::int64_t> ids, std::span<const std::byte> rows) {
  write(StateAsk::kAdd, ids, rows);
}

/// Owners have forgotten who wrote what: numbers begin again.
void DistTensor::restore(std::uint64_t checkpoint, const std::vector<ShardSum>& shards) {
  const std::lock_guard lock(mutex_);
  table_.restore(checkpoint, shards);
  std::ranges::fill(last_number_, 0);
}

void DistTensor::write(StateAsk how, std::span<const std::int64_t> ids, std::span<const std::byte> rows) {
  const auto row_bytes = static_cast<std::size_t>(spec().row_bytes());
  require_valid(rows.size() == ids.size() * row_bytes,
                fmt::format("{} bytes are given for {} rows of {} bytes of table '{}'", rows.size(),
                            ids.size(), row_bytes, spec().name));
  for (const std::int64_t id : ids) table_.owner_of(id);  // before anything is written
  const std::lock_guard lock(mutex_);
  while (!ids.empty()) {
    const std::size_t count = std::min(ids.size(), table_.rows_at_once());
    write_part(how, ids.first(count), rows.data());
    ids = ids.subspan(count);
    rows = rows.subspan(count * row_bytes);
  }
}

void DistTensor::ask(StateAsk how, Message& message, const std::byte* rows) const {
  const auto owner = static_cast<int>(message.owner);
  message.ticket = table_.ask_with_rows(owner, table_.head(owner, how, message.number), message.piece, rows);
}

/// False: the owner is busy, and is to be asked again.
bool DistTensor::is_done(const Message& message, bool may_be_busy) const {
  try {
    table_.network().wait(message.ticket);
  } catch (const Error& error) {
    if (!may_be_busy || error.code() != ErrorCode::kBusy) throw;
    return false;
  }
  return true;
}

/// The first one has been refused, so none of those behind it to the same owner is done, whatever that says.
void DistTensor::ask_again(StateAsk how, std::deque<Message>& under_way, const std::byte* rows) const {
  const std::size_t owner = under_way.front().owner;
  for (std::size_t i = 1; i < under_way.size(); ++i) {
    if (under_way[i].owner != owner) continue;
    try {
      table_.network().wait(under_way[i].ticket);
    } catch (const Error&) {  // heard again where it still is so
    }
  }
  std::this_thread::sleep_for(kPause);
  for (Message& message : under_way)
    if (message.owner == owner) ask(how, message, rows);
}

void DistTensor::write_part(StateAsk how, std::span<const std::int64_t> ids, const std::byte* rows) {
  const std::vector<TableAtOwners::Part> parts = table_.split(ids);
  std::deque<Message> under_way;
  std::vector<std::size_t> begun(parts.size(), 0);  // rows that have left, by owner
  const auto ask_next = [&](std::size_t owner) {
    if (begun[owner] == parts[owner].ids.size()) return;
    const TableAtOwners::Piece piece(parts[owner], begun[owner], table_.rows_of_a_message());
    begun[owner] += piece.ids.size();
    Message message{.owner = owner, .number = last_number_[owner] + 1, .piece = piece, .ticket = 0};
    ask(how, message, rows);
    ++last_number_[owner];  // it is under way
    under_way.push_back(message);
  };
  for (std::size_t i = 0; i < TableAtOwners::kUnderWay; ++i)
    for (std::size_t owner = 0; owner < parts.size(); ++owner) ask_next(owner);
  Clock::time_point since = Clock::now();  // when an owner has done one last
  while (!under_way.empty()) {
    if (!is_done(under_way.front(), Clock::now() - since < timeout_)) {
      ask_again(how, under_way, rows);
      continue;
    }
    since = Clock::now();
    const std::size_t owner = under_way.front().owner;
    under_way.pop_front();
    ask_next(owner);
  }
}

}  // namespace hopfeed
