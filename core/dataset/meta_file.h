// Reads the meta.json of a dataset's folder alone, for who does not open the dataset.
#pragma once
#include <filesystem>
#include <string>

#include "core/dataset/dataset_meta.h"

namespace hopfeed {

std::filesystem::path meta_file_of(const std::filesystem::path& folder);

/// Its text. Throws kNotFound where there is no such folder, or it is no dataset's; kInvalid for a file, and
/// for a name that is no UTF-8; kIo where it cannot be read.
std::string read_meta_text(const std::filesystem::path& folder);

/// What parse_meta() makes of it, and throws.
DatasetMeta read_meta(const std::filesystem::path& folder);

}  // namespace hopfeed
