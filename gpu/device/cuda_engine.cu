// See cuda_engine.h and registered_memory.h. The one unit that compiles the kernels for GPUs.
#include "gpu/device/cuda_engine.h"

#include <map>
#include <mutex>

#include "core/base/error.h"
#include "gpu/batches/device_room_on.h"
#include "gpu/device/cuda_backend.cuh"
#include "gpu/engine/hop_engine_on.h"
#include "gpu/memory/near_gpu.h"

namespace hopfeed::gpu {
namespace {

constexpr std::uintptr_t kPage = 4096;

struct Registered {
  std::mutex mutex;
  struct Range {
    std::uintptr_t device = 0;  // of the first page
    std::size_t users = 0;
    bool ours = true;  // else it was pinned before
  };
  std::map<std::uintptr_t, Range> ranges;  // by the first page: an array has pages of its own
};

Registered& registered() {
  static Registered all;
  return all;
}

std::uintptr_t first_page(const void* array) {
  return reinterpret_cast<std::uintptr_t>(array) / kPage * kPage;
}

/// By whoever allocated it: CUDA registers nothing a second time.
bool is_pinned(const void* array) {
  cudaPointerAttributes attributes{};
  check_cuda(cudaPointerGetAttributes(&attributes, array), "cudaPointerGetAttributes");
  return attributes.type == cudaMemoryTypeHost;
}

/// The smallest of the capabilities that this unit is compiled for.
constexpr int oldest_capability() {
  constexpr int kCompiledFor[] = {__CUDA_ARCH_LIST__};
  int oldest = kCompiledFor[0];
  for (const int architecture : kCompiledFor) oldest = architecture < oldest ? architecture : oldest;
  return oldest / 10;
}

/// Makes no context, which takes time and memory. Of what cannot be asked nothing is held against the GPU.
AskedGpu asked_gpu(int device) {
  AskedGpu gpu;
  gpu.oldest = gpu.capability = oldest_capability();
  cudaDeviceProp properties;
  int mode = cudaComputeModeDefault;
  if (cudaGetDeviceProperties(&properties, device) == cudaSuccess) {
    gpu.name = properties.name;
    gpu.capability = 10 * properties.major + properties.minor;
  }
  if (cudaDeviceGetAttribute(&mode, cudaDevAttrComputeMode, device) == cudaSuccess)
    gpu.shut = mode == cudaComputeModeProhibited;
  cudaGetLastError();  // so that the next call does not meet it
  return gpu;
}

}  // namespace

const void* register_memory(const void* array, std::size_t bytes) {
  const std::uintptr_t begin = first_page(array), at = reinterpret_cast<std::uintptr_t>(array);
  Registered& all = registered();
  const std::lock_guard lock(all.mutex);
  Registered::Range& range = all.ranges[begin];
  if (range.users == 0) {
    void* const pages = reinterpret_cast<void*>(begin);
    const std::size_t whole = (at + bytes - begin + kPage - 1) / kPage * kPage;
    void* device = nullptr;
    try {
      range.ours = !is_pinned(array);
      if (range.ours)
        check_cuda(
            cudaHostRegister(pages, whole,
                             cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterReadOnly),
            "the graph cannot be read in place (take graph mode cuda or cpu): cudaHostRegister", whole);
      check_cuda(cudaHostGetDevicePointer(&device, const_cast<void*>(array), 0), "cudaHostGetDevicePointer");
    } catch (...) {
      all.ranges.erase(begin);
      throw;
    }
    range.device = reinterpret_cast<std::uintptr_t>(device) - (at - begin);
  }
  ++range.users;
  return reinterpret_cast<const void*>(range.device + (at - begin));
}

void unregister_memory(const void* array) noexcept {
  const std::uintptr_t begin = first_page(array);
  Registered& all = registered();
  const std::lock_guard lock(all.mutex);
  const auto found = all.ranges.find(begin);
  if (found == all.ranges.end() || --found->second.users > 0) return;
  if (found->second.ours) cudaHostUnregister(reinterpret_cast<void*>(begin));
  all.ranges.erase(found);
}

std::string why_no_gpu(int device) {
  FoundGpus found;
  found.runtime = CUDART_VERSION;
  cudaDriverGetVersion(&found.driver);
  const cudaError_t status = cudaGetDeviceCount(&found.devices);
  if (status != cudaSuccess) {
    cudaGetLastError();
    found.devices = 0;
    if (status != cudaErrorNoDevice) found.refusal = cudaGetErrorString(status);
  }
  if (const std::string why = why_unusable(found, device); !why.empty()) return why;
  return why_unusable(asked_gpu(device), device);
}

UsableGpu usable_gpu(int device) {
  const std::string why = why_no_gpu(device);
  if (!why.empty()) throw Error(ErrorCode::kNotFound, why);
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return {device, properties.name, properties.totalGlobalMem};
}

namespace {

AvailableMemory free_device_memory(int device) {
  const CudaBackend::Scope scope(device);
  std::size_t free = 0, all = 0;
  HOPFEED_CUDA(cudaMemGetInfo(&free, &all));
  return {free, "the GPU's free memory"};
}

}  // namespace

std::unique_ptr<HopEngine> make_cuda_engine(const EnginePlan& plan) {
  const std::string why = why_no_gpu(plan.device);
  if (!why.empty()) throw Error(ErrorCode::kNotFound, why);
  CudaBackend::Options options;
  options.device = plan.device;
  EnginePlan sized = plan;
  sized.free_bytes = free_device_memory(plan.device).bytes;
  return std::make_unique<HopEngineOn<CudaBackend>>(sized, options);
}

void pin_memory(void* at, std::size_t bytes) {
  const std::string why = why_no_gpu();
  if (!why.empty()) throw Error(ErrorCode::kNotFound, why);
  check_cuda(cudaHostRegister(at, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped),
             "cudaHostRegister", bytes);
}
void unpin_memory(void* at) noexcept { cudaHostUnregister(at); }

namespace {

class CudaMark final : public StreamMark {
 public:
  explicit CudaMark(GpuStream stream) : event_(CudaBackend::mark(stream)) {}
  ~CudaMark() override { cudaEventDestroy(event_); }
  bool done() const override { return cudaEventQuery(event_) != cudaErrorNotReady; }
  void await() const override { cudaEventSynchronize(event_); }

