// Feature rows on a device, as hosts run its kernels: in several orders of the items, and on threads. They
// are the rows of a plain array, and as float32 what the CPU makes of them.
#include <gtest/gtest.h>

#include <limits>

#include "gpu/device/host_backend.h"
#include "tests/gpu/row_rounds.h"
#include "tests/support/expect_refused.h"

namespace hopfeed {
namespace {

using gpu::ItemOrder;
using gpu::SerialBackend;
using gpu::ThreadedBackend;
using testing::RowReader;
using testing::RowReaderFactory;
using testing::RowReaderOn;
using testing::RowTable;

RowReaderFactory serial_reader(ItemOrder order = ItemOrder::kForward, std::uint64_t seed = 1) {
  return [=](const gpu::RowsPlan& plan) -> std::unique_ptr<RowReader> {
    return std::make_unique<RowReaderOn<SerialBackend>>(plan,
                                                        SerialBackend::Options{.order = order, .seed = seed});
  };
}
RowReaderFactory threaded_reader() {
  return [](const gpu::RowsPlan& plan) -> std::unique_ptr<RowReader> {
    return std::make_unique<RowReaderOn<ThreadedBackend>>(plan, ThreadedBackend::Options{.threads = 4});
  };
}

class DeviceRowsInOrder : public ::testing::TestWithParam<ItemOrder> {};

TEST_P(DeviceRowsInOrder, OfAnyTable_AreTheTables) {
  const gpu::RowCounts counts = testing::run_row_rounds(
      {.configurations = 450,
       .seed = 21 + static_cast<std::uint64_t>(GetParam()),
       .reader = [](testing::Rounds& rounds) { return serial_reader(GetParam(), rounds.word()); }});
  EXPECT_GT(counts.on_device, 10'000u);
  EXPECT_GT(counts.over_uva, 10'000u);
}

INSTANTIATE_TEST_SUITE_P(Orders, DeviceRowsInOrder,
                         ::testing::Values(ItemOrder::kForward, ItemOrder::kBackward, ItemOrder::kShuffled));

TEST(DeviceRows, OnThreads_AreTheTables) {
  const gpu::RowCounts counts = testing::run_row_rounds(
      {.configurations = 60, .seed = 24, .reader = [](testing::Rounds&) { return threaded_reader(); }});
  EXPECT_GT(counts.on_device, 1'000u);
  EXPECT_GT(counts.over_uva, 1'000u);
}

TEST(DeviceRows, OfEachHalf_AreTheFloatsThatTheCpuMakes) {
  testing::expect_every_half(ElementType::kFloat16, serial_reader());
  testing::expect_every_half(ElementType::kBfloat16, serial_reader());
}

// The smallest and largest scales, and a row of zeros.
TEST(DeviceRows, OfScalesAtTheEnds_AreTheFloatsThatTheCpuMakes) {
  for (const ElementType type : {ElementType::kInt8Scaled, ElementType::kInt4Scaled}) {
    RowTable table;
    const float largest[] = {std::numeric_limits<float>::max(), 1.0F, 0x1p-118F, 0x1p-140F, 0.0F};
    const auto bytes = static_cast<std::size_t>(quantised_row_bytes(type, 33));
    std::byte* const memory = table.memory.emplace_back(std::size(largest) * bytes).begin();
    for (std::size_t r = 0; r < std::size(largest); ++r) {
      std::vector<float> values(33);
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = largest[r] * (static_cast<float>(i) / 16 - 1);
      quantise_row(type, values, memory + r * bytes);
    }
    table.rows = {.parts = {memory},
                  .partition_offsets = {0, 5},
                  .row_bytes = static_cast<std::int64_t>(bytes),
                  .type = type,
                  .elements = 33};
    testing::expect_rows(*serial_reader()({.rows = table.rows, .held = {2}}), table, {4, 3, 2, 1, 0, 0});
  }
}

// Each width at each place in a line, so that rows begin and end anywhere in a stretch.
TEST(DeviceRows, OfEachWidthAtEachPlace_AreTheTables) {
  std::vector<std::byte> memory(3 * 300 + 128);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i * 37 + i / 256);
  for (std::int64_t width = 1; width <= 300; width += width < 70 ? 1 : 23) {
    for (std::size_t place = 0; place < 32; ++place) {
      RowTable table;
      table.rows = {.parts = {memory.data() + place},
                    .partition_offsets = {0, 3},
                    .row_bytes = width,
                    .type = ElementType::kUint8,
                    .elements = width};
      testing::expect_rows(*serial_reader()({.rows = table.rows, .held = {1}}), table, {2, 0, 1, 1});
      if (HasFailure()) FAIL() << width << " bytes at " << place;
    }
  }
}

struct Ring {
  std::vector<float> values = std::vector<float>(40);
  gpu::RowsPlan plan{.rows = {.parts = {bytes(0), bytes(24)},
                              .partition_offsets = {0, 6, 10},
                              .row_bytes = 16,
                              .type = ElementType::kFloat32,
                              .elements = 4}};
  const std::byte* bytes(std::size_t i) const { return reinterpret_cast<const std::byte*>(&values[i]); }
};

TEST(DeviceRows, TakeMemoryForHeldRowsAlone) {
  Ring ring;
  const std::size_t none = serial_reader()(ring.plan)->device_bytes();
  ring.plan.held = {5, 4};
  EXPECT_EQ(serial_reader()(ring.plan)->device_bytes(), none + 2 * 128);  // 80 and 64 bytes
  ring.plan.place = gpu::GraphPlace::kDevice;
  EXPECT_EQ(serial_reader()(ring.plan)->device_bytes(), none + 2 * 128);  // 96 and 64
}

TEST(DeviceRows, OfPlansThatContradictThemselves_AreRefused) {
  const auto refused = [](const auto& change, const std::string& part) {
    Ring ring;
    change(ring.plan);
    expect_refused([&] { serial_reader()(ring.plan); }, part);
  };
  refused([](gpu::RowsPlan& plan) { plan.rows.parts.clear(); }, "rows of 0 partitions have 3 offsets");
  refused([](gpu::RowsPlan& plan) { plan.rows.partition_offsets.pop_back(); },
          "rows of 2 partitions have 2 offsets");
  refused([](gpu::RowsPlan& plan) { plan.rows.stride = 15; }, "rows of 16 bytes cannot lie 15 bytes apart");
  refused([](gpu::RowsPlan& plan) { plan.held = {1}; }, "held rows are given for 1 of 2 partitions");
  refused([](gpu::RowsPlan& plan) { plan.held = {1, 5}; }, "partition 1 has 4 rows and cannot hold 5");
  refused([](gpu::RowsPlan& plan) { plan.held = {-1, 0}; }, "partition 0 has 6 rows and cannot hold -1");
  refused([](gpu::RowsPlan& plan) { plan.rows.partition_offsets[1] = 11; },
          "the offsets of partition 1 fall");
}

TEST(DeviceRows, ThatHaveNoFloats_AreRefused) {
  Ring ring;
  ring.plan.rows.type = ElementType::kInt32;
  expect_refused([&] { serial_reader()(ring.plan)->gather_as_float({1}); },
                 "rows of int32 are not converted on a device", ErrorCode::kUnsupported);
  ring.plan.rows.type = ElementType::kFloat16;
  expect_refused([&] { serial_reader()(ring.plan)->gather_as_float({1}); },
                 "4 elements of float16 do not take 16 bytes");
}

}  // namespace
}  // namespace hopfeed
