// See local_streams.h.
#include "worker_mode/local_streams.h"

#include <utility>

#include "core/dataset/dataset.h"
#include "worker_mode/loader.h"

namespace hopfeed {

LocalStreams::LocalStreams(std::string folder)
    : folder_(std::move(folder)), meta_(Dataset(folder_, {.some_partitions = true}).meta()) {}

std::unique_ptr<BatchStream> LocalStreams::open(const LoaderOptions& options) const {
  LoaderOptions local = options;
  local.dataset = folder_;
  return std::make_unique<Loader>(local);
}

}  // namespace hopfeed
