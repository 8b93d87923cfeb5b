// See remote_options.h.
#include "server_client_mode/client/remote_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/limits.h"

namespace hopfeed {
namespace {

void check_remote_deadline(std::chrono::milliseconds deadline, const char* name) {
  require_valid(deadline.count() >= 1 && deadline.count() <= kMaxDeadlineMs,
                fmt::format("{} is {} ms; choose 1 to {} (a year)", name, deadline.count(), kMaxDeadlineMs));
}

}  // namespace

void RemoteOptions::validate() const {
  require_valid(!servers.empty(), "servers is empty; name one server at least (HOST:PORT or unix:PATH)");
  for (auto server = servers.begin(); server != servers.end(); ++server) {
    require_valid(
        server->is_unix() || server->port != 0,
        fmt::format("server {} has no port; give the one that hopfeed-server printed", server->to_text()));
    require_valid(std::find(servers.begin(), server, *server) == server,
                  fmt::format("server {} is named twice; name each once", server->to_text()));
  }
  require_valid(batches_ahead >= 0 && batches_ahead <= kMaxSlots - 2,
                fmt::format("batches_ahead is {}; choose 1 to {}, or 0 for 4 for each connection",
                            batches_ahead, kMaxSlots - 2));
  require_valid(tls || (tls_files.ca.empty() && tls_files.cert.empty() && tls_files.key.empty()),
                "certificates are named, but TLS is off; turn it on (tls), or leave them out");
  require_valid(cache_ratio >= 0 && cache_ratio <= 1,
                fmt::format("cache_ratio is {}; choose 0 (none) to 1 (all rows)", cache_ratio));
  check_remote_deadline(connect_timeout, "connect_timeout");
  check_remote_deadline(batch_deadline, "batch_deadline");
  check_remote_deadline(reconnect_deadline, "reconnect_deadline");
}

}  // namespace hopfeed
