// Memory near a GPU: what sysfs says, in folders made for it, and that a wish is only one.
#include "gpu/memory/near_gpu.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <fstream>

#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

class NearGpu : public ::testing::Test {
 protected:
  void say(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((sys_.path() / file).parent_path());
    std::ofstream(sys_.path() / file) << text;
  }
  std::optional<int> node() const { return gpu::memory_node_of("0000:C1:00.0", sys_.path()); }

  testing::TempFolder sys_;
};

TEST_F(NearGpu, IsTheNodeThatItsBusSays) {
  say("devices/system/node/online", "0-1\n");
  say("bus/pci/devices/0000:c1:00.0/numa_node", "1\n");
  EXPECT_EQ(node(), 1);
}

TEST_F(NearGpu, IsNothingWhereNobodyKnowsOrThereIsOneNode) {
  EXPECT_EQ(node(), std::nullopt) << "no sysfs at all";
  say("devices/system/node/online", "0\n");
  say("bus/pci/devices/0000:c1:00.0/numa_node", "0\n");
  EXPECT_EQ(node(), std::nullopt) << "one node";
  say("devices/system/node/online", "0,2\n");
  EXPECT_EQ(node(), 0);
  for (const char* text : {"-1\n", "", "four\n", "99999999999\n", "1024\n"}) {
    say("bus/pci/devices/0000:c1:00.0/numa_node", text);
    EXPECT_EQ(node(), std::nullopt) << text;
  }
}

TEST(MemoryNode, IsAWish_AndMemoryComesWhateverItIs) {
  constexpr std::size_t kBytes = 1 << 20;
  for (const int node : {0, 63, 1023}) {
    void* const at = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(at, MAP_FAILED);
    gpu::prefer_memory_node(at, kBytes, node);
    std::memset(at, 7, kBytes);
    EXPECT_EQ(static_cast<const char*>(at)[kBytes - 1], 7);
    munmap(at, kBytes);
  }
}

}  // namespace
}  // namespace hopfeed
