// Backs addresses of a GPU by memory (CUDA's virtual memory management): piece by piece, or in one piece that
// other processes import by a file descriptor. The driver's calls are asked for by name, so that nothing
// needs the driver's library at link time, which machines without a card do not have.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "core/base/error.h"
#include "gpu/device/cuda_check.cuh"
#include "gpu/memory/shared_range.h"

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
  std::size_t unit() const { return unit_of(properties(Sharing::kNone)); }
  std::byte* reserve(std::size_t bytes) const {
    CUdeviceptr at = 0;
    check(call<decltype(&cuMemAddressReserve)>("cuMemAddressReserve")(&at, bytes, 0, 0, 0),
          "cuMemAddressReserve", bytes);
    return reinterpret_cast<std::byte*>(at);
  }
  void free(std::byte* at, std::size_t bytes) const {
    call<decltype(&cuMemAddressFree)>("cuMemAddressFree")(reinterpret_cast<CUdeviceptr>(at), bytes);
  }
  void back(std::byte* at, std::size_t bytes) { map(at, bytes, create(bytes, Sharing::kNone)); }
  void unback(std::byte* at, std::size_t bytes) {
    const auto found = handles_.find(at);
    if (found == handles_.end()) return;
    call<decltype(&cuMemUnmap)>("cuMemUnmap")(reinterpret_cast<CUdeviceptr>(at), bytes);
    call<decltype(&cuMemRelease)>("cuMemRelease")(found->second);
    handles_.erase(found);
  }

  SharedRange share(std::size_t bytes) {
    const std::size_t whole = whole_units(bytes);
    const CUmemGenericAllocationHandle handle = create(whole, Sharing::kByDescriptor);
    std::byte* const at = place(whole, handle);
    int fd = -1;
    const CUresult exported = call<decltype(&cuMemExportToShareableHandle)>("cuMemExportToShareableHandle")(
        &fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (exported != CUDA_SUCCESS) free_shared(at, bytes);
    check(exported,
          "the slots cannot be shared with workers (take " + marked("num_workers") +
              " 0): cuMemExportToShareableHandle",
          whole);
    try {
      return {.at = at, .fd = out_of_the_way(OwnedFd(fd), "the slots cannot be shared with workers")};
    } catch (...) {
      free_shared(at, bytes);
      throw;
    }
  }
  /// Imports memory on the same card or on another one that reaches it.
  std::byte* import(int fd, std::size_t bytes) {
    CUmemGenericAllocationHandle handle = 0;
    check(call<decltype(&cuMemImportFromShareableHandle)>("cuMemImportFromShareableHandle")(
              &handle, reinterpret_cast<void*>(static_cast<std::uintptr_t>(fd)),
              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
          "a worker cannot import the slots of its trainer's GPU (take " + marked("num_workers") +
              " 0): cuMemImportFromShareableHandle",
          bytes);
    return place(whole_units(bytes), handle);
  }
  void free_shared(std::byte* at, std::size_t bytes) {
    const std::size_t whole = whole_units(bytes);
    unback(at, whole);
    free(at, whole);
  }

 private:
  enum class Sharing { kNone, kByDescriptor };

  std::size_t unit_of(const CUmemAllocationProp& memory) const {
    std::size_t bytes = 0;
    check(call<decltype(&cuMemGetAllocationGranularity)>("cuMemGetAllocationGranularity")(
              &bytes, &memory, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
          "cuMemGetAllocationGranularity");
    return bytes;
  }
  std::size_t whole_units(std::size_t bytes) const {
    const std::size_t unit = unit_of(properties(Sharing::kByDescriptor));
    return (bytes + unit - 1) / unit * unit;
  }
  CUmemGenericAllocationHandle create(std::size_t bytes, Sharing sharing) const {
    const CUmemAllocationProp memory = properties(sharing);
    CUmemGenericAllocationHandle handle = 0;
    check(call<decltype(&cuMemCreate)>("cuMemCreate")(&handle, bytes, &memory, 0),
          sharing == Sharing::kNone ? "cuMemCreate" : "all slots at once (lower num_slots): cuMemCreate",
          bytes);
    return handle;
  }
  /// Maps memory at new addresses; takes the handle, also where it throws.
  std::byte* place(std::size_t bytes, CUmemGenericAllocationHandle handle) {
    std::byte* at = nullptr;
    try {
      at = reserve(bytes);
    } catch (...) {
      call<decltype(&cuMemRelease)>("cuMemRelease")(handle);
      throw;
    }
    try {
      map(at, bytes, handle);
    } catch (...) {
      free(at, bytes);
      throw;
    }
    return at;
  }
  /// Maps memory there; takes the handle, also where it throws.
  void map(std::byte* at, std::size_t bytes, CUmemGenericAllocationHandle handle) {
    const auto address = reinterpret_cast<CUdeviceptr>(at);
    const CUresult mapped = call<decltype(&cuMemMap)>("cuMemMap")(address, bytes, 0, handle, 0);
    if (mapped != CUDA_SUCCESS) {
      call<decltype(&cuMemRelease)>("cuMemRelease")(handle);
      check(mapped, "cuMemMap", bytes);
    }
    handles_[at] = handle;
    CUmemAccessDesc access = {};
    access.location = properties(Sharing::kNone).location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    const CUresult allowed = call<decltype(&cuMemSetAccess)>("cuMemSetAccess")(address, bytes, &access, 1);
    if (allowed != CUDA_SUCCESS) unback(at, bytes);
    check(allowed, "this GPU cannot read and write the memory: cuMemSetAccess", bytes);
  }
  CUmemAllocationProp properties(Sharing sharing) const {
    CUmemAllocationProp memory = {};
    memory.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    memory.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    memory.location.id = device_;
    if (sharing == Sharing::kByDescriptor)
      memory.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
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
  static void check(CUresult result, const std::string& name, std::size_t bytes = 0) {
    if (result == CUDA_SUCCESS) return;
    if (result == CUDA_ERROR_OUT_OF_MEMORY) check_cuda(cudaErrorMemoryAllocation, name, bytes);
    throw Error(ErrorCode::kIo, name + " of " + std::to_string(bytes) + " bytes: CUDA error " +
                                    std::to_string(static_cast<int>(result)));
  }

  const int device_;
  std::map<std::byte*, CUmemGenericAllocationHandle> handles_;
};

}  // namespace hopfeed::gpu
