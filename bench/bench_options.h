// BenchOptions is what all benchmarks take, and Report what each gives back: one JSON object.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/huge_pages.h"
#include "gpu/device/gpu_options.h"

namespace hopfeed::bench {

struct BenchOptions {
  std::string data;                // dataset folder; empty: one is generated (and kept in a cache folder)
  std::int64_t nodes = 2'449'029;  // of the generated graph: the size of ogbn-products
  std::int64_t edges = 123'718'280;
  std::int64_t features = 100;
  std::vector<std::int64_t> fanouts{15, 10, 5};
  std::int64_t batch_size = 1024;
  double seconds = 3;  // of each measurement
  int threads = 1;     // samplers or gathers side by side; --num-workers is the same number for loaders
  bool edge_ids = false;
  bool topology = true;  // --output topology; else batch
  HugePages huge_pages = HugePages::kAuto;
  bool verify = false;
  GraphMode graph_mode = GraphMode::kCpu;  // sampler, loader: what samples
  int gpu_device = 0;                      // the GPU that samples, as CUDA counts
  bool device_batches = false;             // loader: batches lie in the GPU's memory; sampler: samples do
  std::optional<CacheSize> gpu_graph_cache = {};
  std::string kind = "uniform";       // sampler: how neighbours are drawn
  std::string part = "all";           // server: what is measured
  std::int64_t labor_batches = 1;     // sampler --kind labor: batches that share variates
  std::string instructions = "best";  // sampler: the widest set that it may use
  bool host = false;                  // made-graph: by the twin of the card's backend
  std::int64_t hot_bytes = -1;        // made-graph: of the card's memory for the hottest rows; -1: auto
  bool gpu = false;                   // limits, gather: of the card instead of the host
  std::int64_t row_bytes = 0;         // limits, gather --gpu, cache: of a row; 0: the command's own choice
  double held = 0.2;                  // cache: share of the rows that it has room for
  std::int64_t window = 4;            // cache: batches that are announced ahead
  std::int64_t batches = 400;         // cache: at most, spread over the epoch
  std::int64_t rows = 10'000'000;     // state: of a table, one for each node
  std::int64_t width = 64;            // state: float32 of a row
  std::int64_t ids = 200'000;         // state: rows of a pull, of a push, and of a rank's batch
  std::string folder = {};            // state: where checkpoints are written; empty: the cache folder
};

/// A Report is one JSON object; docs/benchmarks.md explains its keys.
using Report = nlohmann::json;

Report bench_limits(const BenchOptions& options);
Report bench_sampler(const BenchOptions& options);
Report bench_gather(const BenchOptions& options);
Report bench_made_graph(const BenchOptions& options);
Report bench_file(const BenchOptions& options);
Report bench_cache(const BenchOptions& options);
Report bench_channel(const BenchOptions& options);
Report bench_loader(const BenchOptions& options);
/// Measures what bench_loader() measures, where a GPU samples.
Report bench_device_loader(const BenchOptions& options);
Report bench_rows(const BenchOptions& options);
Report bench_startup(const BenchOptions& options);
Report bench_server(const BenchOptions& options);
Report bench_state(const BenchOptions& options);

}  // namespace hopfeed::bench
