// See random_permutation.h.
#include "partition_tool/random_permutation.h"

#include <numeric>
#include <utility>

namespace hopfeed {

IdArray random_permutation(std::int64_t size, const PermutationKey& key) {
  const NodeStream stream = node_stream({.purpose = key.purpose, .seed = key.seed, .epoch = key.number});
  IdArray permutation = make_id_array(size, size);
  std::visit(
      [&](auto& ids) {
        std::iota(ids.begin(), ids.end(), 0);
        for (std::int64_t i = size - 1; i > 0; --i) {
          const auto at = static_cast<std::uint64_t>(i);
          std::swap(ids[i], ids[draw_below_wide(stream.of(at), 0, at + 1)]);
        }
      },
      permutation);
  return permutation;
}

}  // namespace hopfeed
