// What the device sampler leaves to the CPU: kinds that it does not know, rows that are too long, damaged
// graphs, whose errors are the CPU sampler's. And how often the host waits for the device.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "core/dataset/npy.h"
#include "core/sampler/sampler_registry.h"
#include "gpu/device/cuda_engine.h"
#include "gpu/device/gpu_sampling.h"
#include "tests/core/all_kinds.h"
#include "tests/core/random_graphs.h"
#include "tests/gpu/device_rounds.h"
#include "tests/gpu/host_engines.h"
#include "tests/support/expect_refused.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed {
namespace {

using gpu::Fallback;
namespace fs = std::filesystem;

class OneGraph : public ::testing::Test {
 protected:
  OneGraph() {
    testing::write_all_kinds_graph(folder_.path() / "graph", 3);
    dataset_ = std::make_unique<Dataset>(folder_.path() / "graph");
    for (std::int64_t i = 0; i < 64; ++i) seeds_.push_back(7 * i % 500), times_.push_back(25 + i % 20);
    entry_ = {.node_type = 0, .ids = seeds_, .times = times_};
  }
  SampleRequest request() const {
    return {.key = {.seed = 5, .first = 64, .count = 64}, .seeds = {&entry_, 1}};
  }
  DeviceSampler sampler(const BatchOptions& options, std::uint64_t uncounted = 1 << 20) const {
    return DeviceSampler(*dataset_, options,
                         {.make_engine = testing::serial_engine(), .most_uncounted_edges = uncounted});
  }

