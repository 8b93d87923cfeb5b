// See random_permutation.h.
#include "partition_tool/random_permutation.h"

#include <numeric>
#include <utility>

namespace hopfeed {

IdArray random_permutation(std::int64_t size, const PermutationKey& key) {
  NodeStream stream{
      .key = stream_key({.purpose = key.purpose, .seed = key.seed, .epoch = key.number}),
      .retry_key = stream_key({.purpose = key.purpose, .seed = key.seed, .epoch = key.number, .hop = 1}),
      .node = 0,
      .tree = 0};
  IdArray permutation = make_id_array(size, size);
  std::visit(
      [&](auto& ids) {
        std::iota(ids.begin(), ids.end(), 0);
        for (std::int64_t i = size - 1; i > 0; --i) {
          stream.node = static_cast<std::uint64_t>(i);
          std::swap(ids[i], ids[draw_below_wide(stream, 0, static_cast<std::uint64_t>(i) + 1)]);
        }
      },
      permutation);
  return permutation;
}

}  // namespace hopfeed
