// See auto_graph_mode.h.
#include "gpu/device/auto_graph_mode.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "core/base/memory_limits.h"
#include "core/base/saturating.h"
#include "gpu/device/cuda_engine.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;

/// Bytes of all files of edges, more than any batch options need. What cannot be read counts nothing:
/// whoever opens the dataset says so.
std::int64_t edge_bytes(const std::string& dataset) {
  std::int64_t bytes = 0;
  std::error_code none;
  for (fs::recursive_directory_iterator at(dataset, none), end; !none && at != end; at.increment(none)) {
    const bool of_edges = at->path().string().find("/edges/", dataset.size()) != std::string::npos;
    std::error_code unread;
    const std::uintmax_t size = of_edges && at->is_regular_file(unread) ? at->file_size(unread) : 0;
    if (!unread) bytes = saturating_sum(bytes, static_cast<std::int64_t>(size));
  }
  return bytes;
}

}  // namespace

AutoGraphMode graph_mode_on(const gpu::UsableGpu& gpu, std::uint64_t bytes) {
  const bool fits = bytes <= gpu.memory / 2;
  return {.mode = fits ? GraphMode::kCuda : GraphMode::kUva,
          .why = fmt::format("GPU {}, {}, of {}: the graph takes {} there{}", gpu.device, gpu.name,
                             format_bytes(gpu.memory), format_bytes(bytes),
                             fits ? "" : ", too much, and is read in the host's memory")};
}

AutoGraphMode auto_graph_mode(const AutoGraphModeOptions& options) {
  if (const std::string why = gpu::why_no_gpu(options.device); !why.empty())
    return {.mode = GraphMode::kCpu, .why = why};
  std::int64_t bytes = 0;
  for (const std::string& dataset : options.datasets) bytes = saturating_sum(bytes, edge_bytes(dataset));
  bytes = saturating_product(bytes, std::max<std::int64_t>(1, options.copies));
  return graph_mode_on(gpu::usable_gpu(options.device), static_cast<std::uint64_t>(bytes));
}

}  // namespace hopfeed