 private:
  const cudaEvent_t event_;
};

}  // namespace

std::unique_ptr<const StreamMark> mark_stream(GpuStream stream) {
  return std::make_unique<const CudaMark>(stream);
}

std::optional<int> memory_node_of_gpu(int device) {
  constexpr int kAddressBytes = 32;
  char address[kAddressBytes] = {};
  if (!why_no_gpu(device).empty() || cudaDeviceGetPCIBusId(address, kAddressBytes, device) != cudaSuccess)
    return {};
  return memory_node_of(address);
}

namespace {

/// Makers read the machine's pinned copy of the dataset, and keep it.
class CudaRoom final : public DeviceRoomOn<CudaBackend> {
 public:
  using DeviceRoomOn<CudaBackend>::DeviceRoomOn;
  std::unique_ptr<BlockMaker> maker(const Dataset& dataset, const BatchSource& source,
                                    const BatchOptions& options, const DeviceBlockOptions& device,
                                    ChannelMemory& slots) override {
    DeviceBlockOptions pinned = device;
    pinned.keeps = pinned_on_machine(
        dataset,
        {.pin = pin_memory, .unpin = unpin_memory, .memory_node = memory_node_of_gpu(backend_.device)});
    return DeviceRoomOn<CudaBackend>::maker(dataset, source, options, pinned, slots);
  }
};

}  // namespace

std::shared_ptr<DeviceRoom> make_cuda_room(int device) {
  const std::string why = why_no_gpu(device);
  if (!why.empty()) throw Error(ErrorCode::kNotFound, why);
  CudaBackend::Options options;
  options.device = device;
  return std::make_shared<CudaRoom>(
      options, [device] { return free_device_memory(device); }, kCudaRoom);
}

}  // namespace hopfeed::gpu
