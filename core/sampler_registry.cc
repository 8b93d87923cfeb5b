// See sampler_registry.h.
#include "core/sampler_registry.h"

#include "core/neighbor_sampler.h"

namespace hopfeed {

std::unique_ptr<Sampler> make_sampler(const Dataset& dataset, const BatchOptions& options) {
  return std::make_unique<NeighborSampler>(dataset, options);
}

}  // namespace hopfeed
