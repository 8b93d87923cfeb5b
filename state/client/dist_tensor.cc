// See dist_tensor.h.
#include "state/client/dist_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "core/base/error.h"

namespace hopfeed {

DistTensor::DistTensor(std::shared_ptr<StateNetwork> network, const DatasetMeta& dataset,
                       const TableSpec& spec, const RankOfRun& run)
    : table_(std::move(network), dataset, spec.require_kind(TableSpec::Kind::kTensor), run),
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
  while (!ids.empty()) {
    const std::size_t count = std::min(ids.size(), table_.rows_at_once());
    write_part(how, ids.first(count), rows.data());
    ids = ids.subspan(count);
    rows = rows.subspan(count * row_bytes);
  }
}

void DistTensor::write_part(StateAsk how, std::span<const std::int64_t> ids, const std::byte* rows) {
  const std::vector<TableAtOwners::Part> parts = table_.split(ids);
  struct UnderWay {
    std::size_t owner;
    StateNetwork::Ticket ticket;
  };
  std::deque<UnderWay> under_way;
  std::vector<std::size_t> begun(parts.size(), 0);  // rows that have left, by owner
  const auto ask_next = [&](std::size_t owner) {
    if (begun[owner] == parts[owner].ids.size()) return;
    const TableAtOwners::Piece piece(parts[owner], begun[owner], table_.rows_of_a_message());
    begun[owner] += piece.ids.size();
    const std::lock_guard lock(mutex_);
    const StateHead head = table_.head(static_cast<int>(owner), how, last_number_[owner] + 1);
    under_way.push_back({owner, table_.ask_with_rows(static_cast<int>(owner), head, piece, rows)});
    ++last_number_[owner];  // it is under way
  };
  for (std::size_t i = 0; i < TableAtOwners::kUnderWay; ++i)
    for (std::size_t owner = 0; owner < parts.size(); ++owner) ask_next(owner);
  while (!under_way.empty()) {
    const auto [owner, ticket] = under_way.front();
    table_.network().wait(ticket);
    under_way.pop_front();
    ask_next(owner);
  }
}

}  // namespace hopfeed
