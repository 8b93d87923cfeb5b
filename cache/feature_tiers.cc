// See feature_tiers.h.
#include "cache/feature_tiers.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/field_visitor.h"

namespace hopfeed {
namespace {

/// A batch of so many reads most of what a small cache holds; but not of rows of other partitions alone.
constexpr std::int64_t kManySeeds = 512;
constexpr std::int64_t kShortWindow = 4, kLongWindow = 16;

}  // namespace

std::string to_string(FeaturesFrom from) { return from == FeaturesFrom::kFile ? "file" : "memory"; }

FeaturesFrom features_from(const std::string& name) {
  if (name == "memory") return FeaturesFrom::kMemory;
  if (name == "file") return FeaturesFrom::kFile;
  throw Error(ErrorCode::kInvalid,
              fmt::format("features from '{}' cannot be had; choose memory or file", name));
}

void FeatureTiers::visit(FieldVisitor& fields) {
  fields.choice(
      {.name = "features_from",
       .help = "Where rows of features are read from: memory, that is mapped files, or file, for features "
               "larger than memory",
       .group = "features",
       .of_workers = true},
      {.names = {"memory", "file"},
       .get = [this] { return to_string(from); },
       .set = [this](const std::string& name) { from = features_from(name); }});
  fields.bytes(
      {.name = "row_cache_bytes",
       .help = "With `features_from` file, or `peers`: memory for rows that batches will soon need again, "
               "shared by all workers; 0: none",
       .option = "--row-cache",
       .group = "features",
       .of_workers = true},
      row_cache_bytes);
  fields.whole(
      {.name = "window",
       .help = "With `row_cache_bytes`: batches that a worker samples ahead, so that it is known which rows "
               "are needed soon; -1: 4, and 16 where batches have less than 512 seeds or with `peers`",
       .group = "features",
       .of_workers = true},
      window, {-1, kMaxWindow});
}

void FeatureTiers::validate(bool some_partitions) const {
  require_valid(!some_partitions || from == FeaturesFrom::kMemory,
                "where this machine has some partitions, their rows are in memory and others are asked for; "
                "take features from memory");
  require_valid(
      row_cache_bytes == 0 || from == FeaturesFrom::kFile || some_partitions,
      fmt::format("a row cache ({}) holds rows that are read from files, or of other machines; take features "
                  "from file, or leave it out",
                  marked("row_cache_bytes")));
  require_valid(window >= -1 && window <= kMaxWindow,
                fmt::format("{} is {}; choose 0 to {} batches, or -1 for 4 or 16", marked("window"), window,
                            kMaxWindow));
  require_valid(window <= 0 || row_cache_bytes > 0,
                fmt::format("a window of batches serves the row cache; give {}, or leave {} out",
                            marked("row_cache_bytes"), marked("window")));
}

std::int64_t FeatureTiers::window_for(std::int64_t seeds, std::int64_t num_workers,
                                      bool some_partitions) const {
  if (row_cache_bytes == 0) return 0;
  const std::int64_t wanted = window >= 0                             ? window
                              : seeds < kManySeeds || some_partitions ? kLongWindow
                                                                      : kShortWindow;
  const std::int64_t share = (kMaxWindow + 1) / std::max<std::int64_t>(1, num_workers) - 1;
  return std::min(wanted, std::max<std::int64_t>(share, std::min<std::int64_t>(1, wanted)));
}

}  // namespace hopfeed
