// A plugin of the interface before this one, all else of it as here.
#include "core/sampler/sampler_plugin.h"

extern "C" __attribute__((visibility("default"))) const hopfeed::SamplerPlugin hopfeed_sampler_plugin;
const hopfeed::SamplerPlugin hopfeed_sampler_plugin{"hopfeed sampler plugin 5, g++ ABI " __VERSION__,
                                                    hopfeed::kSamplerPluginLayout, "old", nullptr};
