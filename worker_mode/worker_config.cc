// See worker_config.h.
#include "worker_mode/worker_config.h"

#include "core/base/error.h"
#include "core/base/json_text.h"

namespace hopfeed {

std::string WorkerConfig::to_json() const {
  const nlohmann::json json{
      {"dataset", dataset}, {"spec", spec.to_json()}, {"check_finite", check_finite}, {"worker", worker},
      {"parent", parent},   {"cores", cores},         {"huge_pages", huge_pages}};
  return json_text(json);
}

WorkerConfig WorkerConfig::from_json(const std::string& text) {
  try {
    const nlohmann::json json = parse_json(text);
    WorkerConfig config;
    json.at("dataset").get_to(config.dataset);
    config.spec = BatchSpec::from_json(json.at("spec").get<std::string>());
    json.at("check_finite").get_to(config.check_finite);
    json.at("worker").get_to(config.worker);
    json.at("parent").get_to(config.parent);
    json.at("cores").get_to(config.cores);
    json.at("huge_pages").get_to(config.huge_pages);
    return config;
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kCorrupt,
                std::string("a worker's configuration cannot be read; install loader and hopfeed-worker "
                            "together (") +
                    error.what() + ")");
  }
}

}  // namespace hopfeed
