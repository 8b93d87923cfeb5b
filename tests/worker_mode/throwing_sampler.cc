// A plugin that fails: where it is made with the options "make", in every batch with "batch".
#include <stdexcept>

#include "core/sampler/sampler_plugin.h"

namespace {

using namespace hopfeed;

class ThrowingSampler : public CustomSampler {
 public:
  ThrowingSampler(const Dataset&, const BatchOptions& options) {
    if (options.sampler_options == "make") throw std::runtime_error("no such luck");
  }
  void sample(const SampleRequest&, SampleBuilder&) override { throw std::logic_error("not today"); }
  std::size_t num_hops() const override { return 1; }
  SampleBounds bounds(SeedCounts seeds) const override {
    return {.nodes = {total_of(seeds)}, .edges = {0}, .seeds = total_of(seeds), .arrays = {}};
  }
};

}  // namespace

HOPFEED_SAMPLER_PLUGIN("throwing", ThrowingSampler)
