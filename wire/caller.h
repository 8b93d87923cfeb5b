// Who calls servers: connects, logs in, hears what they may say at any time, and waits before it tries again.
// Clients call so, and machines that ask each other.
#pragma once
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "wire/connection.h"

namespace hopfeed::wire {

struct Caller {
  std::string token, name;
  std::shared_ptr<TlsContext> tls = nullptr;    // null: plain
  std::chrono::milliseconds connect_timeout{};  // to connect, and as long again to log in
  std::chrono::milliseconds frame_deadline{};   // of ConnectionOptions
  std::string_view token_field = "token_file";  // the option that gives the token, in messages
  /// For who is answered by another version: what is done by its rules, and why they have to be ours.
  std::string_view does = "makes batches", since = ": their bytes differ";
};

/// Host and process, for people; `host` where this machine has no name.
std::string name_of_this_process(std::string_view host, std::string_view role = "");

/// Connects over TCP, TLS or a socket file; to be followed by log_in(). Throws what Connection throws.
asio::awaitable<std::unique_ptr<Connection>> connect(const Caller& caller, const Address& address);
/// Throws what login throws, and kVersion where the server goes by other rules.
asio::awaitable<Offer> log_in(Connection& connection, const Caller& caller);

/// A server that is logged in to.
struct Contact {
  std::unique_ptr<Connection> connection;
  Offer offer;
};
/// Does both.
asio::awaitable<Contact> call_server(const Caller& caller, const Address& address);

/// Takes what a server may say at any time: PING is answered, `draining` set, and what it refuses thrown.
/// False: the frame says something else.
bool take_aside(Connection& connection, const FrameHeader& header, const Bytes& payload, bool& draining);
/// What a kRefused frame says, naming who has sent it.
Error refusal_in(const Connection& connection, const Bytes& payload);
/// For a frame that nobody waits for. `where` one version has to be used.
Error not_asked_for(const Connection& connection, FrameType type, std::string_view where = "on both sides");

/// How long to wait before each attempt: twice as long as before the last one, up to the longest.
class Backoff {
 public:
  using Wait = std::chrono::milliseconds;
  Backoff(Wait first, Wait longest) : first_(first), longest_(longest), next_(first) {}
  Wait next() { return std::exchange(next_, std::min(2 * next_, longest_)); }
  /// An attempt has succeeded.
  void reset() { next_ = first_; }

 private:
  Wait first_, longest_, next_;
};

}  // namespace hopfeed::wire
