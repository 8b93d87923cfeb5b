// Has the first words with servers, in the calling thread: whoever opens a stream wants to know at once what
// is wrong. One server after the other is asked until one has answered all.
#pragma once
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <functional>
#include <vector>

#include "server_client_mode/client/server_talk.h"

namespace hopfeed {

using Talk = std::function<wire::asio::awaitable<void>()>;
/// Runs coroutines to their ends, and throws what the first throws. `while_waiting` is called ten times a
/// second; where it throws, the coroutines are cancelled, and that is thrown.
void run_to_end(wire::asio::io_context& context, std::vector<Talk> talks,
                const std::function<void()>& while_waiting = {});

struct FirstContact {
  std::size_t server = 0;  // of RemoteExecution::servers
  Contact contact;
  bool draining = false;  // it has said so since
};

/// Calls the servers in this order until `talk` is done with one. Where all refuse, throws what the first
/// said. Where some do not answer, all are tried again until connect_timeout; then throws kTimeout naming
/// each, or what one refused.
FirstContact talk_to_any(wire::asio::io_context& context, const RemoteExecution& remote, const Caller& caller,
                         const std::vector<std::size_t>& order,
                         const std::function<wire::asio::awaitable<void>(Contact&)>& talk);

/// Returns all servers, from this one on in a ring.
std::vector<std::size_t> ring_from(std::size_t first, std::size_t count);

}  // namespace hopfeed
