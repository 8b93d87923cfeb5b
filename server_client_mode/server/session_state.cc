// See session.h. Its questions about state.
#include <utility>

#include "server_client_mode/server/session.h"
#include "wire/checked_bytes.h"

namespace hopfeed {

using wire::FrameType;

/// What waits for other ranks counts no more, once its owner has it: the steps that it waits for have to be
/// read.
wire::asio::awaitable<void> Session::take_state(const wire::FrameHeader& header) {
  if (asked_of_ == nullptr)
    throw Error(ErrorCode::kInvalid, "a STATE frame before GET_PARTITIONS has said of which dataset");
  if (server_.state == nullptr) {
    co_await connection_->skip(header.bytes);
    connection_->send_refusal(
        FrameType::kRefused, header.request,
        Error(ErrorCode::kUnsupported, "this server keeps no state of training; start it with --state DIR"));
    co_return;
  }
  PeerBytes question(header.bytes);
  co_await connection_->read(question);
  wire::take_checksum(question, header.request, connection_->peer().c_str());
  asks_state_ = true;
  const std::uint64_t bytes = question.size();
  state_bytes_ += bytes;
  const auto self = shared_from_this();
  StateAnswers::Events events;
  events.taken = [self, bytes] {
    self->state_bytes_ -= bytes;
    if (self->answered_) self->answered_->cancel();
  };
  events.done = [self, number = header.request](PeerAnswer answer, const std::optional<Error>& error) {
    if (self->connection_->closed()) return;
    if (error) {
      self->connection_->send_refusal(FrameType::kRefused, number, self->server_.datasets.told(*error));
    } else {
      const std::span<const std::byte> all(*answer);
      self->connection_->send(FrameType::kStateAnswer, number, all, std::move(answer));
    }
  };
  server_.state->answer(*asked_of_, id_, header.request, std::move(question), std::move(events));
}

}  // namespace hopfeed
