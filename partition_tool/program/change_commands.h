// Reads the options of the commands that change a dataset's edges or attributes (change_dataset.h).
#pragma once
#include <functional>
#include <string>

#include "core/program/command_line.h"
#include "partition_tool/program/change_dataset.h"

namespace hopfeed {

/// The commands read into ChangeChoices, which must outlive the command line.
struct ChangeChoices {
  ChangeOptions where;
  LinkSplitOptions split;
  std::string num_val = "0.1", num_test = "0.2", disjoint_train = "0.0", by = "random";
  EditOptions edit;
  SelfLoopOptions loops;
  CoOccurrenceOptions co_occurrence;
  ConvertOptions convert;
};

/// `add_write_options(command)` adds the options that all commands have which write a dataset.
void add_change_commands(
    CommandLine& line, ChangeChoices& choices,
    const std::function<void(CommandLine& command, WriteOptions& options)>& add_write_options);

}  // namespace hopfeed
