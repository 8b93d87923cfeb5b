// Folders of state: one for each dataset, whatever it is called, and one line for what cannot be.
#include "server_client_mode/server/state_room.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "tests/support/dataset_files.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

std::string title(const std::string& name) {
  DatasetMeta meta;
  meta.name = name;
  meta.fingerprint = "0123456789abcdef0123456789abcdef";
  return state_title(meta);
}

class StateFolders : public ::testing::Test {
 protected:
  StateFolders() {
    for (const char* name : {"one", "two"})
      testing::write_tiny_dataset(
          folder_.path() / name,
          testing::random_graph({.num_nodes = 20, .num_edges = name[0] == 'o' ? 40 : 50, .num_train = 5}));
  }
  ServedDatasets served() const {
    return ServedDatasets({(folder_.path() / "one").string(), (folder_.path() / "two").string()});
  }
  std::string refusal(const std::filesystem::path& parent) const {
    try {
      make_state_folders(parent.string(), served());
    } catch (const Error& error) {
      return error.what();
    }
    return "made";
  }

  testing::TempFolder folder_;
};

TEST(StateTitle, IsFitForAFolderWhateverTheDatasetIsCalled) {
  EXPECT_EQ(title("ogbn-products"), "ogbn-products-01234567");
  EXPECT_EQ(title("../etc/x y"), "_._etc_x_y-01234567");
  EXPECT_EQ(title(std::string(256, 'a')), std::string(128, 'a') + "-01234567");
}

TEST_F(StateFolders, AreMadeForEachDataset_AndAgainByAnotherServer) {
  const std::filesystem::path parent = folder_.path() / "deep" / "state";
  const std::vector<std::filesystem::path> made = make_state_folders(parent.string(), served());
  ASSERT_EQ(made.size(), 2U);
  EXPECT_NE(made[0], made[1]) << "of one name, and two contents";
  for (const std::filesystem::path& folder : made) {
    EXPECT_EQ(folder.parent_path(), parent);
    EXPECT_TRUE(folder.is_absolute());
    EXPECT_TRUE(std::filesystem::is_empty(folder)) << "the trial leaves nothing";
  }
  EXPECT_EQ(make_state_folders(parent.string(), served()), made);
}

TEST_F(StateFolders, WhatCannotBeWrittenIsOneLineThatNamesIt) {
  const std::filesystem::path file = folder_.path() / "file";
  std::ofstream(file) << "text";
  EXPECT_EQ(refusal(file).find("--state: cannot make the folder " + file.string()), 0U) << refusal(file);
  if (geteuid() == 0) return;  // who may write everywhere
  const std::filesystem::path locked = folder_.path() / "locked";
  make_state_folders(locked.string(), served());
  for (const auto& entry : std::filesystem::directory_iterator(locked))
    std::filesystem::permissions(entry,
                                 std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  EXPECT_EQ(refusal(locked).find("--state: cannot write " + locked.string()), 0U) << refusal(locked);
}

}  // namespace
}  // namespace hopfeed
