// Batches made in this process, without a loader: what layers and gradients are tested on.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "core/batch/batch_view.h"
#include "core/dataset/dataset.h"
#include "core/maker/batch_maker.h"
#include "core/seeds/node_list.h"
#include "trainer/batch_tensors.h"

namespace hopfeed::testing {

/// The memory of one block; says when it is freed.
struct TestSlot {
  explicit TestSlot(std::size_t bytes)
      : bytes(bytes), data(static_cast<std::byte*>(std::aligned_alloc(kBlockAlignment, bytes))) {}
  ~TestSlot() { std::free(data); }
  TestSlot(const TestSlot&) = delete;
  TestSlot& operator=(const TestSlot&) = delete;
  std::span<std::byte> block() const { return {data, bytes}; }

  std::size_t bytes;
  std::byte* data;
};

inline std::shared_ptr<TestSlot> make_slot(const Dataset& dataset, std::span<const std::int64_t> seeds,
                                           const BatchOptions& options, BatchKey key) {
  const NodeList list(seeds, {.shuffle = false});
  BatchMaker maker(dataset, list, options);
  auto slot = std::make_shared<TestSlot>(maker.sample(key));
  maker.write(slot->block());
  return slot;
}

inline BatchTensors make_batch(const Dataset& dataset, std::span<const std::int64_t> seeds,
                               const BatchOptions& options, BatchKey key) {
  const auto slot = make_slot(dataset, seeds, options, key);
  return to_tensors(BatchView(slot->block()), slot);
}

}  // namespace hopfeed::testing
