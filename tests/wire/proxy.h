// A Proxy is a TCP proxy of our own for tests of faults: it stands before a server and passes bytes on as it
// is told: late, byte by byte, frames twice or in another order, for a while not at all, or only one way.
// What it does at random follows from its seed and from what passes.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "wire/address.h"

namespace hopfeed::testing {

/// PassingOn says what happens to the bytes of one direction.
struct PassingOn {
  std::size_t most_at_once = 0;              // bytes of a write; 0: as they come, 1: single bytes
  std::chrono::milliseconds delay{0};        // each byte comes that much later,
  std::chrono::milliseconds jitter{0};       // and up to this much on top, in order all the same
  double replay = 0;                         // chance of a frame to come twice (frames of login never do)
  double reorder = 0;                        // chance of a frame to come after the next one
  std::optional<std::uint64_t> cut_after{};  // the connection is cut behind so many bytes
  std::optional<std::uint64_t> flip_at{};    // the lowest bit of this byte of the connection is turned over
  std::uint64_t later = 0;  // cut_after and flip_at grow by it with each connection: a frame that they hit
                            // every time would never come through
  std::optional<std::uint64_t> swallow_after{};  // what comes behind so many bytes is read and never sent
};

struct ProxyOptions {
  std::uint64_t seed = 0;
  PassingOn to_server{}, to_client{};  // of connections to come
};

class Proxy {
 public:
  explicit Proxy(const wire::Address& target, const ProxyOptions& options = {});
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  /// Returns 127.0.0.1 and a port; the same for its whole life, also while the target is away.
  wire::Address address() const;

  // ---- any thread
  /// Sets what happens to the bytes of connections from now on.
  void set(const PassingOn& to_server, const PassingOn& to_client);
  /// Ends all connections that there are, some by a reset and some by closing.
  void cut();
  /// Stalls: nothing passes for so long, either way.
  void stall(std::chrono::milliseconds duration);
  /// Freezes one way: nothing passes to the clients (or the server) any more, on the connections that there
  /// are; both ends stay open.
  void freeze_to_client();
  void freeze_to_server();
  /// Tells the clients (or the server) that nothing more comes, and passes on what they send.
  void half_close_to_client();
  void half_close_to_server();
  /// Has connections accepted and closed at once, or taken again.
  void refuse(bool all);

  std::int64_t connections() const;  // all that there were
  std::int64_t open_connections() const;
  std::uint64_t bytes_to_server() const, bytes_to_client() const;
  std::int64_t replayed() const, reordered() const;  // frames

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hopfeed::testing
