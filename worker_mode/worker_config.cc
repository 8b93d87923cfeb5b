// See worker_config.h.
#include "worker_mode/worker_config.h"

#include "core/base/error.h"
#include "core/base/field_json.h"
#include "core/base/json_text.h"

namespace hopfeed {

namespace {

constexpr const char* kOtherVersion =
    "a worker's configuration is that of another version; install loader and hopfeed-worker together";

VisitFields fields_of(LocalExecution& execution) {
  return [&execution](FieldVisitor& fields) { execution.visit(fields); };
}

}  // namespace

std::string WorkerConfig::to_json() const {
  LocalExecution told = execution, unset;
  told.plugins = {};  // the loader's own part, or said otherwise
  told.cores = {};
  told.worker_program = {};
  nlohmann::json json{{"execution", fields_to_json(fields_of(told), fields_of(unset))},
                      {"row_cache_fd", row_cache_fd},
                      {"device_room", device_room},
                      {"device", device},
                      {"gpu_cache_sharers", gpu_cache_sharers},
                      {"device_fd", device_fd},
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
    fields_from_json(json.at("execution"), "'execution' of a worker", fields_of(config.execution),
                     ErrorCode::kCorrupt);
    json.at("row_cache_fd").get_to(config.row_cache_fd);
    json.at("device_room").get_to(config.device_room);
    json.at("device").get_to(config.device);
    json.at("gpu_cache_sharers").get_to(config.gpu_cache_sharers);
    json.at("device_fd").get_to(config.device_fd);
    json.at("worker").get_to(config.worker);
    json.at("parent").get_to(config.parent);
    json.at("cores").get_to(config.cores);
    json.at("max_scratch").get_to(config.max_scratch);
    json.at("batch_memory").get_to(config.batch_memory);
    return config;
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorCode::kCorrupt, kOtherVersion);
  } catch (const Error& error) {
    throw Error(error.code(), error.code() == ErrorCode::kCorrupt ? kOtherVersion : error.message());
  }
}

}  // namespace hopfeed
