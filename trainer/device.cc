// See device.h.
#include "trainer/device.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <torch/version.h>

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "core/base/error.h"

namespace hopfeed {
namespace {

constexpr std::string_view kCuda = "cuda";

/// Beside the library that this program is linked to.
std::filesystem::path torch_cuda_library() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&at::get_num_threads), &info) == 0 || info.dli_fname == nullptr)
    return {};
  return std::filesystem::path(info.dli_fname).parent_path() / "libtorch_cuda.so";
}

/// Asked of the driver itself, which costs nothing where there is none. Empty where it is fine.
std::string complaint_of_driver() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return "this machine has no NVIDIA driver (libcuda.so.1)";
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto describe = reinterpret_cast<int (*)(int, const char**)>(dlsym(driver, "cuGetErrorString"));
  const int code = init != nullptr ? init(0) : -1;
  if (code == 0) return "";
  const char* text = nullptr;
  if (describe != nullptr) describe(code, &text);
  return std::string("the NVIDIA driver says: ") + (text != nullptr ? text : "error " + std::to_string(code));
}

std::string load_cuda() {
  const std::filesystem::path library = torch_cuda_library();
  if (!std::filesystem::exists(library)) return "this Torch (" TORCH_VERSION ") is one without CUDA";
  if (std::string complaint = complaint_of_driver(); !complaint.empty()) return complaint;
  if (dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr)
    return std::string("Torch's CUDA half cannot be loaded: ") + dlerror();
  if (!at::globalContext().hasCUDA() || num_gpus() == 0)
    return "Torch finds no GPU; is the driver older than Torch " TORCH_VERSION " wants?";
  return "";
}

/// The number behind "cuda:"; none behind "cuda".
std::optional<int> number_of(const std::string& text) {
  if (text == kCuda) return {};
  int number = -1;
  const char* const end = text.data() + text.size();
  const char* const first = text.data() + std::min(kCuda.size() + 1, text.size());
  const auto [rest, error] = std::from_chars(first, end, number);
  require_valid(text.starts_with("cuda:") && error == std::errc{} && rest == end && number >= 0,
                marked("device") + " is '" + text + "'; use auto, cpu, cuda or cuda:N");
  return number;
}

std::string memory_of(int gpu) {
  const auto [free, total] = at::accelerator::getMemoryInfo(static_cast<c10::DeviceIndex>(gpu));
  char text[64];
  std::snprintf(text, sizeof text, "%.1f of %.1f GB free", static_cast<double>(free) / 1e9,
                static_cast<double>(total) / 1e9);
  return text;
}

torch::Device take_gpu(int gpu) {
  const auto index = static_cast<c10::DeviceIndex>(gpu);
  at::globalContext().lazyInitDevice(torch::kCUDA);
  at::accelerator::setDeviceIndex(index);
  return {torch::kCUDA, index};
}

}  // namespace

std::string why_no_cuda() {
  static const std::string why = load_cuda();
  return why;
}

int num_gpus() {
  const std::optional<c10::DeviceType> type = at::accelerator::getAccelerator();
  return type == torch::kCUDA ? at::accelerator::deviceCount() : 0;
}

GpuId gpu_id(torch::Device device) {
  GpuId id{};
  void* driver = device.is_cuda() ? dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (driver == nullptr) return id;
  const auto ask = reinterpret_cast<int (*)(GpuId*, int)>(dlsym(driver, "cuDeviceGetUuid_v2"));
  if (ask == nullptr || ask(&id, device.index()) != 0) return {};
  return id;
}

ChosenDevice choose_device(const std::string& text, const LocalRanks& local) {
  if (text == "cpu") return {};
  const bool any = text == "auto";
  const std::optional<int> number = any ? std::nullopt : number_of(text);
  if (const std::string why = why_no_cuda(); !why.empty()) {
    if (any) return {.device = torch::kCPU, .note = "device auto: the CPU, for " + why};
    throw Error(ErrorCode::kUnsupported,
                marked("device") + " is " + text + ", but " + why + "; use cpu or auto");
  }
  const int gpus = num_gpus(), gpu = number.value_or(local.rank % gpus);
  require_valid(gpu < gpus, marked("device") + " is " + text + ", but Torch finds " + std::to_string(gpus) +
                                (gpus == 1 ? " GPU" : " GPUs") + ", numbered from 0; use a smaller number");
  const torch::Device device = take_gpu(gpu);
  return {.device = device, .note = any ? "device auto: " + device.str() + ", " + memory_of(gpu) : ""};
}

}  // namespace hopfeed
