// See offered_datasets.h.
#include "server_client_mode/client/offered_datasets.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include "core/base/error.h"

namespace hopfeed {
namespace {

namespace asio = wire::asio;

/// To connect, and as long again to log in. Who is slower makes batches later, and is asked for the dataset
/// by its fingerprint then.
constexpr std::chrono::milliseconds kPatience{1'000};

struct Offered {
  std::string peer;
  std::optional<wire::Offer::Dataset> other;
};

/// Returns what a server has in place of `meta`, under its name, or where no name was asked for under
/// another; nothing where it has `meta` itself.
std::optional<wire::Offer::Dataset> other_of(const wire::Offer& offer, const DatasetMeta& meta,
                                             const std::string& asked) {
  std::optional<wire::Offer::Dataset> other;
  for (const wire::Offer::Dataset& dataset : offer.datasets) {
    if (dataset.fingerprint == meta.fingerprint) return std::nullopt;
    if (dataset.name == meta.name || asked.empty()) other = dataset;
  }
  return other;
}

asio::awaitable<void> look(const Caller& caller, wire::Address address, const DatasetMeta& meta,
                           const std::string& asked, Offered& found) {
  try {
    const Contact contact = co_await call_server(caller, address);
    found = {.peer = contact.connection->peer(), .other = other_of(contact.offer, meta, asked)};
  } catch (const std::exception&) {  // who is away is looked for later
  }
}

}  // namespace

std::vector<std::size_t> compared_servers(std::vector<std::size_t> own, std::size_t count) {
  const std::size_t next = (own.back() + 1) % count;
  if (std::ranges::find(own, next) == own.end()) own.push_back(next);
  return own;
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
      looks.emplace_back(
          [&, i] { return look(hasty, remote.servers[servers[i]], meta, remote.dataset, offered[i]); });
  run_to_end(context, std::move(looks), remote.while_waiting);
  for (const Offered& other : offered) {
    if (!other.other) continue;
    const bool same_name = other.other->name == meta.name;
    const std::string differ =
        fmt::format("{} has a dataset '{}' of fingerprint {}, and {} one {}of {}",
                    first.contact.connection->peer(), meta.name, meta.fingerprint, other.peer,
                    same_name ? "" : "'" + other.other->name + "' ", other.other->fingerprint);
    require_valid(remote.dataset == meta.fingerprint,
                  fmt::format("{}; name the one that is meant{} ({})", differ,
                              same_name ? " by its fingerprint" : "", marked("dataset")));
    if (remote.note) remote.note(differ + ", which is left alone");
  }
}

}  // namespace hopfeed
