// The sampling rules compiled by nvcc: the same text as on the CPU. The kernel's body is a function that the
// host runs too, so a machine without a GPU still executes its logic; where a GPU is, both must give the same
// picks.
#include <gtest/gtest.h>

#include <vector>

#include "core/draws/labor_rule.h"
#include "core/draws/sampling_rule.h"
#include "core/draws/weighted_rule.h"

namespace hopfeed {
namespace {

constexpr std::uint32_t kFanout = 15, kRoom = 32, kNodes = 10'000, kTable = 65;

HOPFEED_HOST_DEVICE std::uint32_t degree_of(std::uint32_t node) {
  return kFanout + 1 + node * 2'654'435'761u % 100'000u;
}

struct Streams {
  NodeStream draws, labor;
};

/// Fills `out` for a node: its draws without replacement, weighted draws from one table, and its variate in
/// four hops, halves apart.
HOPFEED_HOST_DEVICE void draw_row(std::uint32_t node, Streams streams, const AliasEntry* table,
                                  std::uint32_t* out) {
  LinearSeen seen;
  const NodeStream stream = streams.draws.of(node);
  pick_without_replacement(stream, degree_of(node), kFanout, out, seen);
  out += kFanout;
  for (std::uint32_t t = 0; t < 9; ++t) {
    const AliasDraw draw = alias_draw(stream, t, kTable);
    *out++ = alias_position(draw, table[draw.column]);
  }
  for (std::uint32_t hop = 0; hop < 4; ++hop) {
    const std::uint64_t variate = labor_variate(streams.labor.of(node), hop);
    *out++ = static_cast<std::uint32_t>(variate >> 32);
    *out++ = static_cast<std::uint32_t>(variate);
  }
}
static_assert(kFanout + 9 + 4 * 2 == kRoom);

__global__ void draw_rows_on_device(Streams streams, const AliasEntry* table, std::uint32_t* out) {
  const std::uint32_t node = blockIdx.x * blockDim.x + threadIdx.x;
  if (node < kNodes) draw_row(node, streams, table, out + node * kRoom);
}

/// Memory of the device, and what of the host's it begins with.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& host) : bytes_(host.size() * sizeof(T)) {
    EXPECT_EQ(cudaMalloc(&data_, bytes_), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data_, host.data(), bytes_, cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~OnDevice() { cudaFree(data_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  T* data() { return data_; }
  std::vector<T> back() const {
    std::vector<T> host(bytes_ / sizeof(T));
    EXPECT_EQ(cudaMemcpy(host.data(), data_, bytes_, cudaMemcpyDeviceToHost), cudaSuccess);
    return host;
  }

 private:
  std::size_t bytes_;
  T* data_ = nullptr;
};

TEST(SamplingRuleCuda, TheDeviceDrawsWhatTheHostDraws) {
  const Streams streams{node_stream({.seed = 5}), node_stream({.purpose = Purpose::kLabor, .seed = 5})};
  std::vector<AliasEntry> table;  // every fifth edge weighs nothing
  for (std::uint32_t i = 0; i < kTable; ++i)
    table.push_back({i % 5 == 0 ? 0 : i << 25 | 1, i % 5 == 4 ? i - 1 : i + 1});
  std::vector<std::uint32_t> host(kNodes * kRoom);
  for (std::uint32_t node = 0; node < kNodes; ++node) {
    const std::uint32_t* row = host.data() + node * kRoom;
    draw_row(node, streams, table.data(), host.data() + node * kRoom);
    for (std::uint32_t j = 0; j < kFanout; ++j) ASSERT_LT(row[j], degree_of(node));
    for (std::uint32_t t = 0; t < 9; ++t) ASSERT_NE(row[kFanout + t] % 5, 0u) << "an edge of weight zero";
  }
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
    GTEST_SKIP() << "no GPU here: only the host ran the kernel's body";
  OnDevice<AliasEntry> device_table(table);
  OnDevice<std::uint32_t> out(std::vector<std::uint32_t>(host.size()));
  draw_rows_on_device<<<(kNodes + 127) / 128, 128>>>(streams, device_table.data(), out.data());
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const std::vector<std::uint32_t> back = out.back();
  for (std::uint32_t node = 0; node < kNodes; ++node) {
    for (std::uint32_t j = 0; j < kRoom; ++j)
      ASSERT_EQ(back[node * kRoom + j], host[node * kRoom + j]) << "node " << node << ", number " << j;
  }
}

}  // namespace
}  // namespace hopfeed
