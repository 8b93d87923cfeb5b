// A plugin that fails as its options say: "make" throws where it is made, "crash", "exit" and "hang" end the
// process there or stay, "crash bounds" crashes where it says how large a batch can be. In every batch it
// throws.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "core/sampler/sampler_plugin.h"

namespace {

using namespace hopfeed;

class ThrowingSampler : public CustomSampler {
 public:
  ThrowingSampler(const Dataset&, const BatchOptions& options) : how_(options.sampler_options) {
    if (how_ == "make") throw std::runtime_error("no such luck");
    if (how_ == "crash") ::raise(SIGSEGV);
    if (how_ == "exit") std::_Exit(0);
    while (how_ == "hang") ::pause();
  }
  void sample(const SampleRequest&, SampleBuilder&) override { throw std::logic_error("not today"); }
  std::size_t num_hops() const override { return 1; }
  SampleBounds bounds(SeedCounts seeds) const override {
    if (how_ == "crash bounds") std::abort();
    return {.nodes = {total_of(seeds)}, .edges = {0}, .seeds = total_of(seeds), .arrays = {}};
  }

 private:
  const std::string how_;
};

}  // namespace

HOPFEED_SAMPLER_PLUGIN("throwing", ThrowingSampler)
