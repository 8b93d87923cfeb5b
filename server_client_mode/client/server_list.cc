// See server_list.h.
#include "server_client_mode/client/server_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace hopfeed {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kAfterRefusal = 5000ms, kAfterFault = 5000ms, kAfterDraining = 250ms;

}  // namespace

bool is_refusal(const Error& error) {
  switch (error.code()) {
    case ErrorCode::kPeerDied:
    case ErrorCode::kTimeout:
    case ErrorCode::kIo:
    case ErrorCode::kCorrupt:
      return false;
    default:
      return true;
  }
}

std::vector<std::size_t> own_servers(std::size_t count, std::int64_t rank, std::int64_t world, bool all) {
  const auto r = static_cast<std::size_t>(rank), w = static_cast<std::size_t>(world);
  std::size_t begin = r * count / w, end = (r + 1) * count / w;
  if (all) begin = 0, end = count;
  if (begin == end) end = begin + 1;  // fewer servers than ranks
  std::vector<std::size_t> own(end - begin);
  std::iota(own.begin(), own.end(), begin);
  return own;
}

ServerList::ServerList(std::vector<wire::Address> addresses) : jitter_(std::random_device{}()) {
  for (wire::Address& address : addresses) servers_.push_back({.address = std::move(address)});
}

ServerList::Clock::time_point ServerList::next_try() const {
  return std::ranges::min_element(servers_, {}, &Server::not_before)->not_before;
}

void ServerList::note_failure(std::size_t i, const Error& why, Clock::time_point now) {
  Server& server = servers_[i];
  server.words = why.message();
  const std::chrono::milliseconds backoff = server.backoff.next();
  std::uniform_real_distribution<double> share(0.5, 1.0);
  server.not_before =
      now + (is_refusal(why) ? Clock::duration(kAfterRefusal)
                             : std::chrono::duration_cast<Clock::duration>(share(jitter_) * backoff));
}

void ServerList::note_fault(std::size_t i, const Error& why, Clock::time_point now) {
  servers_[i].words = why.message();
  servers_[i].not_before = now + kAfterFault;
}

void ServerList::note_draining(std::size_t i, Clock::time_point now) {
  servers_[i].words = "is draining";
  servers_[i].not_before = now + kAfterDraining;
}

std::string ServerList::last_words() const {
  std::string text;
  for (const Server& server : servers_) {
    const std::string address = server.address.to_text();
    if (!text.empty()) text += "; ";
    // Most errors name their server themselves.
    text += server.words.find(address) != std::string::npos ? server.words : address + ": " + server.words;
  }
  return text;
}

}  // namespace hopfeed
