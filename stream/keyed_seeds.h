// Seeds that the user of a program names by the keys of the tables that the dataset was imported from.
#pragma once
#include <filesystem>

#include "stream/loader_options.h"

namespace hopfeed {

/// Sets options.seeds, in the order of the file, from a text file with a key in each line (integers in
/// decimal digits, UUIDs as 8-4-4-4-12 hexadecimal digits, others as they are, in UTF-8), or a .npy file of
/// int64 keys. They are of options.node_type, in the folder options.dataset. Throws kNotFound naming the
/// first key that no node has with its line, or the keys that are not there; kInvalid naming a line that is
/// no key, or where there is no folder.
void read_seeds_by_key(const std::filesystem::path& file, LoaderOptions& options);

}  // namespace hopfeed
