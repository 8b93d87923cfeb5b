// See session.h. A request is answered once: BLOCK, FAILED or DROPPED. What the client says of one that is
// answered already has crossed the answer on the wire and means nothing any more.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/limits.h"
#include "server_client_mode/server/session.h"

namespace hopfeed {

using wire::FrameType;

bool Session::ask(std::uint64_t number, const wire::BatchAsked& asked) {
  if (const auto known = requests_.find(number); known != requests_.end()) {
    const BatchRequest& batch = known->second.batch;
    if (batch.epoch == asked.epoch && batch.first == asked.first && batch.count == asked.count)
      return false;  // the same frame came twice
    throw Error(ErrorCode::kInvalid, fmt::format("request {} is outstanding already", number));
  }
  if (server_.draining) {
    drop(number);
    return false;
  }
  const auto open = jobs_.find(asked.job);
  try {
    require_valid(std::ssize(requests_) < kMaxOutstanding,
                  fmt::format("{} batches are outstanding, as many as a client may ask for at a time",
                              requests_.size()));
    require_valid(open != jobs_.end(), fmt::format("job {} is not open; open it first", asked.job));
    check(asked, open->second);
    if (const std::optional<Error> refused = server_.jobs.why_refused(open->second.job)) throw *refused;
  } catch (const Error& error) {
    fail(number, error);
    return false;
  }
  Request& request = requests_[number];
  request.granted = asked.granted;
  request.batch = {.epoch = asked.epoch,
                   .first = asked.first,
                   .count = asked.count,
                   .job = open->second.job,
                   .held = asked.held};
  server_.pool.ask(id_, number, request.batch);
  if (waits_ > 0) server_.to_relieve.push_back(id_);
  return true;
}

void Session::check(const wire::BatchAsked& asked, const OpenJob& job) const {
  require_valid(asked.epoch >= 0, fmt::format("epoch is {}; epochs count from 0", asked.epoch));
  require_valid(asked.count >= 1 && asked.count <= job.batch_size,
                fmt::format("a batch of {} seeds; the job has at most {}", asked.count, job.batch_size));
  require_valid(!asked.held.any() || asked.held == job.held,
                fmt::format("it holds {} millionths of the rows; the job was opened with {}",
                            asked.held.millionths, job.held.millionths));
  require_valid(asked.first >= 0 && asked.first <= job.num_seeds - asked.count,
                fmt::format("a batch of {} seeds from position {}; an epoch has {}", asked.count, asked.first,
                            job.num_seeds));
}

void Session::deliver(const SamplingPool::Block& block) {
  const auto found = requests_.find(block.request);
  if (found == requests_.end() || connection_->closed()) {
    if (!block.bytes.empty()) server_.pool.free(block);
    return;
  }
  Request& request = found->second;
  if (block.error) {
    fail(block.request, *block.error);
    return note_owed();
  }
  request.block = block;
  if (block.bytes.size() <= request.granted) return send_block(block.request, request);
  request.state = Request::State::kWaits;
  request.since = Clock::now();
  ++waits_;
  server_.to_relieve.push_back(id_);
  if (request.size_told == block.bytes.size()) return;  // it knows already
  request.size_told = block.bytes.size();
  connection_->send(FrameType::kSize, block.request, wire::to_bytes(request.size_told));
}

bool Session::grant(std::uint64_t number, std::uint64_t bytes) {
  const auto found = requests_.find(number);
  if (found == requests_.end()) return false;
  Request& request = found->second;
  request.granted = std::max(request.granted, bytes);
  if (request.state == Request::State::kParked && request.granted >= request.size_told) {
    request.state = Request::State::kAsked;
    server_.pool.ask(id_, number, request.batch);
  } else if (request.state == Request::State::kWaits && request.granted >= request.block->bytes.size()) {
    --waits_;
    send_block(number, request);
  } else {
    return false;
  }
  return true;
}

void Session::cancel(std::uint64_t number) {
  const auto found = requests_.find(number);
  if (found == requests_.end() || found->second.state == Request::State::kSending) return;
  if (found->second.state == Request::State::kWaits) free_block(found->second);
  if (found->second.state == Request::State::kAsked) server_.pool.withdraw(id_, number);
  requests_.erase(found);
  drop(number);
  note_owed();
}

void Session::send_block(std::uint64_t number, Request& request) {
  request.state = Request::State::kSending;
  const SamplingPool::Block& block = *request.block;
  const wire::BlockHead head{
      .worker = block.worker, .sampling = block.sampling, .gathering = block.gathering};
  if (in_turn_.empty()) turn_began_ = Clock::now();
  in_turn_.push_back(number);
  const std::shared_ptr<Session> self = shared_from_this();
  connection_->send_block(number, head, block.bytes,
                          [self, number](bool whole) { self->sent(number, whole); });
}

void Session::sent(std::uint64_t number, bool whole) {
  const auto found = requests_.find(number);
  if (found == requests_.end()) return;
  if (!in_turn_.empty() && in_turn_.front() == number) turn_began_ = Clock::now();
  std::erase(in_turn_, number);
  server_.pool.free(*found->second.block);
  if (whole) {
    ++batches_;
    ++server_.totals.batches;
    server_.totals.batch_bytes += std::ssize(found->second.block->bytes);
  }
  requests_.erase(found);
}

/// What is queued by now answers requests that were taken on.
void Session::note_owed() { owed_until_ = connection_->bytes_out() + connection_->queued(); }

/// Frees the block of a request that waits for its GRANT.
void Session::free_block(Request& request) {
  server_.pool.free(*request.block);
  request.block.reset();
  --waits_;
}

void Session::park(Request& request) {
  free_block(request);
  request.state = Request::State::kParked;
  ++server_.totals.remade_blocks;
}

void Session::relieve() {
  if (waits_ == 0 || !server_.pool.held_back(id_)) return;
  const std::optional<std::uint64_t> lowest = server_.pool.lowest(id_);
  auto highest = requests_.end();
  for (auto request = requests_.begin(); request != requests_.end(); ++request) {
    if (request->second.state == Request::State::kSending) return;  // its slot is free soon
    if (request->second.state != Request::State::kWaits) continue;
    if (highest == requests_.end() || request->first > highest->first) highest = request;
  }
  if (!lowest || highest == requests_.end() || highest->first < *lowest) return;
  park(highest->second);
}

void Session::fail_job(std::uint32_t job, const Error& cause) {
  std::vector<std::uint64_t> numbers;
  for (auto& [number, request] : requests_) {
    if (request.batch.job != job || request.state == Request::State::kSending) continue;
    if (request.state == Request::State::kWaits) free_block(request);
    if (request.state == Request::State::kAsked) server_.pool.withdraw(id_, number);
    numbers.push_back(number);
  }
  for (std::uint64_t number : numbers) {
    requests_.erase(number);
    fail(number, cause);
  }
  note_owed();
}

void Session::fail(std::uint64_t number, const Error& error) {
  requests_.erase(number);
  ++server_.totals.failed;
  if (connection_->closed()) return;
  connection_->send_refusal(FrameType::kFailed, number, server_.datasets.told(error));
}

void Session::drop(std::uint64_t number) {
  ++server_.totals.dropped;
  if (!connection_->closed()) connection_->send(FrameType::kDropped, number);
}

}  // namespace hopfeed
