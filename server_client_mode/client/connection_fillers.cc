// See connection_fillers.h.
#include "server_client_mode/client/connection_fillers.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "channel/futex.h"
#include "core/base/error.h"
#include "core/base/quiet_thread.h"
#include "server_client_mode/client/why_waiting.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
namespace asio = wire::asio;

constexpr std::chrono::milliseconds kTick = 100ms;  // deadlines are looked at so often
constexpr std::chrono::milliseconds kLookHome = 5'000ms;
constexpr std::chrono::milliseconds kLeave = 1'000ms;  // for coroutines to end
constexpr std::chrono::milliseconds kShortestPause = 5ms, kLongestPause = 1'000ms;
constexpr int kMaxLostInARow = 10;   // of each post
constexpr int kHandlersInARow = 16;  // before slots are looked at again

}  // namespace

/// One connection that there should always be.
struct ConnectionFillers::Post {
  Post(asio::io_context& context, std::size_t own) : home(own), wake(context) {}
  const std::size_t home;
  std::shared_ptr<ServerLink> link;  // that fills; none while it is looked for
  asio::steady_timer wake;
};

ConnectionFillers::ConnectionFillers(std::shared_ptr<ChannelHost> host,
                                     std::unique_ptr<asio::io_context> context, Caller caller,
                                     FirstContact first, ConnectionFillersOptions options)
    : host_(std::move(host)),
      options_(std::move(options)),
      caller_(std::move(caller)),
      check_(options_.job.spec, options_.held),
      context_(std::move(context)),
      keeper_(host_),
      servers_(options_.remote.servers),
      failed_(options_.remote.servers.size()),
      first_(std::move(first)),
      told_(options_.remote.servers.size()) {
  for (std::uint32_t record = host_->view().shape().num_workers; record-- > 0;)
    free_records_.push_back(record);
  thread_ = start_quiet_thread("cannot start a thread for the connections to servers", [this] { run(); });
}

ConnectionFillers::~ConnectionFillers() {  // NOLINT(bugprone-exception-escape): as above
  stopping_ = true;
  asio::post(*context_, [] {});  // wakes it
  thread_.join();
  // What is bound to the event loop goes first; then the loop, with the coroutines that did not end.
  first_.reset();
  posts_.clear();
  links_.clear();
  context_.reset();
}

void ConnectionFillers::wait_until_ready() {
  const ChannelView& view = host_->view();
  const Clock::time_point give_up = Clock::now() + options_.remote.connect_timeout;
  for (;;) {
    const std::uint32_t seen = view.control().loader_event.load();
    if (const std::optional<Error> failure = host_->failure()) throw *failure;
    for (std::uint32_t i = 0; i < view.shape().num_workers; ++i)
      if (view.worker(i).state.load() == static_cast<std::uint32_t>(WorkerState::kReady)) return;
    if (Clock::now() > give_up)
      throw Error(ErrorCode::kTimeout, fmt::format("no connection to a server within {} ms (connect_timeout)",
                                                   options_.remote.connect_timeout.count()));
    view.control().loader_event.wait(seen, 50ms);
  }
}

// ---- the thread

void ConnectionFillers::run() {
  none_since_ = Clock::now();
  for (const std::size_t own : options_.own) posts_.push_back(std::make_shared<Post>(*context_, own));
  const auto spawn = [this](asio::awaitable<void> coroutine) {
    ++running_;
    asio::co_spawn(*context_, std::move(coroutine), [this](const std::exception_ptr&) { --running_; });
  };
  context_->restart();
  place_first();
  spawn(watch_bell());
  for (const std::shared_ptr<Post>& post : posts_) spawn(keep_post(post));
  SharedEvent& event = host_->view().control().work_event;
  while (!stopping_) {
    try {
      event.listen();
      const bool busy = step();
      // A GPU rings no bell, and the tick is what frees the slots that it reads.
      if (!busy && !stopping_)
        context_->run_one_for(host_->slots_leaving() ? 1ms : host_->grants_pending() ? 20ms : kTick);
      if (host_->slots_leaving()) host_->service();
      event.stop_listening();
      for (int i = 0; i < kHandlersInARow && context_->poll_one() > 0; ++i) {
      }
      if (const Clock::time_point now = Clock::now(); now >= next_tick_) tick(now);
    } catch (const std::exception& error) {  // of this thread nobody else would hear
      host_->fail(Error(ErrorCode::kIo, fmt::format("the connections to servers failed: {}", error.what())));
      std::this_thread::sleep_for(20ms);
    }
  }
  end();
}

/// The post whose own server it is gets the connection of the first words; else one that moves home later.
void ConnectionFillers::place_first() {
  auto post = std::ranges::find_if(posts_, [&](const auto& one) { return one->home == first_->server; });
  if (post == posts_.end()) post = posts_.begin();
  (*post)->link = adopt(std::move(first_->contact), first_->server, options_.job.opened);
  if (first_->draining) (*post)->link->leave();
  first_.reset();
}

