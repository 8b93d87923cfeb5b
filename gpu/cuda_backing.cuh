// Addresses of a GPU, and memory behind some of them (CUDA's virtual memory management). The driver's calls
// are asked for by name, so that nothing links to the driver's library, which machines without a card do not
// have.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <map>
#include <string>

#include "core/base/error.h"
#include "gpu/cuda_check.cuh"

namespace hopfeed::gpu {

class CudaBacking {
 public:
  explicit CudaBacking(int device) : device_(device) {}
  ~CudaBacking() {
    for (const auto& [at, handle] : handles_) call<decltype(&cuMemRelease)>("cuMemRelease")(handle);
  }
  CudaBacking(const CudaBacking&) = delete;
  CudaBacking& operator=(const CudaBacking&) = delete;

  int device() const { return device_; }
  std::size_t unit() const {
    const CUmemAllocationProp memory = properties();
    std::size_t bytes = 0;
    check(call<decltype(&cuMemGetAllocationGranularity)>("cuMemGetAllocationGranularity")(
              &bytes, &memory, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
          "cuMemGetAllocationGranularity");
    return bytes;
  }
  std::byte* reserve(std::size_t bytes) const {
    CUdeviceptr at = 0;
    check(call<decltype(&cuMemAddressReserve)>("cuMemAddressReserve")(&at, bytes, 0, 0, 0),
          "cuMemAddressReserve", bytes);
    return reinterpret_cast<std::byte*>(at);
  }
  void free(std::byte* at, std::size_t bytes) const {
    call<decltype(&cuMemAddressFree)>("cuMemAddressFree")(reinterpret_cast<CUdeviceptr>(at), bytes);
  }
  void back(std::byte* at, std::size_t bytes) {
    const auto address = reinterpret_cast<CUdeviceptr>(at);
    const CUmemAllocationProp memory = properties();
    CUmemGenericAllocationHandle handle = 0;
    check(call<decltype(&cuMemCreate)>("cuMemCreate")(&handle, bytes, &memory, 0), "cuMemCreate", bytes);
    const CUresult mapped = call<decltype(&cuMemMap)>("cuMemMap")(address, bytes, 0, handle, 0);
    if (mapped != CUDA_SUCCESS) {
      call<decltype(&cuMemRelease)>("cuMemRelease")(handle);
      check(mapped, "cuMemMap", bytes);
    }
    handles_[at] = handle;
    CUmemAccessDesc access = {};
    access.location = memory.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    const CUresult allowed = call<decltype(&cuMemSetAccess)>("cuMemSetAccess")(address, bytes, &access, 1);
    if (allowed != CUDA_SUCCESS) unback(at, bytes);
    check(allowed, "cuMemSetAccess", bytes);
  }
  void unback(std::byte* at, std::size_t bytes) {
    const auto found = handles_.find(at);
    if (found == handles_.end()) return;
    call<decltype(&cuMemUnmap)>("cuMemUnmap")(reinterpret_cast<CUdeviceptr>(at), bytes);
    call<decltype(&cuMemRelease)>("cuMemRelease")(found->second);
    handles_.erase(found);
  }

 private:
  CUmemAllocationProp properties() const {
    CUmemAllocationProp memory = {};
    memory.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    memory.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    memory.location.id = device_;
    return memory;
  }
  template <class Function>
  static Function call(const char* name) {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    HOPFEED_CUDA(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found));
    if (found != cudaDriverEntryPointSuccess || function == nullptr)
      throw Error(ErrorCode::kUnsupported,
                  std::string("the driver has no ") + name + "; install one for CUDA 12 or later");
    return reinterpret_cast<Function>(function);
  }
  static void check(CUresult result, const char* name, std::size_t bytes = 0) {
    if (result == CUDA_SUCCESS) return;
    if (result == CUDA_ERROR_OUT_OF_MEMORY) check_cuda(cudaErrorMemoryAllocation, name, bytes);
    throw Error(ErrorCode::kIo, std::string(name) + " of " + std::to_string(bytes) + " bytes: CUDA error " +
                                    std::to_string(static_cast<int>(result)));
  }

  const int device_;
  std::map<std::byte*, CUmemGenericAllocationHandle> handles_;
};

}  // namespace hopfeed::gpu
