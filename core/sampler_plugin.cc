// See sampler_plugin.h.
#include "core/sampler_plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "core/error.h"

namespace hopfeed {

std::string load_sampler_plugin(const std::filesystem::path& library) {
  std::error_code ignored;
  const std::filesystem::path file = std::filesystem::absolute(library);
  if (!std::filesystem::is_regular_file(file, ignored))
    throw Error(ErrorCode::kNotFound,
                fmt::format("the plugin {} is not there; name a shared library", file.string()));
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    throw Error(ErrorCode::kInvalid,
                fmt::format("the plugin {} does not load: {}", file.string(), dlerror()));
  const auto* plugin = static_cast<const SamplerPlugin*>(dlsym(handle, "hopfeed_sampler_plugin"));
  if (plugin == nullptr)
    throw Error(ErrorCode::kInvalid,
                fmt::format("{} is no plugin: it has no HOPFEED_SAMPLER_PLUGIN(name, class)", file.string()));
  if (std::string(plugin->version) != kSamplerPluginVersion || plugin->layout != kSamplerPluginLayout)
    throw Error(
        ErrorCode::kVersion,
        fmt::format("the plugin {} was built for '{}' of another hopfeed than this ('{}'); build it again",
                    file.string(), plugin->version, kSamplerPluginVersion));
  register_sampler(plugin->name, plugin->make);
  return plugin->name;
}

}  // namespace hopfeed
