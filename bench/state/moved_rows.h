// Measures rows on their way between owners and whoever reads or writes them: pull and push.
#pragma once
#include "bench/bench_options.h"
#include "bench/state/learned_rows.h"
#include "bench/state/state_servers.h"

namespace hopfeed::bench {

/// Pulls of learned rows, by turns with their limit: a gather of as many rows and a loop over loopback with
/// checksums, one after the other.
void measure_pull(const BenchOptions& options, const StateServers& servers, const Dataset& dataset,
                  LearnedRows& rows, Report& report);
/// Pushes to a tensor whose rows were all written, likewise.
void measure_push(const BenchOptions& options, const StateServers& servers, const Dataset& dataset,
                  Report& report);

}  // namespace hopfeed::bench
