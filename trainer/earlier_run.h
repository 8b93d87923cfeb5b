// What an earlier run has left in an output folder: a run that begins afresh puts its checkpoints aside, and
// one that was started again takes none of them for its own.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "trainer/world.h"

namespace hopfeed {

/// Returns whether the launcher has started this run again, and the file is a checkpoint of an earlier start
/// of it. Where the launcher tells no name of the run (launched_run.h), each checkpoint counts as such. Call
/// it on rank 0. Throws kCorrupt.
bool is_of_this_run(const std::filesystem::path& checkpoint, const World& world);

/// Puts the checkpoints of earlier runs aside, as <name>.checkpoint.old: of all models of a run that does not
/// resume, before the first of them is trained. Else one that is started again, or resumed, before it has
/// come to the last model would take an earlier run's for its own. All ranks call it together. Throws kIo,
/// kCorrupt.
void put_earlier_runs_aside(World& world, const std::filesystem::path& out,
                            const std::vector<std::string>& names);

}  // namespace hopfeed
