// hopfeed-partition partition: a dataset, however it was cut, to one with another cut.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace hopfeed {

struct CutOptions {
  std::string input, output, method = "metis", json;
  std::optional<std::string> fanouts;      // of the node order; default: the input's
  std::optional<std::int64_t> batch_size;  // likewise
  std::int64_t parts = 1;
  std::uint64_t seed = 0;
  bool overwrite = false;
  int threads = 1;
  std::string command_line;  // noted in the dataset
};

/// Throws kCorrupt, and leaves nothing behind, where what was read is not what the input's fingerprint names.
void partition_dataset(const CutOptions& options);

}  // namespace hopfeed
