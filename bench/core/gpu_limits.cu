// See gpu_limits.h. Each kernel is the shortest loop that does its one thing; addresses come from a hash of a
// counter, so that no two threads wait for each other.
#include "bench/core/gpu_limits.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>

#include "bench/core/gpu_check.cuh"
#include "bench/core/gpu_mechanisms.h"

namespace hopfeed::bench {
namespace {

constexpr int kBlocks = 2048, kThreads = 256, kReadsPerThread = 64;
constexpr double kReads = static_cast<double>(kBlocks) * kThreads * kReadsPerThread;
constexpr unsigned kHashSlots = 1u << 25, kHashKeys = kHashSlots / 2;

__device__ std::uint64_t mixed(std::uint64_t x) {  // the finaliser of SplitMix64
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

// Word is std::uint32_t (4 bytes) or a 32-byte struct: one sector of the memory system.
struct alignas(16) Sector {
  uint4 low, high;
};
__device__ unsigned sum_of(std::uint32_t word) { return word; }
__device__ unsigned sum_of(const Sector& s) { return s.low.x + s.low.w + s.high.x + s.high.w; }

template <class Word>
__global__ void read_randomly(const Word* words, std::uint64_t count, std::uint64_t seed, unsigned* out) {
  const std::uint64_t thread = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned sum = 0;
#pragma unroll 8
  for (int i = 0; i < kReadsPerThread; ++i) {
    const std::uint64_t random = mixed(seed + thread * kReadsPerThread + i);
    sum += sum_of(words[__umul64hi(random, count)]);
  }
  if (sum == 42) *out = sum;  // never seen by anybody, but the compiler cannot know
}

__global__ void read_at(const std::uint32_t* words, const std::uint32_t* positions, std::size_t count,
                        unsigned* out) {
  const std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
  if (i < count && words[positions[i]] == 42) *out = 42;  // nobody sees it, but the compiler cannot know
}

// One warp a row, 16 bytes a lane.
__global__ void gather(const uint4* table, const std::uint32_t* ids, std::size_t rows, unsigned words_per_row,
                       uint4* out) {
  const std::size_t row = (blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x) / 32;
  const unsigned lane = threadIdx.x % 32;
  if (row >= rows) return;
  for (unsigned i = lane; i < words_per_row; i += 32)
    out[row * words_per_row + i] = table[static_cast<std::size_t>(ids[row]) * words_per_row + i];
}

__global__ void insert_keys(unsigned* slots, std::uint64_t seed) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= kHashKeys) return;
  const unsigned key = static_cast<unsigned>(mixed(seed + i)) | 1u;  // 0 is an empty slot
  for (unsigned at = static_cast<unsigned>(mixed(key)) % kHashSlots;; at = (at + 1) % kHashSlots) {
    const unsigned found = atomicCAS(&slots[at], 0u, key);
    if (found == 0u || found == key) return;
  }
}

/// Median seconds of `work`, by events around it; `before` is not timed.
double median_seconds(int repetitions, const std::function<void()>& work,
                      const std::function<void()>& before = {}) {
  cudaEvent_t begin, end;
  HOPFEED_CUDA_CHECK(cudaEventCreate(&begin));
  HOPFEED_CUDA_CHECK(cudaEventCreate(&end));
  std::vector<float> times;
  for (int i = 0; i <= repetitions; ++i) {  // the first one warms
    if (before) before();
    HOPFEED_CUDA_CHECK(cudaEventRecord(begin));
    work();
    HOPFEED_CUDA_CHECK(cudaGetLastError());
    HOPFEED_CUDA_CHECK(cudaEventRecord(end));
    HOPFEED_CUDA_CHECK(cudaEventSynchronize(end));
    float milliseconds = 0;
    HOPFEED_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
    if (i > 0) times.push_back(milliseconds);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::nth_element(times.begin(), times.begin() + repetitions / 2, times.end());
  return times[static_cast<std::size_t>(repetitions / 2)] * 1e-3;
}

/// Device or pinned host memory for as long as the scope.
struct Buffer {
  enum class Kind { kDevice, kPinned, kHugePages };
  Buffer(Kind kind, std::size_t bytes) : kind(kind), bytes(bytes) {
    if (kind == Kind::kDevice)
      HOPFEED_CUDA_CHECK(cudaMalloc(&data, bytes));
    else if (kind == Kind::kPinned)
      HOPFEED_CUDA_CHECK(cudaHostAlloc(&data, bytes, cudaHostAllocPortable | cudaHostAllocMapped));
    else
      pin_huge_pages();
  }
  ~Buffer() {
    if (kind == Kind::kDevice) cudaFree(data);
    if (kind == Kind::kPinned) cudaFreeHost(data);
    if (kind != Kind::kHugePages) return;
    cudaHostUnregister(data);
    std::free(data);
  }
  void pin_huge_pages() {
    constexpr std::size_t kHugePage = std::size_t{2} << 20;
    if (posix_memalign(&data, kHugePage, bytes) != 0) throw Error(ErrorCode::kNoSpace, "no host memory");
    madvise(data, bytes, MADV_HUGEPAGE);
    std::memset(data, 1, bytes);  // takes the pages
    HOPFEED_CUDA_CHECK(cudaHostRegister(data, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped));
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  Kind kind;
  std::size_t bytes;
  void* data = nullptr;
};

template <class Word>
double random_reads(const Buffer& table, unsigned* sink, int repetitions) {
  std::uint64_t seed = 1;
  const double seconds = median_seconds(repetitions, [&] {
    read_randomly<<<kBlocks, kThreads>>>(static_cast<const Word*>(table.data), table.bytes / sizeof(Word),
                                         seed, sink);
    seed += 0x9E3779B97F4A7C15ull;
  });
  return kReads / seconds;
}

GpuGather gather_rows(const Buffer& table, std::size_t row_bytes, bool sorted,
                      const GpuLimitOptions& options) {
  std::mt19937_64 random(7);
  std::vector<std::uint32_t> ids(options.gathered_rows);
  for (std::uint32_t& id : ids) id = static_cast<std::uint32_t>(random() % (table.bytes / row_bytes));
  if (sorted) std::sort(ids.begin(), ids.end());
  Buffer ids_there(Buffer::Kind::kDevice, ids.size() * sizeof(std::uint32_t)),
      out(Buffer::Kind::kDevice, ids.size() * row_bytes);
  HOPFEED_CUDA_CHECK(cudaMemcpy(ids_there.data, ids.data(), ids_there.bytes, cudaMemcpyHostToDevice));
  const auto blocks = static_cast<unsigned>((ids.size() * 32 + kThreads - 1) / kThreads);
  const double seconds = median_seconds(options.repetitions, [&] {
    gather<<<blocks, kThreads>>>(
        static_cast<const uint4*>(table.data), static_cast<const std::uint32_t*>(ids_there.data), ids.size(),
        static_cast<unsigned>(row_bytes / sizeof(uint4)), static_cast<uint4*>(out.data));
  });
  return {row_bytes, sorted, static_cast<double>(out.bytes) / seconds};
}

double batch_reads(const Buffer& table, bool sorted, unsigned* sink, const GpuLimitOptions& options) {
  std::mt19937_64 random(9);
  std::vector<std::uint32_t> positions(options.batch_reads);
  for (std::uint32_t& position : positions)
    position = static_cast<std::uint32_t>(random() % (table.bytes / sizeof(std::uint32_t)));
  if (sorted) std::sort(positions.begin(), positions.end());
  Buffer there(Buffer::Kind::kDevice, positions.size() * sizeof(std::uint32_t));
  HOPFEED_CUDA_CHECK(cudaMemcpy(there.data, positions.data(), there.bytes, cudaMemcpyHostToDevice));
  const auto blocks = static_cast<unsigned>((positions.size() + kThreads - 1) / kThreads);
  const double seconds = median_seconds(options.repetitions, [&] {
    read_at<<<blocks, kThreads>>>(static_cast<const std::uint32_t*>(table.data),
                                  static_cast<const std::uint32_t*>(there.data), positions.size(), sink);
  });
  return static_cast<double>(positions.size()) / seconds;
}

double hash_inserts(int repetitions) {
  Buffer slots(Buffer::Kind::kDevice, std::size_t{kHashSlots} * sizeof(unsigned));
  std::uint64_t seed = 1;
  const double seconds = median_seconds(
      repetitions,
      [&] {
        insert_keys<<<kHashKeys / kThreads, kThreads>>>(static_cast<unsigned*>(slots.data),
                                                        seed += 0x9E3779B97F4A7C15ull);
      },
      [&] { HOPFEED_CUDA_CHECK(cudaMemset(slots.data, 0, slots.bytes)); });
  return kHashKeys / seconds;
}

void measure_memory(const GpuLimitOptions& options, GpuLimits& limits) {
  Buffer host(Buffer::Kind::kPinned, options.host_bytes), device(Buffer::Kind::kDevice, options.host_bytes),
      sink(Buffer::Kind::kDevice, sizeof(unsigned));
  std::fill_n(static_cast<unsigned char*>(host.data), host.bytes, static_cast<unsigned char>(1));
  const auto bytes = static_cast<double>(host.bytes);
  auto* const sum = static_cast<unsigned*>(sink.data);
  limits.host_to_device_bytes =
      bytes / median_seconds(options.repetitions, [&] {
        HOPFEED_CUDA_CHECK(cudaMemcpyAsync(device.data, host.data, host.bytes, cudaMemcpyHostToDevice));
      });
  limits.device_copy_bytes =
      bytes / 2 / median_seconds(options.repetitions, [&] {
        HOPFEED_CUDA_CHECK(cudaMemcpyAsync(static_cast<char*>(device.data) + device.bytes / 2, device.data,
                                           device.bytes / 2, cudaMemcpyDeviceToDevice));
      });
  constexpr int kSlow = 3;  // repetitions of what takes a second
  limits.uva_reads_4 = random_reads<std::uint32_t>(host, sum, kSlow);
  limits.uva_reads_32 = random_reads<Sector>(host, sum, kSlow);
  limits.uva_batch_reads_4 = batch_reads(host, false, sum, options);
  limits.uva_batch_reads_4_sorted = batch_reads(host, true, sum, options);
  limits.device_reads_4 = random_reads<std::uint32_t>(device, sum, options.repetitions);
  limits.device_reads_32 = random_reads<Sector>(device, sum, options.repetitions);
  for (const std::size_t row_bytes : {std::size_t{400}, std::size_t{512}}) {
    for (const bool sorted : {false, true})
      limits.uva_gathers.push_back(gather_rows(host, row_bytes, sorted, options));
  }
  Buffer huge(Buffer::Kind::kHugePages, options.host_bytes);
  limits.uva_reads_4_huge = random_reads<std::uint32_t>(huge, sum, kSlow);
  limits.uva_reads_32_huge = random_reads<Sector>(huge, sum, kSlow);
  for (const bool sorted : {false, true})
    limits.uva_gathers_huge.push_back(gather_rows(huge, 512, sorted, options));
}

}  // namespace

GpuLimits measure_gpu_limits(const GpuLimitOptions& options) {
  ImportingPeer peer;  // before CUDA: a forked child cannot use what its parent has started
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
    throw Error(ErrorCode::kNotFound,
                "no CUDA card here; limits without --gpu measures this machine's own memory");
  cudaDeviceProp properties{};
  HOPFEED_CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
  GpuLimits limits;
  limits.card = properties.name;
  HOPFEED_CUDA_CHECK(cudaDriverGetVersion(&limits.driver_version));
  HOPFEED_CUDA_CHECK(cudaRuntimeGetVersion(&limits.runtime_version));
  measure_memory(options, limits);
  limits.hash_inserts = hash_inserts(options.repetitions);
  limits.memfd_error = try_pinned_memfd();
  limits.file_error = try_pinned_file();
  const ImportingPeer::Found found = peer.try_both();
  limits.import_error = found.import;
  limits.own_writes = found.own_writes;
  limits.imported_writes = found.imported_writes;
  limits.killed_error = found.killed;
  return limits;
}

}  // namespace hopfeed::bench
