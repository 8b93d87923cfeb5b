// See serving.h.
#include "server_client_mode/server/serving.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "core/base/memory_limits.h"

namespace hopfeed {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

// Connections that have not logged in, beside the clients: so many at a time, the rest is closed at once.
constexpr std::size_t kStrangers = 1'024;
constexpr std::chrono::milliseconds kStatusKept = 200ms;  // however often it is asked for
constexpr std::chrono::microseconds kTurn = 200us;        // of connections, before blocks have theirs
constexpr std::int64_t kMetricsConnections = 16;

}  // namespace

// ---- the loop

void Serving::run() {
  start_coroutines();
  while (!stopping_) {
    try {
      turn();
    } catch (const std::exception& error) {  // of this thread nobody else would hear
      fail(Error(ErrorCode::kIo, std::string("the server's loop failed: ") + error.what()));
    }
  }
  end_all();
}

void Serving::turn() {
  settle();
  if (!pool_.stay_awake()) {
    pool_.listen();  // before the look: then nothing that is made after it is missed
    settle();
    loop_.run_one_for(1s);
    pool_.stop_listening();
  }
  // However much comes in, what is made meanwhile does not wait for its end, and neither does who says stop.
  const Clock::time_point end = Clock::now() + kTurn;
  while (loop_.poll_one() > 0 && Clock::now() < end) {
  }
}

void Serving::start_coroutines() {
  asio::co_spawn(loop_, accept(), asio::detached);
  if (metrics_listener_) asio::co_spawn(loop_, accept_metrics(), asio::detached);
  asio::co_spawn(loop_, watch_doorbell(), asio::detached);
  asio::co_spawn(loop_, tick(), asio::detached);
  log_.add("listening", {{"address", listener_.address().to_text()},
                         {"workers", std::to_string(options_.num_workers)},
                         {"tls", tls_ ? "yes" : "no"},
                         {"token", options_.token.empty() ? "no" : "yes"},
                         {"state", options_.state},
                         {"state_memory", state_ ? format_bytes(state_room_.max_memory) : ""},
                         {"results", options_.results}});
  if (state_) log_state_rows(datasets_, log_);
}

