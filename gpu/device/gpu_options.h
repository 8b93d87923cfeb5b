// What a GPU does of a loader's or a server's work, and which GPU. It changes speed and memory, and no byte
// of a batch (docs/gpu.md).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/cache_size.h"

namespace hopfeed {

class FieldVisitor;  // core/base/field_visitor.h

/// Where neighbours are sampled: on the CPU, on a GPU that reads the graph in pinned memory of the host
/// (unified virtual addressing), or on a GPU that has a copy of the graph.
enum class GraphMode { kCpu, kUva, kCuda };
const char* to_string(GraphMode mode);
/// "cpu", "uva" or "cuda". Throws kInvalid.
GraphMode graph_mode_from(const std::string& name);
/// Throws kInvalid unless a GPU can have that number, and the mode uses one where it is not 0.
void check_gpu_device(int gpu_device, GraphMode mode);
/// Throws kInvalid for one that cannot be, and in another mode than uva.
void check_gpu_graph_cache(const std::optional<CacheSize>& gpu_graph_cache, GraphMode mode);

/// The highest number that an option takes for a GPU.
inline constexpr int kMaxGpuDevice = 1023;

struct GpuOptions {
  /// Where neighbour samplers sample (gpu/batches/device_sampler.h); what the GPU does not sample, the CPU
  /// does.
  GraphMode graph_mode = GraphMode::kCpu;
  int gpu_device = 0;  // with graph modes uva and cuda: its number, of those that CUDA shows
  /// Where that GPU cannot be used, or is lost, the CPU samples in its place, and a warning says why
  /// (core/base/notes.h); else that is an error. `--graph-mode auto` sets it. Not of `device_batches`.
  bool cpu_fallback = false;
  /// The slots of the channel are pinned, so that a GPU copies batches from them by itself. Where they cannot
  /// be, StreamStats::why_not_pinned says so, and batches come all the same.
  bool pin_slots = false;
  /// Batches stay in the GPU's memory, for a trainer on it (Batch::device_form): with num_workers 0 a thread
  /// of this process makes them, else the workers do, in memory of this process's. graph_mode is uva or cuda.
  bool device_batches = false;
  /// Rows of node attributes in the GPU's memory, of those batches. None given: automatic, what fits into a
  /// quarter of what is free.
  std::optional<CacheSize> gpu_cache = {};
  /// With graph mode uva: the hottest rows of the graph, and their neighbours, of which each process that
  /// samples has a copy in the GPU's memory. None given: automatic, a sixteenth of what is free.
  std::optional<CacheSize> gpu_graph_cache = {};
  /// GPUs of the workers in turn, as CUDA counts, where workers make those batches; empty: the trainer's. One
  /// that is another than the trainer's writes to the memory of that.
  std::vector<int> worker_devices = {};

  CacheSize row_cache() const { return gpu_cache.value_or(CacheSize{.automatic = device_batches}); }
  CacheSize graph_cache() const { return gpu_graph_cache.value_or(CacheSize{.automatic = true}); }
  void visit(FieldVisitor& fields);
  /// Throws kInvalid naming the option. `num_workers`: processes that sample; 0: the caller's does.
  void validate(std::int64_t num_workers) const;
};

}  // namespace hopfeed
