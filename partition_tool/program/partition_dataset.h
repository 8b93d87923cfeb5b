// Runs hopfeed-partition partition: a dataset, however it was cut, becomes one with another cut.
#pragma once
#include <cstdint>
#include <string>

#include "partition_tool/program/cut_nodes.h"
#include "partition_tool/program/make_dataset.h"

namespace hopfeed {

struct CutOptions : WriteOptions, CutChoice {  // fanouts and batch size: those of the input by default
  std::string input;
  std::int64_t parts = 1;
  std::string ids = "auto";  // replicated, sharded; auto: of large graphs (id_choice.h)
  std::int64_t halo = 0;     // 1: write_halos()
  bool by_id = false;        // order rows by source ids, where the input's are not
};

/// Makes the dataset. Throws kCorrupt, and leaves nothing behind, where what was read is not what the input's
/// fingerprint names.
void partition_dataset(const CutOptions& options);

}  // namespace hopfeed
