// See table_at_owners.h.
#include "state/client/table_at_owners.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/base/limits.h"

namespace hopfeed {
namespace {

constexpr std::size_t kMessage = kMaxStateMessage / 8;  // bytes of rows; larger ones are no faster

std::uint64_t new_client() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random() | 1;  // never 0
}

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
  std::vector<StateNetwork::Ticket> tickets;
  for (int owner = 0; owner < num_owners(); ++owner)
    tickets.push_back(
        network_->ask(owner, write_opening({.run = rank.run, .attempt = rank.attempt}, opening)));
  for (const StateNetwork::Ticket ticket : tickets) {
    const OpenedTable opened = read_opened(*network_->wait(ticket));
    require_valid(opened_.empty() || opened.steps_applied == steps_applied_,
                  fmt::format("owners of table '{}' have applied {} and {} steps; go back to a checkpoint",
                              spec.name, steps_applied_, opened.steps_applied));
    steps_applied_ = opened.steps_applied;
    opened_.push_back(opened);
  }
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
  require_valid(dataset_id >= 0 && dataset_id < rows(),
                fmt::format("node {} (dataset id) has no row in table '{}' of {} rows", dataset_id,
                            spec_.name, rows()));
  const auto behind = std::ranges::upper_bound(offsets_, dataset_id);
  return owners_[static_cast<std::size_t>(behind - offsets_.begin()) - 1];
}

std::vector<TableAtOwners::Part> TableAtOwners::split(std::span<const std::int64_t> dataset_ids) const {
  std::vector<Part> parts(static_cast<std::size_t>(num_owners()));
  for (std::size_t i = 0; i < dataset_ids.size(); ++i) {
    Part& part = parts[static_cast<std::size_t>(owner_of(dataset_ids[i]))];
    part.ids.push_back(dataset_ids[i]);
    part.positions.push_back(static_cast<std::uint32_t>(i));
  }
  return parts;
}

std::size_t TableAtOwners::rows_of_a_message() const {
  return std::max<std::size_t>(1, kMessage / static_cast<std::size_t>(spec_.row_bytes()));
}

void TableAtOwners::pull(std::uint64_t at, std::span<const std::int64_t> dataset_ids, std::byte* out) const {
  const auto row_bytes = static_cast<std::size_t>(spec_.row_bytes());
  while (!dataset_ids.empty()) {
    const std::size_t count = std::min(dataset_ids.size(), rows_of_a_message());
    pull_part(at, dataset_ids.first(count), out);
    dataset_ids = dataset_ids.subspan(count);
    out += count * row_bytes;
  }
}

void TableAtOwners::pull_part(std::uint64_t at, std::span<const std::int64_t> dataset_ids,
                              std::byte* out) const {
  const std::vector<Part> parts = split(dataset_ids);
  const auto row_bytes = static_cast<std::size_t>(spec_.row_bytes());
  std::vector<std::pair<const Part*, StateNetwork::Ticket>> asked;
  for (int owner = 0; owner < num_owners(); ++owner) {
    const Part& part = parts[static_cast<std::size_t>(owner)];
    if (part.ids.empty()) continue;
    asked.emplace_back(
        &part, network_->ask(owner, write_state_question(head(owner, StateAsk::kPull, at), part.ids)));
  }
  for (const auto& [part, ticket] : asked) {
    const auto answer = network_->wait(ticket);
    const std::span<const std::byte> rows = read_rows(*answer, part->ids.size(), row_bytes);
    for (std::size_t i = 0; i < part->positions.size(); ++i)
      std::memcpy(out + part->positions[i] * row_bytes, rows.data() + i * row_bytes, row_bytes);
  }
}

StateNetwork::Ticket TableAtOwners::ask_with_rows(int owner, const StateHead& head, const Part& part,
                                                  const std::byte* rows) const {
  const auto row_bytes = static_cast<std::size_t>(spec_.row_bytes());
  return network_->ask(owner,
                       write_state_question(head, part.ids, part.ids.size() * row_bytes, [&](std::byte* to) {
                         for (const std::uint32_t position : part.positions) {
                           std::memcpy(to, rows + position * row_bytes, row_bytes);
                           to += row_bytes;
                         }
                       }));
}

}  // namespace hopfeed