void ConnectionFillers::end() {
  host_->terminate();
  for (const std::shared_ptr<ServerLink>& link : links_) link->close("the stream has ended");
  ring(host_->fillers_bell().fd());
  const Clock::time_point give_up = Clock::now() + kLeave;
  while (running_ > 0 && Clock::now() < give_up) {
    wake_posts();
    context_->run_one_for(20ms);
  }
}

bool ConnectionFillers::step() {
  const std::size_t most = share();
  for (std::size_t i = 0; i < links_.size(); ++i) serve_ |= links_[i]->look(most);
  if (!std::exchange(serve_, false)) return false;
  keeper_.serve();
  return true;
}

/// How many of the batches ahead each connection that takes any has.
std::size_t ConnectionFillers::share() const {
  const auto links = static_cast<std::size_t>(
      std::ranges::count_if(links_, [](const auto& link) { return !link->leaving(); }));
  const std::size_t each = std::max<std::size_t>(links, 1);
  return (static_cast<std::size_t>(options_.batches_ahead) + each - 1) / each;
}

void ConnectionFillers::tick(Clock::time_point now) {
  next_tick_ = now + kTick;
  serve_ = true;
  for (const std::shared_ptr<ServerLink>& link : links_) link->tick(now);
  if (options_.remote.note) tell_why_waiting(now);
  if (!links_.empty() || now - none_since_ <= options_.remote.reconnect_deadline) return;
  host_->fail(Error(ErrorCode::kTimeout,
                    fmt::format("no server for {} ms (reconnect_deadline): {}",
                                options_.remote.reconnect_deadline.count(), servers_.last_words())));
}

void ConnectionFillers::wake_posts() {
  for (const std::shared_ptr<Post>& post : posts_) post->wake.cancel();
}

/// Only so that the event loop wakes: what rang is looked at in step().
asio::awaitable<void> ConnectionFillers::watch_bell() {
  asio::posix::stream_descriptor bell(*context_, dup(host_->fillers_bell().fd()));
  while (!stopping_) {
    boost::system::error_code error;
    co_await bell.async_wait(asio::posix::stream_descriptor::wait_read,
                             asio::redirect_error(asio::use_awaitable, error));
    host_->fillers_bell().drain();
    serve_ = true;
    if (error) co_return;
  }
}

// ---- connections

asio::awaitable<void> ConnectionFillers::serve(std::shared_ptr<ServerLink> link) {
  Error why(ErrorCode::kPeerDied, "the connection has ended");
  try {
    co_await link->read();
  } catch (const Error& error) {
    why = error;
  } catch (const std::exception& error) {
    why = Error(ErrorCode::kIo, error.what());
  }
  finish(link, why);
}

std::shared_ptr<ServerLink> ConnectionFillers::adopt(Contact contact, std::size_t server,
                                                     const wire::Opened& opened) {
  const std::uint32_t record = free_records_.back();
  free_records_.pop_back();
  keeper_.welcome(record);
  ServerLinkOptions options;
  options.record = record;
  options.server = server;
  // A server with another cut of the graph has another order, so it sends whole batches.
  if (options_.held && opened.held_order == options_.job.opened.held_order) options.held = options_.job.held;
  options.batch_deadline = options_.remote.batch_deadline;
  options.published = [this, server](const PlannedBatch& batch) {
    lost_in_a_row_ = 0;
    servers_.note_success(server);
    failed_.forget(batch);
  };
  options.status = [this, peer = contact.connection->peer()](const std::string& status) {
    tell(why_waiting(peer, status));
  };
  options.failed = [this, server](const PlannedBatch& batch, ErrorCode code) {
    return failed_.note(server, batch, code, [this](std::size_t other) { return may_ask(other); });
  };
  auto link = std::make_shared<ServerLink>(*host_, std::move(contact), check_, std::move(options));
  links_.push_back(link);
  serve_ = true;
  ++running_;
  asio::co_spawn(*context_, serve(link), [this](const std::exception_ptr&) { --running_; });
  return link;
}

/// Whether a batch can go to this server, as far as is known.
bool ConnectionFillers::may_ask(std::size_t server) const {
  return servers_.may_try(server, Clock::now()) || std::ranges::any_of(links_, [&](const auto& link) {
           return link->server() == server && !link->leaving() && !link->ended();
         });
}

