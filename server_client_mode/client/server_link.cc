// See server_link.h.
#include "server_client_mode/client/server_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "channel/futex.h"
#include "core/base/error.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
using wire::FrameType;
namespace asio = wire::asio;

/// Its number lies above those of batches.
constexpr std::uint64_t kStatusQuestion = (std::uint64_t{1} << 63) - 1;

/// Request 0 is the connection's own.
std::uint64_t request_of(const Claim& claim) { return claim.batch.sequence + 1; }

std::string batch_text(const PlannedBatch& batch) {
  return fmt::format("the batch of {} seeds from position {} of epoch {}", batch.count, batch.first,
                     batch.epoch);
}

}  // namespace

ServerLink::ServerLink(ChannelHost& host, Contact contact, const BlockCheck& check, ServerLinkOptions options)
    : host_(host),
      contact_(std::move(contact)),
      connection_(*contact_.connection),
      check_(check),
      options_(std::move(options)),
      port_(host.view(), options_.record, /*doorbell=*/-1) {
  port_.report_ready();
}

std::size_t ServerLink::num_claimed() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(asked_, [](const auto& entry) { return !entry.second.finished; }));
}

std::optional<std::uint64_t> ServerLink::first_asked() const {
  if (asked_.empty()) return {};
  return asked_.begin()->first;
}

// ---- asking

bool ServerLink::look(std::size_t share) {
  if (ended()) return false;
  for (auto& [request, asked] : asked_) look_at(request, asked);
  const bool may_claim = !leaving_ && !port_.terminating();
  while (may_claim && asked_.size() < share) {
    std::optional<Claim> claim = port_.try_claim();
    if (!claim) break;
    ask(*claim);
  }
  note_waiting_for_slot(may_claim && asked_.empty() &&
                        host_.view().control().loader.unplanned.load(std::memory_order_relaxed) > 0);
  end_if_left();
  return std::exchange(serve_, false);
}

void ServerLink::ask(Claim claim) {
  Asked asked;
  asked.claim = claim;
  asked.told = host_.view().slot(claim.slot).granted.load();
  asked.since = Clock::now();
  wire::BatchAsked question;
  question.job = kJob;
  question.epoch = claim.batch.epoch;
  question.first = claim.batch.first;
  question.count = claim.batch.count;
  question.granted = asked.told;
  question.held = options_.held;
  const std::uint64_t request = request_of(claim);
  connection_.send(FrameType::kBatch, request, wire::to_bytes(question));
  asked_.insert_or_assign(request, asked);
}

/// Whether nobody wants it any more, or its memory is there by now.
void ServerLink::look_at(std::uint64_t request, Asked& asked) {
  if (asked.cancelled || asked.dropped) return;
  if (host_.view().slot(asked.claim.slot).abandoned.load() != 0) return cancel(request, asked);
  if (!asked.waits_for_grant || port_.grant(asked.claim, asked.wanted) != WorkerPort::Grant::kGranted) return;
  asked.waits_for_grant = false;
  asked.told = host_.view().slot(asked.claim.slot).granted.load();
  asked.since = Clock::now();
  connection_.send(FrameType::kGrant, request, wire::to_bytes(asked.told));
}

void ServerLink::cancel(std::uint64_t request, Asked& asked) {
  asked.cancelled = true;
  asked.waits_for_grant = false;
  asked.since = Clock::now();
  connection_.send(FrameType::kCancel, request);
}

/// What WorkerPort::claim() counts for fillers that sleep there.
void ServerLink::note_waiting_for_slot(bool waits) {
  WorkerRecord& record = host_.view().worker(options_.record);
  const std::int64_t since = record.waiting_since.load(std::memory_order_relaxed);
  if (waits == (since != 0)) return;
  if (waits) return record.waiting_since.store(monotonic_now());
  record.waiting_since.store(0);
  record.waited_for_slot.store(record.waited_for_slot.load() + monotonic_now() - since);
}

