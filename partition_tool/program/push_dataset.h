// hopfeed-partition push brings to each machine what it needs of a dataset. There
//
//   .meta.json.pushing   comes first, with the manifest's text: an interrupted push is known by it
//   all other files      then
//   meta.json            last, when all else was compared by checksums; the former goes with it
//
// so a folder with meta.json is whole, as one that hopfeed-partition has made here.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "partition_tool/program/push_plan.h"

namespace hopfeed {

struct PushOptions {
  std::string folder;
  std::vector<std::string> to;  // push_plan.h
  std::string ssh = "ssh", json;
  std::int64_t timeout = 60;
  std::size_t bandwidth = 0;
  bool checksum = false, dry_run = false;
  PushParts parts;
};

/// Checks every machine before anything is written on one. Throws what plan_push and Rsync throw; kInvalid
/// where a folder there holds something else; kCorrupt naming a file that differs there after all was sent.
void push_dataset(const PushOptions& options);

}  // namespace hopfeed
