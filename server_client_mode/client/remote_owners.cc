// See remote_owners.h.
#include "server_client_mode/client/remote_owners.h"

namespace hopfeed {

PeerOptions owners_among(const RemoteExecution& remote) {
  PeerOptions options;
  for (const wire::Address& address : remote.servers) options.peers.push_back(address.to_text());
  options.token = remote.token;
  options.tls = remote.tls;
  options.tls_ca = remote.tls_files.ca;
  options.tls_cert = remote.tls_files.cert;
  options.tls_key = remote.tls_files.key;
  options.connect_timeout = remote.connect_timeout;
  options.deadline = remote.reconnect_deadline;
  return options;
}

}  // namespace hopfeed
