// See session.h. Its answers to a machine that has other partitions.
#include <fmt/format.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <utility>

#include "core/base/limits.h"
#include "server_client_mode/server/session.h"
#include "wire/checked_bytes.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
using wire::FrameType;

constexpr std::int64_t kMaxPeerAsks = 64;  // under way at a time

}  // namespace

/// Answers come in any order; the request tells them apart.
void Session::answer_peer(FrameType type, std::uint64_t question, wire::Bytes payload) {
  const bool of_results = type == FrameType::kResults;
  if (asked_of_ == nullptr)
    throw Error(ErrorCode::kInvalid, fmt::format("{} frame before GET_PARTITIONS has said of which dataset",
                                                 of_results ? "a RESULTS" : "an ASK"));
  if (of_results && server_.results == nullptr)
    return connection_->send_refusal(
        FrameType::kRefused, question,
        Error(ErrorCode::kUnsupported, "this server serves no results; start it with --results DIR"));
  wire::take_checksum(payload, question,
                      connection_->peer().c_str());  // of damaged bytes it hears, and asks anew
  const std::uint64_t bytes = payload.size();
  const bool owed = !server_.draining;
  ++answering_;
  owed_answers_ += owed ? 1 : 0;
  asked_bytes_ += bytes;
  const FrameType answer_type = of_results ? FrameType::kResultsAnswer : FrameType::kAnswer;
  PeerAnswers::Done done = [self = shared_from_this(), answer_type, question, bytes, owed](
                               PeerAnswer answer, const std::optional<Error>& error) {
    --self->answering_;
    self->asked_bytes_ -= bytes;
    if (self->answered_) self->answered_->cancel();
    if (owed) --self->owed_answers_;
    if (self->connection_->closed()) return;
    if (error) {
      self->connection_->send_refusal(FrameType::kRefused, question, self->server_.datasets.told(*error));
    } else {
      const std::span<const std::byte> all(*answer);
      self->connection_->send(answer_type, question, all, std::move(answer));
    }
    if (owed) self->note_owed();
  };
  if (of_results)
    server_.results->answer(*asked_of_, question, std::move(payload), std::move(done));
  else
    server_.peers.answer(*asked_of_, question, std::move(payload), std::move(done));
}

/// Small questions by their number, large ones by their bytes.
bool Session::asks_too_much() const {
  return answering_ >= kMaxPeerAsks || asked_bytes_ + state_bytes_ >= kMaxPeerQuestion;
}

/// Who asks faster than it is answered waits, and is not taken for dead meanwhile.
wire::asio::awaitable<void> Session::wait_for_answers() {
  if (!asks_too_much()) co_return;
  heartbeat_.set_deaf(true);
  if (!answered_)
    answered_ = std::make_unique<boost::asio::steady_timer>(co_await wire::asio::this_coro::executor);
  while (asks_too_much()) {
    boost::system::error_code cancelled;
    answered_->expires_after(1s);
    co_await answered_->async_wait(wire::asio::redirect_error(wire::asio::use_awaitable, cancelled));
  }
  heartbeat_.set_deaf(false);
}

}  // namespace hopfeed
