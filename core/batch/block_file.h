// Stores a batch block on disk: as it lies in memory, or as a NumPy .npz archive of its arrays by their PyG
// names.
#pragma once
#include <filesystem>

#include "core/batch/batch_view.h"

namespace hopfeed {

/// Writes the block's bytes (`path` ends in anything but ".npz") or an uncompressed zip of .npy files. The
/// file appears whole or not at all.
void store_block(const BatchView& batch, const std::filesystem::path& path);

}  // namespace hopfeed
