// See gpu_mechanisms.h.
#include "bench/core/gpu_mechanisms.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "bench/core/gpu_check.cuh"
#include "channel/passed_fds.h"
#include "gpu/device/cuda_backing.cuh"

namespace hopfeed::bench {
namespace {

constexpr std::size_t kWords = 1 << 20;
constexpr int kPeerMilliseconds = 30'000;

__host__ __device__ std::uint32_t pattern(std::size_t i) {
  return static_cast<std::uint32_t>(i) * 2'654'435'761u + 1;
}

__global__ void fill(std::uint32_t* words) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < kWords; i += gridDim.x * blockDim.x)
    words[i] = pattern(i);
}

__global__ void count_wrong(const std::uint32_t* words, unsigned* wrong) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < kWords; i += gridDim.x * blockDim.x)
    if (words[i] != pattern(i)) atomicAdd(wrong, 1u);
}

/// For ten seconds, unless its process ends before.
__global__ void keep_writing(volatile std::uint32_t* word) {
  constexpr std::uint64_t kNanoseconds = 10'000'000'000;
  std::uint64_t begin = 0, now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    *word = *word + 1;
    __threadfence_system();
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - begin < kNanoseconds);
}

std::string wrong_words(const std::uint32_t* words) {
  unsigned *wrong = nullptr, result = 0;
  HOPFEED_CUDA_CHECK(cudaMalloc(&wrong, sizeof(*wrong)));
  HOPFEED_CUDA_CHECK(cudaMemset(wrong, 0, sizeof(*wrong)));
  count_wrong<<<128, 256>>>(words, wrong);
  HOPFEED_CUDA_CHECK(cudaMemcpy(&result, wrong, sizeof(result), cudaMemcpyDeviceToHost));
  HOPFEED_CUDA_CHECK(cudaFree(wrong));
  return result == 0 ? "" : std::to_string(result) + " of " + std::to_string(kWords) + " words are wrong";
}

constexpr std::size_t kBytes = kWords * sizeof(std::uint32_t);
constexpr std::size_t kSharedBytes = std::size_t{256} << 20;  // the pattern is at its front

__global__ void overwrite(uint4* at, std::size_t count) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < count;
       i += std::size_t{gridDim.x} * blockDim.x)
    at[i] = make_uint4(1, 2, 3, 4);
}

/// Bytes a second that are written to all of the memory but the pattern.
double writes_per_s(std::byte* memory) {
  auto* const at = reinterpret_cast<uint4*>(memory + kBytes);
  constexpr std::size_t kCount = (kSharedBytes - kBytes) / sizeof(uint4);
  cudaEvent_t begin{}, end{};
  HOPFEED_CUDA_CHECK(cudaEventCreate(&begin));
  HOPFEED_CUDA_CHECK(cudaEventCreate(&end));
  float best = 1e9f;
  for (int i = 0; i < 5; ++i) {
    HOPFEED_CUDA_CHECK(cudaEventRecord(begin));
    overwrite<<<2048, 256>>>(at, kCount);
    HOPFEED_CUDA_CHECK(cudaEventRecord(end));
    HOPFEED_CUDA_CHECK(cudaEventSynchronize(end));
    float milliseconds = 0;
    HOPFEED_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
    best = std::min(best, milliseconds);
  }
  return static_cast<double>(kCount * sizeof(uint4)) / (best * 1e-3);
}

bool readable(int fd, int milliseconds) {
  pollfd poller{fd, POLLIN, 0};
  return poll(&poller, 1, milliseconds) == 1;
}

// The second process: imports what it is sent, answers one line, empty if all was right, and then writes on
// and on until it is killed.
[[noreturn]] void serve(int socket) {
  std::string answer;
  double rates[2] = {};
  try {
    std::byte byte{};
    if (!readable(socket, kPeerMilliseconds)) _exit(1);
    const ReceivedMessage got = receive_with_fds(socket, {&byte, 1});
    if (got.fds.size() != 1) _exit(1);
    HOPFEED_CUDA_CHECK(cudaFree(nullptr));  // makes the context
    gpu::CudaBacking backing(0);
    std::byte* const shared = backing.import(got.fds[0].get(), kSharedBytes);
    auto* const words = reinterpret_cast<std::uint32_t*>(shared);
    answer = wrong_words(words);
    void* own = nullptr;
    HOPFEED_CUDA_CHECK(cudaMalloc(&own, kSharedBytes));
    rates[0] = writes_per_s(static_cast<std::byte*>(own));
    rates[1] = writes_per_s(shared);
    if (answer.empty()) keep_writing<<<1, 1>>>(words);
  } catch (const std::exception& error) {
    answer = error.what();
  }
  if (write(socket, rates, sizeof(rates)) != sizeof(rates)) _exit(1);
  const bool works = answer.empty();
  answer += '\n';
  if (write(socket, answer.data(), answer.size()) != static_cast<ssize_t>(answer.size()) || !works) _exit(1);
  pause();
  _exit(0);
}

std::uint32_t word_at(const std::byte* at) {
  std::uint32_t word = 0;
  HOPFEED_CUDA_CHECK(cudaMemcpy(&word, at, sizeof(word), cudaMemcpyDeviceToHost));
  return word;
}

