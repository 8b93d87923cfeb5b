// Samplers by name: those that hopfeed has, and those that plugins bring (sampler_plugin.h).
#pragma once
#include <memory>
#include <string>

#include "core/batch/batch_options.h"
#include "core/dataset/dataset.h"
#include "core/sampler/custom_sampler.h"
#include "core/sampler/sampler.h"

namespace hopfeed {

/// Throws kNotFound for the name of a sampler that nobody has brought. To be asked before options are
/// checked: what a sampler knows can only be said of one that is there.
void require_sampler(const std::string& name);

/// The sampler that the options ask for. `dataset` must outlive it. Throws kNotFound for a name that nobody
/// has brought, and what the sampler's constructor throws.
std::unique_ptr<Sampler> make_sampler(const Dataset& dataset, const BatchOptions& options);

using CustomSamplerFactory = std::unique_ptr<CustomSampler> (*)(const Dataset& dataset,
                                                                const BatchOptions& options);
/// From now on, in this process, `name` is made by `factory`. Throws kInvalid where it is already another's
/// or longer than kMaxNameBytes.
void register_sampler(const std::string& name, CustomSamplerFactory factory);

}  // namespace hopfeed
