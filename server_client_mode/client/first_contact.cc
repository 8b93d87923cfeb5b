// See first_contact.h.
#include "server_client_mode/client/first_contact.h"

#include <fmt/format.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <chrono>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "server_client_mode/client/server_list.h"

namespace hopfeed {
namespace {

namespace asio = wire::asio;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kBetweenTries{50}, kLook{100};

}  // namespace

void run_to_end(asio::io_context& context, std::function<asio::awaitable<void>()> talk,
                const std::function<void()>& while_waiting) {
  bool done = false;
  std::exception_ptr thrown, left;
  asio::cancellation_signal cancel;
  const auto end = [&](const std::exception_ptr& error) {
    thrown = error;
    done = true;
  };
  asio::co_spawn(context, std::move(talk), asio::bind_cancellation_slot(cancel.slot(), end));
  context.restart();
  const auto guard = asio::make_work_guard(context);  // a wait for nothing would end the loop
  Clock::time_point look = Clock::now() + kLook;
  while (!done) {
    context.run_one_for(kLook);
    if (done || left || !while_waiting || Clock::now() < look) continue;
    look = Clock::now() + kLook;
    try {
      while_waiting();
    } catch (...) {  // the coroutine uses what is the caller's, so its end is awaited
      left = std::current_exception();
      cancel.emit(asio::cancellation_type::terminal);
    }
  }
  if (left) std::rethrow_exception(left);
  if (thrown) std::rethrow_exception(thrown);
}

std::vector<std::size_t> ring_from(std::size_t first, std::size_t count) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < count; ++i) order.push_back((first + i) % count);
  return order;
}

FirstContact talk_to_any(asio::io_context& context, const RemoteExecution& remote, const Caller& caller,
                         const std::vector<std::size_t>& order,
                         const std::function<asio::awaitable<void>(Contact&)>& talk) {
  ServerList servers(remote.servers);
  const Clock::time_point give_up = Clock::now() + remote.connect_timeout;
  for (;;) {
    std::optional<Error> refusal;
    bool silent = false;
    for (const std::size_t i : order) {
      try {
        FirstContact first;
        first.server = i;
        run_to_end(
            context,
            [&]() -> asio::awaitable<void> {
              first.contact = co_await call_server(caller, remote.servers[i]);
              co_await talk(first.contact);
            },
            remote.while_waiting);
        return first;
      } catch (const Error& error) {
        servers.note_failure(i, error, Clock::now());
        if (!is_refusal(error))
          silent = true;
        else if (!refusal)
          refusal = error;
      }
    }
    if (silent && Clock::now() < give_up) {
      if (remote.while_waiting) remote.while_waiting();
      std::this_thread::sleep_for(kBetweenTries);
      continue;
    }
    if (refusal) throw *refusal;
    throw Error(ErrorCode::kTimeout,
                fmt::format("no server answers within {} ms ({}); start hopfeed-server there, or name others",
                            remote.connect_timeout.count(), servers.last_words()));
  }
}

}  // namespace hopfeed
