// See partition_servers.h.
#include "peers/partition_servers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kTellAfter = 5'000ms;

/// What is said of a service beside that of partitions themselves.
struct Words {
  const char *option, *have, *holder;  // "the state of partition 1 has no owner"
  const char* lacks;                   // why a server is none
};
constexpr Words kOfState{"state", "has", "owner", "it keeps no state of training; start it with --state DIR"};
constexpr Words kOfResults{"results", "have", "server", "it serves no results; start it with --results DIR"};

const Words& words_of(PeerService service) { return service == PeerService::kState ? kOfState : kOfResults; }

/// A replica, or the server that was started without its option.
bool lacks_service(const PartitionServers::State& state) { return state.ready && !state.serves; }

std::string why_not(PeerService service, const PartitionServers::State& state) {
  if (lacks_service(state)) return words_of(service).lacks;
  return state.said.empty() ? "it does not answer" : state.said;
}

bool has(const PartitionServers::State& state, std::size_t partition) {
  return std::ranges::find(state.partitions, static_cast<int>(partition)) != state.partitions.end();
}

}  // namespace

PartitionServers::PartitionServers(std::size_t num_partitions, std::vector<int> own,
                                   const PeerOptions& options, PeerService service)
    : own_(std::move(own)),
      options_(options),
      service_(service),
      states_(options.peers.size()),
      partitions_(num_partitions) {
  for (Partition& partition : partitions_) partition.since = Clock::now();
}

void PartitionServers::note(std::size_t server, State state) {
  states_[server] = std::move(state);
  std::vector<int> servers(partitions_.size());
  for (const State& one : states_)
    if (one.ready && one.serves)
      for (const int p : one.partitions) ++servers[static_cast<std::size_t>(p)];
  for (std::size_t p = 0; p < partitions_.size(); ++p) {
    Partition& partition = partitions_[p];
    if (partition.servers > 0 && servers[p] == 0) partition.since = Clock::now();
    partition.servers = servers[p];
    if (servers[p] == 0) continue;
    partition.was_there = true;
    partition.told = false;
  }
}

bool PartitionServers::is_own(int partition) const {
  return std::ranges::find(own_, partition) != own_.end();
}

bool PartitionServers::is_missing(std::size_t partition) const {
  return partitions_[partition].servers == 0 && !is_own(static_cast<int>(partition));
}

bool PartitionServers::is_given_up(std::size_t partition, Clock::time_point now) const {
  return is_missing(partition) && partitions_[partition].was_there &&
         now - partitions_[partition].since > options_.deadline;
}

std::vector<int> PartitionServers::by_partition() const {
  std::vector<int> servers(partitions_.size(), -1);
  for (std::size_t i = 0; i < states_.size(); ++i)
    if (states_[i].serves)
      for (const int partition : states_[i].partitions)
        servers[static_cast<std::size_t>(partition)] = static_cast<int>(i);
  return servers;
}

std::vector<MissingPartition> PartitionServers::missing(Clock::time_point now) const {
  std::vector<MissingPartition> all;
  for (std::size_t p = 0; p < partitions_.size(); ++p)
    if (is_missing(p))
      all.push_back(
          {.partition = static_cast<int>(p),
           .since = std::chrono::duration_cast<std::chrono::milliseconds>(now - partitions_[p].since),
           .why = unmarked(why_silent(static_cast<int>(p)))});
  return all;
}

std::vector<std::string> PartitionServers::new_losses(Clock::time_point now) {
  std::vector<std::string> lines;
  for (std::size_t p = 0; p < partitions_.size(); ++p) {
    Partition& partition = partitions_[p];
    if (!is_missing(p) || partition.told || now - partition.since < kTellAfter) continue;
    partition.told = true;
    lines.push_back(fmt::format(
        "waiting for partition {}, which has had no server for {} s ({}); {} it is an error after {} s ({})",
        p, kTellAfter / 1s, why_silent(static_cast<int>(p)),
        service_ == PeerService::kResults ? "what needs rows of" : "a batch that needs",
        options_.deadline / 1s, marked("peer_deadline")));
  }
  return lines;
}

std::string PartitionServers::why_silent(int partition,
                                         const std::function<bool(std::size_t server)>& left_out) const {
  std::string told;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (!states_[i].partitions.empty() && !has(states_[i], static_cast<std::size_t>(partition))) continue;
    if (!left_out || !left_out(i)) append(told, i);
  }
  return told;
}

void PartitionServers::append(std::string& told, std::size_t server) const {
  told += fmt::format("{}{}: {}", told.empty() ? "" : "; ", options_.peers[server],
                      why_not(service_, states_[server]));
}

std::optional<std::size_t> PartitionServers::first_missing() const {
  for (std::size_t p = 0; p < partitions_.size(); ++p)
    if (is_missing(p)) return p;
  return {};
}

// Those that do not answer are waited for, since one of them may be a partition's second server; who said
// that it is the wrong one is not.
bool PartitionServers::settled() const {
  if (!std::ranges::all_of(states_, &State::tried)) return false;
  return !first_missing() || std::ranges::none_of(states_, [](const State& state) {
    return !state.said.empty() && !state.refused;
  });
}

void PartitionServers::require_all() const {
  if (const std::optional<std::size_t> partition = first_missing()) throw_missing(*partition);
  for (std::size_t p = 0; p < partitions_.size(); ++p) {
    if (partitions_[p].servers <= options_.replicas) continue;
    const Words& words = words_of(service_);
    require_valid(
        service_ == PeerService::kPartitions,
        fmt::format("the {} of partition {} {} {} {}s of those named ({}): {}; start one of them alone with "
                    "--{}",
                    words.option, p, words.have, partitions_[p].servers, words.holder, marked("peers"),
                    fmt::join(owners_of(p), " and "), words.option));
    throw Error(ErrorCode::kInvalid,
                fmt::format("partition {} is served by {} machines of those named ({}); leave some out, or "
                            "say how many may ({})",
                            p, partitions_[p].servers, marked("peers"), marked("replicas")));
  }
}

std::vector<std::string> PartitionServers::owners_of(std::size_t partition) const {
  std::vector<std::string> owners;
  for (std::size_t i = 0; i < states_.size(); ++i)
    if (states_[i].ready && states_[i].serves && has(states_[i], partition))
      owners.push_back(options_.peers[i]);
  return owners;
}

void PartitionServers::throw_missing(std::size_t partition) const {
  std::string silent, without;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const State& state = states_[i];
    if (state.refused) throw Error(state.code, state.said);
    if (!state.said.empty() || !state.tried) append(silent, i);
    if (lacks_service(state) && has(state, partition)) append(without, i);
  }
  if (!without.empty()) {
    const Words& words = words_of(service_);
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the {} of partition {} {} no {} ({}{}{})", words.option, partition, words.have,
                            words.holder, without, silent.empty() ? "" : "; ", silent));
  }
  if (silent.empty())
    throw Error(
        ErrorCode::kNotFound,
        fmt::format("partition {} is neither on this machine nor served by one of those named ({}); name "
                    "the machine that has it, or push it to one",
                    partition, marked("peers")));
  throw Error(ErrorCode::kTimeout,
              fmt::format("nobody serves partition {} within {} ms ({}); start hopfeed-server there, or name "
                          "others",
                          partition, options_.connect_timeout.count(), silent));
}

}  // namespace hopfeed
