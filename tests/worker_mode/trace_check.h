// Every trace must be JSON, have each batch by all of its four events, and no two events of a track at the
// same time.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace hopfeed::testing {

struct TraceSummary {
  std::set<std::string> tracks;  // "0 train worker 1": rank and name
  std::size_t batches = 0;       // different ones, of all ranks and loaders
  std::size_t made = 0;          // more where an epoch ran twice, as in validation
  std::set<std::int64_t> epochs, ranks;
};

/// Checks a trace and says what is in it. A batch is told from another by rank, epoch, first and the loader
/// that made it; `trainer` tracks do not name the loader, so there batches are only counted.
inline TraceSummary check_trace(const std::filesystem::path& path) {
  std::ifstream file(path);
  const nlohmann::json trace = nlohmann::json::parse(file);
  EXPECT_TRUE(trace.is_array());
  TraceSummary summary;
  std::map<std::pair<int, int>, std::string> names;
  for (const auto& event : trace) {
    if (event.at("name") == "thread_name")
      names[{event.at("pid"), event.at("tid")}] = event.at("args").at("name").get<std::string>();
  }
  for (const auto& [track, name] : names) summary.tracks.insert(std::to_string(track.first) + " " + name);

  using Batch = std::tuple<int, std::string, std::int64_t, std::int64_t>;  // rank, loader, epoch, first
  std::map<std::string, std::multiset<Batch>> batches;                     // by the event's name
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> spans;
  for (const auto& event : trace) {
    if (event.at("ph") != "X") continue;
    const std::pair<int, int> track{event.at("pid"), event.at("tid")};
    const double begin = event.at("ts"), duration = event.at("dur");
    EXPECT_GE(duration, 0) << event;
    EXPECT_TRUE(names.contains(track)) << event;
    spans[track].push_back({begin, begin + duration});
    const std::string loader = names[track].substr(0, names[track].find(" worker"));
    batches[event.at("name")].insert(
        {track.first, loader, event.at("args").at("epoch"), event.at("args").at("first")});
    summary.epochs.insert(event.at("args").at("epoch").get<std::int64_t>());
    summary.ranks.insert(track.first);
  }
  for (auto& [track, list] : spans) {
    std::sort(list.begin(), list.end());
    for (std::size_t i = 1; i < list.size(); ++i)
      EXPECT_LE(list[i - 1].second, list[i].first + 0.0015)
          << names[track] << ", event " << i;  // ns in print
  }
  EXPECT_EQ(batches["sample"], batches["gather"]);
  EXPECT_EQ(batches["wait"], batches["use"]);
  EXPECT_EQ(batches["sample"].size(), batches["wait"].size());
  const std::set<Batch> once(batches["sample"].begin(), batches["sample"].end());
  summary.made = batches["sample"].size();
  summary.batches = once.size();
  return summary;
}

}  // namespace hopfeed::testing
