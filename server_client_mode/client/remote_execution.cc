// See remote_execution.h.
#include "server_client_mode/client/remote_execution.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/field_visitor.h"
#include "core/base/limits.h"

namespace hopfeed {
namespace {

void check_remote_deadline(std::chrono::milliseconds deadline, const char* name) {
  require_valid(
      deadline.count() >= 1 && deadline.count() <= kMaxDeadlineMs,
      fmt::format("{} is {} ms; choose 1 to {} (a year)", marked(name), deadline.count(), kMaxDeadlineMs));
}

}  // namespace

void RemoteExecution::visit(FieldVisitor& fields) {
  fields.special(
      {.name = "servers",
       .help = "Sampling servers in place of a dataset folder: HOST:PORT, [IPv6]:PORT or unix:PATH; "
               "`dataset` is then a name or fingerprint there"},
      "Sequence[str] | str");
  fields.secret({.name = "token_file", .help = "File with the servers' token; default: HOPFEED_TOKEN"},
                token);
  fields.flag({.name = "tls", .help = "Talk TLS, trusting what this machine trusts", .option = ""}, tls);
  fields.text(
      {.name = "tls_ca",
       .help = "Talk TLS: file with the authority of the servers' certificates",
       .option_help = "TLS: file with the authority of the servers' certificates, or 'system' for those that "
                      "this machine trusts",
       .group = "security"},
      tls_files.ca);
  fields.text({.name = "tls_cert",
               .help = "With TLS: certificate of this client, where the servers want one",
               .option_help = "With `tls_ca`: certificate of this client, where the servers want one",
               .group = "security"},
              tls_files.cert);
  fields.text({.name = "tls_key", .help = "With `tls_cert`: its key", .group = "security"}, tls_files.key);
  fields.flag({.name = "connect_all",
               .help = "Connect to all servers, and not to this trainer's share of them alone",
               .option = "--connect"},
              connect_all);
  fields.whole({.name = "batches_ahead",
                .help = "Batches asked for in advance, over all connections; 0: 4 for each, at least 8",
                .option = ""},
               batches_ahead, {0, kMaxSlots - 2});
  fields.seconds(
      {.name = "connect_timeout", .help = "Seconds for a server to answer at the start", .option = ""},
      connect_timeout);
  fields.seconds({.name = "reconnect_deadline",
                  .help = "Seconds without any server, after which the epoch ends with an error",
                  .option = ""},
                 reconnect_deadline);
  fields.cache_size(
      {.name = "cache",
       .help = "Hold the hottest feature rows here, so that they need not travel: a share of the rows "
               "(0.2), a size (4G) or auto (what fits into a quarter of the free memory, where that is "
               "worth it)"},
      cache);
}

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
  cache.validate("cache");
  check_remote_deadline(connect_timeout, "connect_timeout");
  check_remote_deadline(batch_deadline, "batch_deadline");
  check_remote_deadline(reconnect_deadline, "reconnect_deadline");
}

}  // namespace hopfeed
