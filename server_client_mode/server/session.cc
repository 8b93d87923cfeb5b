// See session.h. Its life and its questions; session_batches.cc has the batches.
#include "server_client_mode/server/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <numeric>
#include <utility>
#include <vector>

#include "cache/held_rows.h"
#include "core/base/limits.h"
#include "core/dataset/row_gather.h"
#include "core/sampler/cluster_sampler.h"
#include "server_client_mode/wire/checked_bytes.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
using wire::FrameType;

constexpr std::chrono::milliseconds kForEver{0};  // tick() sees to it
constexpr std::size_t kDiscardBytes = 64 << 10;
constexpr std::int64_t kMaxPeerAsks = 64;                                  // under way at a time
constexpr std::uint64_t kFirstOfSeeds = 64 << 10, kStepOfSeeds = 4 << 20;  // memory for them, as they come

Error too_many_clients(std::int64_t clients) {
  return {
      ErrorCode::kNoSpace,
      fmt::format("the server has {} clients, as many as it takes (--max-clients); use another one, or come "
                  "back later",
                  clients)};
}

}  // namespace

Session::Session(ServerContext& server, std::uint64_t id, std::unique_ptr<wire::Connection> connection,
                 std::string peer)
    : server_(server), id_(id), connection_(std::move(connection)), peer_(std::move(peer)) {}

wire::asio::awaitable<void> Session::run() {
  const std::shared_ptr<Session> self = shared_from_this();
  std::optional<Error> end;
  try {
    co_await log_in();
    for (;;) {
      // Who asks and does not read waits with its questions.
      if (connection_->queued_frames() > kMaxQueuedAnswers) co_await connection_->flush();
      if (asks_too_much()) co_await wait_for_answers();
      const wire::FrameHeader header = co_await connection_->read_header(kForEver);
      co_await handle(header);
    }
  } catch (const Error& error) {
    end = error;
  } catch (const std::exception& error) {
    end.emplace(ErrorCode::kIo, error.what());
  }
  if (!logged_in_) ++server_.totals.failed_logins;
  // A client that breaks the protocol is told so, once; login has told it already.
  if (logged_in_ && !connection_->closed() && end->code() != ErrorCode::kPeerDied) {
    try {
      co_await connection_->refuse(*end);
    } catch (const std::exception&) {  // it is over either way
    }
  }
  connection_->close();
  server_.log.add(
      logged_in_ ? "disconnected" : "login_failed",
      {{"client", name_}, {"peer", peer_}, {"batches", std::to_string(batches_)}, {"why", end->what()}});
  leave();
}

wire::asio::awaitable<void> Session::turn_away() {
  const Error refusal = too_many_clients(server_.clients);
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
  connection_->set_open();
  if (server_.full()) {  // others were quicker
    const Error refusal = too_many_clients(server_.clients);
    co_await connection_->refuse(refusal);
    throw refusal;
  }
  connection_->set_peer("client " + log_value(name_) + " (" + peer_ + ")");
  logged_in_ = true;
  ++server_.clients;
  last_life_ = last_heard_ = Clock::now();
  server_.pool.join(id_, peer_.substr(0, peer_.rfind(':')) + ' ' + name_);
  server_.log.add("connected",
                  {{"client", name_}, {"peer", peer_}, {"tls", connection_->encrypted() ? "yes" : "no"}});
  if (server_.draining && !offer.draining) connection_->send(FrameType::kDraining, 0);
}

/// Everything is forgotten but blocks that are being sent: their memory is read until then.
void Session::leave() {
  if (!logged_in_) return;
  --server_.clients;
  if (has_opened_) --server_.customers;
  for (auto& [number, request] : requests_) {
    if (request.state == Request::State::kWaits) free_block(request);
  }
  std::erase_if(requests_, [](const auto& entry) { return entry.second.state != Request::State::kSending; });
  server_.pool.leave(id_);
  for (const auto& [number, open] : jobs_) server_.jobs.close(open.job);
  jobs_.clear();
}

void Session::start_draining() {
  if (logged_in_ && !connection_->closed()) connection_->send(FrameType::kDraining, 0);
}

