// The suite of all streams over those of worker mode.
#include "tests/stream/stream_conformance.h"

#include <signal.h>

namespace hopfeed {
namespace {

template <int num_workers>
std::unique_ptr<BatchStream> open_loader(LoaderOptions options) {
  options.execution.num_workers = num_workers;
  return std::make_unique<Loader>(options);
}

/// Each samples three batches ahead of the one that it gathers.
std::unique_ptr<BatchStream> open_with_windows(LoaderOptions options) {
  options.execution.num_workers = 2;
  options.execution.features = {.from = FeaturesFrom::kFile, .row_cache_bytes = 1 << 20, .window = 3};
  return std::make_unique<Loader>(options);
}

void kill_workers(BatchStream& stream) {
  for (const int pid : dynamic_cast<Loader&>(stream).worker_pids()) ::kill(pid, SIGKILL);
}

INSTANTIATE_TEST_SUITE_P(Streams, StreamConformance,
                         ::testing::Values(StreamKind{"InTheCallingThread", open_loader<0>, nullptr},
                                           StreamKind{"OneWorker", open_loader<1>, kill_workers},
                                           StreamKind{"ThreeWorkers", open_loader<3>, kill_workers},
                                           StreamKind{"Windows", open_with_windows, kill_workers}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace hopfeed
