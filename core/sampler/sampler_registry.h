// Samplers by name: those that hopfeed has, and those that plugins bring (sampler_plugin.h).
#pragma once
#include <memory>
#include <string>

#include "core/batch/batch_options.h"
#include "core/batch/execution_options.h"
#include "core/dataset/dataset.h"
#include "core/sampler/custom_sampler.h"
#include "core/sampler/sampler.h"

namespace hopfeed {

/// Throws kNotFound for the name of a sampler that nobody has brought. To be asked before options are
/// checked: what a sampler knows can only be said of one that is there.
void require_sampler(const std::string& name);

/// The sampler that the options ask for. `dataset` must outlive it. `execution` may change how fast it is and
/// what memory it takes, never what it gives. Throws kNotFound for a name that nobody has brought, what
/// require_graph_mode() throws, and what the sampler's constructor throws.
std::unique_ptr<Sampler> make_sampler(const Dataset& dataset, const BatchOptions& options,
                                      const ExecutionOptions& execution = {});

/// What samples neighbours on GPUs; the core knows none of it (gpu/device/gpu_sampling.h).
struct DeviceSampling {
  /// Throws kNotFound where there is no GPU for the graph mode, saying why and what to do.
  void (*require)(const ExecutionOptions& execution) = nullptr;
  std::unique_ptr<Sampler> (*make)(const Dataset& dataset, const BatchOptions& options,
                                   const ExecutionOptions& execution) = nullptr;
};
/// From now on, in this process, neighbour samplers of the modes uva and cuda are made by it.
void register_device_sampling(const DeviceSampling& sampling);
/// Throws where this process cannot sample by the options' graph mode: kUnsupported where nothing was
/// registered, else what DeviceSampling::require throws.
void require_graph_mode(const ExecutionOptions& execution);

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
