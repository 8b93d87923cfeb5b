// See peer_options.h.
#include "peers/peer_options.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/field_visitor.h"
#include "core/base/limits.h"

namespace hopfeed {

void PeerOptions::visit(FieldVisitor& fields) {
  const char* const group = "partitions";
  fields.numbers(
      {.name = "partitions",
       .help = "Partitions of the dataset that this machine has; default, with `peers`: those that "
               "are in the folder",
       .group = group,
       .of_workers = true},
      own);
  fields.texts(
      {.name = "peers",
       .help = "HOST:PORT,... of the servers (hopfeed-server) that have the other partitions; this machine's "
               "own may be among them",
       .group = group,
       .of_workers = true},
      peers);
  fields.whole({.name = "replicas",
                .help = "Servers that a partition may have; the quickest is asked",
                .group = group,
                .of_workers = true},
               replicas, {1, kMaxPartitions});
  fields.whole({.name = "worker_concurrency",
                .help = "Batches that a worker has under way at a time, while other machines answer",
                .group = group,
                .of_workers = true},
               concurrency, {1, kMaxPeerConcurrency});
  fields.seconds({.name = "peer_deadline",
                  .help = "Seconds after which a question that no server has answered is an error",
                  .group = group,
                  .of_workers = true},
                 deadline);
  fields.seconds({.name = "peer_connect_timeout",
                  .help = "Seconds that all of these servers have to answer at the start",
                  .group = group,
                  .of_workers = true},
                 connect_timeout);
  fields.secret(
      {.name = "peer_token_file",
       .help = "File with the token that these servers want; default: that of HOPFEED_TOKEN, else none",
       .key = "peer_token"},
      token);
  fields.flag({.name = "peer_tls", .help = "", .option = "", .keyword = ""}, tls);
  fields.text(
      {.name = "peer_ca",
       .help = "These servers talk TLS: file with the authority of their certificates",
       .option_help = "These servers talk TLS: file with the authority of their certificates, or 'system' "
                      "for those that this machine trusts",
       .group = group,
       .of_workers = true},
      tls_ca);
  fields.text({.name = "peer_cert",
               .help = "With `peer_ca`: certificate of this machine, where these servers want one",
               .group = group,
               .of_workers = true},
              tls_cert);
  fields.text({.name = "peer_key", .help = "With `peer_cert`: its key", .group = group, .of_workers = true},
              tls_key);
}

void PeerOptions::validate() const {
  require_valid(peers.size() <= kMaxPartitions,
                fmt::format("{} machines are named ({}), and at most {} can be", peers.size(),
                            marked("peers"), kMaxPartitions));
  require_valid(replicas >= 1,
                fmt::format("{} is {}; a partition has one server at least", marked("replicas"), replicas));
  require_valid(replicas <= kMaxPartitions,
                fmt::format("{} is {}; choose {} at most", marked("replicas"), replicas, kMaxPartitions));
  require_valid(concurrency >= 1 && concurrency <= kMaxPeerConcurrency,
                fmt::format("{} is {}; choose 1 to {}", marked("worker_concurrency"), concurrency,
                            kMaxPeerConcurrency));
  for (const std::chrono::milliseconds limit : {connect_timeout, deadline})
    require_valid(
        limit.count() >= 1 && limit.count() <= kMaxDeadlineMs,
        fmt::format("a deadline of {} ms for other machines; choose 1 ms to a year", limit.count()));
}

}  // namespace hopfeed
