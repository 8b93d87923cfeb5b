// hopfeed-partition where its surroundings lack what programs take for granted.
#include "tests/partition_tool/program_fixture.h"
#include "tests/support/processes.h"

namespace hopfeed {
namespace {

using testing::ToolResult;

/// Every file of a dataset but meta.json, which names the command line.
std::map<std::string, std::string> arrays_of(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files = testing::files_of(folder);
  files.erase("meta.json");
  return files;
}

// The next file that is opened would get the number of the one that is closed, and what is printed with it.
TEST_F(PartitionProgram, StandardDescriptorsClosed_DatasetAndReportAreTheSame) {
  const std::string sizes = " --nodes 2000 --edges 20000 --features 8 --classes 3 --seed 1";
  succeed("generate usual --json usual.json" + sizes);
  const auto usual = arrays_of(work() / "usual");
  for (const std::string closed : {"<&-", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"}) {
    const ToolResult made = shell("{} generate d --json d.json --overwrite" + sizes + " " + closed);
    EXPECT_EQ(made.exit_code, 0) << closed << ": " << made.err;
    EXPECT_EQ(made.complaint(), "") << closed;
    EXPECT_TRUE(arrays_of(work() / "d") == usual) << closed;
    EXPECT_EQ(read_json("d.json")["fingerprint"], read_json("usual.json")["fingerprint"]) << closed;
    succeed("verify d");
    const ToolResult cut = shell("{} partition d two --parts 2 --overwrite " + closed);
    EXPECT_EQ(cut.exit_code, 0) << closed << ": " << cut.err;
    succeed("verify two");
  }
}

TEST_F(PartitionProgram, NoThreadAndNoProcessCanBeStarted_DatasetsAreTheSame) {
  std::filesystem::permissions(work(), std::filesystem::perms::all);
  const std::string sizes = " --nodes 2000 --edges 20000 --features 8 --classes 3 --seed 1 --threads 8";
  succeed("generate d" + sizes);
  succeed("partition d two --parts 2 --threads 8");
  const std::string alone = testing::without_more_processes();
  for (const std::string& command :
       {"generate e" + sizes, std::string("partition d cut --parts 2 --threads 8 --json cut.json")}) {
    const ToolResult made = shell(alone + "{} " + command);
    EXPECT_EQ(made.exit_code, 0) << command << ": " << made.err;
    EXPECT_EQ(made.complaint(), "") << command;
  }
  EXPECT_TRUE(arrays_of(work() / "e") == arrays_of(work() / "d"));
  EXPECT_TRUE(arrays_of(work() / "cut") == arrays_of(work() / "two"));
  EXPECT_GT(read_json("cut.json")["edges_cut"], 0);
  // What is measured of threads needs them.
  const ToolResult tuned = shell(alone + "{} tune d --seconds 0.05 --num-workers 4 --batch-size 16");
  EXPECT_EQ(tuned.exit_code, 1);
  EXPECT_NE(
      tuned.complaint().find("cannot start a thread that makes batches: Resource temporarily unavailable; "
                             "raise the limit on processes and threads (ulimit -u"),
      std::string::npos)
      << tuned.err;
}

}  // namespace
}  // namespace hopfeed