/// Its read has ended, so nobody writes into its slots any more.
void ConnectionFillers::finish(const std::shared_ptr<ServerLink>& link, const Error& why) {
  link->close(why.message());
  const Clock::time_point now = Clock::now();
  const std::size_t claimed = link->num_claimed();
  const bool in_order = link->leaving() && claimed == 0;
  if (!in_order && !stopping_) {
    keeper_.bury(link->record());
    const Error cause(why.code(), link->why_closed());
    if (link->draining())
      servers_.note_draining(link->server(), now);
    else if (link->faulty())
      servers_.note_fault(link->server(), cause, now);
    else
      servers_.note_failure(link->server(), cause, now);
    if (!link->faulty() && claimed > 0 && ++lost_in_a_row_ > kMaxLostInARow * static_cast<int>(posts_.size()))
      host_->fail(
          Error(cause.code(),
                fmt::format("{} connections in a row were lost without a finished batch, so no more are "
                            "made: {}",
                            lost_in_a_row_, servers_.last_words())));
  } else if (link->draining()) {
    servers_.note_draining(link->server(), now);
  }
  free_records_.push_back(link->record());
  std::erase(links_, link);
  if (links_.empty()) none_since_ = now;
  serve_ = true;
  wake_posts();
}

asio::awaitable<std::shared_ptr<ServerLink>> ConnectionFillers::connect(std::size_t server) {
  if (stopped() || free_records_.empty()) co_return nullptr;
  try {
    Contact contact = co_await call_server(caller_, servers_.address(server));
    if (contact.offer.draining) {
      servers_.note_draining(server, Clock::now());
      co_return nullptr;
    }
    Questions questions(contact);
    const wire::Opened opened = co_await questions.open(options_.job);
    if (opened.num_seeds != options_.job.opened.num_seeds)
      throw Error(ErrorCode::kVersion,
                  fmt::format("{} has {} seeds for this job, and {} were there at the start; its dataset is "
                              "another",
                              contact.connection->peer(), opened.num_seeds, options_.job.opened.num_seeds));
    if (stopped() || free_records_.empty()) co_return nullptr;
    std::shared_ptr<ServerLink> link = adopt(std::move(contact), server, opened);
    if (questions.draining()) link->leave();
    co_return link;
  } catch (const Error& error) {
    if (is_refusal(error)) tell_once(server, error);
    servers_.note_failure(server, error, Clock::now());
  } catch (const std::exception& error) {
    servers_.note_failure(server, Error(ErrorCode::kIo, error.what()), Clock::now());
  }
  co_return nullptr;
}

/// Once for each batch that is awaited so long, and not the same again for the next one.
void ConnectionFillers::tell_why_waiting(Clock::time_point now) {
  const std::int64_t since = host_->view().control().loader.waiting_since.load();
  if (since == 0 || since == told_since_ ||
      std::chrono::nanoseconds(monotonic_now() - since) < std::chrono::nanoseconds(kToldAfter))
    return;
  if (links_.empty()) {
    if (now - none_since_ < kToldAfter) return;
    told_since_ = since;
    return tell(
        fmt::format("waiting for a server; without one for {} s it is an error (reconnect_deadline): {}",
                    options_.remote.reconnect_deadline / 1s, servers_.last_words()));
  }
  told_since_ = since;
  (*std::ranges::min_element(links_, {}, [](const auto& link) {
    return link->first_asked().value_or(UINT64_MAX);
  }))->ask_status();
}

void ConnectionFillers::tell(const std::string& why) {
  if (why == told_why_ || stopping_ || !options_.remote.note) return;  // it may come unasked
  told_why_ = why;
  options_.remote.note(why);
}

/// Others make its batches, so nobody would ask why it is idle.
void ConnectionFillers::tell_once(std::size_t server, const Error& refusal) {
  if (told_[server] || stopping_ || !options_.remote.note) return;
  told_[server] = true;
  options_.remote.note(fmt::format("{}; it is left alone meanwhile", refusal.message()));
}

asio::awaitable<std::shared_ptr<ServerLink>> ConnectionFillers::connect_any(std::size_t home) {
  for (const std::size_t server : ring_from(home, servers_.size())) {
    if (!servers_.may_try(server, Clock::now())) continue;
    std::shared_ptr<ServerLink> link = co_await connect(server);
    if (link || stopped()) co_return link;
  }
  co_return nullptr;
}

asio::awaitable<void> ConnectionFillers::keep_post(std::shared_ptr<Post> post) {
  Clock::time_point look_home = Clock::now() + kLookHome;
  const auto has_link = [&] { return post->link && !post->link->leaving() && !post->link->ended(); };
  while (!stopping_) {
    if (!has_link()) {
      post->link = nullptr;
      post->link = co_await connect_any(post->home);
      look_home = Clock::now() + kLookHome;
    } else if (Clock::now() >= look_home) {
      if (post->link->server() != post->home && servers_.may_try(post->home, Clock::now())) {
        if (std::shared_ptr<ServerLink> back = co_await connect(post->home)) {
          post->link->leave();
          post->link = std::move(back);
        }
      }
      look_home = Clock::now() + kLookHome;
    }
    if (stopping_) break;
    const Clock::time_point now = Clock::now();
    Clock::time_point until = look_home;
    if (!has_link()) until = std::clamp(servers_.next_try(), now + kShortestPause, now + kLongestPause);
    post->wake.expires_at(until);
    boost::system::error_code ignored;
    co_await post->wake.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

}  // namespace hopfeed
