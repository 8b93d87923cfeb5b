// Seeds and links, and what belongs to them, from .npy files.
#pragma once
#include <filesystem>

#include "worker_mode/loader.h"

namespace hopfeed {

/// An int64 or int32 array of original ids, or a bool array with an entry per node: sets options.seeds or
/// options.seed_mask. These throw kNotFound, kCorrupt or kInvalid naming the file.
void read_seeds(const std::filesystem::path& file, LoaderOptions& options);
/// int64 or int32, one per seed.
void read_seed_times(const std::filesystem::path& file, LoaderOptions& options);
/// float64 or float32, one per seed.
void read_seed_weights(const std::filesystem::path& file, LoaderOptions& options);
/// int64 or int32 [P, 2]: source and destination of each link, original ids. Sets options.links.
void read_links(const std::filesystem::path& file, LoaderOptions& options);
/// int64 or int32, one per link.
void read_link_labels(const std::filesystem::path& file, LoaderOptions& options);
void read_link_times(const std::filesystem::path& file, LoaderOptions& options);

}  // namespace hopfeed
