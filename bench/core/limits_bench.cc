// hopfeed-bench limits: this machine's own figures, one core and all.
#include <thread>

#include "bench/bench_data.h"
#include "bench/bench_options.h"
#include "bench/core/limits.h"
#include "core/dataset.h"

namespace hopfeed::bench {

Report bench_limits(const BenchOptions& options) {
  const Dataset dataset(dataset_folder(options), {.huge_pages = options.huge_pages});
  const CscView csc = dataset.csc(0);
  Report report;
  for (const int threads : {1, static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))}) {
    const LimitOptions limit{.threads = threads, .seconds = options.seconds};
    Report& part = report[threads == 1 ? "one_core" : "all_cores"];
    part["threads"] = threads;
    if (csc.index_type == ElementType::kInt32) {
      part["random_reads_per_s"] = random_reads_per_s({static_cast<const std::int32_t*>(csc.parts[0].indices),
                                                       static_cast<std::size_t>(csc.parts[0].num_edges)},
                                                      limit)
                                       .per_s;
    }
    const NodeAttrView x = dataset.attr(0, "x");
    part["row_bytes"] = x.row_bytes;
    part["row_gather_bytes_per_s"] = row_gather_bytes_per_s(x, dataset.num_nodes(0), limit).per_s;
    part["copy_bytes_per_s"] = copy_bytes_per_s(limit).per_s;
    part["sequential_bytes_per_s"] = sequential_bytes_per_s(limit).per_s;
  }
  return report;
}

}  // namespace hopfeed::bench
