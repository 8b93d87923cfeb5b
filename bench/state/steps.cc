// See steps.h. A rank does what training by lookups does, but for the layers: it looks at the batch after the
// next, has DistRows hand each lookup its row, and brings the gradients of lookups.
#include "bench/state/steps.h"

#include <algorithm>
#include <deque>
#include <random>
#include <thread>
#include <vector>

#include "bench/measure.h"
#include "bench/state/replicas.h"

namespace hopfeed::bench {
namespace {

constexpr std::size_t kBatches = 4;  // of a rank, in turn
constexpr int kStepRounds = 5, kStepsOfRound = 4;

/// A rank and its batches, which are ready.
class Rank {
 public:
  Rank(DistRows& rows, std::vector<std::vector<std::int64_t>> batches)
      : rows_(rows), batches_(std::move(batches)) {
    look();
  }
  const std::vector<std::int64_t>& batch(std::size_t number) const { return batches_[number % kBatches]; }

  void step(const float* gradients) {
    look();
    const RowGroups groups = std::move(ahead_.front());
    ahead_.pop_front();
    lookups_.resize(groups.num_lookups() * static_cast<std::size_t>(rows_.spec().width));
    rows_.read(groups, lookups_.data());
    rows_.step(groups, gradients);
  }

 private:
  void look() {
    ahead_.emplace_back(batch(looked_++));
    rows_.look(ahead_.back().rows());
  }

  DistRows& rows_;
  const std::vector<std::vector<std::int64_t>> batches_;
  std::size_t looked_ = 0;
  std::deque<RowGroups> ahead_;
  std::vector<float> lookups_;
};

std::vector<std::vector<std::int64_t>> batches_of(const BenchOptions& options, std::int64_t rank) {
  std::mt19937_64 random(static_cast<std::uint64_t>(10 + rank));
  std::uniform_int_distribution<std::int64_t> any(0, options.rows - 1);
  std::vector<std::vector<std::int64_t>> batches(kBatches);
  for (std::vector<std::int64_t>& batch : batches) {
    batch.resize(static_cast<std::size_t>(options.ids));
    for (std::int64_t& id : batch) id = any(random);
  }
  return batches;
}

/// A table in one place with all rows learned.
std::unique_ptr<LearnedTable> replica_of(const Dataset& dataset, std::int64_t width, std::int64_t ranks) {
  std::unique_ptr<LearnedTable> table = table_in_one_place(dataset, width);
  std::vector<std::int64_t> all(static_cast<std::size_t>(table->options().rows));
  for (std::size_t row = 0; row < all.size(); ++row) all[row] = static_cast<std::int64_t>(row);
  learn_in_one_place(*table, all, ranks);
  return table;
}

}  // namespace

Report measure_steps(const BenchOptions& options, const StateServers& servers, const Dataset& dataset,
                     LearnedRows& rows) {
  const int threads = static_cast<int>(std::min(2U, std::max(1U, std::thread::hardware_concurrency())));
  Replicas replicas(replica_of(dataset, options.width, rows.ranks()), threads);
  const std::vector<std::int64_t> places(static_cast<std::size_t>(options.ids), 0);
  const std::vector<float> gradients = gradients_of(places, options.width);
  std::vector<std::unique_ptr<Rank>> ranks;
  for (std::int64_t rank = 0; rank < rows.ranks(); ++rank)
    ranks.push_back(std::make_unique<Rank>(rows.rank(rank), batches_of(options, rank)));
  const auto steps_of_all = [&](int count) {
    at_ranks(rows.ranks(), [&](std::int64_t rank) {
      for (int step = 0; step < count; ++step) ranks[static_cast<std::size_t>(rank)]->step(gradients.data());
    });
    rows.settle();
  };
  std::vector<double> cpus, server_cpus, walls, replicated, ratios;
  std::size_t batch = 0;
  steps_of_all(2);
  for (int round = 0; round < kStepRounds; ++round) {
    stop_if_asked();
    const double begin = now(), cpu = cpu_seconds_with(servers), server_cpu = servers.cpu_seconds();
    steps_of_all(kStepsOfRound);
    walls.push_back((now() - begin) / kStepsOfRound);
    cpus.push_back((cpu_seconds_with(servers) - cpu) / kStepsOfRound);
    server_cpus.push_back((servers.cpu_seconds() - server_cpu) / kStepsOfRound);
    double sum = 0;
    for (int step = 0; step < kStepsOfRound; ++step, ++batch) {
      std::vector<const std::vector<std::int64_t>*> lookups;
      for (const std::unique_ptr<Rank>& rank : ranks) lookups.push_back(&rank->batch(batch));
      sum += replicas.step(lookups, gradients.data());
    }
    replicated.push_back(sum / kStepsOfRound);
    ratios.push_back(cpus.back() / replicated.back());
  }
  return {{"step_cpu_ms", 1e3 * median(cpus)},
          {"step_server_cpu_ms", 1e3 * median(server_cpus)},
          {"step_wall_ms", 1e3 * median(walls)},
          {"replicated_step_cpu_ms", 1e3 * median(replicated)},
          {"ratio", median(ratios)}};
}

}  // namespace hopfeed::bench
