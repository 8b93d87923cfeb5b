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

std::string why_unusable(const AskedGpu& gpu, int device) {
  const auto capability = [](int number) { return fmt::format("{}.{}", number / 10, number % 10); };
  if (gpu.capability < gpu.oldest)
    return fmt::format(
        "GPU {} cannot be used ({} has compute capability {}, and this hopfeed has kernels for "
        "{} and later); build it with -DCMAKE_CUDA_ARCHITECTURES={}, or take graph mode cpu",
        device, gpu.name, capability(gpu.capability), capability(gpu.oldest), gpu.capability);
  if (gpu.shut)
    return fmt::format(
        "GPU {} cannot be used ({} has the compute mode Prohibited); set another "
        "(nvidia-smi --compute-mode=DEFAULT), or take graph mode cpu",
        device, gpu.name);
  return "";
}

std::string taken_by_another() {
  return "another process has the GPU to itself (compute mode Exclusive_Process), maybe another worker or "
         "the "
         "trainer; let several use it (nvidia-smi --compute-mode=DEFAULT), or take graph mode cpu";
}

}  // namespace hopfeed::gpu
