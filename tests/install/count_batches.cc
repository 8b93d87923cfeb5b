// A loader in a program outside of hopfeed: counts the batches of an epoch.
#include <cstdio>

#include "worker_mode/loader.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  hopfeed::Loader loader({.dataset = argv[1], .batch = {.fanouts = {3, 2}}, .deal = {.batch_size = 8}});
  loader.begin_epoch(0);
  int batches = 0;
  while (loader.next()) ++batches;
  std::printf("%d batches\n", batches);
}
