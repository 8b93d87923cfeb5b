// Replicas stand for a learned table that lies whole at each rank, as trainers keep it without owners: each
// rank reads its rows and sums its gradients, all get the sums of all, and each takes the step on its own
// table. One table is there; what each rank does with its own, it does once, and that counts for all.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "state/table/learned_table.h"

namespace hopfeed::bench {

class Replicas {
 public:
  /// Takes steps with so many threads in all.
  Replicas(std::unique_ptr<LearnedTable> table, int threads);

  /// Takes a step: each rank looks up `lookups`[rank], and has those `gradients` [lookups, width]. Returns
  /// the CPU seconds that it is for all ranks together.
  double step(const std::vector<const std::vector<std::int64_t>*>& lookups, const float* gradients);

 private:
  struct Learned {
    std::vector<std::int64_t> rows;
    std::vector<float> sums;
  };
  void exchange(const std::vector<Learned>& by_rank);

  const std::unique_ptr<LearnedTable> table_;
  const ParallelFor parallel_;
  std::vector<float> read_;                   // of a rank
  std::vector<Learned> learned_, exchanged_;  // by rank
};

}  // namespace hopfeed::bench
