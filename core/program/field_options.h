// The options of a program that stand for the fields of an options struct (core/base/field_visitor.h).
#pragma once
#include <set>
#include <string>
#include <vector>

#include "core/base/field_visitor.h"
#include "core/program/command_line.h"

namespace hopfeed {

/// Adds an option to `line` for each field of these groups. The struct must outlive the line's run; what it
/// holds now are the defaults. Returns the options that are of sampling on this machine.
std::vector<std::string> add_field_options(CommandLine& line, const VisitFields& visit,
                                           const std::set<std::string>& groups);

}  // namespace hopfeed
