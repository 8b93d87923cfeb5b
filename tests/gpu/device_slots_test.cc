// Batches that worker processes make in a device's memory, over devices whose memory is a memfd that they
// inherit (fake_room.h): the suite of all streams, kills included; then what such slots have to themselves,
// and F34 of docs/faults.md.
#include <gtest/gtest.h>

#include "channel/futex.h"
#include "gpu/batches/device_room_on.h"
#include "gpu/device/cuda_engine.h"
#include "gpu/device/host_backend.h"
#include "tests/gpu/fake_room.h"
#include "tests/stream/stream_conformance.h"
#include "tests/worker_mode/faults_fixture.h"
#include "worker_mode/worker_stream.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;

struct Device {
  std::string name = "forward";
  std::uint32_t held_millionths = 0;
  GraphMode mode = GraphMode::kUva;
  AvailableMemory (*available)() = gpu::plenty_of_memory;
};

std::unique_ptr<BatchStream> open_on(const Device& device, LoaderOptions options) {
  options.execution.gpu.graph_mode = device.mode;
  options.execution.gpu.device_batches = true;
  options.execution.gpu.gpu_cache = CacheSize{.ratio = HeldShare{device.held_millionths}.ratio()};
  options.execution.worker_program = testing::program("fake_room_worker");
  options.deal.validate();
  options.execution.validate();
  return WorkerStream::open(options, gpu::make_fake_room(device.name, device.available));
}
std::unique_ptr<BatchStream> open_on(const Device& device, LoaderOptions options, int num_workers) {
  options.execution.num_workers = num_workers;
  return open_on(device, std::move(options));
}

