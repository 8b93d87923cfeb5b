// See session.h. Its life and its frames; session_questions.cc has what it asks, session_batches.cc the
// batches.
#include "server_client_mode/server/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/limits.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
using wire::FrameType;

Error too_many_connections(const ServerContext& server) {
  return {ErrorCode::kNoSpace,
          fmt::format("the server has {} clients and {} connections that have opened no job, as many as it "
                      "takes (--max-clients, and {} more); use another one, or come back later",
                      server.clients, server.onlookers, kMaxOnlookers)};
}

}  // namespace

Session::Session(ServerContext& server, std::uint64_t id, std::unique_ptr<wire::Connection> connection,
                 std::string peer, Strangers::Place stranger)
    : server_(server),
      id_(id),
      connection_(std::move(connection)),
      peer_(std::move(peer)),
      stranger_(std::move(stranger)) {}

wire::asio::awaitable<void> Session::run() {
  const std::shared_ptr<Session> self = shared_from_this();
  std::optional<Error> end;
  try {
    co_await log_in();
    for (;;) {
      // Who asks and does not read waits with its questions.
      if (connection_->queued_frames() > kMaxQueuedAnswers) co_await connection_->flush();
      co_await wait_for_answers();
      const wire::FrameHeader header = co_await connection_->read_header();  // tick() sees to its end
      // Who brings batches about goes on until its turn is over; what else comes in, however much it is, gets
      // one turn for each frame.
      if (!co_await handle(header)) co_await connection_->give_way();
    }
  } catch (const Error& error) {
    end = error;
  } catch (const std::exception& error) {
    end.emplace(ErrorCode::kIo, error.what());
  }
  if (!logged_in()) ++server_.totals.failed_logins;
  // A client that breaks the protocol is told so, once; login has told it already.
  if (logged_in() && !connection_->closed() && end->code() != ErrorCode::kPeerDied) {
    try {
      co_await connection_->refuse(*end);
    } catch (const std::exception&) {  // it is over either way
    }
  }
  connection_->close();
  server_.log.add(
      logged_in() ? "disconnected" : "login_failed",
      {{"client", name_}, {"peer", peer_}, {"batches", std::to_string(batches_)}, {"why", end->what()}});
  leave();
}

wire::asio::awaitable<void> Session::turn_away() {
  const Error refusal = too_many_connections(server_);
  const std::shared_ptr<Session> self = shared_from_this();
  server_.log.add("turned_away", {{"peer", peer_}, {"why", refusal.what()}});
  ++server_.totals.refused_connections;
  try {
    co_await connection_->shake_hands();
    co_await connection_->refuse(refusal);
  } catch (const std::exception&) {  // it has left by itself
  }
  connection_->close();
}

wire::asio::awaitable<void> Session::log_in() {
  co_await connection_->shake_hands();
  wire::Offer offer = server_.offer;
  offer.draining = server_.draining;
  name_ = co_await wire::login_as_server(*connection_, server_.options.token, offer);
  if (server_.full()) {  // others were quicker
    const Error refusal = too_many_connections(server_);
    co_await connection_->refuse(refusal);
    throw refusal;
  }
  connection_->set_peer("client " + log_value(name_) + " (" + peer_ + ")");
  become(Role::kOnlooker);
  stranger_.reset();
  heartbeat_ = {wire::Side::kServer, Clock::now()};
  server_.pool.join(id_, peer_.substr(0, peer_.rfind(':')) + ' ' + name_);
  server_.log.add("connected",
                  {{"client", name_}, {"peer", peer_}, {"tls", connection_->encrypted() ? "yes" : "no"}});
  if (server_.draining && !offer.draining) connection_->send(FrameType::kDraining, 0);
}

/// Everything is forgotten but blocks that are being sent: their memory is read until then.
void Session::leave() {
  if (!logged_in()) return;
  --count_of(role_);
  for (auto& [number, request] : requests_) {
    if (request.state == Request::State::kWaits) free_block(request);
  }
  std::erase_if(requests_, [](const auto& entry) { return entry.second.state != Request::State::kSending; });
  server_.pool.leave(id_);
  if (asks_state_) server_.state->disconnected(id_);
  for (const auto& [number, open] : jobs_) server_.jobs.close(open.job);
  jobs_.clear();
}

void Session::start_draining() {
  if (!logged_in() || connection_->closed()) return;
  connection_->send(FrameType::kDraining, 0);
  note_owed();
}

