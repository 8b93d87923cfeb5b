// See learned_rows.h.
#include "bench/state/learned_rows.h"

#include <algorithm>
#include <future>
#include <random>
#include <utility>

namespace hopfeed::bench {
namespace {

constexpr std::int64_t kPatterns = 256;  // gradients that differ

/// SplitMix64's mixing: which part and rank have a row.
std::uint64_t mixed(std::int64_t row) {
  auto h = static_cast<std::uint64_t>(row) * 0x9E3779B97F4A7C15U;
  h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9U;
  h = (h ^ (h >> 27)) * 0x94D049BB133111EBU;
  return h ^ (h >> 31);
}

bool is_of_part(std::int64_t row, int part) {
  return mixed(row) % kParts == static_cast<std::uint64_t>(part);
}

}  // namespace

TableSpec learned_spec(const DatasetMeta& meta, std::int64_t width) {
  return {.name = "learned",
          .node_type = meta.node_types[0].name,
          .kind = TableSpec::Kind::kEmbedding,
          .width = width,
          .first_values = TableSpec::FirstValues::kUniform,
          .seed = 1};
}

std::vector<std::int64_t> rows_of_part(std::int64_t rows, int part, std::int64_t rank, std::int64_t ranks) {
  std::vector<std::int64_t> mine;
  for (std::int64_t row = 0; row < rows; ++row)
    if (is_of_part(row, part) &&
        static_cast<std::int64_t>(mixed(row) / kParts % static_cast<std::uint64_t>(ranks)) == rank)
      mine.push_back(row);
  return mine;
}

std::vector<float> gradients_of(std::span<const std::int64_t> rows, std::int64_t width) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> patterns(static_cast<std::size_t>(kPatterns * width));
  for (float& value : patterns) value = uniform(random);
  std::vector<float> gradients(rows.size() * static_cast<std::size_t>(width));
  float* out = gradients.data();
  for (const std::int64_t row : rows)
    out = std::copy_n(patterns.data() + row % kPatterns * width, width, out);
  return gradients;
}

void at_ranks(std::int64_t ranks, const std::function<void(std::int64_t rank)>& body) {
  std::vector<std::future<void>> all;
  for (std::int64_t rank = 0; rank < ranks; ++rank)
    all.push_back(std::async(std::launch::async, [&body, rank] { body(rank); }));
  for (std::future<void>& one : all) one.wait();
  for (std::future<void>& one : all) one.get();
}

LearnedRows::LearnedRows(const StateServers& servers, const Dataset& dataset, std::int64_t width,
                         std::int64_t ranks) {
  const TableSpec spec = learned_spec(dataset.meta(), width);
  for (std::int64_t rank = 0; rank < ranks; ++rank)
    ranks_.push_back(std::make_unique<DistRows>(servers.connect(dataset.meta()), dataset.meta(), spec,
                                                RankOfRun{.run = 1, .rank = rank, .ranks = ranks}));
}

void LearnedRows::learn(int part) {
  at_ranks(ranks(), [&](std::int64_t number) {
    DistRows& mine = rank(number);
    mine.look(rows_of_part(mine.rows(), part, number, ranks()));
    const std::vector<float> gradients = gradients_of(mine.ids(), mine.spec().width);
    mine.step({mine.ids(), gradients.data()});
  });
  settle();
}

void LearnedRows::learn_all() {
  for (int part = 0; part < kParts; ++part) learn(part);
}

void LearnedRows::settle() {
  // A row of each owner, once its steps are applied.
  const std::vector<std::int64_t> ends{0, rank(0).rows() - 1};
  std::vector<float> unused(ends.size() * static_cast<std::size_t>(rank(0).spec().width));
  rank(0).pull(ends, unused.data());
}

std::unique_ptr<LearnedTable> table_in_one_place(const Dataset& dataset, std::int64_t width) {
  const TableSpec spec = learned_spec(dataset.meta(), width);
  return std::make_unique<LearnedTable>(
      LearnedTableOptions{
          .rows = dataset.num_nodes(0), .width = width, .seed = spec.seed, .optimizer = spec.optimizer},
      [&dataset](std::int64_t row) { return dataset.original_id(0, row); });
}

void learn_in_one_place(LearnedTable& table, std::span<const std::int64_t> rows, std::int64_t ranks) {
  for (int part = 0; part < kParts; ++part) {
    std::vector<std::int64_t> mine;
    std::ranges::copy_if(rows, std::back_inserter(mine), [part](auto row) { return is_of_part(row, part); });
    const std::vector<float> gradients = gradients_of(mine, table.options().width);
    if (mine.empty())
      table.count_step();
    else
      table.step(std::vector{RowSums{mine, gradients.data()}}, ranks);
  }
}

}  // namespace hopfeed::bench
