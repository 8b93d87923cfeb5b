// Makes batches in this process, without a loader: layers and gradients are tested on them.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "core/batch/aligned_block.h"
#include "core/batch/batch_view.h"
#include "core/dataset/dataset.h"
#include "core/maker/batch_maker.h"
#include "core/seeds/node_list.h"
#include "trainer/batch_tensors.h"

namespace hopfeed::testing {

/// Makes memory in place of a slot: a share of it is the batch's, as of a slot.
inline std::shared_ptr<AlignedBlock> make_slot(const Dataset& dataset, std::span<const std::int64_t> seeds,
                                               const BatchOptions& options, BatchKey key) {
  const NodeList list(seeds, {.shuffle = false});
  BatchMaker maker(dataset, list, options);
  auto slot = std::make_shared<AlignedBlock>(maker.sample(key));
  maker.write(slot->bytes());
  return slot;
}

inline BatchTensors make_batch(const Dataset& dataset, std::span<const std::int64_t> seeds,
                               const BatchOptions& options, BatchKey key) {
  const auto slot = make_slot(dataset, seeds, options, key);
  return to_tensors(BatchView(slot->bytes()), slot);
}

}  // namespace hopfeed::testing
