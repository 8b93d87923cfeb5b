// The batch block: a golden file, and every byte of a head changed must be refused or leave a block that
// stays in its bounds.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/batch/block_file.h"
#include "core/batch/block_writer.h"
#include "tests/support/dataset_files.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;
using testing::file_bytes;

testing::Block ring_batch(ElementType x_type = ElementType::kFloat32) {
  testing::TempFolder folder;
  auto graph = testing::ring_graph(6);
  graph.x_width = 3;
  for (int i = 0; i < 18; ++i) graph.x.push_back(static_cast<float>(i) / 2);
  graph.x_type = x_type;
  graph.y = {0, 1, 2, 0, 1, 2};
  graph.num_classes = 3;
  testing::write_tiny_dataset(folder.path() / "ring", graph);
  const Dataset dataset(folder.path() / "ring");
  return testing::make_batch(dataset, {.seeds = {0, 1, 2, 3}, .shuffle = true},
                             {.fanouts = {1, 2}, .edge_ids = true}, 42);
}

void expect_golden_block(const testing::Block& block, const std::string& name) {
  const fs::path golden = testing::golden(name);
  if (testing::stores_golden()) store_block(block.view(), golden);
  const std::string expected = file_bytes(golden);
  ASSERT_EQ(block.size(), expected.size());
  EXPECT_EQ(std::memcmp(block.memory.bytes().data(), expected.data(), expected.size()), 0)
      << "the layout or the draws have changed; if that was meant, raise kBlockVersion and run this test "
         "with HOPFEED_STORE_GOLDEN=1";
}

TEST(BatchBlock, EqualsTheGoldenFile) { expect_golden_block(ring_batch(), "ring_batch.block"); }

TEST(BatchBlock, WithRowsThatHaveAScale_EqualsTheGoldenFilesOfTheNextVersion) {
  expect_golden_block(ring_batch(ElementType::kInt8Scaled), "ring_batch_int8.block");
  expect_golden_block(ring_batch(ElementType::kInt4Scaled), "ring_batch_int4.block");
}

TEST(BatchBlock, IsStoredWholeAndRead) {
  const auto block = ring_batch();
  testing::TempFolder folder;
  store_block(block.view(), folder.path() / "b.block");
  EXPECT_EQ(file_bytes(folder.path() / "b.block"),
            std::string(reinterpret_cast<const char*>(block.memory.bytes().data()), block.size()));
  store_block(block.view(), folder.path() / "b.npz");
  const std::string npz = file_bytes(folder.path() / "b.npz");
  EXPECT_EQ(npz.substr(0, 4), "PK\3\4");
  for (const char* name : {"x.npy", "y.npy", "edge_index.npy", "n_id.npy", "input_id.npy", "batch_size.npy",
                           "num_sampled_nodes.npy"}) {
    EXPECT_NE(npz.find(name), std::string::npos) << name;
  }
  const auto scaled = ring_batch(ElementType::kInt4Scaled);
  store_block(scaled.view(), folder.path() / "scaled.npz");
  EXPECT_NE(file_bytes(folder.path() / "scaled.npz")
                .find(fmt::format("'descr': '|u1', 'fortran_order': False, 'shape': ({}, 6)",
                                  scaled.view().num_nodes())),
            std::string::npos);
  EXPECT_THROW(store_block(block.view(), folder.path() / "missing/b.npz"), Error);
  EXPECT_THROW(store_block(block.view(), folder.path() / "missing/b.block"), Error);
}

TEST(BatchBlock, NodesAndEdgesWithAnAttributeOfOneName_AreStoredByTheirTypesToo) {
  const testing::TempFolder folder;
  testing::write_typed_dataset(
      folder.path() / "data",
      {.nodes = {{.name = "node", .count = 2, .time = {3, 4}}},
       .edges = {{.sources = {0}, .destinations = {1}, .time = {5}, .in_order_of_time = false}}});
  const Dataset dataset(folder.path() / "data");
  const auto block = testing::make_batch(dataset, {.seeds = {1}}, {.fanouts = {1}, .edge_attrs = {"time"}});
  store_block(block.view(), folder.path() / "b.npz");
  const std::string npz = file_bytes(folder.path() / "b.npz");
  for (const char* name : {"node0.time.npy", "edge0.time.npy", "n_id.npy"})
    EXPECT_NE(npz.find(name), std::string::npos) << name;
  EXPECT_EQ(npz.find("node0.n_id"), std::string::npos);
}

