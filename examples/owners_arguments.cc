// See owners_arguments.h.
#include "examples/owners_arguments.h"

#include <chrono>
#include <memory>

#include "core/base/error.h"
#include "core/program/stop_signals.h"
#include "peers/state_owners.h"
#include "server_client_mode/client/remote_owners.h"

namespace hopfeed {
namespace {

constexpr std::chrono::seconds kStopsWithin{60};

}  // namespace

void OwnersArguments::add(CommandLine& line) {
  line.option("--owners", owners_,
              "Servers started with --state that have the learned rows, each those of its partitions: peers "
              "(those of --peers), servers (those of --servers), or HOST:PORT,...; default: each trainer has "
              "all rows");
  line.option("--tables", tables_, "Begins the names of tables at --owners; two runs at a time need two");
}

void OwnersArguments::take(LoaderOptions& loader, const std::filesystem::path& out) const {
  require_valid(given() || tables_.empty(), "--tables is of --owners; give both");
  if (!given()) return;
  require_valid(!out.empty(), "--owners needs --out, where checkpoints of what is learned are committed");
  loader.batch.dataset_ids = true;
}

PeerOptions OwnersArguments::servers_of(const ServerArguments& servers, const PeerOptions& peers) const {
  require_valid(owners_ != "peers" || !peers.peers.empty(), "--owners is peers, and --peers is missing");
  require_valid(owners_ != "servers" || servers.remote(), "--owners is servers, and --servers is missing");
  PeerOptions options = servers.remote() ? owners_among(servers.options()) : peers;
  if (owners_ != "peers" && owners_ != "servers") options.peers = parse_names(owners_);
  options.own.clear();
  return options;
}

Owners OwnersArguments::connect(const DatasetMeta& dataset, const ServerArguments& servers,
                                const PeerOptions& peers) const {
  if (!given()) return {};
  // Ranks that are asked to stop do so together, with a checkpoint; one that waits for ever does not.
  const auto end_of_waiting = [] {
    if (stop_asked_for(kStopsWithin)) stop_if_asked();
  };
  return {.network = std::make_shared<StateOwners>(dataset, servers_of(servers, peers), end_of_waiting),
          .tables = tables_};
}

}  // namespace hopfeed
