// Measures what a client of a server has where others ask for much: for answers to useless frames, or for
// batches that are far larger than its own.
#pragma once
#include "bench/bench_options.h"
#include "worker_mode/loader.h"

namespace hopfeed::bench {

/// Measures rates beside each kind of flood (flood.h), against those beside as much work elsewhere, by turns.
void measure_beside_floods(const LoaderOptions& loader, double seconds, Report& report);

/// Measures batches of one seed, one at a time, beside four clients that take batches of 8,192 seeds as fast
/// as they come.
void measure_beside_large(const LoaderOptions& loader, double seconds, Report& report);

}  // namespace hopfeed::bench
