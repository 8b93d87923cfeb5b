// From a loader's options to what its batches are made of: the seeds or links in their order, and the
// BatchSpec that names all of it. Both of the loader's streams begin here.
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "core/dataset/dataset.h"
#include "core/maker/batch_source.h"
#include "core/maker/batch_spec.h"
#include "worker_mode/loader.h"

namespace hopfeed {

/// The seeds or links that the options name, in their order; `dataset` must outlive it. Throws what NodeSet
/// and LinkSet throw, and kInvalid for options of nodes beside links.
std::unique_ptr<BatchSource> loader_source(const LoaderOptions& options, const Dataset& dataset);

/// Throws kNotFound for a sampler that nobody has brought.
BatchSpec loader_spec(const LoaderOptions& options, const Dataset& dataset, const BatchSource& source);

/// Throws kNotFound for a sampler that nobody has brought, kInvalid where its options cannot be. Plugins are
/// loaded.
void check_batch_options(const BatchOptions& options);
/// Throws kInvalid where drop_last leaves no batch of `num_seeds`.
void check_deal(const DealOptions& deal, std::int64_t num_seeds);

}  // namespace hopfeed
