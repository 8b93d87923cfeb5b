// See caller.h.
#include "wire/caller.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>

#include "core/batch/batch_spec.h"
#include "wire/heartbeat.h"

namespace hopfeed::wire {

std::string name_of_this_process(std::string_view host, std::string_view role) {
  std::array<char, 65> known{};
  if (gethostname(known.data(), known.size() - 1) == 0 && known[0] != '\0') host = known.data();
  return fmt::format("{}/{}{}", host, getpid(), role).substr(0, 48);
}

asio::awaitable<std::unique_ptr<Connection>> connect(const Caller& caller, const Address& address) {
  ConnectionOptions options;
  options.login_deadline = caller.connect_timeout;
  options.frame_deadline = caller.frame_deadline;
  return Connection::connect(address, caller.tls, caller.connect_timeout, std::move(options));
}

asio::awaitable<Offer> log_in(Connection& connection, const Caller& caller) {
  Offer offer = co_await login_as_client(connection, caller.token, caller.name, caller.token_field);
  if (offer.rules != BatchSpec::kRules)
    throw Error(ErrorCode::kVersion,
                fmt::format("{} {} by rules {}, and this hopfeed by rules {}{}; use one version everywhere",
                            connection.peer(), caller.does, offer.rules, BatchSpec::kRules, caller.since));
  co_return offer;
}

asio::awaitable<Contact> call_server(const Caller& caller, const Address& address) {
  Contact contact;
  contact.connection = co_await connect(caller, address);
  contact.offer = co_await log_in(*contact.connection, caller);
  co_return contact;
}

bool take_aside(Connection& connection, const FrameHeader& header, const Bytes& payload, bool& draining) {
  if (header.type == FrameType::kRefused) throw refusal_in(connection, payload);
  if (header.type == FrameType::kDraining) draining = true;
  return header.type == FrameType::kDraining || take_heartbeat(connection, header, payload);
}

Error refusal_in(const Connection& connection, const Bytes& payload) {
  const auto refusal = from_bytes<Refusal>(payload);
  return {refusal.code, fmt::format("{}: {}", connection.peer(), refusal.text)};
}

Error not_asked_for(const Connection& connection, FrameType type, std::string_view where) {
  return {ErrorCode::kCorrupt,
          fmt::format("{} has sent {}, which was not asked for; use one version of hopfeed {}",
                      connection.peer(), name_of(type), where)};
}

}  // namespace hopfeed::wire
