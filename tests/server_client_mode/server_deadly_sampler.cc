// A plugin whose sampler kills the process in the middle of each batch where its options say "kill"; else a
// batch is its seeds alone. "kill 32": only in that which starts there. "slow": making it takes longer than
// either side may be silent.
#include <signal.h>
#include <unistd.h>

#include <string>

#include "core/sampler/sampler_plugin.h"

namespace {

using namespace hopfeed;

class DeadlySampler : public CustomSampler {
 public:
  DeadlySampler(const Dataset&, const BatchOptions& options) : options_(options.sampler_options) {
    if (options.sampler_options == "slow") ::sleep(11);
  }
  void sample(const SampleRequest& request, SampleBuilder& out) override {
    if (options_ == "kill" || options_ == "kill " + std::to_string(request.key.first)) ::raise(SIGKILL);
    out.end_hop();
  }
  std::size_t num_hops() const override { return 1; }
  SampleBounds bounds(SeedCounts seeds) const override {
    return {.nodes = {total_of(seeds)}, .edges = {0}, .seeds = total_of(seeds), .arrays = {}};
  }

 private:
  const std::string options_;
};

}  // namespace

HOPFEED_SAMPLER_PLUGIN("deadly", DeadlySampler)
