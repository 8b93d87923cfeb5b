// What the program says of an import that it reads otherwise than it seems, and of places where no dataset
// can be.
#include "tests/partition_tool/program_fixture.h"

namespace hopfeed {
namespace {

using testing::ToolResult;

TEST_F(PartitionProgram, WhatAnImportReadsOtherwiseThanItSeems_IsOneLineOfOutput) {
  save<std::int64_t>("pairs.npy", {0, 1, 1, 2, 2, 0}, {3, 2});
  save<std::int64_t>("twice.npy", {2, 1, 2}, {3});
  EXPECT_NE(
      succeed("import numpy pairs --edge-index pairs.npy")
          .out.find(
              "\npairs.npy: its shape is [3, 2], read as [E, 2]: source and destination of each edge\n"),
      std::string::npos);
  const ToolResult made = run("import numpy twice --edge-index pairs.npy --train twice.npy");
  EXPECT_EQ(made.exit_code, 0);
  EXPECT_EQ(made.complaint(),
            "hopfeed-partition: warning: split 'train' has 1 repeated ids, the first of "
            "them 2; all "
            "are kept, so these nodes are seeds more than once in an epoch\n");
}

TEST_F(PartitionProgram, AFolderThatCannotBe_IsRefusedBeforeTheWorkAndNoParentStays) {
  refuse("generate a/b/d --nodes 5 --edges 5 --features 1 --classes 2 --seed 1 --threads 1 --fanouts -2",
         "fanout");
  save<std::int64_t>("e.npy", {0, 1, 1, 9}, {2, 2});
  refuse("import numpy a/b/d --edge-index e.npy --num-nodes 3", "e.npy: edge 1 has destination node 9");
  refuse_shell("ln -s nowhere link; {} import numpy link --edge-index e.npy; code=$?; rm link; exit $code",
               "link is a symbolic link to nowhere, which is not there", 2);
  refuse("import numpy \"$(printf 'd\\377')\" --edge-index e.npy", "d\\xff' has a name that is not UTF-8");
  refuse("inspect e.npy", "e.npy is a file; name the dataset's folder");
}

}  // namespace
}  // namespace hopfeed
