// Which device a run takes, what it says where there is none, and the switches of its numbers.
#include "trainer/device.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "core/base/error.h"
#include "trainer/numerics.h"
#include "trainer/world.h"

namespace hopfeed {
namespace {

std::string message_of(const std::function<void()>& body, ErrorCode code) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(Device, TheCpuIsTakenWithoutAWord) {
  const ChosenDevice chosen = choose_device("cpu");
  EXPECT_TRUE(chosen.device.is_cpu());
  EXPECT_TRUE(chosen.note.empty());
}

TEST(Device, TheCpuHasNoGpusId) { EXPECT_EQ(gpu_id(torch::kCPU), GpuId{}); }

TEST(Device, OtherNamesAreRefused) {
  for (const char* name : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda1", "mps", "CPU"}) {
    const std::string said = message_of([&] { choose_device(name); }, ErrorCode::kInvalid);
    EXPECT_NE(said.find("use auto, cpu, cuda or cuda:N"), std::string::npos) << said;
  }
}

TEST(Device, WithoutAGpuCudaIsRefused_AndAutoIsTheCpu_WithTheReason) {
  const std::string why = why_no_cuda();
  if (why.empty()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(num_gpus(), 0);
  for (const char* name : {"cuda", "cuda:0", "cuda:3"}) {
    const std::string said = message_of([&] { choose_device(name); }, ErrorCode::kUnsupported);
    EXPECT_NE(said.find(why), std::string::npos) << said;
  }
  const ChosenDevice chosen = choose_device("auto");
  EXPECT_TRUE(chosen.device.is_cpu());
  EXPECT_NE(chosen.note.find(why), std::string::npos) << chosen.note;
}

TEST(Numerics, APrecisionHoldsForItsScope) {
  EXPECT_EQ(precision_of("float32"), Precision::kFloat32);
  EXPECT_EQ(precision_of(to_string(Precision::kBf16)), Precision::kBf16);
  message_of([] { precision_of("fp8"); }, ErrorCode::kInvalid);
  const torch::Tensor a = torch::ones({4, 4});
  {
    const PrecisionScope scope(torch::kCPU, Precision::kBf16);
    EXPECT_EQ(torch::matmul(a, a).dtype(), torch::kBFloat16);
    const PrecisionScope same(torch::kCPU, Precision::kFloat32);  // changes nothing
    EXPECT_EQ(torch::matmul(a, a).dtype(), torch::kBFloat16);
  }
  EXPECT_EQ(torch::matmul(a, a).dtype(), torch::kFloat32);
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST(Numerics, DeterministicAlgorithmsAreOnForTheScope) {
  {
    const DeterministicScope scope(torch::kCPU, true);
    EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
    const DeterministicScope none(torch::kCPU, false);
    EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
  }
  EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
  EXPECT_TRUE(at::globalContext().deterministicFillUninitializedMemory());
}

TEST(Numerics, OnAGpuCublasMustBeAllowedToBeDeterministic) {
  const torch::Device gpu(torch::kCUDA, 0);
  unsetenv(kCublasVariable);
  const std::string said =
      message_of([&] { const DeterministicScope scope(gpu, true); }, ErrorCode::kInvalid);
  EXPECT_NE(said.find("CUBLAS_WORKSPACE_CONFIG=:4096:8"), std::string::npos) << said;
  setenv(kCublasVariable, kCublasSetting, 1);
  { const DeterministicScope scope(gpu, true); }
  unsetenv(kCublasVariable);
  EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
}

TEST(Device, OutOfItsMemoryIsOneLineThatSaysWhatToLower) {
  const auto fail = [] {
    TORCH_CHECK_WITH(OutOfMemoryError, false,
                     "CUDA out of memory. Tried to allocate 2.00 GiB.\nSee documentation");
  };
  const std::string said = message_of([&] { translate_torch_errors("training", fail); }, ErrorCode::kNoSpace);
  EXPECT_EQ(said.rfind("training: CUDA out of memory. Tried to allocate 2.00 GiB.; lower --batch-size", 0),
            0U)
      << said;
  EXPECT_NE(said.find("--precision bf16"), std::string::npos) << said;
}

TEST(Device, AnErrorOfItIsOneLine) {
  const auto fail = [] {
    throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, 700,
                                "CUDA error: an illegal memory access was encountered\nCompile with ...");
  };
  const std::string said = message_of([&] { translate_torch_errors("training", fail); }, ErrorCode::kIo);
  EXPECT_EQ(said.rfind("training: CUDA error: an illegal memory access was encountered; ", 0), 0U) << said;
}

}  // namespace
}  // namespace hopfeed
