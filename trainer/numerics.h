// Decides how a run computes its numbers: the precision of the forward pass, and whether the same run gives
// the same bits on a device that would else add in any order. Both are switches of Torch for the thread or
// the process; each is set for a scope here.
#pragma once
#include <torch/torch.h>

#include <string>

namespace hopfeed {

enum class Precision {
  kFloat32,
  kBf16,  // Torch's autocast: products of matrices in bfloat16; parameters, sums over neighbours and losses
          // in float32
};
/// Reads "float32" or "bf16". Throws kInvalid.
Precision precision_of(const std::string& text);
const char* to_string(Precision precision);

/// While a PrecisionScope lives, this thread's forward passes on devices of a type run in a precision.
class PrecisionScope {
 public:
  PrecisionScope(torch::DeviceType device, Precision precision);
  ~PrecisionScope();
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;

 private:
  const torch::DeviceType device_;
  const bool on_, was_enabled_;
  const torch::Dtype old_dtype_;
};

/// cuBLAS wants this in the environment, before it is first used, to give the same bits again.
inline constexpr const char *kCublasVariable = "CUBLAS_WORKSPACE_CONFIG", *kCublasSetting = ":4096:8";

/// While a DeterministicScope lives, where `on`, the process uses Torch's deterministic algorithms alone: an
/// operation that has none throws. Throws kInvalid where the device is a GPU and the environment does not let
/// cuBLAS be deterministic.
class DeterministicScope {
 public:
  DeterministicScope(torch::Device device, bool on);
  ~DeterministicScope();
  DeterministicScope(const DeterministicScope&) = delete;
  DeterministicScope& operator=(const DeterministicScope&) = delete;

 private:
  const bool on_, was_on_, filled_;
};

/// Returns whether the layers that are written for the CPU (sage_layer.h, mean_aggregation.h, relu_dropout.h)
/// take a tensor: float32 or float64, on the CPU, not under autocast. Other tensors go through Torch's own
/// operations.
bool fused_layers_take(const torch::Tensor& x);

}  // namespace hopfeed
