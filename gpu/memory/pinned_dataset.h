// A PinnedDataset is a dataset's arrays in memory that a GPU reads in place. Mappings of files cannot be
// relied on for that, so the arrays are copied, once a machine, into a sealed memfd on huge pages, which each
// process that needs it maps writable and pins. Samplers and rows ask by the array of the dataset that they
// know.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/owned_fd.h"
#include "core/dataset/dataset.h"

namespace hopfeed::gpu {

struct Pin {
  std::function<void(void* at, std::size_t bytes)> pin;  // throws Error where the system refuses
  std::function<void(void* at)> unpin;
  std::optional<int> memory_node = {};  // near_gpu.h: of a new copy; nothing: wherever there is memory
};

class PinnedDataset {
 public:
  /// Makes a new copy, on a memory node where one is named. Throws kNoSpace with figures where the machine's
  /// memory does not suffice.
  static OwnedFd copy(const Dataset& dataset, std::optional<int> memory_node = {});
  /// Maps and pins the copy `fd` of the same dataset, which must outlive this; until its end pinned_copy()
  /// knows the arrays. Throws what `pin` throws, kCorrupt for what is no such copy.
  PinnedDataset(const Dataset& dataset, int fd, Pin pin);
  ~PinnedDataset();
  PinnedDataset(const PinnedDataset&) = delete;
  PinnedDataset& operator=(const PinnedDataset&) = delete;

  std::size_t bytes() const { return bytes_; }

 private:
  const std::vector<std::span<const std::byte>> arrays_;
  const Pin pin_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Returns the pinned copy that this machine has of `dataset`, made by the first process of this user that
/// asks, and pinned once in this one for as long as somebody has it. Waits while another process makes it, at
/// most ten minutes. `dataset` must outlive it. Throws what copy() and `pin` throw.
std::shared_ptr<const PinnedDataset> pinned_on_machine(const Dataset& dataset, const Pin& pin);

/// Returns where the pinned copy of an array is, or of a part of it; null where there is none in this
/// process.
const void* pinned_copy(const void* array);

}  // namespace hopfeed::gpu
