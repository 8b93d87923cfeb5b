// Ranks that learn, for tests: what each reads and learns in a step is a function of (rank, step, values), so
// all that comes of it can be had in one place too.
#pragma once
#include <cstdint>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/dataset/dataset.h"
#include "state/client/dist_rows.h"
#include "state/table/learned_table.h"

namespace hopfeed::testing {

inline constexpr std::int64_t kLearningNodes = 150, kLearnedWidth = 5, kSteps = 25;

inline TableSpec rows_spec(const std::string& name = "user") {
  return {.name = name,
          .node_type = "node",
          .kind = TableSpec::Kind::kEmbedding,
          .width = kLearnedWidth,
          .first_values = TableSpec::FirstValues::kUniform,
          .seed = 6,
          .optimizer = {.lr = 0.05}};
}

inline std::vector<std::int64_t> all_nodes() {
  std::vector<std::int64_t> all(kLearningNodes);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

inline std::vector<std::int64_t> read_by(std::int64_t rank, std::int64_t step) {
  std::mt19937_64 random(static_cast<std::uint64_t>(100 * step + rank));
  std::set<std::int64_t> ids;
  for (std::uint64_t i = random() % 30; i > 0; --i)
    ids.insert(static_cast<std::int64_t>(random() % kLearningNodes));
  return {ids.begin(), ids.end()};
}

/// What a rank learns of a row that it has read.
inline std::vector<float> gradients_of(std::int64_t rank, std::int64_t step,
                                       const std::vector<float>& values) {
  std::vector<float> sums(values.size());
  for (std::size_t i = 0; i < sums.size(); ++i)
    sums[i] = 0.5F * values[i] + static_cast<float>(rank - step) / static_cast<float>(i + 3);
  return sums;
}

/// All rows after kSteps, of a table that lies whole in one place.
inline std::vector<float> learned_in_one_place(const Dataset& dataset, const TableSpec& spec,
                                               std::int64_t ranks) {
  LearnedTable table(
      {.rows = kLearningNodes, .width = kLearnedWidth, .seed = spec.seed, .optimizer = spec.optimizer},
      [&dataset](std::int64_t row) { return dataset.original_id(0, row); });
  for (std::int64_t step = 0; step < kSteps; ++step) {
    std::vector<std::vector<std::int64_t>> ids;
    std::vector<std::vector<float>> sums;
    std::vector<RowSums> by_rank;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      ids.push_back(read_by(rank, step));
      std::vector<float> values(ids.back().size() * kLearnedWidth);
      table.read(ids.back(), values.data());
      sums.push_back(gradients_of(rank, step, values));
    }
    for (std::size_t rank = 0; rank < ids.size(); ++rank) by_rank.push_back({ids[rank], sums[rank].data()});
    table.step(by_rank, ranks);
  }
  std::vector<float> values(kLearningNodes * kLearnedWidth);
  table.read(all_nodes(), values.data());
  return values;
}

/// Steps from where the rows are up to `end`.
inline void learn(DistRows& rows, std::int64_t rank, std::int64_t ahead, std::int64_t end = kSteps) {
  for (std::int64_t step = rows.next_step(); step < end; ++step) {
    while (static_cast<std::int64_t>(rows.steps_looked_at()) <= ahead &&
           step + static_cast<std::int64_t>(rows.steps_looked_at()) < end)
      rows.look(read_by(rank, step + static_cast<std::int64_t>(rows.steps_looked_at())));
    std::vector<float> values(rows.ids().size() * kLearnedWidth);
    rows.read(values.data());
    const std::vector<std::int64_t> ids = rows.ids();
    const std::vector<float> sums = gradients_of(rank, step, values);
    rows.step({ids, sums.data()});
  }
}

}  // namespace hopfeed::testing
