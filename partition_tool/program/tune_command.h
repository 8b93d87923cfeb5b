// Runs hopfeed-partition tune: hit rate and epoch time for each ratio of rows that a consumer could hold, and
// one recommendation.
#pragma once
#include "core/program/command_line.h"
#include "partition_tool/program/tune_choices.h"

namespace hopfeed {

/// `choices` must outlive the command line.
void add_tune_command(CommandLine& line, TuneChoices& choices);

}  // namespace hopfeed