  testing::TempFolder folder_;
  std::unique_ptr<Dataset> dataset_;
  std::vector<std::int64_t> seeds_, times_;
  TypedSeeds entry_;
};

TEST_F(OneGraph, OfEveryKindOfNeighbourSampling_GivesTheCpusBatch) {
  for (const testing::Kind& kind : testing::all_kinds()) {
    if (kind.options.sampler != BatchOptions::kNeighborSampler) continue;
    SCOPED_TRACE(kind.name);
    DeviceSampler device = sampler(kind.options);
    NeighborSampler cpu(*dataset_, kind.options);
    testing::expect_same_sample(device.sample(request()), cpu.sample(request()));
    const bool known = !kind.options.labor && kind.options.subgraph == Subgraph::kDirectional;
    EXPECT_EQ(device.batches(Fallback::kNone), known ? 1u : 0u);
    EXPECT_EQ(device.batches(Fallback::kKind), known ? 0u : 1u);
  }
}

TEST_F(OneGraph, WeightedWithExcludedEdges_IsTheCpus) {
  DeviceSampler device = sampler({.fanouts = {5, 5}, .weight = "weight"});
  NeighborSampler cpu(*dataset_, {.fanouts = {5, 5}, .weight = "weight"});
  ExcludedEdges excluded;
  testing::DeviceRounds(1).exclude(*dataset_, excluded);
  SampleRequest asked = request();
  asked.excluded = &excluded;
  testing::expect_same_sample(device.sample(asked), cpu.sample(asked));
  EXPECT_EQ(device.batches(Fallback::kKind), 1u);
}

/// One row of so many edges, of which three have nearly all the weight and half have none; of two edge types
/// each.
void write_rows_of_few_heavy_edges(const fs::path& folder, std::int64_t edges) {
  testing::TypedGraph graph;
  graph.nodes.push_back({.name = "node", .count = edges});
  for (const char* relation : {"to", "from"}) {
    testing::TypedEdges& type = graph.edges.emplace_back();
    type.rel = relation;
    for (std::int64_t e = 0; e < edges; ++e) {
      type.sources.push_back(e);
      type.destinations.push_back(0);
      type.weight.push_back(e < 3 ? 1e6 : static_cast<double>(e % 2));
    }
  }
  write_typed_dataset(folder, graph);
}

// Their draws go on by removing, in memory for both edge types' rows together.
TEST(DrawAndRemove, IsTheDevices_UnlessTheRowIsLong) {
  struct Case {
    std::int64_t edges, fanout;
    bool there;
  };
  for (const Case& of :
       {Case{200, 15, true}, Case{200, 80, true}, Case{100, 60, true}, Case{5'000, 15, false}}) {
    SCOPED_TRACE(std::to_string(of.edges) + " edges, fanout " + std::to_string(of.fanout));
    testing::TempFolder folder;
    write_rows_of_few_heavy_edges(folder.path() / "graph", of.edges);
    const Dataset dataset(folder.path() / "graph");
    const BatchOptions options{.fanouts = {of.fanout}, .weight = "weight"};
    const std::vector<std::int64_t> ids{0};
    const TypedSeeds seeds{.node_type = 0, .ids = ids, .times = {}};
    DeviceSampler device(dataset, options, {.make_engine = testing::serial_engine()});
    NeighborSampler cpu(dataset, options);
    for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
      const SampleRequest request{.key = {.seed = 1, .epoch = epoch, .count = 1}, .seeds = {&seeds, 1}};
      const Sample& want = cpu.sample(request);
      testing::expect_same_sample(device.sample(request), want);
      EXPECT_EQ(want.edges[0].per_dst[0], std::min<std::int64_t>(of.fanout, of.edges / 2 + 2));
    }
    EXPECT_EQ(device.batches(of.there ? Fallback::kNone : Fallback::kDrawsRemove), 20u);
  }
}

TEST_F(OneGraph, WaitsOnceABatch_AndOnceAHopWhereEdgesAreCounted) {
  struct Case {
    std::vector<std::int64_t> fanouts;
    std::uint64_t uncounted, waits;
  };
  const Case cases[] = {{{15, 10, 5}, 1 << 20, 1}, {{-1, -1}, 1 << 20, 3},  {{5, -1, 5}, 1 << 20, 2},
                        {{15, 10, 5}, 0, 4},       {{15, 10, 5}, 1'000, 3}, {{}, 0, 1}};
  for (const Case& of : cases) {
    SCOPED_TRACE(::testing::PrintToString(of.fanouts) + " of " + std::to_string(of.uncounted));
    DeviceSampler device = sampler({.fanouts = of.fanouts}, of.uncounted);
    const std::uint64_t before = device.waits();
    device.sample(request());
    device.sample(request());
    EXPECT_EQ(device.waits() - before, 2 * of.waits);
    EXPECT_EQ(device.batches(Fallback::kNone), 2u);
  }
}

TEST_F(OneGraph, RefusalsAreTheCpus) {
  expect_refused([&] { sampler({.fanouts = {5}, .weight = "no such"}); }, "no such", ErrorCode::kNotFound);
}

// One row of more edges than 32 bits count; nothing of them is ever read.
TEST(HopEngine, ARowOf2To32Edges_IsTheCpus) {
  for (const std::int64_t fanout : {-1, 5}) {
    const RowRecord rows[] = {{0, 0}, {std::int64_t{1} << 32, -1}};
    gpu::EnginePlan plan;
    plan.num_nodes = {1};
    plan.hops = 1;
    gpu::EdgePlan& edges = plan.edge_types.emplace_back();
    edges.partition_offsets = {0, 1};
    edges.fanouts = {fanout};
    const std::int32_t nothing = 0;
    gpu::HostPart& part = edges.parts.emplace_back();
    part.rows = rows;
    part.indices = &nothing;
    part.num_rows = 1;
    part.num_edges = std::int64_t{1} << 33;
    const std::unique_ptr<gpu::HopEngine> engine = testing::serial_engine()(plan);
    const std::int64_t seed = 0;
    const gpu::EngineSeeds seeds{.node_type = 0, .ids = &seed, .count = 1};
    const NodeStream stream = node_stream({});
    EXPECT_EQ(engine->sample({.seeds = &seeds, .num_entries = 1, .streams = &stream}), Fallback::kWideRow);
  }
}

/// What a sampler comes to: its sample, or an error.
std::string refusal(Sampler& sampler, const SampleRequest& request) {
  try {
    sampler.sample(request);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

/// Overwrites a few bytes of the graph's arrays, as a bad disk would.
void damage(const fs::path& folder, testing::Rounds& rounds) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string path = entry.path().string();
    if (path.find("/edges/") != std::string::npos && path.ends_with(".npy")) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  for (int i = 0; i < 4 && !files.empty(); ++i) {
    const fs::path& file = files[rounds.below(std::ssize(files))];
    const auto data = static_cast<std::int64_t>(NpyArray(file).header().data_offset);
    const auto bytes = static_cast<std::int64_t>(fs::file_size(file)) - data;
    if (bytes < 8) continue;
    const std::int64_t values[] = {-1,
                                   -8,
                                   1,
                                   200,
                                   std::int64_t{1} << 40,
                                   INT32_MAX,
                                   INT64_MIN,
                                   static_cast<std::int64_t>(rounds.word())};
    const std::int64_t value = values[rounds.below(8)];
    const int fd = ::open(file.c_str(), O_RDWR);
    ASSERT_GE(fd, 0);
    const std::size_t width = 4 + 4 * static_cast<std::size_t>(rounds.below(2));
    const ssize_t written = ::pwrite(fd, &value, width, data + 4 * rounds.below((bytes - 4) / 4));
    ::close(fd);
    ASSERT_EQ(written, static_cast<ssize_t>(width));
  }
}

/// Any pairs of nodes: the graph cannot be asked.
void exclude_some(const Dataset& dataset, testing::Rounds& rounds, ExcludedEdges& excluded) {
  excluded.begin(dataset.num_edge_types());
  for (int e = 0; e < dataset.num_edge_types(); ++e) {
    const CscView csc = dataset.csc(e);
    for (int i = 0; i < 100; ++i)
      excluded.add(e, rounds.below(csc.num_src_nodes), rounds.below(csc.num_dst_nodes));
  }
  excluded.finish();
}

// Both give the same batch, or the same error; that nothing is read which is not there, sanitizers see.
TEST(DeviceSampler, OfADamagedGraph_ThrowsWhatTheCpuThrows) {
  testing::DeviceRounds rounds(15);
  testing::TempFolder folder;
  int errors = 0, batches = 0;
  for (int round = 0; round < testing::num_random_graphs() / 4; ++round) {
    const auto graph = testing::random_typed_graph(
        {.node_types = 1 + rounds.below(3), .max_nodes = 40, .seed = rounds.word()});
    const fs::path path = folder.path() / std::to_string(round);
    testing::write_typed_dataset(path, graph, rounds.cut(graph, 3));
    const Dataset dataset(path);
    damage(path, rounds);
    for (int configuration = 0; configuration < testing::kConfigurations; ++configuration) {
      const auto kinds = static_cast<testing::DeviceKinds>(rounds.below(5));
      const BatchOptions options = rounds.device_options(graph, kinds);
      SCOPED_TRACE("round " + std::to_string(round) + ", options " + options.to_json());
      DeviceSampler device(dataset, options,
                           {.place = rounds.below(2) ? gpu::GraphPlace::kHost : gpu::GraphPlace::kDevice,
                            .make_engine = testing::engine_of_any_order(rounds),
                            .most_uncounted_edges = rounds.below(2) ? 1u << 20 : 40});
      NeighborSampler cpu(dataset, options);
      const testing::DeviceRounds::Seeds seeds = rounds.seeds(dataset);
      ExcludedEdges excluded;
      if (testing::excludes(kinds)) exclude_some(dataset, rounds, excluded);
      const SampleRequest request{.key = {.seed = rounds.word()},
                                  .seeds = seeds.entries,
                                  .excluded = testing::excludes(kinds) ? &excluded : nullptr};
      const std::string wanted = refusal(cpu, request);
      ASSERT_EQ(refusal(device, request), wanted);
      if (wanted.empty())
        testing::expect_same_sample(device.sample(request), cpu.sample(request));
      else
        EXPECT_EQ(device.batches(Fallback::kNone), 0u);
      ++(wanted.empty() ? batches : errors);
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(errors, 5);
  EXPECT_GT(batches, 5);
}

TEST(GraphMode, HasThreeNamesAndNoOther) {
  for (const char* name : {"cpu", "uva", "cuda"}) EXPECT_STREQ(to_string(graph_mode_from(name)), name);
  expect_refused([] { graph_mode_from("gpu"); }, "'gpu' is none of cpu, uva, cuda");
}

TEST_F(OneGraph, WithoutAGpu_ModesThatWantOneAreOneLine) {
  for (const GraphMode mode : {GraphMode::kUva, GraphMode::kCuda}) {
    if (gpu::why_no_gpu().empty()) continue;
    expect_refused([&] { neighbor_samplers({.graph_mode = mode}); }, gpu::why_no_gpu(), ErrorCode::kNotFound);
  }
  EXPECT_EQ(neighbor_samplers({.graph_mode = GraphMode::kCpu}), nullptr) << "the CPU's own";
  EXPECT_NO_THROW(make_sampler(*dataset_, {.fanouts = {5}}));
}

}  // namespace
}  // namespace hopfeed
