// Datasets whose rows have a scale: a golden one, and what does not fit its manifest.
#include <gtest/gtest.h>

#include <string>

#include "core/base/error.h"
#include "core/dataset/dataset.h"
#include "tests/support/dataset_files.h"
#include "tests/support/expect_refused.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;
using testing::file_bytes;
using testing::verify;
using testing::write_bytes;

TEST(RowsWithAScale, ADatasetOfThem_IsReadAndWrittenByteByByte) {
  testing::TempFolder folder;
  const fs::path made = folder.path() / "ring";
  testing::TinyGraph graph = testing::labelled_ring();
  graph.x_type = ElementType::kInt4Scaled;
  testing::write_tiny_dataset(made, graph);
  testing::expect_golden(made, "ring-v8");
  EXPECT_EQ(Dataset(testing::golden("ring-v8")).meta().version(), kScaledDatasetVersion);
}

// The files are whole by their checksums.
TEST(RowsWithAScale, ThatAreNotWhatTheManifestSays_AreFound) {
  for (const ElementType type : {ElementType::kInt8Scaled, ElementType::kInt4Scaled}) {
    testing::TempFolder folder;
    const fs::path data = folder.path() / "ring";
    testing::TinyGraph graph = testing::labelled_ring();
    graph.x_type = type;
    testing::write_tiny_dataset(data, graph);
    const DatasetMeta whole = Dataset(data).meta();
    const auto with_meta = [&](auto change) {
      DatasetMeta meta = whole;
      change(meta.node_types[0].attrs[0]);
      write_bytes(data / "meta.json", seal_meta(format_meta(meta)));
    };
    const auto refused = [&](const std::string& message) {
      expect_refused([&] { verify(data); }, message, ErrorCode::kCorrupt);
    };
    with_meta([](AttrMeta& x) { x.shape = {9}; });
    refused("has a stride that is shorter than a row");
    with_meta([](AttrMeta& x) { x.shape = {9}, x.stride_bytes = x.row_bytes(); });
    refused("nodes/node/x.npy: its shape is");
    with_meta([](AttrMeta& x) { x.shape = {1 << 24, 1 << 24}; });
    refused("has rows that are too wide");
    with_meta([](AttrMeta& x) { x.shape = {2}; });
    refused("the content's fingerprint is");
    with_meta([](AttrMeta& x) { x.type = ElementType::kUint8; });
    refused("the content's fingerprint is");
    with_meta([](AttrMeta&) {});
    std::string meta = file_bytes(data / "meta.json");
    meta.replace(meta.find("\"version\": 8"), 12, "\"version\": 7");
    write_bytes(data / "meta.json", seal_meta(meta));
    refused("has what its version does not know: rows with a scale");
    with_meta([](AttrMeta&) {});
    verify(data);
    testing::change_file(data, "part-0000/nodes/node/x.npy",
                         [](std::byte* first) { first[3] = std::byte{0x80}; });
    refused("nodes/node/x.npy: row 0 is no row of ");
  }
}

}  // namespace
}  // namespace hopfeed
