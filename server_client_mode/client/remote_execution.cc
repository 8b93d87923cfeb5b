// See remote_execution.h.
#include "server_client_mode/client/remote_execution.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/limits.h"

namespace hopfeed {
namespace {

void check_remote_deadline(std::chrono::milliseconds deadline, const char* name) {
  require_valid(
      deadline.count() >= 1 && deadline.count() <= kMaxDeadlineMs,
      fmt::format("{} is {} ms; choose 1 to {} (a year)", marked(name), deadline.count(), kMaxDeadlineMs));
}

}  // namespace

void RemoteExecution::validate() const {
  require_valid(!servers.empty(),
                marked("servers") + " is empty; name one server at least (HOST:PORT or unix:PATH)");
  for (auto server = servers.begin(); server != servers.end(); ++server) {
    require_valid(
        server->is_unix() || server->port != 0,
        fmt::format("server {} has no port; give the one that hopfeed-server printed", server->to_text()));
    require_valid(std::find(servers.begin(), server, *server) == server,
                  fmt::format("server {} is named twice; name each once", server->to_text()));
  }
  require_valid(batches_ahead >= 0 && batches_ahead <= kMaxSlots - 2,
                fmt::format("{} is {}; choose 1 to {}, or 0 for 4 for each connection",
                            marked("batches_ahead"), batches_ahead, kMaxSlots - 2));
  require_valid(tls || (tls_files.ca.empty() && tls_files.cert.empty() && tls_files.key.empty()),
                fmt::format("certificates are named, but TLS is off; turn it on ({}), or leave them out",
                            marked("tls")));
  require_valid(cache.ratio >= 0 && cache.ratio <= 1,
                fmt::format("{} is {}; choose 0 (none) to 1 (all rows)", marked("cache_ratio"), cache.ratio));
  check_remote_deadline(connect_timeout, "connect_timeout");
  check_remote_deadline(batch_deadline, "batch_deadline");
  check_remote_deadline(reconnect_deadline, "reconnect_deadline");
}

}  // namespace hopfeed
