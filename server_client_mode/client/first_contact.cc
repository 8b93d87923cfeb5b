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

void run_to_end(asio::io_context& context, std::vector<Talk> talks,
                const std::function<void()>& while_waiting) {
  std::size_t talking = talks.size();
  std::exception_ptr thrown, left;
  std::vector<asio::cancellation_signal> cancel(talks.size());
  const auto end = [&](const std::exception_ptr& error) {
    if (!thrown) thrown = error;
    --talking;
  };
  for (std::size_t i = 0; i < talks.size(); ++i)
    asio::co_spawn(context, std::move(talks[i]), asio::bind_cancellation_slot(cancel[i].slot(), end));
  context.restart();
  const auto guard = asio::make_work_guard(context);  // a wait for nothing would end the loop
  Clock::time_point look = Clock::now() + kLook;
  while (talking > 0) {
    context.run_one_for(kLook);
    if (talking == 0 || left || !while_waiting || Clock::now() < look) continue;
    look = Clock::now() + kLook;
    try {
      while_waiting();
    } catch (...) {  // the coroutines use what is the caller's, so their end is awaited
      left = std::current_exception();
      for (asio::cancellation_signal& one : cancel) one.emit(asio::cancellation_type::terminal);
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
        run_to_end(context, {[&]() -> asio::awaitable<void> {
                     first.contact = co_await call_server(caller, remote.servers[i]);
                     co_await talk(first.contact);
                   }},
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
