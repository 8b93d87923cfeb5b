// A plugin is loaded by a process of its own before the loader's process loads it: constructors of a library
// run where nothing that they throw can be caught, and would end a trainer.
#pragma once
#include <chrono>
#include <string>

namespace hopfeed {

/// Starts `program` (hopfeed-worker) to load the plugin. Throws kInvalid naming the plugin and the cause
/// where that ends the process, kTimeout where it is not done by the deadline, and what WorkerProcess throws.
/// What load_sampler_plugin refuses passes: it says so here too.
void try_plugin(const std::string& program, const std::string& plugin, std::chrono::milliseconds deadline);

}  // namespace hopfeed
