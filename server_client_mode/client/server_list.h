// A ServerList has the servers that a client may go to: which are its own, what each said last, and when it
// may be tried again.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "wire/caller.h"

namespace hopfeed {

/// Returns whether a server has refused, rather than not answered: asking again at once would change nothing.
bool is_refusal(const Error& error);

/// Returns the servers that rank `rank` of `world` connects to, of `count`: a contiguous share, so that
/// connections are few and no server is idle; all of them where `all`. Where there are fewer servers than
/// ranks, ranks share them.
std::vector<std::size_t> own_servers(std::size_t count, std::int64_t rank, std::int64_t world, bool all);

class ServerList {
 public:
  using Clock = std::chrono::steady_clock;

  explicit ServerList(std::vector<wire::Address> addresses);
  std::size_t size() const { return servers_.size(); }
  const wire::Address& address(std::size_t i) const { return servers_[i].address; }

  bool may_try(std::size_t i, Clock::time_point now) const { return servers_[i].not_before <= now; }
  /// Returns when the first server may be tried.
  Clock::time_point next_try() const;
  /// Notes that a server refused, did not answer or was lost. One that refused is left alone for five
  /// seconds; others for 10 ms, doubling to a second, with jitter.
  void note_failure(std::size_t i, const Error& why, Clock::time_point now);
  /// Notes that a server could not make a batch that others may: it is left alone for five seconds.
  void note_fault(std::size_t i, const Error& why, Clock::time_point now);
  /// Notes that a server is about to leave; whoever comes after it may be there soon.
  void note_draining(std::size_t i, Clock::time_point now);
  /// Notes that a server has given a batch.
  void note_success(std::size_t i) { servers_[i].backoff.reset(); }
  /// Returns what each server said last: "10.0.0.1:9470: connection refused; 10.0.0.2:9470: ...".
  std::string last_words() const;

 private:
  struct Server {
    wire::Address address;
    std::string words = "was not asked yet";
    wire::Backoff backoff{std::chrono::milliseconds(10), std::chrono::milliseconds(1000)};
    Clock::time_point not_before{};
  };
  std::vector<Server> servers_;
  std::minstd_rand jitter_;
};

}  // namespace hopfeed
