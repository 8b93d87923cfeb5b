// Reads the options of hopfeed-partition push (push_dataset.h).
#pragma once
#include "core/program/command_line.h"
#include "partition_tool/program/push_dataset.h"

namespace hopfeed {

/// `options` must outlive the command line.
void add_push_command(CommandLine& line, PushOptions& options);

}  // namespace hopfeed
