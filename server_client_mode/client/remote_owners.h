// Servers that a client takes batches from may own state too (peers/state_owners.h).
#pragma once
#include "peers/peer_options.h"
#include "server_client_mode/client/remote_execution.h"

namespace hopfeed {

/// Returns how their state is asked for: the same servers, token, TLS and patience.
PeerOptions owners_among(const RemoteExecution& remote);

}  // namespace hopfeed
