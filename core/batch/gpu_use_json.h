// Writes GpuUse into reports; they have it where batches were sampled in a graph mode of a GPU.
#pragma once
#include <nlohmann/json.hpp>

#include "core/batch/gpu_use.h"

namespace hopfeed {

inline void add_gpu_use(nlohmann::json& report, const GpuUse& use) {
  if (!use.any()) return;
  report["gpu_batches"] = use.gpu_batches;
  report["cpu_batches"] = use.cpu_batches;
  report["gpu_memory"] = {{"graph_bytes", use.graph_bytes},
                          {"graph_share", use.graph.ratio()},
                          {"rows_bytes", use.rows_bytes},
                          {"rows_share", use.rows.ratio()}};
}

}  // namespace hopfeed