/// Empty where the word stays for `milliseconds`; looks each millisecond.
std::string moved_within(const std::byte* at, int milliseconds) {
  const std::uint32_t before = word_at(at);
  for (int i = 0; i < milliseconds; ++i) {
    usleep(1'000);
    if (word_at(at) != before) return "memory changed " + std::to_string(i) + " ms after it was looked at";
  }
  return "";
}

}  // namespace

std::string try_pinned_memfd() {
  const int fd = memfd_create("hopfeed-gpu-limits", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return std::string("memfd_create: ") + std::strerror(errno);
  void* words = MAP_FAILED;
  std::string result;
  bool registered = false;
  if (ftruncate(fd, kBytes) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0 ||
      (words = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED) {
    result = std::string("sealed memfd: ") + std::strerror(errno);
  }
  try {
    if (result.empty()) {
      for (std::size_t i = 0; i < kWords; ++i) static_cast<std::uint32_t*>(words)[i] = pattern(i);
      HOPFEED_CUDA_CHECK(cudaHostRegister(words, kBytes, cudaHostRegisterPortable | cudaHostRegisterMapped));
      registered = true;
      void* on_device = nullptr;
      HOPFEED_CUDA_CHECK(cudaHostGetDevicePointer(&on_device, words, 0));
      result = wrong_words(static_cast<const std::uint32_t*>(on_device));
    }
  } catch (const std::exception& error) {
    result = error.what();
  }
  if (registered) cudaHostUnregister(words);
  if (words != MAP_FAILED) munmap(words, kBytes);
  close(fd);
  return result;
}

std::string try_pinned_file() {
  char name[] = "/tmp/hopfeed-gpu-limits.XXXXXX";
  const int fd = mkostemp(name, O_CLOEXEC);
  if (fd < 0) return std::string("mkostemp: ") + std::strerror(errno);
  unlink(name);
  std::vector<std::uint32_t> words(kWords);
  for (std::size_t i = 0; i < kWords; ++i) words[i] = pattern(i);
  void* mapped = MAP_FAILED;
  std::string result;
  if (write(fd, words.data(), kBytes) != static_cast<ssize_t>(kBytes) ||
      (mapped = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd, 0)) == MAP_FAILED)
    result = std::string("a file in /tmp: ") + std::strerror(errno);
  try {
    if (result.empty()) {
      HOPFEED_CUDA_CHECK(cudaHostRegister(
          mapped, kBytes, cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterReadOnly));
      void* on_device = nullptr;
      const cudaError_t placed = cudaHostGetDevicePointer(&on_device, mapped, 0);
      if (placed == cudaSuccess) result = wrong_words(static_cast<const std::uint32_t*>(on_device));
      cudaHostUnregister(mapped);
      HOPFEED_CUDA_CHECK(placed);
    }
  } catch (const std::exception& error) {
    cudaGetLastError();
    result = error.what();
  }
  if (mapped != MAP_FAILED) munmap(mapped, kBytes);
  close(fd);
  return result;
}

ImportingPeer::ImportingPeer() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw_errno("cannot make a socket pair", errno);
  pid_ = fork();
  if (pid_ == 0) {
    close(ends[0]);
    serve(ends[1]);
  }
  const int error = errno;
  close(ends[1]);
  socket_ = ends[0];
  if (pid_ < 0) {
    close(socket_);
    throw_errno("cannot start a second process", error);
  }
}

ImportingPeer::~ImportingPeer() {
  close(socket_);
  kill_and_wait();
}

void ImportingPeer::kill_and_wait() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);  // not reaped yet, so the number is still its own
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

ImportingPeer::Found ImportingPeer::try_both() {
  Found found{.import = "", .killed = "not tried: nothing was imported"};
  try {
    gpu::CudaBacking backing(0);
    const gpu::SharedRange shared = backing.share(kSharedBytes);
    fill<<<128, 256>>>(reinterpret_cast<std::uint32_t*>(shared.at));
    HOPFEED_CUDA_CHECK(cudaDeviceSynchronize());
    const std::byte byte{};
    const int fd = shared.fd.get();
    if (send_with_fds(socket_, {&byte, 1}, {&fd, 1}, 0) != 1)
      throw_errno("cannot reach the second process", errno);
    double rates[2] = {};
    char answer[512] = {};
    const bool told =
        readable(socket_, kPeerMilliseconds) && read(socket_, rates, sizeof(rates)) == sizeof(rates);
    found.own_writes = rates[0];
    found.imported_writes = rates[1];
    const ssize_t got =
        told && readable(socket_, kPeerMilliseconds) ? read(socket_, answer, sizeof(answer) - 1) : -1;
    found.import =
        got <= 0 ? "the second process gave no answer" : std::string(answer, std::strcspn(answer, "\n"));
    if (found.import.empty()) {
      found.killed = moved_within(shared.at, 2'000).empty() ? "its kernel wrote nothing" : "";
      kill_and_wait();
      if (found.killed.empty()) found.killed = moved_within(shared.at, 200);
    }
    backing.free_shared(shared.at, kSharedBytes);
  } catch (const std::exception& error) {
    (found.import.empty() ? found.killed : found.import) = error.what();
  }
  return found;
}

}  // namespace hopfeed::bench
