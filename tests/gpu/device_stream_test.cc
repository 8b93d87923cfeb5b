// The suite of all streams over batches that lie in a device's memory, of which every host has a twin
// (gpu/device/host_backend.h): plain memory that the host reads by copying it, and unmapped where a slot was
// given back. Then what only such batches have.
#include "worker_mode/device_stream.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/batch/gpu_use_json.h"
#include "gpu/batches/device_room_on.h"
#include "gpu/device/cuda_engine.h"
#include "gpu/device/host_backend.h"
#include "tests/stream/stream_conformance.h"

namespace hopfeed {
namespace {

AvailableMemory plenty() { return {std::uint64_t{1} << 40, "a test"}; }

template <class Backend>
std::shared_ptr<gpu::DeviceRoom> room_of(const typename Backend::Options& options) {
  return std::make_shared<gpu::DeviceRoomOn<Backend>>(options, plenty);
}

std::unique_ptr<BatchStream> open_on(LoaderOptions options, std::shared_ptr<gpu::DeviceRoom> room,
                                     std::uint32_t held_millionths, GraphMode mode) {
  options.execution.num_workers = 0;
  options.execution.gpu.graph_mode = mode;
  options.execution.gpu.device_batches = true;
  options.execution.gpu.gpu_cache = CacheSize{.ratio = HeldShare{held_millionths}.ratio()};
  options.deal.validate();
  options.execution.validate();
  return DeviceStream::open(options, std::move(room));
}

std::unique_ptr<BatchStream> forward(LoaderOptions options) {
  return open_on(std::move(options), room_of<gpu::SerialBackend>({}), 0, GraphMode::kUva);
}
std::unique_ptr<BatchStream> shuffled(LoaderOptions options) {
  return open_on(std::move(options),
                 room_of<gpu::SerialBackend>({.order = gpu::ItemOrder::kShuffled, .seed = 5}), 400'000,
                 GraphMode::kCuda);
}
std::unique_ptr<BatchStream> threads(LoaderOptions options) {
  return open_on(std::move(options), room_of<gpu::ThreadedBackend>({.threads = 2}), HeldShare::kAll,
                 GraphMode::kUva);
}

INSTANTIATE_TEST_SUITE_P(DeviceStreams, StreamConformance,
                         ::testing::Values(StreamKind{"Forward", forward, nullptr},
                                           StreamKind{"Shuffled", shuffled, nullptr},
                                           StreamKind{"Threads", threads, nullptr}),
                         [](const auto& info) { return std::string(info.param.name); });

class DeviceBatches : public LoaderTestWithin<> {};

TEST_F(DeviceBatches, DeviceHasTheBlock_AndTheHeadItsSizes) {
  const LoaderOptions o = options(2);
  const std::unique_ptr<BatchStream> stream = forward(o);
  stream->begin_epoch(0);
  std::int64_t batches = 0;
  while (const std::optional<Batch> batch = stream->next()) {
    const DeviceForm* form = batch->device_form();
    ASSERT_NE(form, nullptr);
    const BatchView whole = batch->view();
    ASSERT_EQ(form->head.bytes().size(), whole.bytes().size());
    EXPECT_EQ(std::memcmp(form->data, whole.bytes().data(), whole.bytes().size()), 0)
        << "the twin's memory is the host's";
    EXPECT_EQ(form->head.batch_size(), whole.batch_size());
    EXPECT_TRUE(std::ranges::equal(form->head.num_sampled_nodes(), whole.num_sampled_nodes()));
    EXPECT_TRUE(std::ranges::equal(form->head.num_sampled_edges(), whole.num_sampled_edges()));
    EXPECT_TRUE(std::ranges::equal(form->head.input_id(), whole.input_id()));
    EXPECT_EQ(form->head.edge_index().shape[1], whole.edge_index().shape[1]);
    ++batches;
  }
  EXPECT_EQ(batches, stream->steps());
}

TEST_F(DeviceBatches, WhatAnOptionGivesToRowsIsHeld_OrRefusedWithFigures) {
  LoaderOptions o = options(2);
  o.execution.num_workers = 0;
  o.execution.gpu.graph_mode = GraphMode::kUva;
  o.execution.gpu.device_batches = true;
  const auto device_rows = [&o](std::optional<CacheSize> cache, std::uint64_t free) {
    o.execution.gpu.gpu_cache = cache;
    const std::unique_ptr<BatchStream> stream = DeviceStream::open(
        o, std::make_shared<gpu::DeviceRoomOn<gpu::SerialBackend>>(gpu::SerialBackend::Options{}, [free] {
          return AvailableMemory{free, "a test"};
        }));
    stream->begin_epoch(0);
    while (stream->next()) {
    }
    return stream->stats().tiers.device_rows;
  };
  constexpr std::uint64_t kPlenty = std::uint64_t{1} << 40, kSome = std::uint64_t{1} << 28;
  EXPECT_EQ(device_rows(CacheSize{}, kPlenty), 0);
  const std::int64_t all = device_rows(CacheSize{.automatic = true}, kPlenty);
  EXPECT_EQ(device_rows({}, kPlenty), all) << "who says nothing has what fits";
  EXPECT_EQ(device_rows(CacheSize{.ratio = 1}, kPlenty), all);
  const std::int64_t some = device_rows(CacheSize{.ratio = 1, .bytes = 1 << 13}, kPlenty);
  EXPECT_GT(some, 0);
  EXPECT_LT(some, all);
  EXPECT_NE(
      error_of([&] { device_rows(CacheSize{.ratio = 1, .bytes = kSome + 1}, kSome); }).find("--gpu-cache is"),
      std::string::npos);
}

TEST_F(DeviceBatches, WhatTheGraphAndHeldRowsTakeIsTold) {
  LoaderOptions o = options(2);
  o.execution.num_workers = 0;
  o.execution.gpu.device_batches = true;
  const std::vector<std::string> want = expected(o);
  const auto use_of = [&](GraphMode mode, std::optional<CacheSize> graph, CacheSize rows = {}) {
    o.execution.gpu.graph_mode = mode;
    o.execution.gpu.gpu_graph_cache = graph;
    o.execution.gpu.gpu_cache = rows;
    o.execution.validate();
    const std::unique_ptr<BatchStream> stream = DeviceStream::open(o, room_of<gpu::SerialBackend>({}));
    EXPECT_FALSE(stream->stats().gpu_use.any());
    EXPECT_EQ(loaded(*stream), want);
    const GpuUse use = stream->stats().gpu_use;
    EXPECT_EQ(use.gpu_batches, stream->steps());
    EXPECT_EQ(use.cpu_batches, 0);
    return use;
  };
  const GpuUse copy = use_of(GraphMode::kCuda, {});
  EXPECT_EQ(copy.graph_bytes, (400 + 2) * sizeof(RowRecord) + 4'000 * 4);
  EXPECT_EQ(copy.graph.millionths, HeldShare::kAll);
  EXPECT_EQ(copy.rows_bytes, 0U);
  const GpuUse all = use_of(GraphMode::kUva, {});
  EXPECT_EQ(all.graph_bytes, copy.graph_bytes) << "a sixteenth of what is free has room for all";
  EXPECT_EQ(all.graph.millionths, HeldShare::kAll);
  EXPECT_EQ(use_of(GraphMode::kUva, CacheSize{.ratio = 1}), all);
  const GpuUse half = use_of(GraphMode::kUva, CacheSize{.ratio = 0.5});
  EXPECT_EQ(half.graph.millionths, HeldShare::kAll / 2);
  EXPECT_GT(half.graph_bytes, 0U);
  EXPECT_LT(half.graph_bytes, all.graph_bytes);
  const GpuUse some = use_of(GraphMode::kUva, CacheSize{.bytes = 5'000});
  EXPECT_GT(some.graph_bytes, 4'000U);
  EXPECT_LE(some.graph_bytes, 5'000U);
  EXPECT_TRUE(some.graph.any());
  const GpuUse rows = use_of(GraphMode::kUva, CacheSize{}, {.ratio = 0.5});
  EXPECT_EQ(rows.graph_bytes, 0U);
  EXPECT_FALSE(rows.graph.any());
  EXPECT_EQ(rows.rows.millionths, HeldShare::kAll / 2);
  EXPECT_GE(rows.rows_bytes, 198U * 68) << "half of each partition, rounded down";
}

TEST_F(DeviceBatches, WhatTheGraphMayTake_IsRefusedWithFiguresWhereItIsNotFree) {
  LoaderOptions o = options(2);
  o.execution.num_workers = 0;
  o.execution.gpu.graph_mode = GraphMode::kUva;
  o.execution.gpu.device_batches = true;
  o.execution.gpu.gpu_graph_cache = CacheSize{.bytes = (std::size_t{1} << 40) + 1};
  EXPECT_NE(error_of([&] {
              DeviceStream::open(o, room_of<gpu::SerialBackend>({}));
            }).find("no space: gpu_graph_cache is "),
            std::string::npos);
}

TEST_F(DeviceBatches, BatchesAreCountedByWhoSampledThem) {
  LoaderOptions o = options(2);
  o.batch.labor = true;  // not sampled on devices
  const std::unique_ptr<BatchStream> stream = forward(o);
  EXPECT_EQ(loaded(*stream), expected(o));
  EXPECT_EQ(stream->stats().gpu_use,
            (GpuUse{.gpu_batches = 0, .cpu_batches = stream->steps(), .graph_bytes = 0, .rows_bytes = 0}));
}

TEST_F(DeviceBatches, ReportHasTheGpu_WhereThereIsOne) {
  nlohmann::json report = nlohmann::json::object();
  add_gpu_use(report, {});
  EXPECT_EQ(report.dump(), "{}");
  add_gpu_use(report, {.gpu_batches = 7,
                       .cpu_batches = 1,
                       .graph_bytes = 100,
                       .rows_bytes = 20,
                       .graph = {.millionths = HeldShare::kAll / 4},
                       .rows = {.millionths = HeldShare::kAll / 2}});
  EXPECT_EQ(report.dump(), R"({"cpu_batches":1,"gpu_batches":7,"gpu_memory":{"graph_bytes":100,)"
                           R"("graph_share":0.25,"rows_bytes":20,"rows_share":0.5}})");
}

TEST_F(DeviceBatches, WhatCopyingTheGraphTookIsTold) {
  const std::unique_ptr<BatchStream> stream =
      open_on(options(2), room_of<gpu::SerialBackend>({}), 0, GraphMode::kCuda);
  EXPECT_GT(stream->stats().gpu_setup.copying, 0);
  EXPECT_EQ(stream->stats().gpu_setup.pinning, 0) << "nothing is pinned on hosts";
}

TEST_F(DeviceBatches, RowsAreCountedByWhoseMemoryTheyCameFrom) {
  const LoaderOptions o = options(2);
  for (const std::uint32_t held : {0U, 400'000U, HeldShare::kAll}) {
    const std::unique_ptr<BatchStream> stream =
        open_on(o, room_of<gpu::SerialBackend>({}), held, GraphMode::kUva);
    stream->begin_epoch(0);
    std::int64_t nodes = 0, attributes = 0;
    while (const std::optional<Batch> batch = stream->next()) {
      nodes += batch->view().num_nodes();
      attributes = std::ssize(stream->meta().node_types[0].attrs);
    }
    const TierCounts tiers = stream->stats().tiers;
    EXPECT_EQ(tiers.device_rows + tiers.memory_rows, nodes * attributes);
    EXPECT_EQ(tiers.device_rows == 0, held == 0);
    EXPECT_EQ(tiers.memory_rows == 0, held == HeldShare::kAll);
  }
}

TEST_F(DeviceBatches, SlotIsWrittenAgainOnlyBehindTheStreamsThatReadIt) {
  LoaderOptions o = options();
  o.execution.num_slots = 1;
  const std::unique_ptr<BatchStream> stream = forward(o);
  gpu::HostStream compute;
  stream->begin_epoch(0);
  std::optional<Batch> batch = stream->next();
  batch->used_on({&compute});
  batch->used_on({&compute});
  EXPECT_EQ(compute.finished, 0) << "the batch is there";
  batch.reset();
  batch = stream->next();
  EXPECT_EQ(compute.finished, 1) << "once, behind all that it was asked for until the batch's end";
  batch->used_on({&compute});
  batch.reset();
  stream->begin_epoch(1);
  ASSERT_TRUE(stream->next());
  EXPECT_EQ(compute.finished, 2);
}

// Kinds that the device does not sample are made by the CPU and copied, with the same bytes.
TEST_F(DeviceBatches, KindsOfTheCpu_ComeToTheDeviceToo) {
  for (int variant = 0; variant < 5; ++variant) {
    LoaderOptions o = options(2);
    if (variant == 0) o.batch.subgraph = Subgraph::kInduced;
    if (variant == 1) o.batch.subgraph = Subgraph::kBidirectional;
    if (variant == 2) o.batch.labor = true;
    if (variant == 3) o.batch.disjoint = true;  // and one that it does sample
    if (variant == 4) {
      o.batch.sampler = BatchOptions::kWalkSampler;
      o.batch.fanouts = BatchOptions{}.fanouts;  // which walks do not know
      o.batch.walk = {.length = 4};
    }
    const std::unique_ptr<BatchStream> stream = shuffled(o);
    EXPECT_EQ(loaded(*stream), expected(o)) << "variant " << variant;
  }
}

TEST_F(DeviceBatches, OptionsThatExcludeEachOther_AreOneLine) {
  LoaderOptions o = options();
  const auto error = [&](auto change) {
    LocalExecution execution = o.execution;
    execution.num_workers = 0;
    execution.gpu.graph_mode = GraphMode::kUva;
    execution.gpu.device_batches = true;
    change(execution);
    return error_of([&] { execution.validate(); });
  };
  EXPECT_EQ(error([](LocalExecution&) {}), "no error");
  EXPECT_EQ(error([](LocalExecution& e) { e.num_workers = 2; }), "no error");
  EXPECT_NE(error([](LocalExecution& e) { e.gpu.graph_mode = GraphMode::kCpu; }).find("(it is cpu)"),
            std::string::npos);
  EXPECT_NE(error([](LocalExecution& e) { e.features.from = FeaturesFrom::kFile; }).find("from files"),
            std::string::npos);
  EXPECT_NE(error([](LocalExecution& e) {
              e.gpu.device_batches = false;
              e.gpu.gpu_cache = CacheSize{.automatic = true};
            }).find("gpu_cache"),
            std::string::npos);
}

class BatchesOfHosts : public LoaderTestWithin<> {};

TEST_F(BatchesOfHosts, WithoutAGpu_AreTheCpusWhereItMayHelpOut) {
  if (gpu::why_no_gpu().empty()) GTEST_SKIP() << "there is a GPU here";
  for (const std::int64_t workers : {0, 2}) {
    for (const GraphMode mode : {GraphMode::kUva, GraphMode::kCuda}) {
      LoaderOptions o = options(2);
      o.execution.num_workers = workers;
      const std::vector<std::string> want = expected(o);
      o.execution.gpu = {.graph_mode = mode, .cpu_fallback = true};
      Loader loader(o);
      EXPECT_EQ(loaded(loader), want);
      const GpuUse use = loader.stats().gpu_use;
      EXPECT_EQ(use.cpu_batches, loader.steps());
      EXPECT_EQ(use.gpu_batches, 0);
    }
  }
}

}  // namespace
}  // namespace hopfeed
