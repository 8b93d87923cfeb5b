// hopfeed-bench made-graph: neighbours sampled on a card, of a graph that a kernel makes in pinned memory.
#include <string>

#include "bench/bench_options.h"
#include "bench/core/gpu_made_graph.h"
#include "bench/core/gpu_made_graph_on.h"
#include "core/base/error.h"
#include "gpu/device/host_backend.h"

namespace hopfeed::bench {

MadeGraphRates measure_made_graph_on_host(const MadeGraphOptions& options) {
  MadeGraphOptions sized = options;
  if (sized.hot_bytes < 0) sized.hot_bytes = 0;
  MadeGraphRates rates = MadeGraphMeter<gpu::SerialBackend>(sized, {}).measure();
  rates.card = "none: the host's twin";
  return rates;
}

Report bench_made_graph(const BenchOptions& options) {
  MadeGraphOptions made{.fanouts = options.fanouts,
                        .batch_size = options.batch_size,
                        .seconds = options.seconds,
                        .graph_on_device = options.graph_mode == GraphMode::kCuda,
                        .hot_bytes = options.hot_bytes,
                        .verify = options.verify};
  const BenchOptions defaults;
  if (options.nodes != defaults.nodes) made.nodes = options.nodes;
  if (options.edges != defaults.edges) made.edges = options.edges;
  require_valid(options.data.empty(), "--data has no meaning here: the graph is made by a kernel");
  const MadeGraphRates rates = options.host ? measure_made_graph_on_host(made) : measure_made_graph(made);
  return {{"bench", "made-graph"},
          {"card", rates.card},
          {"graph_mode", made.graph_on_device ? "cuda" : "uva"},
          {"nodes", made.nodes},
          {"edges", made.edges},
          {"made_seconds", rates.made_seconds},
          {"edges_per_s", rates.edges_per_s},
          {"edges_per_batch", rates.edges_per_batch},
          {"nodes_per_batch", rates.nodes_per_batch},
          {"ms_per_batch", rates.ms_per_batch},
          {"batches", rates.batches},
          {"replays", rates.replays},
          {"verified_edges", rates.verified_edges}};
}

}  // namespace hopfeed::bench
