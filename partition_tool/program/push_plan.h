// A PushPlan says what goes where: the machines that --to names, and the files of a dataset that each needs.
// Nothing of the network is here.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/dataset/dataset_meta.h"

namespace hopfeed {

/// A PushTarget is a folder on a machine, and the partitions that it is to have.
struct PushTarget {
  std::string text;             // as it was typed: "0,1=HOST:PATH"
  std::string place;            // "HOST:PATH", or "PATH" on this machine
  std::string host;             // with the user; empty: this machine
  std::string path;             // absolute on this machine
  std::vector<int> partitions;  // rising
};

/// Reads a target. Throws kInvalid for what is no "0,2-3=HOST:PATH" or "0=PATH".
PushTarget parse_target(const std::string& text);

/// Returns the partition that a file belongs to; -1 for none, so that every machine needs it.
int partition_of_file(const std::string& relative);

struct PushFile {
  std::string path;  // relative to the dataset
  std::uint64_t bytes = 0;
};

/// PushParts are what machines can do without.
struct PushParts {
  bool without_halos = false;
  bool with_keys = false;  // what users call nodes by
};

struct PushPlan {
  std::string name;    // the folder as it was typed
  std::string folder;  // absolute
  DatasetMeta meta;
  std::string meta_text;
  std::vector<PushTarget> targets;
  std::vector<int> left_out;  // partitions that go to no machine
  PushParts parts;
};

/// Reads the manifest and checks all that this machine knows. Throws kInvalid for a partition that the
/// dataset lacks, a place that is named twice or is the dataset itself; kNotFound or kCorrupt for a file that
/// is missing in the folder, or has another size.
PushPlan plan_push(const std::string& folder, const std::vector<std::string>& to, PushParts parts = {});

/// Returns all files but meta.json that the machine needs, by path.
std::vector<PushFile> files_for(const PushPlan& plan, const PushTarget& target);

/// Returns numbers as people write them: "0, 1 and 2".
std::string in_words(const std::vector<int>& numbers);

}  // namespace hopfeed
