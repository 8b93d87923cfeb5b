// Checks whether the trainers of a run mean the same run. Where one of them has another dataset, other
// options or another seed, gradients are averaged all the same, and nothing shows it but the result.
#pragma once
#include "core/batch/batch_stream.h"
#include "core/dataset/dataset_meta.h"
#include "trainer/checkpoint.h"
#include "trainer/world.h"

namespace hopfeed {

/// Returns what decides the batches of a stream: its spec, the batch size and whether an incomplete round is
/// dropped.
Settings settings_of(const BatchStream& stream);

/// All ranks call it together. Throws kInvalid on all of them where a rank has other settings than rank 0,
/// naming what differs and the rank.
void require_agreement(World& world, const Settings& settings);
/// Checks the agreement on a stream that was just opened: dataset, batch options, seeds, and the deal but for
/// the rank. All ranks call it together; it throws what the function above throws.
void require_agreement(World& world, const BatchStream& stream);

/// Throws kInvalid where a stream is of another dataset than `model`, for which the model was made: servers
/// that are updated may have changed it in between. Call it behind require_agreement(), which names the rank.
void require_dataset(const DatasetMeta& model, const BatchStream& stream);

}  // namespace hopfeed
