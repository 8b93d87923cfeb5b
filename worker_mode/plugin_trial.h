// Tries what a plugin brings in a process of its own before the loader's process runs it, which is a
// trainer's: constructors of a library, where nothing that they throw can be caught, and what the loader asks
// its sampler before there are workers. A crash is then an error that names the plugin.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace hopfeed {

/// Starts `program` (hopfeed-worker) to load the plugin. Throws kInvalid naming the plugin and the cause
/// where that ends the process, kTimeout where it is not done by the deadline, and what WorkerProcess throws.
/// What load_sampler_plugin refuses passes: it says so here too.
void try_plugin(const std::string& program, const std::string& plugin, std::chrono::milliseconds deadline);
/// try_plugin(), then load_sampler_plugin() in this process; returns the sampler's name.
std::string load_tried_plugin(const std::string& program, const std::string& plugin,
                              std::chrono::milliseconds deadline);

struct SamplerTrial {
  std::string program;               // hopfeed-worker
  std::vector<std::string> plugins;  // absolute paths; they load
  std::string sampler;               // one that they bring, for errors
  std::string config;                // WorkerConfig::to_json()
  int seeds_fd = -1;                 // of kSeedsFd; -1: none
  std::int64_t batch_size = 1;
  std::chrono::milliseconds deadline;
};
/// Starts trial.program to make the sampler and ask how large its batches can be. Throws what try_plugin()
/// throws; what the sampler throws passes.
void try_sampler(const SamplerTrial& trial);

}  // namespace hopfeed
