// Soaks servers and clients under random faults (hopfeed-soak --servers).
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>

namespace hopfeed::soak {

struct ServerSoakOptions {
  int servers = 3, clients = 4;
  bool machines = false;  // each server has a partition of the graph, and asks the others for the rest
  double seconds = 60;
  std::uint64_t seed = 0;
};

/// Servers are killed and started again, stopped for a while, their workers killed; connections are cut and
/// stalled on the way; clients read slowly, leave epochs, or are killed. With `machines` half of the clients
/// are trainers in worker mode beside a partition. Every batch that any client gets is held against the
/// serial oracle, in order. Throws kCorrupt for the first that is wrong, lost or twice, and for what is left
/// behind.
nlohmann::json soak_servers(const ServerSoakOptions& options);

}  // namespace hopfeed::soak
