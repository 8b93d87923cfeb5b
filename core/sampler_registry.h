// Samplers by name.
#pragma once
#include <memory>

#include "core/batch_options.h"
#include "core/dataset.h"
#include "core/sampler.h"

namespace hopfeed {

/// The sampler that the options ask for. `dataset` must outlive it. Throws what the sampler's constructor throws.
std::unique_ptr<Sampler> make_sampler(const Dataset& dataset, const BatchOptions& options);

}  // namespace hopfeed
