// See address.h.
#include "wire/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/plain_text.h"

namespace hopfeed::wire {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";
constexpr std::size_t kMaxHostBytes = 253;  // of a name in the DNS

[[noreturn]] void refuse_address(std::string_view text, const std::string& why) {
  throw Error(ErrorCode::kInvalid,
              fmt::format("'{}' is no address: {}; write HOST:PORT, [IPv6]:PORT or unix:PATH",
                          as_line(text, 256), why));
}

std::uint16_t parse_port(std::string_view text, std::string_view port) {
  std::uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (port.empty() || error != std::errc() || end != port.data() + port.size())
    refuse_address(text, fmt::format("the port '{}' is no number from 0 to 65535", as_line(port, 32)));
  return number;
}

bool is_ipv6(const std::string& host) {
  in6_addr parsed;
  // "%eth0" behind a link-local number is a zone.
  return inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), &parsed) == 1;
}

bool is_name_or_ipv4(std::string_view host) {
  return !host.empty() && std::all_of(host.begin(), host.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  });
}

}  // namespace

bool Address::is_local() const {
  if (is_unix() || host == "localhost" || host == "::1") return true;
  in_addr number;
  return inet_pton(AF_INET, host.c_str(), &number) == 1 && (ntohl(number.s_addr) >> 24) == 127;
}

std::string Address::to_text() const {
  if (is_unix()) return fmt::format("{}{}", kUnixPrefix, path);
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

Address parse_address(std::string_view text) {
  if (!is_text(text, Lines::kOne))
    refuse_address(text, "it is not UTF-8, or has control characters or direction marks");
  Address address{.host = {}, .port = 0, .path = {}};
  if (text.starts_with(kUnixPrefix)) {
    address.path = text.substr(kUnixPrefix.size());
    if (address.path.empty()) refuse_address(text, "the path is missing");
    if (address.path.size() > kMaxSocketPath)
      refuse_address(text,
                     fmt::format("the path has {} bytes, and a socket file's at most {}; use a shorter one",
                                 address.path.size(), kMaxSocketPath));
    return address;
  }
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) refuse_address(text, "a ']' is missing");
    address.host = text.substr(1, end - 1);
    if (!is_ipv6(address.host)) refuse_address(text, "what is in brackets is no IPv6 number");
    if (text.substr(end + 1, 1) != ":") refuse_address(text, "the port is missing");
    address.port = parse_port(text, text.substr(end + 2));
    return address;
  }
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) refuse_address(text, "the port is missing");
  if (text.find(':', colon + 1) != std::string_view::npos)
    refuse_address(text, "it has several colons (an IPv6 number is written in brackets)");
  address.host = text.substr(0, colon);
  if (address.host.empty()) refuse_address(text, "the host is missing");
  if (address.host.size() > kMaxHostBytes || !is_name_or_ipv4(address.host))
    refuse_address(text, "the host is no name");
  address.port = parse_port(text, text.substr(colon + 1));
  return address;
}

std::vector<Address> parse_addresses(std::string_view text) {
  std::vector<Address> addresses;
  std::set<std::string> seen;
  while (true) {
    const std::size_t comma = text.find(',');
    const Address address = parse_address(text.substr(0, comma));
    if (!seen.insert(address.to_text()).second)
      throw Error(ErrorCode::kInvalid, fmt::format("the address {} is given twice", address.to_text()));
    if (addresses.size() == kMaxServers)
      throw Error(ErrorCode::kInvalid, fmt::format("more than {} addresses are given", kMaxServers));
    addresses.push_back(address);
    if (comma == std::string_view::npos) return addresses;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace hopfeed::wire
