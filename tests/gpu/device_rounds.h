// Makes random configurations for the device sampler, and compares its samples with the CPU sampler's: array
// by array, byte for byte. What runs the kernels is the caller's, so that hosts and cards pass the same
// rounds.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/sampler/neighbor_sampler.h"
#include "gpu/batches/device_sampler.h"
#include "tests/core/random_kinds.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed::testing {

template <class T>
void expect_equal(std::span<const T> got, std::span<const T> wanted, const char* what) {
  EXPECT_TRUE(std::ranges::equal(got, wanted))
      << what << ": " << ::testing::PrintToString(std::vector<T>(got.begin(), got.end())) << " in place of "
      << ::testing::PrintToString(std::vector<T>(wanted.begin(), wanted.end()));
}

inline void expect_same_sample(const Sample& got, const Sample& wanted) {
  EXPECT_EQ(got.num_seeds, wanted.num_seeds);
  expect_equal(got.seed_index, wanted.seed_index, "seed_index");
  ASSERT_EQ(got.nodes.size(), wanted.nodes.size());
  for (std::size_t t = 0; t < wanted.nodes.size(); ++t) {
    SCOPED_TRACE("node type " + std::to_string(t));
    expect_equal(got.nodes[t].dataset_ids, wanted.nodes[t].dataset_ids, "dataset_ids");
    expect_equal(got.nodes[t].original_ids, wanted.nodes[t].original_ids, "original_ids");
    expect_equal(got.nodes[t].per_hop, wanted.nodes[t].per_hop, "per_hop");
    expect_equal(got.nodes[t].trees, wanted.nodes[t].trees, "trees");
  }
  ASSERT_EQ(got.edges.size(), wanted.edges.size());
  for (std::size_t e = 0; e < wanted.edges.size(); ++e) {
    SCOPED_TRACE("edge type " + std::to_string(e));
    expect_equal(got.edges[e].sources, wanted.edges[e].sources, "sources");
    expect_equal(got.edges[e].per_dst, wanted.edges[e].per_dst, "per_dst");
    expect_equal(got.edges[e].targets, wanted.edges[e].targets, "targets");
    expect_equal(got.edges[e].edge_ids, wanted.edges[e].edge_ids, "edge_ids");
    expect_equal(got.edges[e].positions, wanted.edges[e].positions, "positions");
    expect_equal(got.edges[e].per_hop, wanted.edges[e].per_hop, "per_hop");
  }
}

/// DeviceKinds are what a device can be asked, beside what it cannot.
enum class DeviceKinds { kUniform, kExcluded, kWeighted, kTemporal, kTemporalExcluded };
inline bool excludes(DeviceKinds kinds) {
  return kinds == DeviceKinds::kExcluded || kinds == DeviceKinds::kTemporalExcluded;
}
inline bool has_times(DeviceKinds kinds) { return kinds >= DeviceKinds::kTemporal; }

class DeviceRounds : public Rounds {
 public:
  using Rounds::Rounds;

  BatchOptions device_options(const TypedGraph& graph, DeviceKinds kinds) {
    BatchOptions options{.fanouts = fanouts(below(4))};
    options.replace = below(2) == 1;
    options.edge_ids = below(2) == 1;
    options.disjoint = below(3) == 0;
    for (const TypedEdges& edges : graph.edges) {
      if (below(3) == 0) options.edge_fanouts[edges.rel] = fanouts(std::ssize(options.fanouts));
      if (below(3) == 0 && !edges.weight.empty()) options.edge_attrs = {"weight"};
      if (kinds == DeviceKinds::kWeighted && !edges.weight.empty()) options.weight = "weight";
    }
    if (has_times(kinds)) choose_time(options);
    return options;
  }