void ServerLink::ask_status() {
  if (ended()) return;
  connection_.send(FrameType::kGetStatus, kStatusQuestion);
  ++status_asked_;
}

// ---- the end

void ServerLink::leave() {
  leaving_ = true;
  end_if_left();
}

void ServerLink::end_if_left() {
  if (leaving_ && asked_.empty() && !ended()) close("all that it was asked for has come");
}

void ServerLink::close(std::string why) {
  if (why_closed_.empty()) why_closed_ = std::move(why);
  note_waiting_for_slot(false);
  connection_.close();
}

void ServerLink::tick(Clock::time_point now) {
  if (ended()) return;
  if (!heartbeat_.look(connection_, now))
    return close(fmt::format("no sign of life for {} s", wire::kDeadAfter / 1s));
  for (const auto& [request, asked] : asked_) {
    if (asked.waits_for_grant || now - asked.since <= options_.batch_deadline) continue;
    return close(fmt::format("{} did not come within {} ms ({})", batch_text(asked.claim.batch),
                             options_.batch_deadline.count(), marked("batch_deadline")));
  }
}

// ---- reading

asio::awaitable<void> ServerLink::read() {
  for (;;) {
    const wire::FrameHeader header = co_await connection_.read_header();  // tick() looks for signs of life
    if (header.type == FrameType::kBlock) {
      co_await read_block(header);
    } else {
      const wire::Bytes payload = co_await connection_.read_payload(header);
      on_frame(header, payload);
    }
    end_if_left();
  }
}

std::optional<ServerLink::AskedMap::iterator> ServerLink::find(const wire::FrameHeader& header) {
  const auto found = asked_.find(header.request);
  if (found != asked_.end()) return found;
  if (header.request == 0 || std::ranges::find(recent_, header.request) == recent_.end())
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{} has sent {} for request {}, which nobody has made; see that server",
                            connection_.peer(), wire::name_of(header.type), header.request));
  return {};
}

void ServerLink::done(AskedMap::iterator at) {
  recent_[num_done_++ % recent_.size()] = at->first;
  asked_.erase(at);
  serve_ = true;
}

void ServerLink::on_frame(const wire::FrameHeader& header, const wire::Bytes& payload) {
  switch (header.type) {
    case FrameType::kSize:
      if (const auto at = find(header)) on_size(*at, wire::from_bytes<std::uint64_t>(payload));
      return;
    case FrameType::kFailed:
      if (const auto at = find(header)) on_failed(*at, wire::from_bytes<wire::Refusal>(payload));
      return;
    case FrameType::kDropped:
      if (const auto at = find(header)) on_dropped(*at);
      return;
    case FrameType::kStatus:
      if (header.request == kStatusQuestion && status_asked_ > 0) {
        --status_asked_;
        return options_.status(wire::from_bytes<std::string>(payload));
      }
      [[fallthrough]];
    default:
      if (!wire::take_aside(connection_, header, payload, draining_))
        throw wire::not_asked_for(connection_, header.type);
      if (draining_) leave();
  }
}

void ServerLink::on_size(AskedMap::iterator at, std::uint64_t bytes) {
  auto& [request, asked] = *at;
  if (asked.cancelled) return;
  if (bytes == 0 || (asked.wanted != 0 && asked.wanted != bytes))
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{} says that {} takes {} bytes, and {} before; see that "
                            "server",
                            connection_.peer(), batch_text(asked.claim.batch), bytes, asked.wanted));
  if (asked.wanted == bytes) return;  // told twice
  asked.wanted = bytes;
  asked.sampled = monotonic_now();
  try {
    port_.ask(asked.claim, bytes);
  } catch (const Error& error) {  // no slot can be that large
    port_.publish_error(asked.claim, error.code(), error.message());
    asked.finished = true;
    return cancel(request, asked);
  }
  asked.waits_for_grant = true;
  serve_ = true;
  look_at(request, asked);
}

