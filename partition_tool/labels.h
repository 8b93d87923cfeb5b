// Brings labels of any number type to the one form that datasets hold: int64, -1 for unlabelled.
#pragma once
#include <cmath>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "partition_tool/raw_graph.h"

namespace hopfeed {

inline constexpr std::int64_t kMaxLabel = 1'000'000'000;  // a larger number is no class number but damage

/// Returns -1 for negative numbers and NaN; nothing where `value` is no integer or above kMaxLabel.
template <class T>
std::optional<std::int64_t> label_from(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return -1;
    if (value != std::trunc(value)) return std::nullopt;
  }
  if (value < 0) return -1;
  if (static_cast<double>(value) > static_cast<double>(kMaxLabel)) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

/// Adds the attribute "y" and sets num_classes to the largest label + 1.
void set_labels(RawNodes& nodes, std::vector<std::int64_t> labels);

}  // namespace hopfeed
