// See peer_link.h.
#include "peers/peer_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "core/batch/batch_spec.h"
#include "wire/checked_bytes.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
using wire::FrameType;
namespace asio = wire::asio;

constexpr std::chrono::milliseconds kFirstPause = 50ms, kLongestPause = 1'000ms;

/// How long to wait for a frame, and for the first answer: a server that hangs in the middle of one leaves
/// time to ask another.
std::chrono::milliseconds patience(const PeerCaller& caller) {
  return std::clamp<std::chrono::milliseconds>(caller.deadline / 4, 500ms, 30'000ms);
}
/// A process that was stopped for longer has not looked, which is no sign of the server's death.
constexpr std::chrono::milliseconds kAsleep = 2'000ms;

}  // namespace

PeerLink::PeerLink(asio::io_context& context, wire::Address address, const PeerCaller& caller, Events events)
    : timer_(context), address_(std::move(address)), caller_(caller), events_(std::move(events)) {}

asio::awaitable<void> PeerLink::run() {
  std::chrono::milliseconds wait = kFirstPause;
  while (!ending_) {
    try {
      co_await connect();
      co_await ask_partitions();
      wait = kFirstPause;
      ready_ = tried_ = true;
      refused_ = false;
      last_words_.clear();
      last_sign_ = last_tick_ = Clock::now();
      seen_ = 0;
      events_.ready(*this);
      co_await read();
    } catch (const Error& error) {
      // What the server refused stays what it says, until somebody starts the right one.
      refused_ = !ready_ && error.code() != ErrorCode::kPeerDied && error.code() != ErrorCode::kTimeout &&
                 error.code() != ErrorCode::kIo;
      last_words_ = error.message();
      last_code_ = error.code();
    } catch (const std::exception& error) {
      last_words_ = error.what();
      last_code_ = ErrorCode::kIo;
    }
    ready_ = false;
    tried_ = true;
    if (connection_) connection_->close();
    connection_.reset();
    events_.lost(*this);
    if (!ending_) co_await pause(wait);
    wait = std::min(2 * wait, kLongestPause);
  }
}

void PeerLink::end() {
  ending_ = true;
  timer_.cancel();
  if (connection_) connection_->close();
}

asio::awaitable<void> PeerLink::pause(std::chrono::milliseconds time) {
  boost::system::error_code cancelled;
  timer_.expires_after(time);
  co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
}

asio::awaitable<void> PeerLink::connect() {
  wire::ConnectionOptions options;
  options.side = wire::Side::kClient;
  options.peer = "server " + address_.to_text();
  options.login_deadline = caller_.connect_timeout;
  options.frame_deadline = patience(caller_);
  connection_ =
      co_await wire::Connection::connect(address_, caller_.tls, caller_.connect_timeout, std::move(options));
  if (ending_) connection_->close();  // end() has not seen this one
  const wire::Offer offer = co_await wire::login_as_client(*connection_, caller_.token, caller_.name);
  if (offer.rules != BatchSpec::kRules)
    throw Error(ErrorCode::kVersion,
                fmt::format("{} draws by rules {}, and this hopfeed by rules {}; use one version everywhere",
                            connection_->peer(), offer.rules, BatchSpec::kRules));
}

asio::awaitable<void> PeerLink::ask_partitions() {
  const wire::Bytes question = wire::to_bytes(std::string_view(caller_.fingerprint));
  connection_->send(FrameType::kGetPartitions, 1, question);
  const Clock::time_point end = Clock::now() + patience(caller_);
  for (;;) {
    if (Clock::now() > end)
      throw Error(ErrorCode::kTimeout, fmt::format("{} does not say its partitions", connection_->peer()));
    const wire::FrameHeader header = co_await connection_->read_header(patience(caller_));
    const wire::Bytes payload = co_await connection_->read_payload(header);
    if (header.type == FrameType::kPing) connection_->send(FrameType::kPong, header.request, payload);
    if (header.type == FrameType::kPing || header.type == FrameType::kPong ||
        header.type == FrameType::kDraining)
      continue;
    if (header.type == FrameType::kRefused) {
      const auto refusal = wire::from_bytes<wire::Refusal>(payload);
      throw Error(refusal.code, fmt::format("{}: {}", connection_->peer(), refusal.text));
    }
    if (header.type != FrameType::kPartitions)
      throw Error(ErrorCode::kCorrupt, fmt::format("{} has sent {} in place of its partitions",
                                                   connection_->peer(), wire::name_of(header.type)));
    const auto told = wire::from_bytes<wire::Partitions>(payload);
    if (told.count != caller_.num_partitions || told.manifest != caller_.manifest)
      throw Error(
          ErrorCode::kInvalid,
          fmt::format("{} has another cut of the dataset ({} partitions, manifest {:016x}; here {} and "
                      "{:016x}); push the partitions of one cut to all machines",
                      connection_->peer(), told.count, told.manifest, caller_.num_partitions,
                      caller_.manifest));
    partitions_.assign(told.here.begin(), told.here.end());
    co_return;
  }
}

asio::awaitable<void> PeerLink::read() {
  constexpr std::chrono::milliseconds for_ever{0};  // tick() looks for signs of life
  while (!ending_) {
    const wire::FrameHeader header = co_await connection_->read_header(for_ever);
    if (header.type == FrameType::kAnswer) {
      co_await read_answer(header);
      continue;
    }
    const wire::Bytes payload = co_await connection_->read_payload(header);
    switch (header.type) {
      case FrameType::kRefused: {
        const auto refusal = wire::from_bytes<wire::Refusal>(payload);
        const Error error(refusal.code, fmt::format("{}: {}", connection_->peer(), refusal.text));
        if (header.request == 0) throw error;
        if (outstanding_.erase(header.request) > 0) events_.refused(*this, header.request, error);
        break;
      }
      case FrameType::kPing:
        connection_->send(FrameType::kPong, header.request, payload);
        break;
      case FrameType::kPong:
      case FrameType::kDraining:  // it answers until it ends
        break;
      default:
        throw Error(
            ErrorCode::kCorrupt,
            fmt::format("{} has sent {}, which was not asked for; use one version of hopfeed everywhere",
                        connection_->peer(), wire::name_of(header.type)));
    }
  }
}

/// Straight into where it stays.
asio::awaitable<void> PeerLink::read_answer(wire::FrameHeader header) {
  PeerBytes answer(header.bytes);
  co_await connection_->read(answer);
  wire::take_checksum(answer, header.request, connection_->peer().c_str());
  if (outstanding_.erase(header.request) > 0)
    events_.answer(*this, header.request, std::make_shared<const PeerBytes>(std::move(answer)));
}

void PeerLink::send(PartitionPeers::Ticket ticket, std::shared_ptr<const PeerBytes> question) {
  outstanding_.insert(ticket);
  const std::span<const std::byte> bytes(*question);
  connection_->send(FrameType::kAsk, ticket, bytes, std::move(question));
}

void PeerLink::tick(Clock::time_point now) {
  if (!ready_ || !connection_ || connection_->closed()) return;
  if (connection_->bytes_in() != seen_ || now - last_tick_ > kAsleep) last_sign_ = now;
  seen_ = connection_->bytes_in();
  last_tick_ = now;
  if (now - last_sign_ > wire::kDeadAfter) return connection_->close();
  if (now - last_sign_ > wire::kPingAfter && now - last_ping_ > wire::kPingAfter) {
    last_ping_ = now;
    connection_->send(FrameType::kPing, 0);
  }
}

}  // namespace hopfeed
