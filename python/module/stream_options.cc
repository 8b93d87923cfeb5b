// See stream_options.h. The names are those of the C++ fields, which docs/loader.md explains.
#include "python/module/stream_options.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>

#include "core/base/secrets.h"
#include "core/program/parse_option.h"
#include "peers/open_partitions.h"
#include "python/module/given_options.h"
#include "wire/address.h"
#include "wire/security.h"

namespace nb = nanobind;

namespace hopfeed::python {
namespace {

constexpr const char *kText = "a string", *kWhole = "a whole number below 2^63", *kNumber = "a number",
                     *kFlag = "True or False", *kTexts = "a list of strings",
                     *kWholes = "a list of whole numbers below 2^63",
                     *kIds = "an array of int64 with one dimension";

void take_seconds(GivenOptions& given, const char* name, std::chrono::milliseconds& into) {
  constexpr double kMost = 1e9;  // what fits into milliseconds; the options' own limits are lower
  double seconds = 0;
  given.take(name, seconds, "a number of seconds");
  if (!given.has(name)) return;
  require_valid(seconds >= 0 && seconds < kMost, std::string(name) + " is out of range; give seconds");
  into = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

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

void take_sampling(GivenOptions& given, BatchOptions& batch) {
  given.take("sampler", batch.sampler, kText);
  given.take("sampler_options", batch.sampler_options, kText);
  given.take("walk_length", batch.walk.length, kWhole);
  given.take("walks_per_seed", batch.walk.per_seed, kWhole);
  given.take("walk_p", batch.walk.p, kNumber);
  given.take("walk_q", batch.walk.q, kNumber);
  given.take("metapath", batch.walk.metapath, kTexts);
  given.take("cluster", batch.cluster, kText);
  given.take("fanouts", batch.fanouts, kWholes);
  given.take("edge_fanouts", batch.edge_fanouts,
             "a dict from edge types to lists of whole numbers below 2^63");
  given.take("replace", batch.replace, kFlag);
  given.take("labor", batch.labor, kFlag);
  given.take("labor_seeds", batch.labor_seeds, kWhole);
  given.take("weight", batch.weight, kText);
  given.take("time", batch.time, kText);
  given.take("seed_time", batch.seed_time, kText);
  given.take_name("temporal_strategy", batch.temporal_strategy, temporal_strategy_from);
  given.take("time_window", batch.time_window, kWhole);
  given.take("disjoint", batch.disjoint, kFlag);
  given.take_name("subgraph", batch.subgraph, subgraph_from);
  given.take("keep_orig_edges", batch.keep_orig_edges, kFlag);
}

void take_contents(GivenOptions& given, BatchOptions& batch) {
  given.take("edge_ids", batch.edge_ids, kFlag);
  given.take("dataset_ids", batch.dataset_ids, kFlag);
  given.take("attrs", batch.attrs, kTexts);
  given.take("edge_attrs", batch.edge_attrs, kTexts);
}

void take_seeds(GivenOptions& given, LoaderOptions& options) {
  given.take("node_type", options.node_type, kText);
  given.take("split", options.split, kText);
  options.seeds = take_array<std::int64_t>(given, "seeds");
  GivenArray<bool, 1> mask;
  given.take("seed_mask", mask, "an array of bool with one dimension");
  if (given.has("seed_mask")) options.seed_mask.emplace(mask.data(), mask.data() + mask.size());
  if (auto times = take_array<std::int64_t>(given, "seed_times")) options.seed_times = *std::move(times);
  if (auto weights = take_array<double>(given, "seed_weights", "an array of float64 with one dimension"))
    options.seed_weights = *std::move(weights);
  given.take("seed", options.seed, "a whole number from 0 to 2^64 - 1");
  given.take("shuffle", options.shuffle, kFlag);
}

void take_links(GivenOptions& given, LoaderOptions& options) {
  LinkOptions& link = options.batch.link;
  given.take("edge_type", link.edge_type, kText);
  given.take_name("negatives", link.negatives.mode, negative_mode_from);
  given.take("amount", link.negatives.amount, kNumber);
  given.take("strict", link.negatives.strict, kFlag);
  given.take("src_weight", link.negatives.src_weight, kText);
  given.take("dst_weight", link.negatives.dst_weight, kText);
  given.take_name("exclude", link.exclude, exclude_from);
  LinkInput links;
  given.take("link_split", links.split, kText);
  GivenArray<std::int64_t, 2> pairs;
  given.take("links", pairs, "an array of int64 [P, 2], a link a row");
  if (given.has("links")) {
    require_valid(pairs.shape(1) == 2, "links has rows of " + std::to_string(pairs.shape(1)) +
                                           " numbers; give [P, 2], source and destination of each link");
    links.pairs.emplace(pairs.data(), pairs.data() + pairs.size());
  }
  if (auto labels = take_array<std::int64_t>(given, "link_labels")) links.labels = *std::move(labels);
  if (auto times = take_array<std::int64_t>(given, "link_times")) links.times = *std::move(times);
  require_valid(link.on() || (!links.pairs && links.labels.empty() && links.times.empty()),
                "links are given without edge_type; name the edge type that they are of");
  if (link.on()) options.links = std::move(links);
}

void take_deal(GivenOptions& given, DealOptions& deal) {
  given.take("batch_size", deal.batch_size, kWhole);
  given.take("drop_last", deal.drop_last, kFlag);
  given.take("rank", deal.rank, kWhole);
  given.take("world_size", deal.world_size, kWhole);
}

std::optional<CacheSize> take_gpu_cache(GivenOptions& given, const char* name) {
  std::string cache;
  given.take(name, cache, "a share (\"0.2\"), a size (\"4G\") or \"auto\"");
  if (cache.empty()) return {};
  return parse_cache_size(cache, name);
}

void take_gpu(GivenOptions& given, LocalExecution& execution) {
  given.take_name("graph_mode", execution.gpu.graph_mode, graph_mode_from);
  given.take("gpu_device", execution.gpu.gpu_device, kWhole);
  given.take("pin_slots", execution.gpu.pin_slots, kFlag);
  given.take("device_batches", execution.gpu.device_batches, kFlag);
  given.take("worker_devices", execution.gpu.worker_devices, kWholes);
  if (const auto rows = take_gpu_cache(given, "gpu_cache")) execution.gpu.gpu_cache = *rows;
  execution.gpu.gpu_graph_cache = take_gpu_cache(given, "gpu_graph_cache");
}

/// Takes the options of a machine that has some partitions of the dataset.
void take_partitions(GivenOptions& given, PeerOptions& partitions) {
  given.take("partitions", partitions.own, kWholes);
  given.take("peers", partitions.peers,
             "a list of addresses: HOST:PORT of the servers that have the other partitions");
  given.take("replicas", partitions.replicas, kWhole);
  given.take("worker_concurrency", partitions.concurrency, kWhole);
  take_seconds(given, "peer_deadline", partitions.deadline);
  take_seconds(given, "peer_connect_timeout", partitions.connect_timeout);
  std::string token_file;
  given.take("peer_token_file", token_file, "a path");
  warn_of_secret("peer_token_file", token_file);
  if (partitions.on()) partitions.token = peer_token(token_file);
  given.take("peer_ca", partitions.tls_ca, "a path");
  given.take("peer_cert", partitions.tls_cert, "a path");
  given.take("peer_key", partitions.tls_key, "a path");
  warn_of_secret("peer_key", partitions.tls_key);
  partitions.tls = !partitions.tls_ca.empty();
}

void take_execution(GivenOptions& given, LocalExecution& execution) {
  given.take("num_workers", execution.num_workers, kWhole);
  // Without workers the channel would have two slots, and a loop holds two batches while it asks for a third.
  if (execution.num_workers == 0) execution.num_slots = 4;
  given.take("channel_size", execution.channel_size, "a number of bytes");
  given.take("max_batch_memory", execution.max_batch_memory, "a number of bytes");
  given.take("num_slots", execution.num_slots, kWhole);
  given.take("cores", execution.cores, kWholes);
  given.take("check_finite", execution.check_finite, kFlag);
  given.take_name("huge_pages", execution.huge_pages, parse_huge_pages);
  take_seconds(given, "batch_deadline", execution.batch_deadline);
  take_seconds(given, "start_deadline", execution.start_deadline);
  given.take("max_worker_restarts", execution.max_worker_restarts, kWhole);
  given.take("plugins", execution.plugins, kTexts);
  given.take("worker_program", execution.worker_program, kText);
  given.take_name("features_from", execution.features.from, features_from);
  given.take("row_cache_bytes", execution.features.row_cache_bytes, "a number of bytes");
  given.take("window", execution.features.window, kWhole);
  take_gpu(given, execution);
  take_partitions(given, execution.partitions);
}

RemoteExecution take_servers(GivenOptions& given) {
  RemoteExecution remote;
  std::vector<std::string> servers;
  given.take("servers", servers, "a list of addresses: HOST:PORT, [IPv6]:PORT or unix:PATH");
  for (const std::string& server : servers) remote.servers.push_back(wire::parse_address(server));
  given.take("dataset", remote.dataset, "a dataset's name or fingerprint");
  std::string token_file, cache;
  given.take("token_file", token_file, "a path");
  warn_of_secret("token_file", token_file);
  remote.token = wire::read_token(token_file);
  given.take("tls", remote.tls, kFlag);
  given.take("tls_ca", remote.tls_files.ca, "a path");
  given.take("tls_cert", remote.tls_files.cert, "a path");
  given.take("tls_key", remote.tls_files.key, "a path");
  warn_of_secret("tls_key", remote.tls_files.key);
  remote.tls = remote.tls || !remote.tls_files.ca.empty();
  given.take("connect_all", remote.connect_all, kFlag);
  given.take("batches_ahead", remote.batches_ahead, kWhole);
  take_seconds(given, "connect_timeout", remote.connect_timeout);
  take_seconds(given, "batch_deadline", remote.batch_deadline);
  take_seconds(given, "reconnect_deadline", remote.reconnect_deadline);
  given.take("cache", cache, "a share (\"0.2\"), a size (\"4G\") or \"auto\"");
  if (!cache.empty()) remote.cache = parse_cache_size(cache, "cache");
  remote.validate();
  return remote;
}

}  // namespace

StreamOptions stream_options(const nb::dict& dict) {
  GivenOptions given(dict);
  StreamOptions options;
  take_sampling(given, options.loader.batch);
  take_contents(given, options.loader.batch);
  take_seeds(given, options.loader);
  take_links(given, options.loader);
  take_deal(given, options.loader.deal);
  take_execution(given, options.loader.execution);
  if (given.has("servers")) {
    options.remote = take_servers(given);
  } else {
    given.take("servers", options.loader.dataset, kText);  // None
    given.take("dataset", options.loader.dataset, "the path of a dataset folder");
    require_valid(!options.loader.dataset.empty(), "dataset is missing; give a dataset folder, or servers");
  }
  given.require_all_taken();
  return options;
}

}  // namespace hopfeed::python
