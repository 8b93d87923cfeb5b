// What the programs that train share as processes, whatever they train: cores, progress bars, the output folder, and main.
#pragma once
#include <sched.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/program/program_main.h"
#include "trainer/trainer.h"

namespace hopfeed {

/// This process and its workers each on cores of their own, where there are enough. Returns the cores that
/// were its own.
cpu_set_t place_on_cores(const std::vector<int>& cores, LoaderOptions& loader);

/// Bars of the running epoch, on rank 0, which end with `epoch_note`; a signal stops any.
TrainingCallbacks callbacks(const std::string& title, std::int64_t epochs, World& world,
                            std::function<std::string(const EpochRow&)> epoch_note);
std::string four_decimals(double value);

/// The folder of --out, made where it is missing.
void make_folder(const std::filesystem::path& folder);

/// main of such a program: `run` is called with the command line read.
int training_main(CommandLine& line, int argc, char** argv, const std::function<void()>& run);

}  // namespace hopfeed