void Session::tick(Clock::time_point now) {
  if (!logged_in() || connection_->closed()) return;
  if (!heartbeat_.look(*connection_, now)) {
    server_.log.add("no_sign_of_life", {{"client", name_}, {"peer", peer_}});
    return connection_->close();
  }
  if (!takes_in_time(now)) return connection_->close();
  if (waits_ == 0) return;
  for (auto& [number, request] : requests_) {
    if (request.state != Request::State::kWaits || now - request.since <= server_.options.send_deadline)
      continue;
    server_.log.add("block_not_taken", {{"client", name_}, {"request", std::to_string(number)}});
    park(request);
  }
}

/// A trickle is progress, and would keep a slot for ever.
bool Session::takes_in_time(Clock::time_point now) const {
  if (in_turn_.empty()) return true;
  const std::size_t bytes = requests_.at(in_turn_.front()).block->bytes.size();
  if (now - turn_began_ <= server_.options.send_deadline + std::chrono::milliseconds(bytes >> 10))
    return true;
  server_.log.add("block_too_slow", {{"client", name_},
                                     {"peer", peer_},
                                     {"request", std::to_string(in_turn_.front())},
                                     {"bytes", std::to_string(bytes)}});
  return false;
}

Session::Status Session::status(Clock::time_point now) const {
  Status status{.id = id_,
                .name = name_,
                .peer = peer_,
                .encrypted = connection_->encrypted(),
                .seconds = std::chrono::duration<double>(now - start_).count(),
                .jobs = std::ssize(jobs_),
                .batches = batches_,
                .waiting_for_grant = waits_,
                .bytes_in = connection_->bytes_in(),
                .bytes_out = connection_->bytes_out(),
                .load = server_.pool.load(id_)};
  status.sending = std::ranges::count_if(
      requests_, [](const auto& entry) { return entry.second.state == Request::State::kSending; });
  return status;
}

// ---- frames

wire::asio::awaitable<bool> Session::handle(const wire::FrameHeader& header) {
  switch (header.type) {
    case FrameType::kSeeds:
      co_await take_seeds(header);
      co_return false;
    case FrameType::kBatch: {
      std::array<std::byte, wire::kBatchAskedBytes> bytes;
      if (header.bytes != bytes.size()) throw Error(ErrorCode::kCorrupt, "a BATCH frame of another length");
      co_await connection_->read(bytes);
      co_return ask(header.request, wire::from_bytes<wire::BatchAsked>(bytes));
    }
    case FrameType::kState:
      co_await take_state(header);
      co_return true;
    default:
      co_return co_await answer(header);
  }
}

wire::asio::awaitable<bool> Session::answer(const wire::FrameHeader& header) {
  const wire::Bytes payload = co_await connection_->read_payload(header);
  std::optional<Error> refusal;
  bool understood = false, brings_about = false;
  switch (header.type) {
    case FrameType::kGrant:
      brings_about = grant(header.request, wire::from_bytes<std::uint64_t>(payload));
      break;
    case FrameType::kCancel:
      cancel(header.request);
      break;
    case FrameType::kPing:
    case FrameType::kPong:
      wire::take_heartbeat(*connection_, header, payload);
      break;
    case FrameType::kGetStatus:
      connection_->send(FrameType::kStatus, header.request, server_.status());
      break;
    case FrameType::kCloseJob:
      close_job(static_cast<std::uint32_t>(wire::from_bytes<std::uint64_t>(payload)));
      break;
    case FrameType::kAsk:
    case FrameType::kResults:
      answer_peer(header.type, header.request, payload);
      brings_about = true;
      break;
    case FrameType::kGetMeta:
    case FrameType::kOpen:
    case FrameType::kGetPartitions:
    case FrameType::kGetClusters:
    case FrameType::kGetRows:
      try {
        co_await answer_question(header, payload, understood);
      } catch (const Error& error) {
        const bool broken = !understood && error.code() == ErrorCode::kCorrupt;
        if (broken || connection_->closed()) throw;
        refusal = error;
      }
      break;
    default:
      throw Error(ErrorCode::kInvalid,
                  fmt::format("a {} frame, which a client does not send now", wire::name_of(header.type)));
  }
  if (refusal && !connection_->closed())
    connection_->send_refusal(FrameType::kRefused, header.request, server_.datasets.told(*refusal));
  co_return brings_about;
}

}  // namespace hopfeed
