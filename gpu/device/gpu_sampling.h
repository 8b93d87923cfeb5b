// Neighbour samplers of the graph modes, for those who make batches: the core includes nothing of this
// folder.
#pragma once
#include "core/sampler/sampler_registry.h"
#include "gpu/device/gpu_options.h"

namespace hopfeed {

class Dataset;                // core/dataset/dataset.h
struct DeviceSamplerOptions;  // gpu/batches/device_sampler.h

/// Throws kNotFound where there is no GPU for the graph mode, saying why and what to do.
void require_graph_mode(const GpuOptions& options);

/// What makes neighbour samplers of the graph mode; null for cpu. Throws what require_graph_mode() throws;
/// the factory throws what DeviceSampler's constructor throws.
NeighborSamplerFactory neighbor_samplers(const GpuOptions& options);

/// What DeviceSampler wants to sample a dataset so, which must outlive the sampler.
DeviceSamplerOptions device_sampler_options(const Dataset& dataset, const GpuOptions& options);

}  // namespace hopfeed