void Session::tick(Clock::time_point now) {
  if (!logged_in_ || connection_->closed()) return;
  const std::uint64_t in = connection_->bytes_in(), all = in + connection_->bytes_out();
  if (in != bytes_in_seen_) last_heard_ = now;
  // What its system takes of a long block is a sign of life too: it reads our ping behind that.
  if (in != bytes_in_seen_ || (all != bytes_seen_ && connection_->queued() > 0)) last_life_ = now;
  if (at_work_) last_life_ = now;  // nobody reads what it sends
  bytes_in_seen_ = in;
  bytes_seen_ = all;
  if (now - last_life_ > wire::kDeadAfter) {
    server_.log.add("no_sign_of_life", {{"client", name_}, {"peer", peer_}});
    return connection_->close();
  }
  if (now - last_heard_ > wire::kPingAfter && connection_->queued() == 0)
    connection_->send(FrameType::kPing, 0);
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

wire::asio::awaitable<void> Session::handle(const wire::FrameHeader& header) {
  switch (header.type) {
    case FrameType::kSeeds:
      co_await take_seeds(header);
      co_return;
    case FrameType::kBatch: {
      std::array<std::byte, wire::kBatchAskedBytes> bytes;
      if (header.bytes != bytes.size()) throw Error(ErrorCode::kCorrupt, "a BATCH frame of another length");
      co_await connection_->read(bytes);
      ask(header.request, wire::from_bytes<wire::BatchAsked>(bytes));
      co_return;
    }
    default:
      co_await answer(header);
  }
}

wire::asio::awaitable<void> Session::answer(const wire::FrameHeader& header) {
  const wire::Bytes payload = co_await connection_->read_payload(header);
  std::optional<Error> refusal;
  bool understood = false;
  switch (header.type) {
    case FrameType::kGrant:
      grant(header.request, wire::from_bytes<std::uint64_t>(payload));
      break;
    case FrameType::kCancel:
      cancel(header.request);
      break;
    case FrameType::kPing:
      connection_->send(FrameType::kPong, header.request, payload);
      break;
    case FrameType::kPong:
      break;
    case FrameType::kGetStatus:
      connection_->send(FrameType::kStatus, header.request, server_.status());
      break;
    case FrameType::kCloseJob:
      close_job(static_cast<std::uint32_t>(wire::from_bytes<std::uint64_t>(payload)));
      break;
    case FrameType::kAsk:
      answer_peer(header.request, payload);
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
    connection_->send_refusal(FrameType::kRefused, header.request, *refusal);
}

// ---- questions

wire::asio::awaitable<void> Session::answer_question(const wire::FrameHeader& header,
                                                     const wire::Bytes& payload, bool& understood) {
  if (header.type == FrameType::kGetMeta) {
    const auto title = wire::from_bytes<std::string>(payload);
    understood = true;
    const ServedDataset& dataset = server_.datasets.by_title(title);
    std::shared_ptr<const wire::Bytes>& meta = server_.metas[&dataset];
    if (!meta) meta = std::make_shared<const wire::Bytes>(wire::to_bytes(dataset.meta_text));
    connection_->send(FrameType::kMeta, header.request, meta);
  } else if (header.type == FrameType::kGetPartitions) {
    const auto fingerprint = wire::from_bytes<std::string>(payload);
    understood = true;
    asked_of_ = &server_.peers.dataset(fingerprint);
    connection_->send(FrameType::kPartitions, header.request,
                      wire::to_bytes(PeerAnswers::partitions_of(*asked_of_)));
  } else if (header.type == FrameType::kOpen) {
    const auto open = wire::from_bytes<wire::Open>(payload);
    understood = true;
    co_await open_job(header.request, open);
  } else if (header.type == FrameType::kGetRows) {
    const auto asked = wire::from_bytes<wire::GetRows>(payload);
    understood = true;
    co_await send_rows(header.request, asked);
  } else {
    const auto asked = wire::from_bytes<wire::GetClusters>(payload);
    understood = true;
    co_await send_clusters(header.request, asked);
  }
}

/// Meanwhile nothing is read, so silence of the client means nothing; tick() sends it signs of life.
wire::asio::awaitable<void> Session::work_beside(wire::asio::any_io_executor where,
                                                 std::function<void()> work) {
  at_work_ = true;
  std::exception_ptr failure;
  try {
    co_await run_on(where, std::move(work));
  } catch (...) {
    failure = std::current_exception();
  }
  at_work_ = false;
  last_life_ = Clock::now();
  if (failure) std::rethrow_exception(failure);
}

wire::asio::awaitable<void> Session::open_job(std::uint64_t question, const wire::Open& open) {
  require_valid(!jobs_.contains(open.job), fmt::format("job {} is open already; close it first", open.job));
  require_valid(std::ssize(jobs_) < kMaxJobsPerClient,
                fmt::format("{} jobs are open; close some first", jobs_.size()));
  count_as_customer();
  std::shared_ptr<const StoredSeeds> seeds;
  if (!open.spec.seeds.sha256.empty()) {
    seeds = server_.seeds.find(open.spec.seeds.sha256);
    if (!seeds) {
      connection_->send(FrameType::kUnknownSeeds, question);
      co_return;
    }
  }
  JobTable::Opened opened;
  const auto turn = server_.openers.turn(open.spec.to_json(), open.spec.sampler_sha256.empty());
  co_await work_beside(*turn, [this, &opened, &open, &seeds] {
    opened = server_.jobs.open(open, std::move(seeds));
    if (open.held.any())
      opened.answer.held_order =
          held_order(server_.datasets.by_fingerprint(open.spec.fingerprint).dataset->meta(), open.held);
  });
  jobs_[open.job] = {.job = opened.job,
                     .batch_size = open.batch_size,
                     .num_seeds = opened.answer.num_seeds,
                     .held = open.held};
  server_.log.add("job_opened", {{"client", name_},
                                 {"job", std::to_string(opened.job)},
                                 {"dataset", open.spec.dataset},
                                 {"sampler", open.spec.batch.sampler},
                                 {"batch_size", std::to_string(open.batch_size)}});
  connection_->send(FrameType::kOpened, question, wire::to_bytes(opened.answer));
}

/// Who only looks on is none.
void Session::count_as_customer() {
  if (has_opened_) return;
  if (server_.customers >= server_.options.max_clients) {
    ++server_.totals.refused_connections;
    throw too_many_clients(server_.customers);
  }
  has_opened_ = true;
  ++server_.customers;
}

void Session::close_job(std::uint32_t number) {
  const auto found = jobs_.find(number);
  if (found == jobs_.end()) return;
  server_.jobs.close(found->second.job);
  jobs_.erase(found);
}

wire::asio::awaitable<void> Session::take_seeds(const wire::FrameHeader& header) {
  std::shared_ptr<StoredSeeds> seeds;
  std::optional<Error> refusal;
  const std::uint64_t bytes = header.bytes;
  // Memory is taken step by step, each no larger than what has come before it.
  for (std::uint64_t come = 0, step = 0; come < bytes; come += step) {
    step = std::min(bytes - come, std::clamp(come, kFirstOfSeeds, kStepOfSeeds));
    try {
      if (!seeds) seeds = server_.seeds.make(bytes);
      co_await work_beside(server_.beside.get_executor(),
                           [this, &seeds, come, step] { server_.seeds.grow(*seeds, come + step); });
    } catch (const Error& error) {
      refusal = error;
    }
    if (refusal) {
      seeds.reset();
      co_await discard(bytes - come);
      break;
    }
    co_await connection_->read(seeds->bytes().subspan(come, step));
  }
  if (!seeds && !refusal) refusal.emplace(ErrorCode::kInvalid, "the given seeds are empty; give some");
  if (refusal) {
    connection_->send_refusal(FrameType::kRefused, header.request, *refusal);
    co_return;
  }
  std::string sha256;
  co_await work_beside(server_.beside.get_executor(),
                       [this, &seeds, &sha256] { sha256 = server_.seeds.keep(seeds); });
  server_.log.add("seeds_kept", {{"client", name_}, {"bytes", std::to_string(bytes)}, {"sha256", sha256}});
  connection_->send(FrameType::kSeedsKept, header.request);
}

wire::asio::awaitable<void> Session::discard(std::uint64_t bytes) {
  std::vector<std::byte> buffer(std::min<std::uint64_t>(bytes, kDiscardBytes));
  while (bytes > 0) {
    const std::uint64_t part = std::min<std::uint64_t>(bytes, buffer.size());
    co_await connection_->read(std::span(buffer).first(part));
    bytes -= part;
  }
}

wire::asio::awaitable<void> Session::send_clusters(std::uint64_t question, const wire::GetClusters& asked) {
  const Dataset& dataset = *server_.datasets.by_fingerprint(asked.fingerprint).dataset;
  std::vector<std::int64_t> ids;
  co_await work_beside(server_.beside.get_executor(), [&dataset, &asked, &ids] {
    ids = cluster_seeds(dataset, dataset.meta().node_type(asked.node_type), asked.attr);
  });
  connection_->send(FrameType::kIds, question, std::as_bytes(std::span(ids)));
}

/// Answers come in any order; the request tells them apart.
void Session::answer_peer(std::uint64_t question, wire::Bytes payload) {
  if (asked_of_ == nullptr)
    throw Error(ErrorCode::kInvalid, "an ASK frame before GET_PARTITIONS has said of which dataset");
  wire::take_checksum(payload, question,
                      connection_->peer().c_str());  // of damaged bytes it hears, and asks anew
  const std::uint64_t bytes = payload.size();
  ++answering_;
  asked_bytes_ += bytes;
  server_.peers.answer(*asked_of_, question, std::move(payload),
                       [self = shared_from_this(), question, bytes](std::shared_ptr<const wire::Bytes> answer,
                                                                    const std::optional<Error>& error) {
                         --self->answering_;
                         self->asked_bytes_ -= bytes;
                         if (self->answered_) self->answered_->cancel();
                         if (self->connection_->closed()) return;
                         if (error)
                           return self->connection_->send_refusal(FrameType::kRefused, question, *error);
                         self->connection_->send(FrameType::kAnswer, question, std::move(answer));
                       });
}

/// Small questions by their number, large ones by their bytes.
bool Session::asks_too_much() const { return answering_ >= kMaxPeerAsks || asked_bytes_ >= kMaxPeerQuestion; }

/// Who asks faster than it is answered waits, and is not taken for dead meanwhile.
wire::asio::awaitable<void> Session::wait_for_answers() {
  at_work_ = true;
  if (!answered_)
    answered_ = std::make_unique<boost::asio::steady_timer>(co_await wire::asio::this_coro::executor);
  while (asks_too_much()) {
    boost::system::error_code cancelled;
    answered_->expires_after(1s);
    co_await answered_->async_wait(wire::asio::redirect_error(wire::asio::use_awaitable, cancelled));
  }
  at_work_ = false;
  last_life_ = Clock::now();
}

wire::asio::awaitable<void> Session::send_rows(std::uint64_t question, const wire::GetRows& asked) {
  const Dataset& dataset = *server_.datasets.by_fingerprint(asked.fingerprint).dataset;
  const int type = dataset.meta().node_type(asked.node_type);
  dataset.require_whole("to hold rows of features");
  const AttrView attr = dataset.attr(type, asked.attr);
  const std::int64_t rows = dataset.num_nodes(type);
  require_valid(
      asked.first < rows && asked.count <= rows - asked.first,
      fmt::format("{} rows from row {} of '{}'; there are {}", asked.count, asked.first, asked.attr, rows));
  require_valid(
      asked.count <= static_cast<std::int64_t>(kMaxRowsBytes) / std::max<std::int64_t>(1, attr.row_bytes),
      fmt::format("{} rows of {} bytes; at most {} bytes are sent at a time", asked.count, attr.row_bytes,
                  kMaxRowsBytes));
  // They are long: one who asks and does not read has memory for one such answer.
  if (connection_->queued_frames() > 0) co_await connection_->flush();
  const auto answer = std::make_shared<wire::Bytes>(static_cast<std::size_t>(asked.count * attr.row_bytes));
  co_await work_beside(server_.beside.get_executor(), [&asked, &attr, &answer] {
    std::vector<std::int64_t> ids(static_cast<std::size_t>(asked.count));
    std::iota(ids.begin(), ids.end(), asked.first);
    gather_rows(attr, ids, answer->data());
  });
  connection_->send(FrameType::kRows, question, std::shared_ptr<const wire::Bytes>(answer));
}

}  // namespace hopfeed
