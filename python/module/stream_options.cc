// See stream_options.h. The names are those of the C++ fields, which docs/loader.md explains.
#include "python/module/stream_options.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/secrets.h"
#include "peers/open_partitions.h"
#include "python/module/given_options.h"
#include "wire/address.h"
#include "wire/security.h"

namespace nb = nanobind;

namespace hopfeed::python {
namespace {

constexpr const char* kIds = "an array of int64 with one dimension";

/// Warns of a file with a secret that others than its owner may open.
void warn_of_secret(const char* name, const std::string& file) {
  const std::string who = open_to_others(file);
  if (!who.empty() && PyErr_WarnEx(PyExc_UserWarning, (std::string(name) + ": " + who).c_str(), 1) != 0)
    throw nb::python_error();  // warnings are errors here
}

template <class T>
std::optional<std::vector<T>> take_array(GivenOptions& given, const char* name, const char* what = kIds) {
  GivenArray<T, 1> array;
  given.take(name, array, what);
  if (!given.has(name)) return {};
  return std::vector<T>(array.data(), array.data() + array.size());
}

void take_seeds(GivenOptions& given, LoaderOptions& options) {
  options.seeds = take_array<std::int64_t>(given, "seeds");
  GivenArray<bool, 1> mask;
  given.take("seed_mask", mask, "an array of bool with one dimension");
  if (given.has("seed_mask")) options.seed_mask.emplace(mask.data(), mask.data() + mask.size());
  if (auto times = take_array<std::int64_t>(given, "seed_times")) options.seed_times = *std::move(times);
  if (auto weights = take_array<double>(given, "seed_weights", "an array of float64 with one dimension"))
    options.seed_weights = *std::move(weights);
}

void take_links(GivenOptions& given, LoaderOptions& options) {
  LinkInput links;
  given.take("link_split", links.split, "a string");
  GivenArray<std::int64_t, 2> pairs;
  given.take("links", pairs, "an array of int64 [P, 2], a link a row");
  if (given.has("links")) {
    require_valid(pairs.shape(1) == 2, "links has rows of " + std::to_string(pairs.shape(1)) +
                                           " numbers; give [P, 2], source and destination of each link");
    links.pairs.emplace(pairs.data(), pairs.data() + pairs.size());
  }
  if (auto labels = take_array<std::int64_t>(given, "link_labels")) links.labels = *std::move(labels);
  if (auto times = take_array<std::int64_t>(given, "link_times")) links.times = *std::move(times);
  const bool on = options.batch.link.on();
  require_valid(on || (!links.pairs && links.labels.empty() && links.times.empty()),
                "links are given without edge_type; name the edge type that they are of");
  if (on) options.links = std::move(links);
}

/// Takes what a machine that has some partitions of the dataset tells the servers of the others.
void take_peer_secrets(GivenOptions& given, PeerOptions& partitions) {
  const std::string token_file = given.path("peer_token_file");
  warn_of_secret("peer_token_file", token_file);
  if (partitions.on()) partitions.token = peer_token(token_file);
  warn_of_secret("peer_key", partitions.tls_key);
  partitions.tls = !partitions.tls_ca.empty();
}

RemoteExecution take_servers(GivenOptions& given, std::chrono::milliseconds batch_deadline) {
  RemoteExecution remote;
  remote.visit(given);
  remote.batch_deadline = batch_deadline;
  std::vector<std::string> servers;
  given.take("servers", servers, "a list of addresses: HOST:PORT, [IPv6]:PORT or unix:PATH");
  for (const std::string& server : servers) remote.servers.push_back(wire::parse_address(server));
  given.take("dataset", remote.dataset, "a dataset's name or fingerprint");
  const std::string token_file = given.path("token_file");
  warn_of_secret("token_file", token_file);
  remote.token = wire::read_token(token_file);
  warn_of_secret("tls_key", remote.tls_files.key);
  remote.tls = remote.tls || !remote.tls_files.ca.empty();
  remote.validate();
  return remote;
}

}  // namespace

StreamOptions stream_options(const nb::dict& dict) {
  GivenOptions given(dict);
  StreamOptions options;
  options.loader.visit(given);
  take_seeds(given, options.loader);
  take_links(given, options.loader);
  LocalExecution& execution = options.loader.execution;
  // Without workers the channel would have two slots, and a loop holds two batches while it asks for a third.
  if (execution.num_workers == 0 && !given.has("num_slots")) execution.num_slots = 4;
  take_peer_secrets(given, execution.partitions);
  if (given.has("servers")) {
    options.remote = take_servers(given, execution.batch_deadline);
  } else {
    given.take("servers", options.loader.dataset, "a string");  // None
    given.take("dataset", options.loader.dataset, "the path of a dataset folder");
    require_valid(!options.loader.dataset.empty(), "dataset is missing; give a dataset folder, or servers");
    GivenOptions of_servers(dict);
    RemoteExecution().visit(of_servers);
    of_servers.path("token_file");
    given.refuse_those_of(of_servers, "is of servers, and none are given; give servers=, or leave it out");
  }
  given.require_all_taken();
  return options;
}

RemoteExecution remote_options(const nb::dict& dict) {
  GivenOptions given(dict);
  RemoteExecution remote = take_servers(given, RemoteExecution{}.batch_deadline);
  given.require_all_taken();
  return remote;
}

PeerOptions peer_options(GivenOptions& given) {
  PeerOptions options;
  options.visit(given);
  take_peer_secrets(given, options);
  return options;
}

std::vector<FieldRow> stream_fields() {
  LoaderOptions loader;
  RemoteExecution remote;
  std::vector<FieldRow> rows = field_table([&](FieldVisitor& fields) {
    loader.visit(fields);
    remote.visit(fields);
  });
  std::map<std::string, std::string> keywords;
  for (const FieldRow& row : rows) keywords[row.name] = row.keyword;
  for (FieldRow& row : rows)
    row.help = respelled(row.help, [&](const std::string& field) {
      const auto keyword = keywords.find(field);
      return "`" + (keyword == keywords.end() ? field : keyword->second) + "`";
    });
  std::erase_if(rows, [](const FieldRow& row) { return row.keyword.empty(); });
  return rows;
}

}  // namespace hopfeed::python
