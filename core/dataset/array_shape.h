// Checks whether an array of a dataset is as large as its manifest says.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/dataset/corrupt_file.h"
#include "core/dataset/npy.h"

namespace hopfeed {

/// Throws kCorrupt naming the file, what was expected and what was found.
inline void require_shape(const NpyArray& array, const std::vector<std::int64_t>& shape) {
  if (array.header().shape != shape) {
    std::string expected, found;
    for (std::int64_t d : shape) expected += fmt::format("{},", d);
    for (std::int64_t d : array.header().shape) found += fmt::format("{},", d);
    corrupt_file(array.path(), fmt::format("its shape is ({}), meta.json asks for ({})", found, expected));
  }
}

}  // namespace hopfeed
