// See worker_config.h.
#include "worker_mode/worker_config.h"

#include "core/base/error.h"
#include "core/base/json_text.h"

namespace hopfeed {

std::string WorkerConfig::to_json() const {
  nlohmann::json json{
      {"num_workers", execution.num_workers},
      {"channel_size", execution.channel_size},
      {"num_slots", execution.num_slots},
      {"huge_pages", to_string(execution.huge_pages)},
      {"graph_mode", to_string(execution.gpu.graph_mode)},
      {"gpu_device", execution.gpu.gpu_device},
      {"features", to_string(execution.features.from)},
      {"row_cache_bytes", execution.features.row_cache_bytes},
      {"window", execution.features.window},
      {"partitions", execution.partitions.own},
      {"peers", execution.partitions.peers},
      {"replicas", execution.partitions.replicas},
      {"peer_token", execution.partitions.token},
      {"peer_tls", execution.partitions.tls},
      {"peer_tls_files",
       {execution.partitions.tls_ca, execution.partitions.tls_cert, execution.partitions.tls_key}},
      {"peer_connect_timeout", execution.partitions.connect_timeout.count()},
      {"peer_deadline", execution.partitions.deadline.count()},
      {"worker_concurrency", execution.partitions.concurrency},
      {"row_cache_fd", row_cache_fd},
      {"device_room", device_room},
      {"device", device},
      {"gpu_cache_auto", execution.gpu.gpu_cache.automatic},
      {"gpu_cache_ratio", execution.gpu.gpu_cache.ratio},
      {"gpu_cache_bytes", execution.gpu.gpu_cache.bytes},
      {"gpu_cache_sharers", gpu_cache_sharers},
      {"gpu_graph_cache_given", execution.gpu.gpu_graph_cache.has_value()},
      {"gpu_graph_cache_auto", execution.gpu.graph_cache().automatic},
      {"gpu_graph_cache_ratio", execution.gpu.graph_cache().ratio},
      {"gpu_graph_cache_bytes", execution.gpu.graph_cache().bytes},
      {"device_fd", device_fd},
      {"check_finite", execution.check_finite},
      {"batch_deadline", execution.batch_deadline.count()},
      {"start_deadline", execution.start_deadline.count()},
      {"max_worker_restarts", execution.max_worker_restarts},
      {"worker", worker},
      {"parent", parent},
      {"cores", cores},
      {"asks_for_jobs", asks_for_jobs},
      {"max_scratch", max_scratch},
      {"batch_memory", batch_memory}};
  if (!asks_for_jobs) {
    json["dataset"] = dataset;
    json["manifest"] = manifest;
    json["spec"] = spec.to_json();
  }
  return json_text(json);
}

WorkerConfig WorkerConfig::from_json(const std::string& text) {
  try {
    const nlohmann::json json = parse_json(text);
    WorkerConfig config;
    json.at("asks_for_jobs").get_to(config.asks_for_jobs);
    if (!config.asks_for_jobs) {
      json.at("dataset").get_to(config.dataset);
      json.at("manifest").get_to(config.manifest);
      config.spec = BatchSpec::from_json(json.at("spec").get<std::string>());
    }
    LocalExecution& execution = config.execution;
    json.at("num_workers").get_to(execution.num_workers);
    json.at("channel_size").get_to(execution.channel_size);
    json.at("num_slots").get_to(execution.num_slots);
    execution.huge_pages = parse_huge_pages(json.at("huge_pages").get<std::string>());
    execution.gpu.graph_mode = graph_mode_from(json.at("graph_mode").get<std::string>());
    json.at("gpu_device").get_to(execution.gpu.gpu_device);
    execution.features.from = features_from(json.at("features").get<std::string>());
    json.at("row_cache_bytes").get_to(execution.features.row_cache_bytes);
    json.at("window").get_to(execution.features.window);
    PeerOptions& partitions = execution.partitions;
    json.at("partitions").get_to(partitions.own);
    json.at("peers").get_to(partitions.peers);
    json.at("replicas").get_to(partitions.replicas);
    json.at("peer_token").get_to(partitions.token);
    json.at("peer_tls").get_to(partitions.tls);
    json.at("peer_tls_files").at(0).get_to(partitions.tls_ca);
    json.at("peer_tls_files").at(1).get_to(partitions.tls_cert);
    json.at("peer_tls_files").at(2).get_to(partitions.tls_key);
    partitions.connect_timeout =
        std::chrono::milliseconds(json.at("peer_connect_timeout").get<std::int64_t>());
    partitions.deadline = std::chrono::milliseconds(json.at("peer_deadline").get<std::int64_t>());
    json.at("worker_concurrency").get_to(partitions.concurrency);
    json.at("row_cache_fd").get_to(config.row_cache_fd);
    json.at("device_room").get_to(config.device_room);
    json.at("device").get_to(config.device);
    json.at("gpu_cache_auto").get_to(execution.gpu.gpu_cache.automatic);
    json.at("gpu_cache_ratio").get_to(execution.gpu.gpu_cache.ratio);
    json.at("gpu_cache_bytes").get_to(execution.gpu.gpu_cache.bytes);
    json.at("gpu_cache_sharers").get_to(config.gpu_cache_sharers);
    if (json.at("gpu_graph_cache_given").get<bool>()) {
      CacheSize& graph = execution.gpu.gpu_graph_cache.emplace();
      json.at("gpu_graph_cache_auto").get_to(graph.automatic);
      json.at("gpu_graph_cache_ratio").get_to(graph.ratio);
      json.at("gpu_graph_cache_bytes").get_to(graph.bytes);
    }
    json.at("device_fd").get_to(config.device_fd);
    json.at("check_finite").get_to(execution.check_finite);
    execution.batch_deadline = std::chrono::milliseconds(json.at("batch_deadline").get<std::int64_t>());
    execution.start_deadline = std::chrono::milliseconds(json.at("start_deadline").get<std::int64_t>());
    json.at("max_worker_restarts").get_to(execution.max_worker_restarts);
    json.at("worker").get_to(config.worker);
    json.at("parent").get_to(config.parent);
    json.at("cores").get_to(config.cores);
    json.at("max_scratch").get_to(config.max_scratch);
    json.at("batch_memory").get_to(config.batch_memory);
    return config;
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorCode::kCorrupt,
                "a worker's configuration is that of another version; install loader and hopfeed-worker "
                "together");
  }
}

}  // namespace hopfeed
