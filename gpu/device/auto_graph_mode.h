// Decides what `--graph-mode auto` comes to: a GPU where one can be used, with a copy of the graph where one
// of each worker fits, else the CPU.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "gpu/device/gpu_options.h"
#include "gpu/memory/found_gpus.h"

namespace hopfeed {

struct AutoGraphMode {
  GraphMode mode = GraphMode::kCpu;
  std::string why;  // in one line
};

/// AutoGraphModeOptions name the datasets whose edges are copied, how many copies there are, and the GPU's
/// number.
struct AutoGraphModeOptions {
  int device = 0;
  std::vector<std::string> datasets;  // folders
  std::int64_t copies = 1;
};
AutoGraphMode auto_graph_mode(const AutoGraphModeOptions& options);

/// Returns the mode for a GPU that can be used, where all copies take so many bytes.
AutoGraphMode graph_mode_on(const gpu::UsableGpu& gpu, std::uint64_t bytes);

}  // namespace hopfeed
