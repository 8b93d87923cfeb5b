// Tests of the training programs share this: runs as a user starts them, what they leave, and what they say
// to bad input.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/processes.h"
#include "tests/support/tiny_dataset.h"
#include "tests/trainer/processes.h"
#include "tests/trainer/training_options.h"
#include "tests/worker_mode/trace_check.h"

namespace hopfeed {

using testing::program;
using testing::TempFolder;
using trainer_tests::ProgramResult;
using trainer_tests::run_program;

/// Returns null where there is no such file.
inline nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return file ? nlohmann::json::parse(file) : nlohmann::json();
}

inline std::vector<double> epoch_losses(const nlohmann::json& summary) {
  std::vector<double> losses;
  for (const nlohmann::json& row : summary.at("epoch_rows")) losses.push_back(row.at("loss"));
  return losses;
}

/// Expects a failure, told in one line of the program that holds `what`.
inline void expect_refused(const ProgramResult& result, const std::string& program, const std::string& what) {
  EXPECT_NE(result.status, 0);
  EXPECT_LT(result.status, 128) << "died of a signal";
  EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1) << result.output;
  EXPECT_EQ(result.output.rfind(program + ": ", 0), 0U) << result.output;
  EXPECT_NE(result.output.find(what), std::string::npos) << result.output;
}

/// Starts two trainers of `command` with --trace and checks that the one file in the empty folder `out` has
/// the track of each trainer, and of a worker for the training and the validation of each of `models`.
inline void expect_trace_of_two_trainers(std::vector<std::string> command, const std::filesystem::path& out,
                                         const std::vector<std::string>& models) {
  std::filesystem::create_directory(out);
  command.insert(command.end(), {"--trace", (out / "trace.json").string()});
  for (const ProgramResult& result : trainer_tests::run_ranks(command, 2))
    ASSERT_EQ(result.status, 0) << result.output;
  const testing::TraceSummary trace = testing::check_trace(out / "trace.json");
  for (const std::string rank : {"0 ", "1 "}) {
    EXPECT_TRUE(trace.tracks.contains(rank + "trainer"));
    for (const std::string& model : models)
      for (const char* split : {" train", " valid"})
        EXPECT_TRUE(trace.tracks.contains(rank + model + split + " worker 0")) << rank << model << split;
  }
  EXPECT_EQ(trace.tracks.size(), 2 * (1 + 2 * models.size()));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(out), {}), 1) << "one file for all ranks";
}

}  // namespace hopfeed
