// From a loader's options to what its batches are made of: the seeds or links in their order, and the
// BatchSpec that names all of it. Every stream begins here: with the dataset at hand, or, where servers have
// it, with its metadata alone.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/batch/batch_spec.h"
#include "core/dataset/dataset.h"
#include "core/maker/batch_source.h"
#include "stream/loader_options.h"

namespace hopfeed {

/// The seeds or links that the options name, in their order; `dataset` must outlive it. Throws what NodeSet
/// and LinkSet throw, and kInvalid for options of nodes beside links.
std::unique_ptr<BatchSource> loader_source(const LoaderOptions& options, const Dataset& dataset);

/// What decides the bytes of the loader's batches. Throws kNotFound for a sampler that nobody has brought.
BatchSpec loader_spec(const LoaderOptions& options, const Dataset& dataset, const BatchSource& source);

/// What is known of loader_source() where the dataset is not at hand.
struct JobSource {
  std::int64_t size = 0;            // positions of an epoch
  std::vector<std::byte> packed{};  // what is given in place of a split, as BatchSource::pack() writes it
};
/// The JobSource of a loader's options; `cluster_seeds` is asked where sampler "cluster" takes its own
/// seeds: those of a node type. Throws as loader_source() does, and kUnsupported for what goes with a split
/// and is not in the metadata.
JobSource job_source(const LoaderOptions& options, const DatasetMeta& meta,
                     const std::function<std::vector<std::int64_t>(int node_type)>& cluster_seeds);
/// loader_spec() where the dataset is not at hand. `sampler_sha256`: of the file that brought the sampler;
/// empty: it is hopfeed's own.
BatchSpec job_spec(const LoaderOptions& options, const DatasetMeta& meta, std::string sampler_sha256,
                   std::span<const std::byte> packed);

/// Throws kNotFound for a sampler that nobody has brought, kInvalid where its options cannot be. Plugins are
/// loaded.
void check_batch_options(const BatchOptions& options);
/// Throws kInvalid where there are too few of `num_seeds` for the ranks, or drop_last leaves no batch and
/// that is refused.
void check_deal(const LoaderOptions& options, std::int64_t num_seeds);

}  // namespace hopfeed
