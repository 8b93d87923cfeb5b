// See moved_rows.h. Loop and gather cannot overlap in a lone pull of one message, so the times of the limit
// add; the loop's two sides do overlap.
#include "bench/state/moved_rows.h"

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "bench/measure.h"
#include "bench/server_client_mode/bare_loop.h"
#include "bench/state/bare_rows.h"
#include "core/base/error.h"
#include "state/client/dist_tensor.h"

namespace hopfeed::bench {
namespace {

constexpr int kMoveRounds = 5;
constexpr std::size_t kLists = 8;         // of ids, in turn
constexpr std::size_t kVerified = 1'000;  // rows

std::vector<std::vector<std::int64_t>> random_lists(const BenchOptions& options) {
  std::mt19937_64 random(2);
  std::uniform_int_distribution<std::int64_t> any(0, options.rows - 1);
  std::vector<std::vector<std::int64_t>> lists(kLists);
  for (std::vector<std::int64_t>& list : lists) {
    list.resize(static_cast<std::size_t>(options.ids));
    for (std::int64_t& id : list) id = any(random);
  }
  return lists;
}

/// What one move of `ids` rows takes, in seconds.
struct Cost {
  double wall = 0, cpu = 0, server_cpu = 0;
};

/// Repeats it for `seconds`; `body(repetition)`.
Cost cost_of(double seconds, const StateServers& servers, const std::function<void(std::size_t)>& body) {
  const double begin = now(), cpu = cpu_seconds_with(servers), server_cpu = servers.cpu_seconds();
  double count = 0;
  for (std::size_t i = 0; now() - begin < seconds; ++i, ++count) {
    stop_if_asked();
    body(i);
  }
  return {.wall = (now() - begin) / count,
          .cpu = (cpu_seconds_with(servers) - cpu) / count,
          .server_cpu = (servers.cpu_seconds() - server_cpu) / count};
}

/// Measures the move by turns with its limit, whose part at the array is `bare`.
void measure_by_turns(const BenchOptions& options, const StateServers& servers, const std::string& name,
                      const std::function<void(std::size_t)>& move, const std::string& bare_name,
                      const std::function<void(std::size_t)>& bare, Report& report) {
  const double seconds = options.seconds / 2;
  const auto bytes = static_cast<double>(options.ids * options.width) * sizeof(float);
  std::vector<double> walls, cpus, server_cpus, limit_walls, limit_cpus, fractions, cpu_fractions, bares,
      loops;
  move(0), bare(0);
  for (int round = 0; round < kMoveRounds; ++round) {
    const LoopRate loop = bare_loop(static_cast<std::size_t>(bytes) / 2, seconds, LoopSums::kCrc);
    const Cost array = cost_of(seconds, servers, bare), moved = cost_of(seconds, servers, move);
    const double wall = bytes / loop.bytes_per_s + array.wall,
                 cpu = bytes * loop.cpu_s_per_byte() + array.cpu;
    walls.push_back(moved.wall), cpus.push_back(moved.cpu), server_cpus.push_back(moved.server_cpu);
    limit_walls.push_back(wall), limit_cpus.push_back(cpu);
    fractions.push_back(wall / moved.wall), cpu_fractions.push_back(cpu / moved.cpu);
    bares.push_back(bytes / array.wall), loops.push_back(loop.bytes_per_s);
  }
  const auto count = static_cast<double>(options.ids);
  report[name + "_rows_per_s"] = count / median(walls);
  report[name + "_bytes_per_s"] = bytes / median(walls);
  report[name + "_fraction_of_limit"] = median(fractions);
  report[name + "_cpu_ms"] = 1e3 * median(cpus);
  report[name + "_server_cpu_ms"] = 1e3 * median(server_cpus);
  report[name + "_limit_cpu_ms"] = 1e3 * median(limit_cpus);
  report[name + "_cpu_fraction_of_limit"] = median(cpu_fractions);
  report[name + "_limit_rows_per_s"] = count / median(limit_walls);
  report["limit_" + bare_name + "_bytes_per_s"] = median(bares);
  report["limit_" + name + "_loop_bytes_per_s"] = median(loops);
}

void require_same(const std::vector<float>& found, const std::vector<float>& expected, const char* what) {
  if (found != expected) throw Error(ErrorCode::kCorrupt, std::string(what) + " other rows than expected");
}

/// Some of the learned rows, held against a table in one place.
void verify_pull(const BenchOptions& options, const Dataset& dataset, LearnedRows& rows) {
  std::vector<std::int64_t> ids = random_lists(options).front();
  std::ranges::sort(ids);
  ids.erase(std::ranges::unique(ids).begin(), ids.end());
  ids.resize(std::min(ids.size(), kVerified));
  const std::unique_ptr<LearnedTable> table = table_in_one_place(dataset, options.width);
  learn_in_one_place(*table, ids, rows.ranks());
  std::vector<float> found(ids.size() * static_cast<std::size_t>(options.width)), expected(found.size());
  table->read(ids, expected.data());
  rows.rank(0).pull(ids, found.data());
  require_same(found, expected, "the owners give");
}

}  // namespace

void measure_pull(const BenchOptions& options, const StateServers& servers, const Dataset& dataset,
                  LearnedRows& rows, Report& report) {
  verify_pull(options, dataset, rows);
  const std::vector<std::vector<std::int64_t>> lists = random_lists(options);
  const std::size_t row_bytes = static_cast<std::size_t>(options.width) * sizeof(float);
  const std::int64_t numbers =
      options.width + state_width(rows.rank(0).spec().optimizer.optimizer, options.width);
  const BareRows bare(options.rows, static_cast<std::size_t>(numbers) * sizeof(float));
  std::vector<float> out(static_cast<std::size_t>(options.ids * options.width));
  measure_by_turns(
      options, servers, "pull", [&](std::size_t i) { rows.rank(0).pull(lists[i % kLists], out.data()); },
      "gather",
      [&](std::size_t i) {
        bare.gather(lists[i % kLists], row_bytes, reinterpret_cast<std::byte*>(out.data()));
      },
      report);
}

void measure_push(const BenchOptions& options, const StateServers& servers, const Dataset& dataset,
                  Report& report) {
  const std::size_t row_bytes = static_cast<std::size_t>(options.width) * sizeof(float);
  DistTensor tensor(
      servers.connect(dataset.meta()), dataset.meta(),
      {.name = "written", .node_type = dataset.meta().node_types[0].name, .width = options.width});
  for (int part = 0; part < kParts; ++part) {
    const std::vector<std::int64_t> ids = rows_of_part(options.rows, part, 0, 1);
    const std::vector<float> values = gradients_of(ids, options.width);
    tensor.push(ids, std::as_bytes(std::span(values)));
  }
  const std::vector<std::vector<std::int64_t>> lists = random_lists(options);
  const std::vector<float> rows = gradients_of(lists.front(), options.width);
  BareRows bare(options.rows, row_bytes);
  measure_by_turns(
      options, servers, "push",
      [&](std::size_t i) { tensor.push(lists[i % kLists], std::as_bytes(std::span(rows))); }, "scatter",
      [&](std::size_t i) {
        bare.scatter(lists[i % kLists], row_bytes, reinterpret_cast<const std::byte*>(rows.data()));
      },
      report);
  std::vector<float> found(rows.size());
  tensor.push(lists.front(),
              std::as_bytes(std::span(rows)));  // where an id is there twice, its rows are the same
  tensor.pull(lists.front(), reinterpret_cast<std::byte*>(found.data()));
  require_same(found, rows, "the owners give back");
}

}  // namespace hopfeed::bench
