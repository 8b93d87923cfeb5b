// Makes a random permutation as an array: Fisher-Yates over keyed random numbers (core/draws/keyed_random.h),
// so that (size, purpose, seed, number) name it on every machine. It is for offline use; the epoch's shuffle
// is evaluated per position (core/draws/keyed_shuffle.h).
#pragma once
#include <cstdint>

#include "core/draws/keyed_random.h"
#include "partition_tool/raw_graph.h"

namespace hopfeed {

struct PermutationKey {
  Purpose purpose = Purpose::kGenerate;
  std::uint64_t seed = 0;
  std::int64_t number = 0;  // tells permutations of one seed apart
};

IdArray random_permutation(std::int64_t size, const PermutationKey& key);

}  // namespace hopfeed
