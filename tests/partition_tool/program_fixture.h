// Runs hopfeed-partition in a folder of its own: what it makes there, and that refusals leave nothing.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/json_text.h"
#include "core/dataset/npy.h"
#include "tests/partition_tool/run_program.h"

namespace hopfeed {

class PartitionProgram : public ::testing::Test {
 protected:
  /// Runs the program inside the work folder.
  testing::ToolResult run(const std::string& arguments) { return shell("{} " + arguments); }
  testing::ToolResult shell(const std::string& command) {
    return testing::run_shell(scratch_.path(), "cd " + work().string() + "; " + command);
  }
  testing::ToolResult succeed(const std::string& arguments) {
    testing::ToolResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 0) << arguments << "\n" << result.err;
    EXPECT_EQ(result.complaint(), "");
    return result;
  }
  /// Expects one line that has `part` in it, the exit code of bad input, and the work folder as it was.
  void refuse(const std::string& arguments, const std::string& part, int code = 2) {
    refuse_shell("{} " + arguments, part, code);
  }
  void refuse_shell(const std::string& command, const std::string& part, int code) {
    const auto before = testing::listing(work());
    const testing::ToolResult result = shell(command);
    EXPECT_EQ(result.exit_code, code) << command;
    const std::string complaint = result.complaint();
    EXPECT_EQ(std::count(complaint.begin(), complaint.end(), '\n'), 1) << command << "\n" << result.err;
    EXPECT_EQ(complaint.rfind("hopfeed-partition: ", 0), 0U) << complaint;
    EXPECT_NE(complaint.find(part), std::string::npos) << command << "\n" << complaint;
    EXPECT_EQ(testing::listing(work()), before) << command;
  }
  nlohmann::json read_json(const std::string& name) const {
    return parse_json(testing::file_bytes(work() / name));
  }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((work() / name).parent_path());
    std::ofstream(work() / name, std::ios::binary) << text;
  }
  template <class T>
  void save(const std::string& name, const std::vector<T>& items,
            const std::vector<std::int64_t>& shape) const {
    write_npy<T>(work() / name, items, shape);
  }
  void make_small(const std::string& name) {
    succeed("generate " + name + " --nodes 500 --edges 4000 --features 8 --classes 3 --seed 1");
  }
  const std::filesystem::path& work() const { return work_.path(); }
  const testing::TempFolder work_, scratch_;
};

}  // namespace hopfeed
