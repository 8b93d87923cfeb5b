// The sampling rule compiled by nvcc: the same text as on the CPU. The kernel's body is a function that the host runs too,
// so a machine without a GPU still executes its logic; where a GPU is, both must give the same picks.
#include <gtest/gtest.h>

#include <vector>

#include "core/sampling_rule.h"

namespace hopfeed {
namespace {

constexpr std::uint32_t kFanout = 15, kRoom = 16, kNodes = 10'000;

HOPFEED_HOST_DEVICE std::uint32_t degree_of(std::uint32_t node) { return kFanout + 1 + node * 2'654'435'761u % 100'000u; }

HOPFEED_HOST_DEVICE void pick_row(std::uint32_t node, std::uint64_t key, std::uint64_t retry_key, std::uint32_t* picks) {
  LinearSeen seen;
  pick_without_replacement(NodeStream{key, retry_key, node, 0}, degree_of(node), kFanout, picks + node * kRoom, seen);
}

__global__ void pick_rows(std::uint64_t key, std::uint64_t retry_key, std::uint32_t* picks) {
  const std::uint32_t node = blockIdx.x * blockDim.x + threadIdx.x;
  if (node < kNodes) pick_row(node, key, retry_key, picks);
}

TEST(SamplingRuleCuda, TheDeviceDrawsWhatTheHostDraws) {
  const std::uint64_t key = stream_key({.seed = 5}), retry_key = stream_key({.purpose = Purpose::kRetries, .seed = 5});
  std::vector<std::uint32_t> host(kNodes * kRoom);
  for (std::uint32_t node = 0; node < kNodes; ++node) {
    pick_row(node, key, retry_key, host.data());
    for (std::uint32_t j = 0; j < kFanout; ++j) ASSERT_LT(host[node * kRoom + j], degree_of(node));
  }
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no GPU here: only the host ran the kernel's body";
  std::uint32_t* device = nullptr;
  ASSERT_EQ(cudaMalloc(&device, host.size() * sizeof(std::uint32_t)), cudaSuccess);
  pick_rows<<<(kNodes + 127) / 128, 128>>>(key, retry_key, device);
  std::vector<std::uint32_t> back(host.size());
  ASSERT_EQ(cudaMemcpy(back.data(), device, back.size() * sizeof(std::uint32_t), cudaMemcpyDeviceToHost), cudaSuccess);
  cudaFree(device);
  for (std::uint32_t node = 0; node < kNodes; ++node) {
    for (std::uint32_t j = 0; j < kFanout; ++j) ASSERT_EQ(back[node * kRoom + j], host[node * kRoom + j]) << "node " << node;
  }
}

}  // namespace
}  // namespace hopfeed