  /// Seeds are of one node type, or of two as links have them; some come twice.
  struct Seeds {
    std::vector<std::vector<std::int64_t>> ids, times;
    std::vector<TypedSeeds> entries;
  };
  Seeds seeds(const Dataset& dataset) {
    Seeds seeds;
    const int types = dataset.num_node_types();
    const int first = static_cast<int>(below(types)),
              entries = types > 1 ? 1 + static_cast<int>(below(2)) : 1;
    for (int i = 0; i < entries; ++i) {
      const int type = (first + i) % types;
      seeds.ids.emplace_back();
      seeds.times.emplace_back();
      for (std::int64_t count = below(31); count > 0 && dataset.num_nodes(type) > 0; --count) {
        seeds.ids.back().push_back(below(dataset.num_nodes(type)));
        seeds.times.back().push_back(a_time());
      }
      seeds.entries.push_back({.node_type = type, .ids = {}, .times = {}});
    }
    for (int i = 0; i < entries; ++i) {
      seeds.entries[i].ids = seeds.ids[i];
      seeds.entries[i].times = seeds.times[i];
    }
    return seeds;
  }
  /// Draws other seeds in their place, as many.
  void draw_again(const Dataset& dataset, Seeds& seeds) {
    for (std::size_t i = 0; i < seeds.entries.size(); ++i)
      for (std::int64_t& id : seeds.ids[i]) id = below(dataset.num_nodes(seeds.entries[i].node_type));
  }
  /// Returns a time among those that random graphs have (-10 to 29), or earlier or later; or an end of time.
  std::int64_t a_time() {
    const std::int64_t ends[] = {INT64_MIN, INT64_MIN + 1, INT64_MAX};
    return below(10) == 0 ? ends[below(3)] : below(44) - 12;
  }
  /// Takes a node type's times where another edge type than those from it has some.
  void forget_times(TypedGraph& graph) {
    TypedNodes& nodes = graph.nodes[static_cast<std::size_t>(below(std::ssize(graph.nodes)))];
    for (const TypedEdges& edges : graph.edges) {
      if (edges.src == nodes.name && edges.time.empty()) continue;
      nodes.time.clear();
      return;
    }
  }

  /// Excludes pairs of edges of the dataset, and some without an edge.
  void exclude(const Dataset& dataset, ExcludedEdges& excluded) {
    excluded.begin(dataset.num_edge_types());
    for (int e = 0; e < dataset.num_edge_types(); ++e) {
      const CscView csc = dataset.csc(e);
      if (below(3) == 0) continue;
      for (std::size_t p = 0; p < csc.parts.size(); ++p) {
        const CscPart& part = csc.parts[p];
        for (std::int64_t r = 0; r < part.num_rows; ++r)
          for (std::int64_t i = part.rows[r].offset; i < part.rows[r + 1].offset; ++i)
            if (below(4) == 0)
              excluded.add(e,
                           gpu::read_int(part.indices, static_cast<int>(element_bytes(csc.index_type)),
                                         static_cast<std::uint64_t>(i)),
                           csc.partition_offsets[p] + r);
      }
      if (csc.num_src_nodes > 0 && csc.num_dst_nodes > 0)
        excluded.add(e, below(csc.num_src_nodes), below(csc.num_dst_nodes));
    }
    excluded.finish();
  }
};

/// Each graph is sampled with so many configurations: to write one takes longer than to sample it.
inline constexpr int kConfigurations = 7;
inline constexpr int kBatches = 6;  // of a configuration

/// DeviceCounts are what the rounds came to.
struct DeviceCounts {
  int configurations = 0;
  std::uint64_t edges = 0;
  std::uint64_t there = 0, removed = 0, otherwise = 0;  // batches of the device, and of the CPU
  std::uint64_t replays = 0;                            // of the device, by a recording
};

/// None, bytes, or a share of the rows.
inline CacheSize random_hot(Rounds& rounds) {
  CacheSize hot;
  const auto kind = rounds.below(3);
  if (kind == 1) hot.bytes = std::size_t{1} << rounds.below(20);
  if (kind == 2) hot.ratio = static_cast<double>(rounds.below(101)) / 100;
  return hot;
}