std::unique_ptr<BatchStream> forward(LoaderOptions options) { return open_on({}, std::move(options), 1); }
std::unique_ptr<BatchStream> shuffled(LoaderOptions options) {
  return open_on({.name = "shuffled", .held_millionths = 400'000, .mode = GraphMode::kCuda},
                 std::move(options), 3);
}
std::unique_ptr<BatchStream> threads(LoaderOptions options) {
  return open_on({.name = "threads", .held_millionths = HeldShare::kAll}, std::move(options), 2);
}
std::unique_ptr<BatchStream> lingering(LoaderOptions options) {
  return open_on({.name = "lingering 20"}, std::move(options), 2);
}

void kill_workers(BatchStream& stream) {
  for (const int pid : dynamic_cast<ChannelStream&>(stream).worker_pids()) ::kill(pid, SIGKILL);
}

INSTANTIATE_TEST_SUITE_P(DeviceSlots, StreamConformance,
                         ::testing::Values(StreamKind{"Forward", forward, kill_workers},
                                           StreamKind{"Shuffled", shuffled, kill_workers},
                                           StreamKind{"Threads", threads, kill_workers},
                                           StreamKind{"KernelsThatOutliveWorkers", lingering, kill_workers}),
                         [](const auto& info) { return std::string(info.param.name); });

class DeviceSlots : public Faults {
 protected:
  static double now() { return static_cast<double>(monotonic_now()) * 1e-9; }
  /// Why a stream cannot be opened, with these failpoints armed.
  static std::string error_with(const std::string& failpoints, const LoaderOptions& options,
                                const Device& device = {}) {
    const Armed armed(failpoints);
    return error_of([&] { open_on(device, options); });
  }
};

TEST_F(DeviceSlots, BlockLiesOnTheDevice_AndItsHeadOnTheHost) {
  const LoaderOptions o = options(2);
  const std::unique_ptr<BatchStream> stream = open_on({}, o);
  stream->begin_epoch(0);
  std::int64_t batches = 0;
  while (const std::optional<Batch> batch = stream->next()) {
    const DeviceForm* form = batch->device_form();
    ASSERT_NE(form, nullptr);
    const BatchView whole = batch->view();
    EXPECT_NE(form->data, form->head.bytes().data());
    ASSERT_EQ(form->head.bytes().size(), whole.bytes().size());
    EXPECT_EQ(std::memcmp(form->data, whole.bytes().data(), whole.bytes().size()), 0);
    EXPECT_EQ(form->head.batch_size(), whole.batch_size());
    EXPECT_TRUE(std::ranges::equal(form->head.num_sampled_nodes(), whole.num_sampled_nodes()));
    EXPECT_TRUE(std::ranges::equal(form->head.input_id(), whole.input_id()));
    ++batches;
  }
  EXPECT_EQ(batches, stream->steps());
  EXPECT_GT(stream->stats().tiers.memory_rows, 0);
}

TEST_F(DeviceSlots, WhoSampledAndWhatItTakesOfTheDevice_IsToldOfAllWorkers) {
  LoaderOptions o = options(2);
  o.execution.gpu.gpu_graph_cache = CacheSize{.ratio = 0.5};
  std::size_t graph_bytes = 0;
  for (const int workers : {1, 3}) {
    const std::unique_ptr<BatchStream> stream = open_on({.held_millionths = 400'000}, o, workers);
    EXPECT_EQ(loaded(*stream), expected(o));
    const GpuUse use = stream->stats().gpu_use;
    EXPECT_EQ(use.gpu_batches, stream->steps());
    EXPECT_EQ(use.cpu_batches, 0);
    EXPECT_EQ(use.graph.millionths, HeldShare::kAll / 2);
    EXPECT_EQ(use.rows.millionths, 400'000U);
    EXPECT_GT(use.rows_bytes, 0U);
    if (graph_bytes != 0) {
      EXPECT_EQ(use.graph_bytes, graph_bytes) << "of one of them";
    }
    graph_bytes = use.graph_bytes;
  }
  EXPECT_GT(graph_bytes, 0U);
}

TEST_F(DeviceSlots, WorkerThatDied_GivesItsMemoryBack_AndItsBatchesStayCounted) {
  const LoaderOptions o = options();
  const std::unique_ptr<BatchStream> stream = open_on({}, o, 1);
  loaded(*stream);
  const GpuUse before = stream->stats().gpu_use;
  kill_workers(*stream);
  EXPECT_EQ(loaded(*stream, {.epoch = 1}), expected(o, {.epoch = 1}));
  const GpuUse after = stream->stats().gpu_use;
  EXPECT_GE(after.gpu_batches, before.gpu_batches + stream->steps());
  EXPECT_EQ(after.graph_bytes, before.graph_bytes);
}

// ---- FREE only after the trainer's own events

TEST_F(DeviceSlots, SlotIsPlannedAgainOnlyWhenTheTrainersStreamsAreDoneWithIt) {
  LoaderOptions o = options();
  o.execution.num_slots = 1;
  const std::vector<std::string> want = expected(o);
  const std::unique_ptr<BatchStream> stream = open_on({}, o);
  gpu::HostStream quick, slow;
  stream->begin_epoch(0);
  std::optional<Batch> batch = stream->next();
  slow.busy = true;
  batch->used_on({&quick});
  batch->used_on({&slow});
  batch.reset();
  double done = 0;
  std::jthread device([&] {
    std::this_thread::sleep_for(200ms);
    done = now();
    slow.busy = false;
  });
  batch = stream->next();  // no error that says that the caller holds all slots
  device.join();
  EXPECT_EQ(line_of(batch->view()), want[1]);
  EXPECT_GE(batch->times().planned, done);
  EXPECT_EQ(quick.finished, 1);
  EXPECT_EQ(slow.finished, 1);
}

TEST_F(DeviceSlots, OtherSlotsGoOnMeanwhile_AndTheEndWaits) {
  const LoaderOptions o = options();
  std::unique_ptr<BatchStream> stream = open_on({}, o);
  gpu::HostStream slow;
  slow.busy = true;
  std::vector<std::string> got;
  stream->begin_epoch(0);
  while (const std::optional<Batch> batch = stream->next()) {
    if (got.empty()) batch->used_on({&slow});
    got.push_back(line_of(batch->view()));
  }
  EXPECT_EQ(got, expected(o));
  EXPECT_EQ(slow.finished, 0);
  stream->begin_epoch(1);
  stream.reset();
  EXPECT_EQ(slow.finished, 1) << "before the memory goes";
}

// ---- deaths

// F2 of a kernel: killed at its n-th launch.
TEST_F(DeviceSlots, WorkerKilledAtTheNthLaunch_EpochHasTheSameBytes) {
  const LoaderOptions o = options();
  const std::vector<std::string> want = expected(o);
  const testing::TempFolder scratch;
  for (int launch = 1; launch < 60; launch += 4) {
    const ArmedOnce armed("device.launch=kill@" + std::to_string(launch), scratch.path());
    const std::unique_ptr<BatchStream> stream = open_on({.name = "shuffled"}, o, 1);
    EXPECT_EQ(loaded(*stream), want) << "launch " << launch;
    EXPECT_TRUE(armed.has_acted());
  }
}

TEST_F(DeviceSlots, KernelWritesOnAfterItsWorkerWasKilled_NobodyGetsTheSlotBefore) {
  constexpr double kLingers = 0.4;
  for (const int workers : {1, 2}) {
    LoaderOptions o = options();
    const testing::TempFolder scratch;
    const ArmedOnce armed("device.kernel=kill@3", scratch.path());
    const std::unique_ptr<BatchStream> stream = open_on({.name = "lingering 400"}, o, workers);
    std::vector<std::string> got;
    double longest = 0;
    stream->begin_epoch(0);
    while (const std::optional<Batch> batch = stream->next()) {
      got.push_back(line_of(batch->view()));
      longest = std::max(longest, batch->times().claimed - batch->times().planned);
    }
    EXPECT_EQ(got, expected(o)) << "the kernel writes rubbish";
    EXPECT_GE(longest, kLingers) << "planned before the kill, claimed again after the kernel's end";
    EXPECT_EQ(stream->stats().worker_deaths, 1);
    EXPECT_EQ(stream->stats().batches_remade, 1);
  }
}

TEST_F(DeviceSlots, EpochLeftWhileAKernelWritesOn_NextEpochHasItsBytes) {
  LoaderOptions o = options();
  const testing::TempFolder scratch;
  const ArmedOnce armed("device.kernel=kill@2", scratch.path());
  const std::unique_ptr<BatchStream> stream = open_on({.name = "lingering 200"}, o, 2);
  stream->begin_epoch(0);
  while (!armed.has_acted()) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(loaded(*stream, {.epoch = 1}), expected(o, {.epoch = 1}));
}

// ---- F34

TEST_F(DeviceSlots, MemoryOfTheDeviceDoesNotSuffice_IsOneLineWithTheFigures) {
  const auto little = [] { return AvailableMemory{100'000, "the GPU's free memory"}; };
  LoaderOptions o = options();
  o.execution.num_slots = 8;
  const std::string error = error_with("", o, {.available = little});
  EXPECT_TRUE(error.starts_with("no space: a channel in a GPU's memory (slots for 8 batches of ")) << error;
  EXPECT_NE(error.find("100000 bytes are available (limit: the GPU's free memory); lower num_slots, "
                       "batch_size or"),
            std::string::npos)
      << error;
}

// With -1 among the fanouts the worst case is the whole graph, which hardly any batch comes near.
TEST_F(DeviceSlots, UnboundedFanouts_SlotsAreCutToTheDevice) {
  const auto some = [] { return AvailableMemory{1 << 20, "a test"}; };
  LoaderOptions o = options();
  o.batch.fanouts = {-1};
  o.execution.num_slots = 30;
  const std::unique_ptr<BatchStream> stream = open_on({.available = some}, o);
  EXPECT_EQ(loaded(*stream), expected(o));
  o.batch.fanouts = {-1, -1, -1};
  const std::unique_ptr<BatchStream> larger = open_on({.available = some}, o);
  EXPECT_NE(error_of([&] { loaded(*larger); }).find("bytes, a slot at most"), std::string::npos);
}

TEST_F(DeviceSlots, TrainerCannotAllocate_IsOneLine) {
  const std::string error = error_with("device.share=error@1", options());
  EXPECT_TRUE(error.starts_with("no space: the device has no ")) << error;
  EXPECT_NE(error.find("lower num_slots"), std::string::npos) << error;
}

TEST_F(DeviceSlots, WorkerCannotImport_EndsTheLoaderWithItsLine) {
  EXPECT_EQ(error_with("device.import=error@1", options()),
            "io: the device's memory cannot be imported: Invalid argument");
}

TEST_F(DeviceSlots, NthAllocationOfAWorkerFails_IsOneLine_AtTheStartOrInItsBatch) {
  bool failed = true, in_a_batch = false;
  for (int n = 1; failed; ++n) {
    std::unique_ptr<BatchStream> stream;
    std::string error;
    {
      const Armed armed("device.allocate=error@" + std::to_string(n));
      error = error_of([&] { stream = open_on({}, options(), 1); });
    }
    if (stream) error = error_of([&] { loaded(*stream); });
    failed = error != "no error";
    in_a_batch |= failed && stream;
    if (failed) {
      EXPECT_TRUE(error.starts_with("no space: the device has no ")) << n << ": " << error;
      EXPECT_NE(error.find("bytes left; lower"), std::string::npos) << n << ": " << error;
    }
    ASSERT_LT(n, 1'000);
  }
  EXPECT_TRUE(in_a_batch);
}

TEST_F(DeviceSlots, DeviceIsLost_ItsWorkerEndsAndAnotherMakesTheBatch) {
  const LoaderOptions o = options();
  std::unique_ptr<BatchStream> stream;
  {
    const Armed armed("device.lost=error@20");  // of each worker that is started now
    stream = open_on({}, o, 2);
  }
  EXPECT_EQ(loaded(*stream), expected(o));
  EXPECT_GE(stream->stats().worker_deaths, 1);
  EXPECT_LE(stream->stats().worker_deaths, 2);
  EXPECT_EQ(stream->stats().batches_remade, stream->stats().worker_deaths);
}

TEST_F(DeviceSlots, DeviceIsLostFromTheStart_IsItsLine) {
  EXPECT_EQ(error_with("device.lost=error@*", options()), "io: the device is lost");
}

TEST_F(DeviceSlots, WorkersOnDevicesOfTheirOwn_AndOneThatIsNotThere) {
  LoaderOptions o = options();
  o.execution.gpu.worker_devices = {1, 7};
  EXPECT_EQ(loaded(*open_on({}, o, 3)), expected(o));
  o.execution.gpu.worker_devices = {1, 8};
  EXPECT_EQ(error_with("", o),
            "not found: there is no GPU 8, only 8 counted from 0; change worker_devices or "
            "CUDA_VISIBLE_DEVICES");
  o.execution.gpu.worker_devices = {-1};
  EXPECT_NE(error_with("", o).find("GPU -1 of worker_devices"), std::string::npos);
  o.execution.gpu.worker_devices = {0};
  o.execution.gpu.device_batches = false;
  EXPECT_NE(error_of([&] { o.execution.validate(); }).find("worker_devices are of workers"),
            std::string::npos);
}

TEST_F(DeviceSlots, DeviceThatAWorkerDoesNotKnow_IsOneLine) {
  class Unknown final : public gpu::DeviceRoomOn<gpu::SerialBackend> {
   public:
    Unknown() : DeviceRoomOn({}, gpu::plenty_of_memory, "abacus") {}
  };
  LoaderOptions o = options();
  o.execution.gpu.graph_mode = GraphMode::kUva;
  o.execution.gpu.device_batches = true;
  EXPECT_EQ(error_of([&] { WorkerStream::open(o, std::make_shared<Unknown>()); }),
            "invalid: a worker knows no device 'abacus'; install loader and hopfeed-worker together");
}

TEST_F(DeviceSlots, NoGpu_IsAnErrorThatSaysWhatToDo) {
  if (gpu::why_no_gpu().empty()) GTEST_SKIP() << "there is a GPU";
  LoaderOptions o = options();
  o.execution.gpu.graph_mode = GraphMode::kUva;
  o.execution.gpu.device_batches = true;
  EXPECT_NE(error_of([&] { Loader loader(o); }).find("take graph mode cpu"), std::string::npos);
}

}  // namespace
}  // namespace hopfeed
