// Makes the batches that a training step is measured on, and stores what another program needs to take the
// same steps.
#pragma once
#include <filesystem>
#include <memory>
#include <vector>

#include "bench/bench_options.h"
#include "core/batch/batch_view.h"
#include "trainer/batch_tensors.h"
#include "trainer/model.h"

namespace hopfeed::bench {

/// A StepBlock is a batch before it is tensors.
struct StepBlock {
  BatchView view;
  std::shared_ptr<const void> memory;
};

struct StepBatches {
  std::vector<StepBlock> blocks;
  std::vector<BatchTensors> batches;  // each owns its memory, on the pages that a loader's slot would have
  std::int64_t features = 0, classes = 0;
};

/// Returns the first `count` full batches of epoch 0 (all of them where there are fewer), seed 1. Throws
/// kInvalid where the dataset has no features or labels. With `folder` each is also stored there for NumPy,
/// as batch-0.npz, batch-1.npz, ...
StepBatches make_batches(const BenchOptions& options, std::int64_t count,
                         const std::filesystem::path& folder = {});

/// Stores each parameter in the folder, as <name>.npy.
void store_parameters(const GraphSage& model, const std::filesystem::path& folder);

}  // namespace hopfeed::bench
