// See partition_arguments.h.
#include "programs/options/partition_arguments.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/program/field_options.h"
#include "core/program/program_main.h"
#include "peers/open_partitions.h"
#include "wire/address.h"

namespace hopfeed {
namespace {

constexpr const char* kSystemCa = "system";

}  // namespace

std::vector<std::string> PartitionArguments::add(CommandLine& line) {
  std::vector<std::string> added =
      add_field_options(line, [this](FieldVisitor& fields) { options_.visit(fields); }, {"partitions"});
  line.option("--peer-token-file", token_file_,
              "The token that these servers want is in this file; default: that of HOPFEED_TOKEN, else none");
  added.push_back("--peer-token-file");
  return added;
}

PeerOptions PartitionArguments::take() const {
  PeerOptions options = options_;
  for (const std::string& peer : options.peers) wire::parse_address(peer);  // told even where all is here
  if (!options.peers.empty()) {
    options.token = peer_token(token_file_);
    warn_of_secret("--peer-token-file", token_file_);
    warn_of_secret("--peer-key", options.tls_key);
  }
  options.tls = !options.tls_ca.empty();
  if (options.tls_ca == kSystemCa) options.tls_ca = {};
  require_valid(options.tls || options.tls_cert.empty(),
                fmt::format("--peer-cert is of TLS; give --peer-ca too (a file, or '{}')", kSystemCa));
  return options;
}

}  // namespace hopfeed
