// Measures training steps of ranks on rows at owners, by turns with a table that lies whole at each rank.
#pragma once
#include "bench/bench_options.h"
#include "bench/state/learned_rows.h"
#include "bench/state/state_servers.h"

namespace hopfeed::bench {

/// Returns what a step costs with as many ranks as `rows` has.
Report measure_steps(const BenchOptions& options, const StateServers& servers, const Dataset& dataset,
                     LearnedRows& rows);

}  // namespace hopfeed::bench
