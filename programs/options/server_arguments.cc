// See server_arguments.h.
#include "programs/options/server_arguments.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/program/field_options.h"
#include "core/program/parse_option.h"
#include "core/program/patient_write.h"
#include "core/program/program_main.h"
#include "core/program/stop_signals.h"
#include "programs/options/of_option.h"
#include "server_client_mode/client/remote_loader.h"
#include "wire/address.h"
#include "wire/security.h"
#include "worker_mode/local_streams.h"

namespace hopfeed {
namespace {

constexpr const char* kSystemCa = "system";

/// The ratio that a report of `hopfeed-partition tune --json` recommends.
double recommended_ratio(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(ErrorCode::kNotFound, fmt::format("--cache: cannot read {}", path));
  const nlohmann::json report = parse_json(std::string{std::istreambuf_iterator<char>(in), {}});
  const nlohmann::json::json_pointer at("/recommended/ratio");
  if (!report.is_object() || !report.contains(at) || !report[at].is_number())
    throw Error(
        ErrorCode::kInvalid,
        fmt::format("--cache: {} recommends no ratio; give what hopfeed-partition tune --json has written",
                    path));
  return report[at].get<double>();
}

/// "0.2": that share of the rows; "4G": as many as fit; "auto": as many as fit and are worth it; FILE.json:
/// as many as the tuner recommends.
void read_cache(const std::string& text, RemoteExecution& remote) {
  if (text.empty()) return;
  const CacheSize size = text.ends_with(".json")
                             ? CacheSize{.ratio = recommended_ratio(text)}
                             : parse_cache_size(text, "--cache", ", or the tuner's FILE.json");
  require_valid(size.ratio >= 0 && size.ratio <= 1,
                fmt::format("--cache: {} recommends the ratio {}; ratios are from 0 to 1", text, size.ratio));
  remote.cache = size;
}

}  // namespace

void ServerArguments::add(CommandLine& line) {
  line_ = &line;
  const CommandLine::Group group(line, "Servers and connections");
  line.option("--servers", servers_,
              "ADDR,...: sampling servers in place of " + folder_ + " (HOST:PORT, [IPv6]:PORT or unix:PATH)");
  line.option("--dataset", dataset_,
              "With --servers: name or fingerprint of the dataset, where they have several");
  add_security(line);
  line.option("--connect", connect_,
              "With --servers: to this trainer's share of them, others in need (own), or to all",
              {.one_of = {"own", "all"}});
  line.option(
      "--cache", cache_,
      "With --servers: hold the hottest feature rows here, so that they need not travel: a share of "
      "the rows (0.2), a size (4G), auto (what fits into a quarter of the free memory, where that is worth "
      "it), or what FILE.json of hopfeed-partition tune recommends");
}

void ServerArguments::add_security(CommandLine& line) {
  line.option("--token-file", token_file_, "File with the servers' token; default: HOPFEED_TOKEN");
  add_field_options(line, [this](FieldVisitor& fields) { given_.visit(fields); }, {"security"});
}

void ServerArguments::check(const std::string& given) const {
  require_valid(!remote() || given.empty(),
                fmt::format("{} is {} and --servers is {}; give one of them: servers have datasets of their "
                            "own",
                            folder_, given, servers_));
  require_valid(remote() || !given.empty(),
                fmt::format("{} is missing; give the dataset folder, or --servers that have it", folder_));
  const auto of_servers = [this](const std::string& value, const char* name) {
    require_valid(remote() || value.empty(), fmt::format("{} is of --servers; give both", name));
  };
  of_servers(dataset_, "--dataset");
  of_servers(token_file_, "--token-file");
  of_servers(given_.tls_files.ca, "--tls-ca");
  of_servers(given_.tls_files.cert, "--tls-cert");
  of_servers(given_.tls_files.key, "--tls-key");
  of_servers(cache_, "--cache");
}

RemoteExecution ServerArguments::options() const {
  RemoteExecution remote = options_for(servers_);
  remote.dataset = dataset_;
  remote.connect_all = connect_ == "all";
  remote.note = [program = line_](const std::string& line) {
    write_patiently(STDERR_FILENO, program->in_own_words(line) + "\n", kLastLinePatienceMs);
  };
  read_cache(cache_, remote);
  return remote;
}

RemoteExecution ServerArguments::options_for(const std::string& address) const {
  const wire::TlsFiles& tls = given_.tls_files;
  require_valid(tls.cert.empty() == tls.key.empty(),
                "--tls-cert and --tls-key go together; give both or leave both out");
  require_valid(!tls.ca.empty() || tls.cert.empty(),
                fmt::format("--tls-cert is of TLS; give --tls-ca too (a file, or '{}')", kSystemCa));
  RemoteExecution remote = given_;
  remote.while_waiting = stop_if_asked;
  const auto parse = [&address] { return wire::parse_addresses(address); };
  remote.servers = this->remote() ? of_option("--servers", parse) : parse();
  remote.token = wire::read_token(token_file_);
  warn_of_secret("--token-file", token_file_);
  warn_of_secret("--tls-key", tls.key);
  remote.tls = !tls.ca.empty();
  if (tls.ca == kSystemCa) remote.tls_files.ca = {};
  return remote;
}

std::shared_ptr<const StreamSource> ServerArguments::streams(const std::string& given) const {
  check(given);
  if (remote()) return std::make_shared<const RemoteStreams>(options());
  return std::make_shared<const LocalStreams>(given);
}

}  // namespace hopfeed
