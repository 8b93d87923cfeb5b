// Samplers by name: those that hopfeed has, and those that plugins bring (sampler_plugin.h).
#pragma once
#include <functional>
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

/// Makes neighbour samplers for a GPU, of which the core knows nothing (gpu/device/gpu_sampling.h has one):
/// they may be faster than the CPU's and take other memory, and give the same. Null: the CPU's are made.
using NeighborSamplerFactory =
    std::function<std::unique_ptr<Sampler>(const Dataset& dataset, const BatchOptions& options)>;

/// The sampler that the options ask for; what draws neighbours in it `make_neighbors` makes. `dataset` must
/// outlive it. Throws kNotFound for a name that nobody has brought, and what the factory or the sampler's
/// constructor throws.
std::unique_ptr<Sampler> make_sampler(const Dataset& dataset, const BatchOptions& options,
                                      const NeighborSamplerFactory& make_neighbors = nullptr);

using CustomSamplerFactory = std::unique_ptr<CustomSampler> (*)(const Dataset& dataset,
                                                                const BatchOptions& options);
/// The factory of a class whose constructor takes dataset and batch options.
template <class T>
std::unique_ptr<CustomSampler> make_custom_sampler(const Dataset& dataset, const BatchOptions& options) {
  return std::make_unique<T>(dataset, options);
}

/// From now on, in this process, `name` is made by `factory`, which a file of this SHA-256 has brought
/// (empty: none has). Throws kInvalid where it is already another's or longer than kMaxNameBytes.
void register_sampler(const std::string& name, CustomSamplerFactory factory, std::string file_sha256 = {});
/// The hash of the file that brought the sampler; empty for hopfeed's own. Throws kNotFound as make_sampler
/// does.
std::string sampler_file_sha256(const std::string& name);

}  // namespace hopfeed
