// What the copy stream asks of a device, and in which order: on a device that writes it down.
#include "trainer/copy_stream.h"

#include <gtest/gtest.h>

#include <memory>

#include "core/base/error.h"
#include "tests/trainer/fake_device.h"

namespace hopfeed {
namespace {

using testing::fake_log;
using testing::fake_stream;
using Log = std::vector<std::string>;

class CopyStreamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fake_log().clear();
    fake_stream() = 0;
  }
  /// Three numbers, kept by whoever keeps `slot_`.
  torch::Tensor on_host() {
    return torch::from_blob(
        slot_->data(), {3}, [slot = slot_](void*) {}, torch::TensorOptions(torch::kInt64));
  }
  /// Since the last call.
  static Log said() { return std::exchange(fake_log(), {}); }

  std::shared_ptr<std::vector<std::int64_t>> slot_ =
      std::make_shared<std::vector<std::int64_t>>(std::vector<std::int64_t>{7, 8, 9});
  torch::Device device_{testing::kFake, 0};
};

TEST_F(CopyStreamTest, CopiesGoOnAStreamOfTheirOwn_WithAnEventBehindThem) {
  CopyStream copies(device_);
  const torch::Tensor copy = copies.run([&] { return copies.copy(on_host()); });
  EXPECT_EQ(said(), (Log{"copy on 1", "event recorded on 1"}));
  EXPECT_EQ(fake_stream(), 0) << "the caller's stream is the current one again";
  EXPECT_EQ(copy.device(), device_);
  EXPECT_EQ(std::memcmp(copy.const_data_ptr(), slot_->data(), 24), 0);
}

TEST_F(CopyStreamTest, TheReadersStreamWaitsForTheEvent_AndTheAllocatorIsToldOfIt) {
  CopyStream copies(device_);
  const std::vector<torch::Tensor> both = copies.run([&] {
    return std::vector<torch::Tensor>{copies.copy(on_host()), copies.copy(on_host())};
  });
  said();
  fake_stream() = 5;
  copies.hand_over();
  EXPECT_EQ(said(), (Log{"5 waits for the event", "memory is read on 5", "memory is read on 5"}));
  copies.hand_over();
  EXPECT_EQ(said(), (Log{"5 waits for the event"})) << "of what was handed over nothing is kept";
}

TEST_F(CopyStreamTest, TheSlotIsLetGoBehindTheHostsWait) {
  CopyStream copies(device_);
  const torch::Tensor copy = copies.run([&] { return copies.copy(on_host()); });
  copies.hand_over();
  EXPECT_EQ(slot_.use_count(), 2) << "handing over does not wait";
  said();
  copies.release();
  EXPECT_EQ(said(), (Log{"the host waits for the event"}));
  EXPECT_EQ(slot_.use_count(), 1);
}

TEST_F(CopyStreamTest, ItsEndWaitsForCopiesThatNobodyTook) {
  {
    CopyStream copies(device_);
    copies.run([&] { return copies.copy(on_host()); });
    said();
  }
  EXPECT_EQ(said(), (Log{"the host waits for the event"}));
  EXPECT_EQ(slot_.use_count(), 1);
}

TEST_F(CopyStreamTest, WhereABodyThrows_TheEventIsBehindWhatItHadBegun) {
  CopyStream copies(device_);
  EXPECT_THROW(copies.run([&]() -> int {
    copies.copy(on_host());
    throw Error(ErrorCode::kCorrupt, "a block");
  }),
               Error);
  EXPECT_EQ(said(), (Log{"copy on 1", "event recorded on 1"}));
  EXPECT_EQ(fake_stream(), 0);
  copies.release();
  EXPECT_EQ(slot_.use_count(), 1);
}

TEST_F(CopyStreamTest, WithoutCopiesNothingIsWaitedFor) {
  CopyStream copies(device_);
  copies.hand_over();
  copies.release();
  EXPECT_EQ(said(), Log{});
}

}  // namespace
}  // namespace hopfeed
