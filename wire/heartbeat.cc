// See heartbeat.h.
#include "wire/heartbeat.h"

#include <utility>

namespace hopfeed::wire {

bool Heartbeat::look(Connection& connection, Clock::time_point now) {
  const bool server = side_ == Side::kServer;
  const std::uint64_t in = connection.bytes_in(), all = in + connection.bytes_out();
  const bool heard = std::exchange(in_, in) != in, moved = std::exchange(all_, all) != all;
  const bool asleep = !server && now - std::exchange(looked_, now) > kAsleep;
  if (heard || asleep) heard_ = alive_ = now;
  if (deaf_ || (server && moved && connection.queued() > 0)) alive_ = now;  // it reads our PING behind that
  if (now - alive_ > kDeadAfter) return false;
  const bool may_ping = server ? connection.queued() == 0 : now - pinged_ > kPingAfter;
  if (now - heard_ <= kPingAfter || !may_ping) return true;
  pinged_ = now;
  connection.send(FrameType::kPing, 0);
  return true;
}

bool take_heartbeat(Connection& connection, const FrameHeader& header, const Bytes& payload) {
  if (header.type == FrameType::kPing) connection.send(FrameType::kPong, header.request, payload);
  return header.type == FrameType::kPing || header.type == FrameType::kPong;
}

}  // namespace hopfeed::wire
