// See peer_link.h.
#include "peers/peer_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "wire/checked_bytes.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
using wire::FrameType;
namespace asio = wire::asio;

constexpr std::chrono::milliseconds kFirstPause = 50ms, kLongestPause = 1'000ms;

}  // namespace

PeerLink::PeerLink(asio::io_context& context, wire::Address address, const PeerCaller& caller, Events events)
    : timer_(context), address_(std::move(address)), caller_(caller), events_(std::move(events)) {}

asio::awaitable<void> PeerLink::run() {
  wire::Backoff backoff(kFirstPause, kLongestPause);
  while (!ending_) {
    bool slept = false;
    try {
      co_await connect();
      backoff.reset();
      events_.ready(*this);
      for (Unsent& unsent : std::exchange(unsent_, {})) send_now(unsent.ticket, std::move(unsent.question));
      co_await read();
    } catch (const Error& error) {
      slept = std::exchange(closed_to_sleep_, false);
      // What the server refused stays what it says, until somebody starts the right one.
      if (!slept) {
        refused_ = !open_ && error.code() != ErrorCode::kPeerDied && error.code() != ErrorCode::kTimeout &&
                   error.code() != ErrorCode::kIo;
        last_words_ = error.message();
        last_code_ = error.code();
      }
    } catch (const std::exception& error) {
      last_words_ = error.what();
      last_code_ = ErrorCode::kIo;
    }
    if (connection_) connection_->close();
    connection_.reset();
    if (slept && !ending_) {
      co_await until_woken();
      continue;
    }
    ready_ = open_ = asleep_ = closed_to_sleep_ = false;
    tried_ = true;
    unsent_.clear();
    events_.lost(*this);
    if (ending_) co_return;
    boost::system::error_code cancelled;
    timer_.expires_after(backoff.next());
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  }
}

asio::awaitable<void> PeerLink::connect() {
  connection_ = co_await wire::connect(caller_.caller, address_);
  if (ending_) connection_->close();  // end() has not seen this one
  co_await wire::log_in(*connection_, caller_.caller);
  if (connection_->version() < caller_.least_version)
    throw Error(
        ErrorCode::kVersion,
        fmt::format("{} speaks protocol {}, and {} wants {}; use one version of hopfeed everywhere",
                    connection_->peer(), connection_->version(), caller_.about, caller_.least_version));
  co_await ask_partitions();
  ready_ = open_ = tried_ = true;
  refused_ = false;
  last_words_.clear();
  idle_since_ = Clock::now();
  heartbeat_ = {wire::Side::kClient, idle_since_};
}

void PeerLink::sleep() {
  open_ = false;
  asleep_ = closed_to_sleep_ = true;
  connection_->close();  // read() throws, and run() waits
}

void PeerLink::wake() {
  asleep_ = false;
  timer_.cancel();
}

asio::awaitable<void> PeerLink::until_woken() {
  while (asleep_ && !ending_) {
    boost::system::error_code cancelled;
    timer_.expires_at(Clock::time_point::max());
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  }
}

void PeerLink::end() {
  ending_ = true;
  timer_.cancel();
  if (connection_) connection_->close();
}

asio::awaitable<void> PeerLink::ask_partitions() {
  const wire::Bytes question = wire::to_bytes(std::string_view(caller_.fingerprint));
  connection_->send(FrameType::kGetPartitions, 1, question);
  const std::chrono::milliseconds patience = caller_.caller.frame_deadline;
  const Clock::time_point end = Clock::now() + patience;
  bool draining = false;  // it answers until it ends
  for (;;) {
    if (Clock::now() > end)
      throw Error(ErrorCode::kTimeout, fmt::format("{} does not say its partitions", connection_->peer()));
    const wire::FrameHeader header = co_await connection_->read_header(patience);
    const wire::Bytes payload = co_await connection_->read_payload(header);
    if (wire::take_aside(*connection_, header, payload, draining)) continue;
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
    serves_ = caller_.ask == FrameType::kState     ? told.keeps_state
              : caller_.ask == FrameType::kResults ? told.keeps_results
                                                   : true;
    co_return;
  }
}

asio::awaitable<void> PeerLink::read() {
  bool draining = false;  // it answers until it ends
  while (!ending_) {
    const wire::FrameHeader header = co_await connection_->read_header();  // tick() looks for signs of life
    if (header.type == caller_.answer) {
      co_await read_answer(header);
      continue;
    }
    const wire::Bytes payload = co_await connection_->read_payload(header);
    if (header.type == FrameType::kRefused && header.request != 0) {
      const Error refusal = wire::refusal_in(*connection_, payload);
      if (take(header.request)) {
        times_.note_refusal(Clock::now());
        events_.refused(*this, header.request, refusal);
      }
    } else if (!wire::take_aside(*connection_, header, payload, draining)) {
      throw wire::not_asked_for(*connection_, header.type, "everywhere");
    }
  }
}

/// Straight into where it stays.
asio::awaitable<void> PeerLink::read_answer(wire::FrameHeader header) {
  PeerBytes answer(header.bytes);
  co_await connection_->read(answer);
  wire::take_checksum(answer, header.request, connection_->peer().c_str());
  const std::optional<Clock::time_point> sent = take(header.request);
  if (!sent) co_return;
  const Clock::time_point now = Clock::now();
  times_.note(now - *sent, now);
  events_.answer(*this, header.request, std::make_shared<const PeerBytes>(std::move(answer)));
}

bool PeerLink::has(int partition) const {
  return std::ranges::find(partitions_, partition) != partitions_.end();
}

std::map<PartitionPeers::Ticket, PeerLink::Clock::time_point> PeerLink::take_outstanding() {
  return std::exchange(outstanding_, {});
}

std::optional<PeerLink::Clock::time_point> PeerLink::take(PartitionPeers::Ticket ticket) {
  const auto found = outstanding_.find(ticket);
  if (found == outstanding_.end()) return {};
  const Clock::time_point sent = found->second;
  outstanding_.erase(found);
  idle_since_ = Clock::now();
  return sent;
}

void PeerLink::send(PartitionPeers::Ticket ticket, std::shared_ptr<const PeerBytes> question) {
  outstanding_.emplace(ticket, Clock::now());
  if (open_) return send_now(ticket, std::move(question));
  unsent_.push_back({.ticket = ticket, .question = std::move(question)});
  wake();
}

void PeerLink::send_now(PartitionPeers::Ticket ticket, std::shared_ptr<const PeerBytes> question) {
  const std::span<const std::byte> bytes(*question);
  connection_->send(caller_.ask, ticket, bytes, std::move(question));
}

void PeerLink::tick(Clock::time_point now) {
  if (!open_ || connection_->closed()) return;
  if (!heartbeat_.look(*connection_, now)) connection_->close();
}

}  // namespace hopfeed
