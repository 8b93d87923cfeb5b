// Measures what a server pays for clients that are connected and ask for nothing, and whether it grows.
#pragma once
#include "bench/bench_options.h"
#include "worker_mode/loader.h"

namespace hopfeed::bench {

/// Runs 200 clients that have opened a job and rest; then 1,000 that come, take a batch and go, and 10,000
/// batches of one. Adds idle_client_cpu (of a core, all 200), idle_client_bytes (of each), growth_bytes.
void measure_idle_clients(const LoaderOptions& loader, double seconds, Report& report);

}  // namespace hopfeed::bench
