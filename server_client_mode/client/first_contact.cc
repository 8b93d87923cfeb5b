// See first_contact.h.
#include "server_client_mode/client/first_contact.h"

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
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

constexpr std::chrono::milliseconds kBetweenTries{50};

}  // namespace

void run_to_end(asio::io_context& context, std::function<asio::awaitable<void>()> talk) {
  bool done = false;
  std::exception_ptr thrown;
  asio::co_spawn(context, std::move(talk), [&](const std::exception_ptr& error) {
    thrown = error;
    done = true;
  });
  context.restart();
  while (!done && context.run_one() > 0) {
  }
  if (thrown) std::rethrow_exception(thrown);
  if (!done) throw Error(ErrorCode::kIo, "the event loop of the client has stopped by itself");
}

std::vector<std::size_t> ring_from(std::size_t first, std::size_t count) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < count; ++i) order.push_back((first + i) % count);
  return order;
}

FirstContact talk_to_any(asio::io_context& context, const RemoteOptions& remote, const Caller& caller,
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
        run_to_end(context, [&]() -> asio::awaitable<void> {
          first.contact = co_await call_server(caller, remote.servers[i]);
          co_await talk(first.contact);
        });
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
