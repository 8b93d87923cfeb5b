// The settings of a checkpoint and of the run that is to go on from it, compared in words of their user: the
// options that he has given, and values that fit into a line.
#pragma once
#include <map>
#include <optional>
#include <string>

namespace hopfeed {

/// Settings must be the same in the run that goes on: name -> value as text.
using Settings = std::map<std::string, std::string>;

/// What stands for the seeds' hash where each trainer has those of its own partition.
inline constexpr const char* kSeedsOfPartition = "of the partition that a trainer is beside";

struct ToldSetting {
  std::string name;          // with the marks of messages (core/base/error.h)
  std::string stored, here;  // values: in the checkpoint, of this run
};
/// Returns the first setting that differs; none where all agree.
std::optional<ToldSetting> first_difference(const Settings& stored, const Settings& here);

}  // namespace hopfeed
