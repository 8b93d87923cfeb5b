// Measures learned rows where they are kept: memory of their owners, and checkpoints.
#pragma once
#include "bench/bench_options.h"
#include "bench/state/learned_rows.h"
#include "bench/state/state_servers.h"

namespace hopfeed::bench {

/// Has the rows learned, and holds the owners' memory with 10, 50 and 100% of them against rows, index and
/// optimizer. `before`: the memory before the table was opened.
void measure_memory(const StateServers& servers, std::size_t before, LearnedRows& rows, Report& report);
/// Saves the rows in a folder by turns with a bare write of as many bytes there.
void measure_checkpoint(const BenchOptions& options, const std::filesystem::path& folder, LearnedRows& rows,
                        Report& report);

}  // namespace hopfeed::bench
