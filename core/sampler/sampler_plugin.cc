// See sampler_plugin.h.
#include "core/sampler/sampler_plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <string>

#include "core/base/elf_file.h"
#include "core/base/error.h"
#include "core/base/sha256.h"

namespace hopfeed {
namespace {

/// While a library loads, its constructors run where no exception can be caught. What ends the process then
/// has its name, by the handler that was there before: program_main's prints it as one line.
class NamedTermination {
 public:
  explicit NamedTermination(const std::string& library) {
    library_ = &library;
    before_ = std::set_terminate(end);
  }
  ~NamedTermination() { std::set_terminate(before_); }
  NamedTermination(const NamedTermination&) = delete;
  NamedTermination& operator=(const NamedTermination&) = delete;

 private:
  [[noreturn]] static void end() {
    std::string said = "something that is no std::exception";
    try {
      if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
      said = "std::terminate";
    } catch (const std::exception& error) {
      said = error.what();
    } catch (...) {
    }
    try {
      throw Error(
          ErrorCode::kInvalid,
          fmt::format("the plugin {} does not load, one of its constructors threw: {}", *library_, said));
    } catch (...) {
      before_();
    }
    std::abort();
  }
  inline static const std::string* library_ = nullptr;
  inline static std::terminate_handler before_ = nullptr;
};

void* load(const std::string& file) {
  const NamedTermination named(file);
  // dlopen is declared not to throw, and so the compiler leaves out what would stop an exception; but
  // constructors of the library may throw. Then the dynamic loader's lock is still held, and nothing can go
  // on.
  void* (*volatile open)(const char*, int) = dlopen;
  try {
    return open(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  } catch (...) {
    std::terminate();
  }
}

}  // namespace

std::filesystem::path plugin_path(const std::filesystem::path& library) {
  std::error_code error;
  std::filesystem::path file = std::filesystem::absolute(library, error);
  require_valid(!error, fmt::format("a plugin is called '{}': {}; give the path of a shared library",
                                    library.string(), error.message()));
  return file;
}

std::string load_sampler_plugin(const std::filesystem::path& library) {
  std::error_code ignored;
  const std::filesystem::path file = plugin_path(library);
  if (!std::filesystem::is_regular_file(file, ignored))
    throw Error(ErrorCode::kNotFound,
                fmt::format("the plugin {} is not there; name a shared library", file.string()));
  require_shared_library(file, "the plugin");
  void* handle = load(file.string());
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
  register_sampler(plugin->name, plugin->make, sha256_of_file(file));
  return plugin->name;
}

}  // namespace hopfeed
