// Runs hopfeed-partition inspect and verify: what a dataset holds, and whether it is whole.
#pragma once
#include <cstdint>
#include <string>

namespace hopfeed {

struct ShowOptions {
  std::string folder, json;
  std::int64_t presample = 0;  // epochs of real batches to hold the hotness against
  int threads = 1;
};

void show_dataset(const ShowOptions& options);
void verify_dataset(const ShowOptions& options);

}  // namespace hopfeed
