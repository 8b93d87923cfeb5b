// See offered_datasets.h.
#include "server_client_mode/client/offered_datasets.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <chrono>
#include <exception>

#include "core/base/error.h"

namespace hopfeed {
namespace {

namespace asio = wire::asio;
using Clock = std::chrono::steady_clock;

/// To connect, and as long again to log in. Who is slower makes batches later, and is asked for the dataset
/// by its fingerprint then.
constexpr std::chrono::milliseconds kPatience{1'000};
constexpr std::chrono::milliseconds kLookUp{100};  // whether the caller still waits

struct Offered {
  std::string peer, fingerprint;
};

asio::awaitable<void> look(Caller caller, wire::Address address, const DatasetMeta& meta, Offered& found) {
  const Contact contact = co_await call_server(caller, address);
  found = {.peer = contact.connection->peer(), .fingerprint = other_under_the_name(contact.offer, meta)};
}

}  // namespace

std::string other_under_the_name(const wire::Offer& offer, const DatasetMeta& meta) {
  std::string other;
  for (const wire::Offer::Dataset& dataset : offer.datasets) {
    if (dataset.fingerprint == meta.fingerprint) return "";
    if (dataset.name == meta.name) other = dataset.fingerprint;
  }
  return other;
}

void check_offered(asio::io_context& context, const RemoteExecution& remote, const Caller& caller,
                   const std::vector<std::size_t>& servers, const FirstContact& first,
                   const DatasetMeta& meta) {
  Caller hasty = caller;
  hasty.connect_timeout = std::min(hasty.connect_timeout, kPatience);
  std::vector<Offered> offered(servers.size());
  std::vector<asio::cancellation_signal> cancel(servers.size());
  std::size_t looking = 0;
  context.restart();
  for (std::size_t i = 0; i < servers.size(); ++i) {
    if (servers[i] == first.server) continue;
    ++looking;
    asio::co_spawn(context, look(hasty, remote.servers[servers[i]], meta, offered[i]),
                   asio::bind_cancellation_slot(cancel[i].slot(), [&looking](const std::exception_ptr&) {
                     --looking;  // who is away is looked for later
                   }));
  }
  std::exception_ptr left;
  const auto guard = asio::make_work_guard(context);
  Clock::time_point look_up = Clock::now() + kLookUp;
  while (looking > 0) {
    context.run_one_for(kLookUp);
    if (looking == 0 || left || !remote.while_waiting || Clock::now() < look_up) continue;
    look_up = Clock::now() + kLookUp;
    try {
      remote.while_waiting();
    } catch (...) {  // what they use is here, so their end is awaited
      left = std::current_exception();
      for (asio::cancellation_signal& one : cancel) one.emit(asio::cancellation_type::terminal);
    }
  }
  if (left) std::rethrow_exception(left);
  for (const Offered& other : offered) {
    if (other.fingerprint.empty()) continue;
    const std::string differ = fmt::format("{} has a dataset '{}' of fingerprint {}, and {} one of {}",
                                           first.contact.connection->peer(), meta.name, meta.fingerprint,
                                           other.peer, other.fingerprint);
    require_valid(
        remote.dataset == meta.fingerprint,
        fmt::format("{}; name the one that is meant by its fingerprint ({})", differ, marked("dataset")));
    if (remote.note) remote.note(differ + ", which is left alone");
  }
}

}  // namespace hopfeed
