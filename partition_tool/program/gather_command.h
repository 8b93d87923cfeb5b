// Reads the options of hopfeed-partition gather (partition_tool/gather/gather_results.h), and reports.
#pragma once
#include <string>

#include "core/program/command_line.h"
#include "partition_tool/gather/gather_results.h"

namespace hopfeed {

struct GatherChoices {
  GatherOptions gather;
  std::string json;
};

/// `choices` must outlive the command line.
void add_gather_command(CommandLine& line, GatherChoices& choices);

}  // namespace hopfeed
