// holding_trainer DATASET VIEWS: a trainer that takes so many batches, says so in a line, and keeps them
// until it is killed.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "worker_mode/loader.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto views = static_cast<std::size_t>(std::atoi(argv[2]));
  hopfeed::Loader loader(
      {.dataset = argv[1],
       .batch = {.fanouts = {4, 3}},
       .deal = {.batch_size = 16},
       .execution = {.num_workers = 2, .channel_size = 8 << 20, .num_slots = static_cast<int>(views) + 1}});
  loader.begin_epoch(0);
  std::vector<hopfeed::Batch> held;
  while (held.size() < views) held.push_back(loader.next().value());
  std::printf("%zu batches held\n", held.size());
  std::fflush(stdout);
  while (true) ::pause();
}
