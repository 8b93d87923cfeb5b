// The backend on a GPU (host_backend.h says what one is): a stream of its own on one device.
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cub/device/device_scan.cuh>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "gpu/device_array.h"
#include "gpu/hop_engine.h"
#include "gpu/registered_memory.h"

namespace hopfeed::gpu {

/// Throws what a call of CUDA has come to. `bytes`: what it was to take, where memory may be short.
inline void check_cuda(cudaError_t status, const std::string& call, std::size_t bytes = 0) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // so that the next call does not meet it again
  std::string message = call + (bytes == 0 ? "" : " of " + std::to_string(bytes) + " bytes") + ": " +
                        cudaGetErrorString(status);
  if (status != cudaErrorMemoryAllocation) {
    // An error that every later call has too is one of the process.
    if (cudaDeviceSynchronize() == cudaSuccess) throw Error(ErrorCode::kIo, message);
    throw BrokenProcess(ErrorCode::kIo, message + "; this process cannot use the GPU any more");
  }
  std::size_t free = 0, all = 0;
  if (cudaMemGetInfo(&free, &all) == cudaSuccess)
    message += " (" + std::to_string(free) + " of " + std::to_string(all) + " bytes are free)";
  throw Error(ErrorCode::kNoSpace,
              message + "; lower batch_size or the fanouts, or take graph mode uva in place of cuda, or cpu");
}
#define HOPFEED_CUDA(call) ::hopfeed::gpu::check_cuda(call, #call)

template <class Kernel>
__global__ void run_items(std::uint64_t n, Kernel kernel) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) kernel(i);
}

class CudaBackend {
 public:
  struct Options {
    int device = 0;
  };
  /// While it lives, the calling thread uses the backend's device; then the one that it used before, which
  /// may be a trainer's.
  class Scope {
   public:
    explicit Scope(const CudaBackend& backend) : Scope(backend.device_) {}
    explicit Scope(int device) : device_(device) {
      if (cudaGetDevice(&before_) != cudaSuccess) before_ = device;
      if (before_ != device_) HOPFEED_CUDA(cudaSetDevice(device_));
    }
    ~Scope() {
      if (before_ != device_) cudaSetDevice(before_);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    int device_, before_ = 0;
  };

  explicit CudaBackend(const Options& options) : device_(options.device) {
    const Scope scope(*this);
    HOPFEED_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  ~CudaBackend() {
    cudaStreamSynchronize(stream_);
    cudaFree(scan_memory_);
    for (void* copy : graph_) cudaFree(copy);
    for (const void* array : registered_) unregister_memory(array);
    cudaStreamDestroy(stream_);
  }
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  void* allocate(std::size_t bytes, Where where) {
    const Scope scope(*this);
    void* memory = nullptr;
    if (where == Where::kDevice)
      check_cuda(cudaMalloc(&memory, bytes), "cudaMalloc", bytes);
    else
      check_cuda(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped), "cudaHostAlloc",
                 bytes);
    return memory;
  }
  void release(void* memory, Where where) {
    cudaStreamSynchronize(stream_);
    if (where == Where::kDevice)
      cudaFree(memory);
    else
      cudaFreeHost(memory);
  }
  const void* place_graph(const void* array, std::size_t bytes, GraphPlace place) {
    const Scope scope(*this);
    if (bytes == 0) return array;
    if (place == GraphPlace::kHost) {
      registered_.reserve(registered_.size() + 1);
      const void* on_device = register_memory(array, bytes);
      registered_.push_back(array);
      return on_device;
    }
    graph_.reserve(graph_.size() + 1);
    void* copy = allocate(bytes, Where::kDevice);
    graph_.push_back(copy);
    check_cuda(cudaMemcpy(copy, array, bytes, cudaMemcpyHostToDevice), "cudaMemcpy", bytes);
    return copy;
  }
  void copy(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0) HOPFEED_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_));
  }
  void fill(void* at, int byte, std::size_t bytes) {
    if (bytes > 0) HOPFEED_CUDA(cudaMemsetAsync(at, byte, bytes, stream_));
  }
  template <class Kernel>
  void launch(std::uint64_t n, const Kernel& kernel) {
    if (n == 0) return;
    run_items<<<static_cast<unsigned>((n + kBlock - 1) / kBlock), kBlock, 0, stream_>>>(n, kernel);
    HOPFEED_CUDA(cudaGetLastError());
  }
  void exclusive_scan(std::uint64_t* numbers, std::uint64_t n) {
    std::size_t bytes = 0;
    HOPFEED_CUDA(cub::DeviceScan::ExclusiveSum(nullptr, bytes, numbers, n, stream_));
    if (bytes > scan_bytes_) {
      if (scan_memory_ != nullptr) release(scan_memory_, Where::kDevice);
      scan_memory_ = nullptr;
      scan_bytes_ = 0;
      scan_memory_ = allocate(2 * bytes, Where::kDevice);
      scan_bytes_ = 2 * bytes;
    }
    HOPFEED_CUDA(cub::DeviceScan::ExclusiveSum(scan_memory_, bytes, numbers, n, stream_));
  }
  void wait() {
    HOPFEED_CUDA(cudaStreamSynchronize(stream_));
    ++waits_;
  }
  std::uint64_t waits() const { return waits_; }

 private:
  static constexpr unsigned kBlock = 128;

  const int device_;
  cudaStream_t stream_ = nullptr;
  void* scan_memory_ = nullptr;
  std::size_t scan_bytes_ = 0;
  std::vector<void*> graph_;
  std::vector<const void*> registered_;
  std::uint64_t waits_ = 0;
};

}  // namespace hopfeed::gpu