struct DeviceRun {
  int graphs = 50;  // each with kConfigurations
  DeviceKinds kinds = DeviceKinds::kUniform;
  std::uint64_t seed = 1;
  /// It may make another engine for each configuration.
  std::function<gpu::EngineFactory(Rounds&)> engine;
};

inline DeviceCounts run_device_rounds(const DeviceRun& run) {
  DeviceRounds rounds(run.seed);
  TempFolder folder;
  DeviceCounts counts;
  for (int round = 0; round < run.graphs; ++round) {
    TypedGraph graph = random_typed_graph({.node_types = 1 + rounds.below(4),
                                           .edge_types = 1 + rounds.below(6),
                                           .max_nodes = 1 + rounds.below(150),
                                           .seed = rounds.word(),
                                           .empty_type = !has_times(run.kinds) && round % 3 == 0});
    if (has_times(run.kinds) && rounds.below(3) == 0) rounds.forget_times(graph);
    const auto path = folder.path() / std::to_string(round);
    write_typed_dataset(path, graph, rounds.cut(graph, 4));
    const Dataset dataset(path);
    for (int configuration = 0; configuration < kConfigurations; ++configuration) {
      const BatchOptions options = rounds.device_options(graph, run.kinds);
      SCOPED_TRACE("round " + std::to_string(round) + ", options " + options.to_json());
      const std::uint64_t bounds[] = {0, 40, 1'000, 1 << 20}, weights_left[] = {50, 1'000, 1 << 20, 1 << 20};
      DeviceSampler device(dataset, options,
                           {.place = rounds.below(2) ? gpu::GraphPlace::kHost : gpu::GraphPlace::kDevice,
                            .make_engine = run.engine(rounds),
                            .most_uncounted_edges = bounds[rounds.below(4)],
                            .most_weights_left = weights_left[rounds.below(4)],
                            .hot = random_hot(rounds)});
      NeighborSampler cpu(dataset, options);
      std::vector<SeedCount> most_seeds;  // of all batches
      for (int t = 0; t < dataset.num_node_types(); ++t) most_seeds.push_back({.node_type = t, .count = 0});
      ++counts.configurations;
      DeviceRounds::Seeds seeds;
      for (int batch = 0; batch < kBatches; ++batch) {
        if (batch < kBatches / 2)
          seeds = rounds.seeds(dataset);
        else  // as many of them, so that the device may do what it has recorded
          rounds.draw_again(dataset, seeds);
        ExcludedEdges excluded;
        if (excludes(run.kinds)) rounds.exclude(dataset, excluded);
        const SampleRequest request{.key = {.seed = rounds.word(),
                                            .epoch = rounds.below(100),
                                            .first = rounds.below(1'000),
                                            .count = 1},
                                    .seeds = seeds.entries,
                                    .excluded = excludes(run.kinds) ? &excluded : nullptr};
        const Sample& sample = device.sample(request);
        expect_same_sample(sample, cpu.sample(request));
        for (const TypedSeeds& entry : seeds.entries) {
          std::int64_t& most = most_seeds[static_cast<std::size_t>(entry.node_type)].count;
          most = std::max(most, std::ssize(entry.ids));
        }
        EXPECT_LE(device.scratch_bytes(), device.max_scratch_bytes(most_seeds));
        for (const SampledEdges& edges : sample.edges) counts.edges += edges.sources.size();
        if (::testing::Test::HasFailure()) return counts;
      }
      const std::uint64_t there = device.batches(gpu::Fallback::kNone);
      const std::uint64_t removed = device.batches(gpu::Fallback::kDrawsRemove);
      counts.there += there;
      counts.removed += removed;
      counts.otherwise += kBatches - there - removed;
      counts.replays += device.replays();
    }
  }
  return counts;
}

}  // namespace hopfeed::testing
