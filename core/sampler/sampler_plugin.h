// A plugin is a user's own sampler in a shared library, which `hopfeed-worker --plugin FILE` loads. It has,
// once, outside of any namespace:
//
//   HOPFEED_SAMPLER_PLUGIN("my_sampler", MySampler)
//
// where MySampler is a CustomSampler with a constructor of (const Dataset&, const BatchOptions&). It is built
// against the hopfeed that loads it (find_package(hopfeed), hopfeed::core): the interface is C++, so another
// version or compiler is refused.
#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "core/sampler/custom_sampler.h"
#include "core/sampler/sampler_registry.h"

namespace hopfeed {

/// Both sides have to agree in this text; it is compared before anything else of the plugin is used.
inline constexpr const char* kSamplerPluginVersion = "hopfeed sampler plugin 7, g++ ABI " __VERSION__;

/// It sums up the sizes of the structures that both sides touch: another hopfeed's rarely agree.
inline constexpr std::size_t kSamplerPluginLayout = [] {
  std::size_t layout = 0;
  for (const std::size_t size : {sizeof(BatchOptions), sizeof(SampleBuilder), sizeof(Sample),
                                 sizeof(SampleRequest), sizeof(SampleBounds), sizeof(Dataset), sizeof(Row)})
    layout = layout * 1009 + size;
  return layout;
}();

/// A SamplerPlugin is what a plugin exports under the name hopfeed_sampler_plugin.
struct SamplerPlugin {
  const char* version;
  std::size_t layout;  // kSamplerPluginLayout
  const char* name;
  CustomSamplerFactory make;
};

/// Returns the absolute path of a plugin; whether it is there is not asked. Throws kInvalid for an empty
/// name.
std::filesystem::path plugin_path(const std::filesystem::path& library);

/// Loads the library for the life of the process and registers its sampler; again is no error. Returns the
/// sampler's name. Throws kNotFound where there is no such file, kInvalid where it has no name, does not
/// load, was cut short or is no plugin, kVersion where it was built for another hopfeed or by another
/// compiler. A constructor of the library that throws ends the process (dlopen lets no exception through),
/// with a message that names the library; of our programs it is one line, and a loader has another process
/// try first. Not to be called by two threads at once.
std::string load_sampler_plugin(const std::filesystem::path& library);

}  // namespace hopfeed

#define HOPFEED_SAMPLER_PLUGIN(NAME, CLASS)                                                              \
  extern "C" __attribute__((visibility("default"))) const hopfeed::SamplerPlugin hopfeed_sampler_plugin; \
  const hopfeed::SamplerPlugin hopfeed_sampler_plugin{hopfeed::kSamplerPluginVersion,                    \
                                                      hopfeed::kSamplerPluginLayout, NAME,               \
                                                      hopfeed::make_custom_sampler<CLASS>};
