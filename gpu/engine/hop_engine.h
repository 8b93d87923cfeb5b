// A HopEngine samples hops on a device, as DeviceSampler (device_sampler.h) knows it: one graph, one set of
// options, one batch at a time. hop_engine_on.h has the algorithm, over whichever backend; cuda_engine.h the
// one on GPUs. Here is C++17 without anything of CUDA, since both compilers read it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/base/cache_size.h"
#include "core/batch/held_share.h"
#include "core/dataset/row_record.h"
#include "core/draws/keyed_random.h"
#include "core/draws/temporal_rule.h"
#include "gpu/kernels/device_views.h"

namespace hopfeed::gpu {

/// HostPart has the rows of one partition in the host's memory, which must outlive the engine.
struct HostPart {
  const RowRecord* rows = nullptr;         // [num_rows + 1]
  const void* indices = nullptr;           // [num_edges]; of temporal draws TimeView's
  const void* edge_ids = nullptr;          // [num_edges]; null: not stored, or not asked for
  const unsigned char* aliases = nullptr;  // [num_edges] of weighted draws
  const std::int16_t* codes = nullptr;     // [num_edges] of temporal draws
  const std::int64_t* times = nullptr;     // [num_edges] of temporal draws
  const std::uint32_t* order =
      nullptr;  // [num_edges] of temporal draws; null: no ids, no positions asked for
  std::int64_t num_rows = 0, num_edges = 0, first_edge = 0;
};

/// An EdgePlan is one edge type as the options want it sampled.
struct EdgePlan {
  int src_type = 0, dst_type = 0;
  std::vector<HostPart> parts;
  std::vector<std::int64_t> partition_offsets;  // [parts + 1]
  int index_bytes = 4, edge_id_bytes = 4;
  int alias_bytes = 0;  // from one entry of alias tables to the next; 0: uniform draws
  bool temporal = false;
  std::vector<std::int64_t> fanouts;  // [hops]
  bool positions = false;             // positions of edges in the dataset's order are asked for
};

/// GraphPlace says whether the device reads the graph where it lies, or has a copy.
enum class GraphPlace { kHost, kDevice };
/// The hottest rows of the graph may take one part in so many of a device's free memory where nobody says
/// how much; the rest is for feature rows and for the trainer.
inline constexpr std::size_t kHotShare = 16;

struct EnginePlan {
  std::vector<std::int64_t> num_nodes;  // of each type
  std::vector<EdgePlan> edge_types;
  int hops = 0;
  bool replace = false;
  bool edge_ids = false;
  bool trees = false;
  bool last = false;  // of temporal draws: the latest
  int node_bits = 0;  // of an id in trees: tree << node_bits | node
  GraphPlace place = GraphPlace::kHost;
  /// The device has a copy of the hottest rows of a graph that is read in place, and of their neighbours
  /// (hot_prefix.h); automatic: in a sixteenth of `free_bytes`.
  CacheSize hot;
  std::size_t free_bytes = SIZE_MAX;            // of the device's memory, before anything is copied
  std::shared_ptr<const void> keeps = nullptr;  // what the arrays' pinned copies live by
  /// The arrays of results stay on the device, for who goes on with them there: ids of trees as they are
  /// packed, targets, and neither per_dst nor trees. seed_index and all counts are the host's in any case.
  bool results_on_device = false;
  int device = 0;  // number of the GPU
  /// A batch can have at most so many edges before it counts them hop by hop, which needs one more wait each;
  /// with no more, memory is taken for that many at once.
  std::uint64_t most_uncounted_edges = std::uint64_t{1} << 25;
  /// The weighted rows of a hop from which draws remove may have so many edges together.
  std::uint64_t most_weights_left = std::uint64_t{1} << 23;
};

struct EngineSeeds {
  int node_type = 0;
  const std::int64_t* ids = nullptr;
  std::size_t count = 0;
};

/// EngineExcluded are excluded pairs of one edge type (ExcludedEdges::Lists).
struct EngineExcluded {
  const std::int64_t* destinations = nullptr;  // [count]
  const std::uint64_t* first = nullptr;        // [count + 1]
  const std::int64_t* sources = nullptr;       // [first[count]]
  std::size_t count = 0;
};

/// EngineTimes say where the seeds' times fall in one edge type (SeedPlaces).
struct EngineTimes {
  const TimePlace* ends = nullptr;    // [seeds]; null: its draws are not temporal
  const TimePlace* begins = nullptr;  // [seeds]; null: there is no window
};

struct EngineRequest {
  const EngineSeeds* seeds = nullptr;  // [num_entries], no node type twice
  std::size_t num_entries = 0;
  const NodeStream* streams = nullptr;       // [hops * edge types], hop by hop
  const EngineExcluded* excluded = nullptr;  // [edge types]; null: nothing is excluded
  const EngineTimes* times = nullptr;        // [edge types]; null: none of them has temporal draws
  /// Called once all work is asked for, before the host waits for it; null: nothing to do meanwhile.
  const std::function<void()>* meanwhile = nullptr;
};

/// Results are good until the next batch: in memory of the host, or where the plan says so of the device.
struct EngineNodes {
  const std::int64_t *ids = nullptr, *trees = nullptr, *original_ids = nullptr;
  std::size_t count = 0, expanded = 0;
  std::vector<std::int64_t> per_hop;
};
struct EngineEdges {
  const std::uint32_t *sources = nullptr, *per_dst = nullptr;
  const std::uint32_t* targets = nullptr;  // local id of each edge's destination; on the device alone
  const std::int64_t *edge_ids = nullptr, *positions = nullptr;
  std::size_t count = 0;
  std::vector<std::int64_t> per_hop;
};
struct EngineResult {
  std::vector<EngineNodes> nodes;
  std::vector<EngineEdges> edges;
  const std::uint32_t* seed_index = nullptr;  // local id of each seed
};

class HopEngine {
 public:
  virtual ~HopEngine() = default;
  /// Samples. Returns kNone, and result() is the batch; else why the CPU has to sample it. Throws Error where
  /// the device fails.
  virtual Fallback sample(const EngineRequest& request) = 0;
  virtual const EngineResult& result() const = 0;
  /// Returns the bytes of pinned memory of the host, and of memory on the device without the graph's.
  virtual std::size_t pinned_bytes() const = 0;
  virtual std::size_t device_bytes() const = 0;
  /// Returns the bytes of the device's memory that the copy of the graph takes, and the share of its rows
  /// that are in it.
  virtual std::size_t graph_bytes() const = 0;
  virtual HeldShare graph_share() const = 0;
  /// Returns how often the host has waited for the device since the engine was made.
  virtual std::uint64_t waits() const = 0;
  /// Returns the batches whose work was a recording of an earlier one's.
  virtual std::uint64_t replays() const = 0;
};

using EngineFactory = std::function<std::unique_ptr<HopEngine>(const EnginePlan&)>;

}  // namespace hopfeed::gpu
