// Where a server listens: "HOST:PORT", "[IPv6]:PORT" or "unix:PATH".
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hopfeed::wire {

struct Address {
  std::string host;        // a name or a number; empty: a socket file
  std::uint16_t port = 0;  // 0: any that is free, for listening only
  std::string path;        // of the socket file
  bool is_unix() const { return !path.empty(); }
  /// Numbers of this machine alone, and socket files.
  bool is_local() const;
  std::string to_text() const;
  friend bool operator==(const Address&, const Address&) = default;
};

/// Throws kInvalid naming the text as it was given.
Address parse_address(std::string_view text);
/// "A,B,C"; each once.
std::vector<Address> parse_addresses(std::string_view text);

}  // namespace hopfeed::wire
