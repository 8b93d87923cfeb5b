// See dist_tensor.h.
#include "state/client/dist_tensor.h"

#include <fmt/format.h>

#include <random>
#include <utility>

#include "core/base/error.h"

namespace hopfeed {
namespace {

std::uint64_t new_client() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

const TableSpec& written(const TableSpec& spec) {
  require_valid(spec.kind == TableSpec::Kind::kTensor,
                fmt::format("table '{}' is learned step by step, and not written", spec.name));
  return spec;
}

}  // namespace

DistTensor::DistTensor(std::shared_ptr<StateNetwork> network, const DatasetMeta& dataset,
                       const TableSpec& spec)
    : table_(std::move(network), dataset, written(spec)),
      client_(new_client()),
      last_number_(static_cast<std::size_t>(table_.num_owners()), 0) {}

void DistTensor::pull(std::span<const std::int64_t> ids, std::byte* out) const { table_.pull(0, ids, out); }

void DistTensor::push(std::span<const std::int64_t> ids, std::span<const std::byte> rows) {
  write(StateAsk::kWrite, ids, rows);
}

void DistTensor::add(std::span<const std::int64_t> ids, std::span<const std::byte> rows) {
  write(StateAsk::kAdd, ids, rows);
}

void DistTensor::write(StateAsk how, std::span<const std::int64_t> ids, std::span<const std::byte> rows) {
  const auto row_bytes = static_cast<std::size_t>(spec().row_bytes());
  require_valid(rows.size() == ids.size() * row_bytes,
                fmt::format("{} bytes are given for {} rows of {} bytes of table '{}'", rows.size(),
                            ids.size(), row_bytes, spec().name));
  const std::vector<TableAtOwners::Part> parts = table_.split(ids);
  std::vector<StateNetwork::Ticket> tickets;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t owner = 0; owner < parts.size(); ++owner) {
      const TableAtOwners::Part& part = parts[owner];
      if (part.ids.empty()) continue;
      StateHead head = table_.head(static_cast<int>(owner), how, ++last_number_[owner]);
      head.client = client_;
      tickets.push_back(table_.ask_with_rows(static_cast<int>(owner), head, part, rows.data()));
    }
  }
  for (const StateNetwork::Ticket ticket : tickets) table_.network().wait(ticket);
}

}  // namespace hopfeed
