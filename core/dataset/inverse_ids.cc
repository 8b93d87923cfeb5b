// See inverse_ids.h.
#include "core/dataset/inverse_ids.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/dataset/array_place.h"
#include "core/dataset/corrupt_file.h"

namespace hopfeed {

std::vector<std::int64_t> inverse_ids(const Dataset& dataset, int node_type) {
  constexpr std::int64_t kBlock = 4'096;
  const NodeTypeMeta& node = dataset.meta().node_types[static_cast<std::size_t>(node_type)];
  std::vector<std::int64_t> inverse(static_cast<std::size_t>(node.count), -1), originals, ids;
  for (std::int64_t first = 0; first < node.count; first += kBlock) {
    originals.resize(static_cast<std::size_t>(std::min(kBlock, node.count - first)));
    std::iota(originals.begin(), originals.end(), first);
    ids.resize(originals.size());
    dataset.dataset_ids(node_type, originals, ids);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      std::int64_t& original = inverse[static_cast<std::size_t>(ids[i])];
      if (original >= 0) {
        const ArrayPlace place = place_of_new_id(dataset.meta(), node, originals[i]);
        corrupt_file(dataset.folder() / place.file,
                     fmt::format("entry {}: nodes {} and {} share dataset id {}", place.entry, original,
                                 originals[i], ids[i]));
      }
      original = originals[i];
    }
  }
  return inverse;
}

}  // namespace hopfeed
