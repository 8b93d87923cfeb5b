// Imports the package graph of Debian: a real graph that every Debian machine has.
//
//   nodes   package names, in rising order
//   edges   Pre-Depends, Depends, Recommends, Suggests and Enhances between known packages, both directions,
//           each pair once, no loops; sorted by destination, then source
//   y       the section without its archive area; classes of at least `min_class_size` packages, by name
//   x       hashed TF-IDF of the short description; neither name nor section nor tags, which would give the
//           label away
//   splits  labelled packages by XXH3(name) mod 100: below 60 train, below 80 valid, the rest test
#pragma once
#include <filesystem>

#include "partition_tool/debian_types.h"
#include "partition_tool/graph_memory.h"
#include "partition_tool/progress.h"
#include "partition_tool/raw_graph.h"

namespace hopfeed {

struct DebianImportOptions {
  std::filesystem::path dump;  // saved output of `apt-cache dumpavail`; empty: ask apt
  bool hetero = false;         // the types of debian_types.h; packages are the first of them
  std::int64_t min_class_size = 20;
  bool keep_edge_ids = true;
  int threads = 1;
  TellMemory tell_memory = {};  // before it is taken
};

/// Imports it. Throws kUnsupported where there is no apt or it knows hardly any package, kInvalid naming the
/// dump and the line.
RawGraph import_debian(const DebianImportOptions& options, const Progress& progress);

}  // namespace hopfeed
