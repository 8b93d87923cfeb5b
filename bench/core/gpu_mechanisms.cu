// See gpu_mechanisms.h.
#include "bench/core/gpu_mechanisms.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "bench/core/gpu_check.cuh"

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

std::string wrong_words(const std::uint32_t* words, cudaEvent_t after) {
  unsigned *wrong = nullptr, result = 0;
  HOPFEED_CUDA_CHECK(cudaMalloc(&wrong, sizeof(*wrong)));
  HOPFEED_CUDA_CHECK(cudaMemset(wrong, 0, sizeof(*wrong)));
  if (after) HOPFEED_CUDA_CHECK(cudaStreamWaitEvent(nullptr, after, 0));
  count_wrong<<<128, 256>>>(words, wrong);
  HOPFEED_CUDA_CHECK(cudaMemcpy(&result, wrong, sizeof(result), cudaMemcpyDeviceToHost));
  HOPFEED_CUDA_CHECK(cudaFree(wrong));
  return result == 0 ? "" : std::to_string(result) + " of " + std::to_string(kWords) + " words are wrong";
}

struct Handles {
  cudaIpcMemHandle_t memory;
  cudaIpcEventHandle_t event;
};

bool readable(int fd, int milliseconds) {
  pollfd poller{fd, POLLIN, 0};
  return poll(&poller, 1, milliseconds) == 1;
}

// The second process: reads handles, answers one line, empty if all was right.
[[noreturn]] void serve(int socket) {
  std::string answer;
  Handles handles;
  try {
    if (!readable(socket, kPeerMilliseconds) || read(socket, &handles, sizeof(handles)) != sizeof(handles))
      _exit(1);
    void* words = nullptr;
    cudaEvent_t event{};
    HOPFEED_CUDA_CHECK(cudaIpcOpenMemHandle(&words, handles.memory, cudaIpcMemLazyEnablePeerAccess));
    HOPFEED_CUDA_CHECK(cudaIpcOpenEventHandle(&event, handles.event));
    answer = wrong_words(static_cast<const std::uint32_t*>(words), event);
    HOPFEED_CUDA_CHECK(cudaIpcCloseMemHandle(words));
  } catch (const std::exception& error) {
    answer = error.what();
  }
  answer += '\n';
  _exit(write(socket, answer.data(), answer.size()) == static_cast<ssize_t>(answer.size()) ? 0 : 1);
}

}  // namespace

std::string try_pinned_memfd() {
  constexpr std::size_t kBytes = kWords * sizeof(std::uint32_t);
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
      result = wrong_words(static_cast<const std::uint32_t*>(on_device), nullptr);
    }
  } catch (const std::exception& error) {
    result = error.what();
  }
  if (registered) cudaHostUnregister(words);
  if (words != MAP_FAILED) munmap(words, kBytes);
  close(fd);
  return result;
}

IpcPeer::IpcPeer() {
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

IpcPeer::~IpcPeer() {
  close(socket_);
  kill(pid_, SIGKILL);  // not reaped yet, so the number is still its own
  waitpid(pid_, nullptr, 0);
}

std::string IpcPeer::try_handover() {
  std::uint32_t* words = nullptr;
  cudaEvent_t event{};
  std::string result;
  try {
    Handles handles;
    HOPFEED_CUDA_CHECK(cudaMalloc(&words, kWords * sizeof(std::uint32_t)));
    HOPFEED_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess));
    fill<<<128, 256>>>(words);
    HOPFEED_CUDA_CHECK(cudaEventRecord(event, nullptr));
    HOPFEED_CUDA_CHECK(cudaIpcGetMemHandle(&handles.memory, words));
    HOPFEED_CUDA_CHECK(cudaIpcGetEventHandle(&handles.event, event));
    if (write(socket_, &handles, sizeof(handles)) != sizeof(handles))
      throw_errno("cannot reach the second process", errno);
    char answer[512] = {};
    const ssize_t got = readable(socket_, kPeerMilliseconds) ? read(socket_, answer, sizeof(answer) - 1) : -1;
    result = got <= 0 ? "the second process gave no answer" : std::string(answer, std::strcspn(answer, "\n"));
    HOPFEED_CUDA_CHECK(cudaDeviceSynchronize());
  } catch (const std::exception& error) {
    result = error.what();
  }
  if (event) cudaEventDestroy(event);
  cudaFree(words);
  return result;
}

}  // namespace hopfeed::bench
