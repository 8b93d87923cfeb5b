// The pool of large tensors: memory is used again, never shared, and bounded.
#include "trainer/tensor_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <thread>

namespace hopfeed {
namespace {

constexpr std::int64_t kLarge = 1 << 20;  // floats: 4 MiB

TEST(TensorPool, TheNextTensorGetsTheMemoryOfOneThatIsGone) {
  const void* first = pooled_tensor({kLarge}, torch::kFloat32).const_data_ptr();
  const torch::Tensor second = pooled_tensor({4, kLarge / 8}, torch::kFloat64);
  EXPECT_EQ(second.const_data_ptr(), first);
  EXPECT_EQ(second.sizes(), (std::vector<std::int64_t>{4, kLarge / 8}));
  EXPECT_EQ(second.scalar_type(), torch::kFloat64);
}

TEST(TensorPool, MemoryStaysWithATensorAndItsViews) {
  torch::Tensor view;
  {
    torch::Tensor first = pooled_tensor({kLarge}, torch::kFloat32).fill_(1);
    view = first.narrow(0, 5, 10);
  }
  const torch::Tensor second = pooled_tensor({kLarge}, torch::kFloat32).fill_(2);
  EXPECT_TRUE(torch::all(view == 1).item<bool>());
}

TEST(TensorPool, ASlightlyLargerBatchFitsIntoTheSameMemory) {
  const void* first =
      pooled_tensor({8 * kLarge}, torch::kFloat32).const_data_ptr();  // larger than any other test's
  EXPECT_EQ(pooled_tensor({9 * kLarge}, torch::kFloat32).const_data_ptr(), first);
}

TEST(TensorPool, SmallTensorsAreTorchs) {
  const std::size_t before = tensor_pool_stats().used_bytes;
  const torch::Tensor small = pooled_tensor({1'000}, torch::kFloat32),
                      none = pooled_tensor({0, 5}, torch::kFloat32);
  EXPECT_EQ(tensor_pool_stats().used_bytes, before);
  EXPECT_EQ(none.size(1), 5);
}

TEST(TensorPool, KeepsNoMoreThanHalfOfWhatWasUsedAtOnce) {
  std::mt19937_64 random(1);
  std::vector<torch::Tensor> held(8);
  for (int i = 0; i < 500; ++i) {
    held[random() % held.size()] =
        random() % 3 == 0
            ? torch::Tensor()
            : pooled_tensor({static_cast<std::int64_t>(random() % (4 * kLarge))}, torch::kUInt8);
    const TensorPoolStats stats = tensor_pool_stats();
    EXPECT_LE(stats.used_bytes + stats.free_bytes, stats.peak_bytes * 3 / 2);
    EXPECT_LE(stats.used_bytes, stats.peak_bytes);
  }
  held.clear();
  EXPECT_EQ(tensor_pool_stats().used_bytes, 0U);
}

TEST(TensorPool, Released_KeepsNothingButWhatTensorsHold) {
  const torch::Tensor held = pooled_tensor({kLarge}, torch::kFloat32).fill_(3);
  const std::size_t used = tensor_pool_stats().used_bytes;
  pooled_tensor({8 * kLarge}, torch::kFloat32);
  EXPECT_GE(tensor_pool_stats().free_bytes, 8 * kLarge * sizeof(float));
  release_tensor_pool();
  EXPECT_EQ(tensor_pool_stats().free_bytes, 0U);
  EXPECT_EQ(tensor_pool_stats().used_bytes, used);
  EXPECT_EQ(tensor_pool_stats().peak_bytes, used);
  EXPECT_TRUE(torch::all(held == 3).item<bool>());
}

TEST(TensorPool, ThreadsTakeAndGiveBackAtWill) {
  std::vector<std::thread> threads;
  std::array<bool, 4> intact{};
  for (std::size_t t = 0; t < intact.size(); ++t) {
    threads.emplace_back([&intact, t] {
      bool all = true;
      for (int i = 0; i < 50; ++i) {
        torch::Tensor tensor = pooled_tensor({kLarge / 2 + i * 100}, torch::kFloat32);
        tensor.fill_(static_cast<double>(t));
        std::this_thread::yield();
        all &= torch::all(tensor == static_cast<double>(t)).item<bool>();
      }
      intact[t] = all;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t t = 0; t < intact.size(); ++t) EXPECT_TRUE(intact[t]) << "thread " << t;
}

}  // namespace
}  // namespace hopfeed
