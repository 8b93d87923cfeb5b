// Seeds and links, and what belongs to them, from .npy files that the user of a program names, in any of the
// forms that core/dataset/given_array.h reads. Errors name the option and the file. Those about values that
// only the loader finds begin with marked_file() (core/base/error.h), of which a program makes the same head.
#pragma once
#include <filesystem>

#include "stream/loader_options.h"

namespace hopfeed {

/// Sets options.seeds from integers, original ids, or options.seed_mask from a bool array with an entry per
/// node. It and the functions below throw kNotFound, kCorrupt, kUnsupported or kInvalid.
void read_seeds(const std::filesystem::path& file, LoaderOptions& options);
/// Reads integers, one per seed.
void read_seed_times(const std::filesystem::path& file, LoaderOptions& options);
/// Reads float64 or float32, one per seed.
void read_seed_weights(const std::filesystem::path& file, LoaderOptions& options);
/// Sets options.links from integers [P, 2], source and destination of each link, original ids; or [2, P], the
/// sources and then the destinations, where it cannot be [P, 2].
void read_links(const std::filesystem::path& file, LoaderOptions& options);
/// Reads integers, one per link.
void read_link_labels(const std::filesystem::path& file, LoaderOptions& options);
void read_link_times(const std::filesystem::path& file, LoaderOptions& options);

}  // namespace hopfeed
