// See numerics.h.
#include "trainer/numerics.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>

#include <cstdlib>
#include <string_view>

#include "core/base/error.h"

namespace hopfeed {

Precision precision_of(const std::string& text) {
  if (text == "float32") return Precision::kFloat32;
  if (text == "bf16") return Precision::kBf16;
  throw Error(ErrorCode::kInvalid, marked("precision") + " is '" + text + "'; use float32 or bf16");
}

const char* to_string(Precision precision) { return precision == Precision::kBf16 ? "bf16" : "float32"; }

PrecisionScope::PrecisionScope(torch::DeviceType device, Precision precision)
    : device_(device),
      on_(precision == Precision::kBf16),
      was_enabled_(at::autocast::is_autocast_enabled(device)),
      old_dtype_(at::autocast::get_autocast_dtype(device)) {
  if (!on_) return;
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_dtype(device_, torch::kBFloat16);
  at::autocast::increment_nesting();
}

PrecisionScope::~PrecisionScope() {
  if (!on_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, was_enabled_);
  at::autocast::set_autocast_dtype(device_, old_dtype_);
}

DeterministicScope::DeterministicScope(torch::Device device, bool on)
    : on_(on),
      was_on_(at::globalContext().deterministicAlgorithms()),
      filled_(at::globalContext().deterministicFillUninitializedMemory()) {
  if (!on_) return;
  if (!device.is_cpu()) {
    const char* set = std::getenv(kCublasVariable);
    require_valid(set != nullptr && (std::string_view(set) == ":4096:8" || std::string_view(set) == ":16:8"),
                  std::string("deterministic: cuBLAS wants ") + kCublasVariable + "=" + kCublasSetting +
                      " in the environment for it; set that before the program starts");
  }
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  at::globalContext().setDeterministicFillUninitializedMemory(false);  // nothing here reads such
}

DeterministicScope::~DeterministicScope() {
  if (!on_) return;
  at::globalContext().setDeterministicAlgorithms(was_on_, /*warn_only=*/false);
  at::globalContext().setDeterministicFillUninitializedMemory(filled_);
}

bool fused_layers_take(const torch::Tensor& x) {
  return x.is_cpu() && (x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kFloat64) &&
         !at::autocast::is_autocast_enabled(at::kCPU);
}

}  // namespace hopfeed
