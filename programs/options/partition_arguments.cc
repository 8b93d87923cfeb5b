// See partition_arguments.h.
#include "programs/options/partition_arguments.h"

#include <fmt/format.h>

#include <charconv>
#include <vector>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/batch/batch_options.h"
#include "core/program/program_main.h"
#include "peers/open_partitions.h"

namespace hopfeed {
namespace {

constexpr const char* kSystemCa = "system";

std::vector<int> parse_partitions(const std::string& text) {
  std::vector<int> list;
  for (const std::string& name : parse_names(text, "partitions")) {
    int number = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), number);
    require_valid(read.ec == std::errc() && read.ptr == name.data() + name.size() && number >= 0,
                  fmt::format("--partitions: '{}' is no number of a partition", name));
    list.push_back(number);
  }
  return list;
}

}  // namespace

void PartitionArguments::add(CommandLine& line) {
  line.option("--partitions", own_,
              "Partitions of the dataset that this machine has (0,1); default, with --peers: those that are "
              "in the folder");
  line.option("--peers", peers_,
              "HOST:PORT,... of the servers (hopfeed-server) that have the other partitions; this machine's "
              "own may be "
              "among them");
  line.option("--replicas", options_.replicas, "Servers that a partition may have; they share the questions",
              {.min = 1, .max = kMaxPartitions});
  line.option("--worker-concurrency", options_.concurrency,
              "Batches that a worker has under way at a time, while other machines answer",
              {.min = 1, .max = kMaxPeerConcurrency});
  line.option("--peer-deadline", deadline_,
              "Seconds after which a question that no server has answered is an error",
              {.min = 1, .max = kMaxDeadlineMs / 1000});
  line.option("--peer-connect-timeout", connect_timeout_,
              "Seconds that all of them have to answer at the start",
              {.min = 1, .max = kMaxDeadlineMs / 1000});
  line.option("--peer-token-file", token_file_,
              "The token that these servers want is in this file; default: that of HOPFEED_TOKEN, else none");
  line.option("--peer-ca", options_.tls_ca,
              "They talk TLS: file with the authority of their certificates, or 'system' for those that this "
              "machine trusts");
  line.option("--peer-cert", options_.tls_cert, "Certificate of this machine, where they want one");
  line.option("--peer-key", options_.tls_key, "Its key");
}

PeerOptions PartitionArguments::take() const {
  PeerOptions options = options_;
  options.own = parse_partitions(own_);
  if (!peers_.empty()) {
    options.peers = parse_names(peers_, "peers");
    options.token = peer_token(token_file_);
    warn_of_secret("--peer-token-file", token_file_);
    warn_of_secret("--peer-key", options.tls_key);
  }
  options.tls = !options.tls_ca.empty();
  if (options.tls_ca == kSystemCa) options.tls_ca = {};
  require_valid(options.tls || options.tls_cert.empty(),
                fmt::format("--peer-cert is of TLS; give --peer-ca too (a file, or '{}')", kSystemCa));
  options.connect_timeout = std::chrono::seconds(connect_timeout_);
  options.deadline = std::chrono::seconds(deadline_);
  return options;
}

}  // namespace hopfeed
