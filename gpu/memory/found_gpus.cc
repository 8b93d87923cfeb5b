// See found_gpus.h.
#include "gpu/memory/found_gpus.h"

#include <fmt/format.h>

#include "core/base/error.h"

namespace hopfeed::gpu {
namespace {

std::string version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

std::string unusable(const std::string& why, const std::string& advice) {
  return fmt::format("no GPU can be used ({}); {}, or take graph mode cpu", why, advice);
}

}  // namespace

std::string why_unusable(const FoundGpus& found, int device) {
  const std::string built_with = version(found.runtime);
  if (found.driver == 0)
    return unusable("there is no CUDA driver",
                    fmt::format("install one for CUDA {} or later where a card is", found.runtime / 1000));
  if (found.driver / 1000 < found.runtime / 1000)
    return unusable(fmt::format("the driver knows CUDA {}, and this hopfeed was built with {}",
                                version(found.driver), built_with),
                    fmt::format("install a driver for CUDA {} or later", found.runtime / 1000));
  if (!found.refusal.empty())
    return unusable("CUDA says: " + found.refusal, "look at the card and its driver (nvidia-smi)");
  if (found.devices == 0)
    return unusable("there is no CUDA device", "see CUDA_VISIBLE_DEVICES where a card is");
  if (device < found.devices) return "";
  const std::string there_are =
      found.devices == 1 ? "there is one, number 0" : fmt::format("there are {}, from 0 on", found.devices);
  return fmt::format("GPU {} cannot be used ({}); choose {} 0{}, or take graph mode cpu", device, there_are,
                     marked("gpu_device"),
                     found.devices == 1 ? "" : fmt::format(" to {}", found.devices - 1));
}

}  // namespace hopfeed::gpu
