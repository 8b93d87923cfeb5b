// CudaBackend is the backend on a GPU (host_backend.h says what one is): a stream of its own on one device.
#pragma once
#include <cuda_runtime.h>

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <cstddef>
#include <cstdint>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include <utility>
#include <vector>

#include "core/batch/gpu_stream.h"
#include "gpu/device/cuda_backing.cuh"
#include "gpu/device/cuda_check.cuh"
#include "gpu/engine/hop_engine.h"
#include "gpu/memory/device_array.h"
#include "gpu/memory/pinned_dataset.h"
#include "gpu/memory/registered_memory.h"
#include "gpu/memory/setup_times.h"

namespace hopfeed::gpu {

template <class Kernel>
__global__ void run_items(std::uint64_t n, Kernel kernel) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) kernel(i);
}

template <class Items>
struct NumberOf {
  Items items;
  __host__ __device__ std::uint64_t operator()(std::uint64_t i) const { return items.number(i); }
};

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

  explicit CudaBackend(const Options& options) : device_(options.device), backing_(options.device) {
    const SetupTimer timer(Setup::kContext);  // the first call of a process makes it
    const Scope scope(*this);
    HOPFEED_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  ~CudaBackend() {
    cudaStreamSynchronize(stream_);
    cudaFree(scratch_);
    for (void* copy : graph_) cudaFree(copy);
    for (const void* array : registered_) unregister_memory(array);
    cudaStreamDestroy(stream_);
  }
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  void* allocate(std::size_t bytes, Where where) {
    ++generation_;
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
      if (const void* const copy = pinned_copy(array)) array = copy;
      const void* on_device = register_memory(array, bytes);
      registered_.push_back(array);
      return on_device;
    }
    const SetupTimer timer(Setup::kCopying);
    graph_.reserve(graph_.size() + 1);
    void* copy = allocate(bytes, Where::kDevice);
    graph_.push_back(copy);
    check_cuda(cudaMemcpy(copy, array, bytes, cudaMemcpyHostToDevice), "cudaMemcpy", bytes);
    return copy;
  }
  void copy(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0) HOPFEED_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_));
  }
  void copy_rows(void* to, std::size_t to_stride, const void* from, std::size_t from_stride,
                 std::size_t row_bytes, std::size_t rows) {
    if (row_bytes > 0 && rows > 0)
      HOPFEED_CUDA(
          cudaMemcpy2DAsync(to, to_stride, from, from_stride, row_bytes, rows, cudaMemcpyDefault, stream_));
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
  template <class Items>
  void scan(std::uint64_t n, const Items& items, std::uint64_t* sums) {
    const auto numbers = thrust::make_transform_iterator(thrust::make_counting_iterator(std::uint64_t{0}),
                                                         NumberOf<Items>{items});
    std::size_t bytes = 0;
    HOPFEED_CUDA(cub::DeviceScan::ExclusiveSum(nullptr, bytes, numbers, sums, n, stream_));
    reserve_scratch(bytes);
    HOPFEED_CUDA(cub::DeviceScan::ExclusiveSum(scratch_, bytes, numbers, sums, n, stream_));
  }
  void sort_by(const std::int64_t* keys, std::int64_t* sorted_keys, const std::uint32_t* values,
               std::uint32_t* sorted_values, std::uint64_t n, int key_bits) {
    if (n == 0) return;
    std::size_t bytes = 0;
    HOPFEED_CUDA(cub::DeviceRadixSort::SortPairs(nullptr, bytes, keys, sorted_keys, values, sorted_values, n,
                                                 0, key_bits, stream_));
    reserve_scratch(bytes);
    HOPFEED_CUDA(cub::DeviceRadixSort::SortPairs(scratch_, bytes, keys, sorted_keys, values, sorted_values, n,
                                                 0, key_bits, stream_));
  }
  void wait() {
    HOPFEED_CUDA(cudaStreamSynchronize(stream_));
    ++waits_;
  }
  std::uint64_t waits() const { return waits_; }

  /// A Recording is a CUDA graph: one launch in place of many.
  class Recording {
   public:
    Recording() = default;
    explicit Recording(cudaGraphExec_t graph) : graph_(graph) {}
    ~Recording() {
      if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
    }
    Recording(Recording&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)) {}
    Recording& operator=(Recording&& other) noexcept {
      std::swap(graph_, other.graph_);
      return *this;
    }
    cudaGraphExec_t get() const { return graph_; }

   private:
    cudaGraphExec_t graph_ = nullptr;
  };
  void begin_recording() { HOPFEED_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal)); }
  Recording end_recording() {
    cudaGraph_t graph = nullptr;
    HOPFEED_CUDA(cudaStreamEndCapture(stream_, &graph));
    cudaGraphExec_t executable = nullptr;
    const cudaError_t made = cudaGraphInstantiate(&executable, graph, 0);
    cudaGraphDestroy(graph);
    check_cuda(made, "cudaGraphInstantiate");
    return Recording(executable);
  }
  void replay(const Recording& recording) { HOPFEED_CUDA(cudaGraphLaunch(recording.get(), stream_)); }
  std::uint64_t generation() const { return generation_; }

  std::size_t backing_unit() const { return backing_.unit(); }
  std::byte* reserve_range(std::size_t bytes) { return backing_.reserve(bytes); }
  void free_range(std::byte* at, std::size_t bytes) { backing_.free(at, bytes); }
  void back(std::byte* at, std::size_t bytes) { backing_.back(at, bytes); }
  void unback(std::byte* at, std::size_t bytes) { backing_.unback(at, bytes); }
  SharedRange share_range(std::size_t bytes) { return backing_.share(bytes); }
  std::byte* import_range(int fd, std::size_t bytes, std::uint32_t /*importer*/) {
    return backing_.import(fd, bytes);
  }
  void free_shared(std::byte* at, std::size_t bytes) { backing_.free_shared(at, bytes); }
  /// Returns true: a process's work ends with the driver's files that it had open, which the kernel closes
  /// before the process can be waited for.
  static bool ended(int /*fd*/, std::uint32_t /*importer*/) { return true; }
  using Mark = cudaEvent_t;
  static Mark mark(GpuStream stream) {
    const Scope scope(stream.device);
    cudaEvent_t event = nullptr;
    HOPFEED_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    if (const cudaError_t status = cudaEventRecord(event, static_cast<cudaStream_t>(stream.handle));
        status != cudaSuccess) {
      cudaEventDestroy(event);
      check_cuda(status, "cudaEventRecord");
    }
    return event;
  }
  void come_after(Mark mark) { HOPFEED_CUDA(cudaStreamWaitEvent(stream_, mark)); }
  bool done(Mark mark) { return cudaEventQuery(mark) != cudaErrorNotReady; }
  void await(Mark mark) { cudaEventSynchronize(mark); }
  void drop(Mark mark) { cudaEventDestroy(mark); }
  int device() const { return backing_.device(); }

 private:
  static constexpr unsigned kBlock = 128;

  /// Makes the memory of scans and sorts as large as `bytes`.
  void reserve_scratch(std::size_t bytes) {
    if (bytes <= scratch_bytes_) return;
    if (scratch_ != nullptr) release(scratch_, Where::kDevice);
    scratch_ = nullptr;
    scratch_bytes_ = 0;
    scratch_ = allocate(2 * bytes, Where::kDevice);
    scratch_bytes_ = 2 * bytes;
  }

  const int device_;
  cudaStream_t stream_ = nullptr;
  CudaBacking backing_;
  void* scratch_ = nullptr;
  std::size_t scratch_bytes_ = 0;
  std::vector<void*> graph_;
  std::vector<const void*> registered_;
  std::uint64_t waits_ = 0, generation_ = 0;
};

}  // namespace hopfeed::gpu
