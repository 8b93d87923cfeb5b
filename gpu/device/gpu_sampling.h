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

/// Who has a sampler: one who samples; a worker, whose place another takes when its process can use the GPU
/// no more; one who asks for bounds alone, which takes nothing of the GPU.
enum class SamplerFor { kBatches, kBatchesOfAWorker, kBounds };

/// What makes neighbour samplers of the graph mode; null for cpu. Throws what require_graph_mode() throws;
/// the factory throws what DeviceSampler's constructor throws.
NeighborSamplerFactory neighbor_samplers(const GpuOptions& options, SamplerFor whom = SamplerFor::kBatches);

/// What DeviceSampler wants to sample a dataset so, which must outlive the sampler.
DeviceSamplerOptions device_sampler_options(const Dataset& dataset, const GpuOptions& options);

}  // namespace hopfeed
