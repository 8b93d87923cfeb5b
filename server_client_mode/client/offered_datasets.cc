// See offered_datasets.h.
#include "server_client_mode/client/offered_datasets.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "core/base/error.h"

namespace hopfeed {
namespace {

namespace asio = wire::asio;

/// To connect, and as long again to log in. Who is slower makes batches later, and is asked for the dataset
/// by its fingerprint then.
constexpr std::chrono::milliseconds kPatience{1'000};

struct Offered {
  std::string peer, fingerprint;
};

asio::awaitable<void> look(const Caller& caller, wire::Address address, const DatasetMeta& meta,
                           Offered& found) {
  try {
    const Contact contact = co_await call_server(caller, address);
    found = {.peer = contact.connection->peer(), .fingerprint = other_under_the_name(contact.offer, meta)};
  } catch (const std::exception&) {  // who is away is looked for later
  }
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
  std::vector<Talk> looks;
  for (std::size_t i = 0; i < servers.size(); ++i)
    if (servers[i] != first.server)
      looks.emplace_back([&, i] { return look(hasty, remote.servers[servers[i]], meta, offered[i]); });
  run_to_end(context, std::move(looks), remote.while_waiting);
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