// A copy that a test may damage.
struct Damaged {
  explicit Damaged(const testing::Block& block) : copy{.memory = AlignedBlock(block.size())} {
    std::ranges::copy(block.memory.bytes(), data());
  }
  std::byte* data() { return copy.memory.bytes().data(); }
  BlockHeader& header() { return *reinterpret_cast<BlockHeader*>(data()); }
  BlockEntry& entry(int i) { return reinterpret_cast<BlockEntry*>(data() + sizeof(BlockHeader))[i]; }
  testing::Block copy;
};

template <class Change>
ErrorCode error_after(Change change, ElementType x_type = ElementType::kFloat32) {
  Damaged damaged(ring_batch(x_type));
  change(damaged);
  try {
    damaged.copy.view();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "the damage was not seen";
  return ErrorCode::kIo;
}

TEST(BatchBlock, DamageIsRefused) {
  EXPECT_EQ(error_after([](Damaged& d) { d.header().magic ^= 1; }), ErrorCode::kCorrupt);
  EXPECT_EQ(error_after([](Damaged& d) { d.header().version = kScaledBlockVersion + 1; }),
            ErrorCode::kVersion);
  EXPECT_EQ(error_after([](Damaged& d) { d.header().bytes += 64; }), ErrorCode::kCorrupt);
  EXPECT_EQ(error_after([](Damaged& d) { d.header().bytes = UINT64_MAX; }), ErrorCode::kCorrupt);
  EXPECT_EQ(error_after([](Damaged& d) { d.header().num_arrays = 1'000'000'000; }), ErrorCode::kCorrupt);
  EXPECT_EQ(error_after([](Damaged& d) { d.entry(0).element_type = 99; }), ErrorCode::kCorrupt);
  EXPECT_EQ(error_after([](Damaged& d) { d.entry(0).num_dims = 5; }), ErrorCode::kCorrupt);
  EXPECT_EQ(error_after([](Damaged& d) { d.entry(0).shape[0] = -1; }), ErrorCode::kCorrupt);
  EXPECT_EQ(error_after([](Damaged& d) { d.entry(0).shape[0] += 1; }), ErrorCode::kCorrupt);
  EXPECT_EQ(error_after([](Damaged& d) { d.entry(0).shape[3] = 1; }), ErrorCode::kCorrupt);
  EXPECT_EQ(error_after([](Damaged& d) { d.entry(1).offset = d.entry(0).offset; }), ErrorCode::kCorrupt);
  EXPECT_EQ(error_after([](Damaged& d) { d.entry(1).offset += 8; }), ErrorCode::kCorrupt);
  EXPECT_EQ(error_after([](Damaged& d) { d.entry(1).offset = UINT64_MAX - 63; }), ErrorCode::kCorrupt);
  EXPECT_EQ(error_after([](Damaged& d) { std::memset(d.entry(0).name, 'a', sizeof(d.entry(0).name)); }),
            ErrorCode::kCorrupt);
  EXPECT_EQ(error_after([](Damaged& d) { d.entry(0).store = 7; }), ErrorCode::kCorrupt);
  EXPECT_EQ(error_after([](Damaged& d) { d.entry(0).type = 3; }), ErrorCode::kCorrupt);
  EXPECT_EQ(error_after([](Damaged& d) { d.entry(0).shape[0] = std::int64_t{1} << 62; }),
            ErrorCode::kCorrupt);
}

TEST(BatchBlock, DamageOfRowsWithAScaleIsRefused) {
  const auto entry_of_x = [](Damaged& d) -> BlockEntry& {
    int i = 0;
    while (std::strcmp(d.entry(i).name, "x") != 0) ++i;
    return d.entry(i);
  };
  for (const ElementType type : {ElementType::kInt8Scaled, ElementType::kInt4Scaled}) {
    const auto refused = [&](auto change) {
      EXPECT_EQ(error_after([&](Damaged& d) { change(entry_of_x(d)); }, type), ErrorCode::kCorrupt);
    };
    refused([](BlockEntry& x) { x.shape[1] += 2; });
    refused([](BlockEntry& x) { x.bytes -= 1; });
    refused([](BlockEntry& x) { x.shape[1] = std::numeric_limits<std::int64_t>::max(); });
    refused([](BlockEntry& x) { x.num_dims = 0, x.shape[0] = x.shape[1] = 0, x.bytes = 4; });
    refused([](BlockEntry& x) { x.num_dims = 1, x.shape[1] = 0; });
    EXPECT_EQ(error_after([](Damaged& d) { d.header().version = kBlockVersion; }, type), ErrorCode::kCorrupt);
  }
  EXPECT_EQ(error_after([](Damaged& d) { d.header().version = kScaledBlockVersion; }), ErrorCode::kCorrupt);
}

// No memory is that large: the spans say so, and of a block only its head is read.
TEST(BatchBlock, LongerThanAnyBlockMayBe_IsRefused) {
  Damaged damaged(ring_batch());
  damaged.header().bytes = kMaxBlockBytes;
  EXPECT_EQ(BatchView({damaged.data(), kMaxBlockBytes}).bytes().size(), kMaxBlockBytes);
  damaged.header().bytes = kMaxBlockBytes + kBlockAlignment;
  try {
    BatchView({damaged.data(), kMaxBlockBytes + kBlockAlignment});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
  }
}

// Bounds of samplers saturate far above what blocks can hold; a planned size must stay there and not wrap to
// a small one.
TEST(BatchBlock, SizesThatAreOnlyPlannedDoNotWrap) {
  const std::int64_t many = std::int64_t{1} << 50, odd = many + 1;
  for (const BlockShape& shape :
       {BlockShape{many}, {many, many}, {many, 1 << 14}, {1 << 14, 1 << 14, many}, {odd, many}}) {
    BlockWriter writer;
    for (int array = 0; array < 100; ++array) writer.add({.name = "a", .shape = shape});
    EXPECT_GT(writer.bytes(), kMaxBlockBytes);
  }
  BlockWriter writer;
  EXPECT_THROW(writer.add({.name = "a", .shape = {3, -1}}), Error);
  EXPECT_THROW(writer.add({.name = "a", .shape = {1, 1, 1, 1, 1}}), Error);
  EXPECT_THROW(writer.add({.name = "a", .element = ElementType::kInt8Scaled, .shape = {}}), Error);
  EXPECT_THROW(quantised_rows(ring_batch().view().get("x", Store::kNode)), Error);
}

TEST(BatchBlock, EveryBitOfTheHeadIsRefusedOrStaysInBounds) {
  for (const ElementType type : {ElementType::kFloat32, ElementType::kInt4Scaled}) {
    const auto whole = ring_batch(type);
    const std::size_t head =
        sizeof(BlockHeader) + static_cast<std::size_t>(whole.view().num_arrays()) * sizeof(BlockEntry);
    for (std::size_t at = 0; at < head; ++at) {
      for (int bit = 0; bit < 8; ++bit) {
        Damaged damaged(whole);
        damaged.data()[at] ^= static_cast<std::byte>(1 << bit);
        try {
          const BatchView view = damaged.copy.view();
          for (int i = 0; i < view.num_arrays(); ++i) {
            const ArrayView array = view.array(i);
            EXPECT_LE(array.bytes.data() + array.bytes.size(), damaged.data() + damaged.copy.size());
          }
        } catch (const Error&) {
        }
      }
    }
  }
}

TEST(BatchBlock, ATruncatedOrMisplacedBlockIsRefused) {
  const auto block = ring_batch();
  for (std::size_t length :
       {std::size_t{0}, std::size_t{64}, sizeof(BlockHeader), block.size() - 64, block.size() - 1}) {
    EXPECT_THROW(BatchView({block.memory.bytes().data(), length}), Error) << length;
  }
  Damaged longer(block);
  EXPECT_THROW(BatchView({longer.data() + 8, block.size() - 8}), Error);
}

}  // namespace
}  // namespace hopfeed