asio::awaitable<void> Serving::watch_doorbell() {
  while (!ending_) {
    boost::system::error_code error;
    co_await doorbell_.async_wait(asio::posix::stream_descriptor::wait_read,
                                  asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return;
    pool_.drain_doorbell();
  }
}

asio::awaitable<void> Serving::tick() {
  asio::steady_timer timer(loop_);
  while (!ending_) {
    timer.expires_after(1s);
    co_await timer.async_wait(asio::use_awaitable);
    try {
      look_around(Clock::now());
    } catch (const std::exception& error) {  // there is another second
      log_.add("error", {{"why", error.what()}});
    }
  }
}

void Serving::look_around(Clock::time_point now) {
  for (const auto& [id, session] : sessions_) session->tick(now);
  for (std::uint32_t job : jobs_.expire(now)) pool_.forget(job);
  seeds_.expire(now);
  lost_.look();
  if (state_) state_->tick();
  if (results_) results_->tick();
  // What seeds take is taken from the blocks: together they stay within max_memory.
  pool_.limit_blocks(max_memory_ / 2 - seeds_.bytes());
  if (listener_.pauses() == pauses_) return;
  pauses_ = listener_.pauses();
  log_.add("accept_paused",
           {{"why", "no file descriptors or memory left"}, {"times", std::to_string(pauses_)}});
}

void Serving::settle() {
  do {
    for (const SamplingPool::Block& block : pool_.settle()) {
      const auto session = sessions_.find(block.client);
      if (session != sessions_.end()) {
        session->second->deliver(block);
      } else if (!block.bytes.empty()) {
        pool_.free(block);
      }
    }
    for (std::uint64_t id : std::exchange(context_.to_relieve, {})) {
      if (const auto session = sessions_.find(id); session != sessions_.end()) session->second->relieve();
    }
  } while (pool_.has_news());
  look_for_failure();
  if (context_.draining) look_whether_drained();
}

void Serving::look_for_failure() {
  if (ending_) return;
  if (const std::optional<Error> failure = pool_.failure()) fail(*failure);
}

/// Nothing can be promised any more: clients go elsewhere.
void Serving::fail(const Error& failure) {
  if (ending_) return;
  ending_ = true;
  log_.add("failed", {{"why", failure.what()}});
  listener_.close();
  for (const auto& [id, session] : sessions_) session->close();
  {
    const std::lock_guard lock(drained_mutex_);
    failure_ = failure;
  }
  drained_changed_.notify_all();
}

void Serving::look_whether_drained() {
  for (const auto& [id, session] : sessions_) {
    if (session->logged_in() && !session->settled()) return;
  }
  const std::lock_guard lock(drained_mutex_);
  if (drained_) return;
  drained_ = true;
  log_.add("drained");
  drained_changed_.notify_all();
}

// ---- connections

asio::awaitable<void> Serving::accept() {
  try {
    for (;;) take(co_await listener_.accept());
  } catch (const Error& error) {
    if (!ending_) log_.add("accept_ended", {{"why", error.what()}});
  }
}

asio::awaitable<void> Serving::accept_metrics() {
  try {
    for (;;) take_metrics(co_await metrics_listener_->accept());
  } catch (const Error&) {  // closed
  }
}

void Serving::take(wire::Socket socket) {
  if (ending_) return;  // it was accepted before the end, and nobody would close it
  ++context_.totals.connections;
  const std::string peer = wire::peer_of(socket);
  const auto known = static_cast<std::size_t>(context_.clients + context_.onlookers + context_.machines);
  Strangers::Place stranger = strangers_.let_in(wire::network_of(socket));
  if (!stranger || sessions_.size() >= known + kStrangers) {
    ++context_.totals.refused_connections;
    return;
  }
  auto connection = std::make_unique<wire::Connection>(
      std::move(socket), tls_,
      wire::ConnectionOptions{
          .side = wire::Side::kServer, .peer = "client " + peer, .frame_deadline = options_.send_deadline});
  const std::uint64_t id = ++last_session_;
  auto session = std::make_shared<Session>(context_, id, std::move(connection), peer, std::move(stranger));
  sessions_[id] = session;
  asio::co_spawn(loop_, context_.full() ? turn_away(std::move(session)) : serve(std::move(session)),
                 asio::detached);
}

asio::awaitable<void> Serving::serve(std::shared_ptr<Session> session) {
  co_await session->run();
  sessions_.erase(session->id());
}

asio::awaitable<void> Serving::turn_away(std::shared_ptr<Session> session) {
  co_await session->turn_away();
  sessions_.erase(session->id());
}

void Serving::take_metrics(wire::Socket socket) {
  if (metrics_open_ >= kMetricsConnections) {
    if (metrics_idle_.empty()) return;
    boost::system::error_code ignored;
    metrics_idle_.front()->close(ignored);  // ends what it waits for
    metrics_idle_.splice(metrics_idle_.end(), metrics_idle_, metrics_idle_.begin());  // of more, the next one
  }
  ++metrics_open_;
  asio::co_spawn(loop_, serve_metrics(std::move(socket), pages_, metrics_idle_),
                 [this](const std::exception_ptr&) { --metrics_open_; });
}

void Serving::note_refused(std::uint32_t job, const Error& cause) {
  log_.add("job_refused", {{"job", std::to_string(job)}, {"why", cause.what()}});
  for (const auto& [id, session] : sessions_) session->fail_job(job, cause);
}

/// Coroutines end where what they wait for is closed; what was sent half is given up.
void Serving::end_all() {
  ending_ = true;
  listener_.close();
  if (metrics_listener_) metrics_listener_->close();
  for (const auto& [id, session] : sessions_) session->close();
  while (!sessions_.empty() && loop_.run_one() > 0) {
  }
  log_.add("stopped");
}

// ---- any thread

void Serving::on_loop(std::function<void()> task) { asio::post(loop_, std::move(task)); }

void Serving::stop() {
  stopping_ = true;
  on_loop([] {});
}

void Serving::drain() {
  on_loop([this] {
    if (context_.draining) return;
    context_.draining = true;
    log_.add("draining", {{"clients", std::to_string(context_.clients)}});
    for (const auto& [id, session] : sessions_) session->start_draining();
  });
}

bool Serving::wait_until_drained(std::chrono::milliseconds limit) {
  std::unique_lock lock(drained_mutex_);
  drained_changed_.wait_for(lock, limit, [this] { return drained_ || failure_; });
  if (failure_) throw *failure_;
  return drained_;
}

void Serving::reload_tls() {
  on_loop([this] {
    if (!tls_) return;
    try {
      tls_->reload();
      log_.add("tls_reloaded");
    } catch (const std::exception& error) {  // those it has stay
      log_.add("tls_not_reloaded", {{"why", error.what()}});
    }
  });
}

// ---- what it looks like

std::shared_ptr<const wire::Bytes> Serving::recent_status() {
  const Clock::time_point now = Clock::now();
  if (!status_ || now - status_made_ > kStatusKept) {
    status_ = std::make_shared<const wire::Bytes>(wire::to_bytes(status_text()));
    status_made_ = now;
  }
  return status_;
}

const std::string& Serving::recent_metrics() {
  const Clock::time_point now = Clock::now();
  if (metrics_.empty() || now - metrics_made_ > kStatusKept) {
    metrics_ = metrics_text(status());
    metrics_made_ = now;
  }
  return metrics_;
}

ServerStatus Serving::status() const {
  ServerStatus status{.address = listener_.address().to_text(),
                      .server = context_.offer.server,
                      .software = context_.offer.software,
                      .seconds = std::chrono::duration<double>(Clock::now() - start_).count(),
                      .draining = context_.draining,
                      .failure = {},
                      .datasets = context_.offer.datasets,
                      .clients = {},
                      .jobs = jobs_.size(),
                      .seed_bytes = seeds_.bytes(),
                      .max_memory = max_memory_,
                      .load = pool_.load(),
                      .channel = snapshot(pool_.view()),
                      .totals = context_.totals,
                      .accept_pauses = listener_.pauses(),
                      .lost_partitions = lost_.list(),
                      .peers = {.questions = peers_.counts().questions,
                                .refused = peers_.counts().refused,
                                .question_bytes = peers_.counts().question_bytes,
                                .answer_bytes = peers_.counts().answer_bytes,
                                .of = peers_.owner_counts()}};
  if (state_) status.state = {.max_memory = state_room_.max_memory, .tables = state_->tables()};
  if (results_) status.results = {.folder = options_.results, .counts = results_->counts()};
  if (const std::optional<Error> failure = pool_.failure()) status.failure = failure->what();
  for (const auto& [id, session] : sessions_) {
    if (session->logged_in()) status.clients.push_back(session->status());
  }
  return status;
}

}  // namespace hopfeed