void ServerLink::on_failed(AskedMap::iterator at, const wire::Refusal& refusal) {
  const Asked& asked = at->second;
  if (!asked.finished && asked.cancelled) port_.publish(asked.claim, 0);
  if (asked.finished || asked.cancelled) return done(at);
  const std::string why = fmt::format("{}: {}", connection_.peer(), refusal.text);
  switch (options_.failed(asked.claim.batch, refusal.code)) {
    case AfterFailure::kIsFinal:
      port_.publish_error(asked.claim, refusal.code, why);
      return done(at);
    case AfterFailure::kAskAgain:
      if (!leaving_) return ask(Claim(asked.claim));
      [[fallthrough]];
    case AfterFailure::kAskElsewhere:
      faulty_ = true;  // its claims go back once this connection is gone
      return close(why);
  }
}

void ServerLink::on_dropped(AskedMap::iterator at) {
  Asked& asked = at->second;
  if (asked.cancelled) {
    if (!asked.finished) port_.publish(asked.claim, 0);
    return done(at);
  }
  if (!leaving_) {  // it was too slow for us, or we for it
    constexpr int kMaxDrops = 3;
    if (++asked.drops > kMaxDrops)
      throw Error(ErrorCode::kPeerDied, fmt::format("{} drops {} again and again; see that server",
                                                    connection_.peer(), batch_text(asked.claim.batch)));
    const int drops = asked.drops;
    const Claim claim = asked.claim;
    ask(claim);
    asked_.at(request_of(claim)).drops = drops;
    return;
  }
  asked.dropped = true;
  // Others can make it once this connection is gone; what the trainer needs first decides.
  if (asked_.begin()->second.dropped) close("it is draining and drops what it was asked for");
}

asio::awaitable<void> ServerLink::read_block(wire::FrameHeader header) {
  const std::optional<AskedMap::iterator> found = find(header);
  if (!found) co_return co_await connection_.skip(header.bytes);
  const AskedMap::iterator at = *found;
  Asked& asked = at->second;
  const std::int64_t arrived = monotonic_now();
  const std::uint64_t bytes = connection_.block_bytes(header);
  if (bytes == 0 || bytes > asked.told || asked.finished)
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{} sends a block of {} bytes for {}, where {} are granted; see that server",
                            connection_.peer(), bytes, batch_text(asked.claim.batch), asked.told));
  std::array<std::byte, wire::kBlockHeadBytes> head_bytes{};
  co_await connection_.read(head_bytes);
  const auto head = wire::from_bytes<wire::BlockHead>(head_bytes);
  const std::span<std::byte> block = port_.block(asked.claim, bytes);
  co_await connection_.read_block(block);
  const PlannedBatch batch = asked.claim.batch;
  if (!asked.cancelled) {
    BatchKey key;
    key.seed = check_.seed();
    key.epoch = batch.epoch;
    key.first = batch.first;
    key.count = batch.count;
    check_.check(block, key, connection_.peer());
    note_times(asked, head, arrived);
  }
  port_.publish(asked.claim, asked.cancelled ? 0 : bytes);
  done(at);
  options_.published(batch);
}

/// Durations of the server's clock, put so that they end where its frames came.
void ServerLink::note_times(const Asked& asked, const wire::BlockHead& head, std::int64_t arrived) {
  SlotRecord& record = host_.view().slot(asked.claim.slot);
  SlotTimes& times = record.times;
  const std::int64_t claimed = times.claimed;
  const auto duration = [&](std::int64_t told) { return std::clamp<std::int64_t>(told, 0, arrived); };
  times.sampled = asked.sampled != 0
                      ? asked.sampled
                      : std::clamp(arrived - duration(head.gathering), claimed, std::max(claimed, arrived));
  times.claimed = std::clamp(times.sampled - duration(head.sampling), claimed, times.sampled);
  times.writing = times.sampled;
  times.gathered = std::max(times.sampled, arrived);
  record.worker = static_cast<std::uint32_t>(options_.server) * kWorkersOfServer +
                  std::min(head.worker, kWorkersOfServer - 1);
}

}  // namespace hopfeed
