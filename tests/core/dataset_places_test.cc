// Where a dataset may be made and found: what a failed writer leaves of the way there, links, names, files in
// place of folders.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/dataset/dataset.h"
#include "core/dataset/dataset_writer.h"
#include "tests/support/expect_refused.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;

class DatasetPlaces : public ::testing::Test {
 protected:
  DatasetPlaces() {
    testing::write_tiny_dataset(
        data_, testing::random_graph({.num_nodes = 20, .num_edges = 60, .num_train = 5, .seed = 2}));
  }
  static void write_bytes(const fs::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  const testing::TempFolder temp_;
  const fs::path data_ = temp_.path() / "data";
};

TEST_F(DatasetPlaces, ParentsThatAWriterMade_GoWithWhatItDidNotFinish) {
  const fs::path kept = temp_.path() / "kept";
  fs::create_directory(kept);
  { const DatasetWriter writer(kept / "made/deeper/d"); }
  EXPECT_TRUE(fs::is_empty(kept)) << "and what was there before stays";
  {
    const DatasetWriter writer(kept / "made/deeper/d");
    write_bytes(kept / "made/letter.txt", "dear");
  }
  EXPECT_TRUE(fs::exists(kept / "made/letter.txt")) << "what another put there is not ours";
  EXPECT_FALSE(fs::exists(kept / "made/deeper"));
}

TEST_F(DatasetPlaces, ALinkThatLeadsNowhere_IsRefusedBeforeTheWork) {
  const fs::path link = temp_.path() / "link";
  fs::create_symlink("nowhere", link);
  expect_refused(
      [&] { DatasetWriter writer(link); },
      "link is a symbolic link to nowhere, which is not there; remove the link or name another folder");
  EXPECT_TRUE(fs::is_symlink(link));
}

TEST_F(DatasetPlaces, ANameThatIsNotUtf8_IsRefusedWhereverADatasetIsMadeOrOpened) {
  const fs::path odd = temp_.path() / "d\xff";
  const std::string said =
      "d\\xff' has a name that is not UTF-8, which reports and workers cannot carry; give the "
      "folder another name";
  expect_refused([&] { DatasetWriter writer(odd); }, said);
  EXPECT_FALSE(fs::exists(odd));
  fs::copy(data_, odd, fs::copy_options::recursive);
  expect_refused([&] { Dataset dataset(odd); }, said);
  fs::remove_all(odd);
  EXPECT_NO_THROW(DatasetWriter(temp_.path() / "d\xc3\xbc"));
}

TEST_F(DatasetPlaces, AFileInPlaceOfAFolder_IsCalledAFile) {
  expect_refused([&] { Dataset dataset(data_ / "meta.json"); },
                 "meta.json is a file; name the dataset's folder, which has the meta.json in it");
}

TEST_F(DatasetPlaces, AManifestThatIsNoJson_IsToldByLineAndColumn) {
  write_bytes(data_ / "meta.json", "{\n \"format\": }");
  expect_refused([&] { Dataset dataset(data_); },
                 "meta.json is no valid JSON: line 2, column 12: ", ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace hopfeed
