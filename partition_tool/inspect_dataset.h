// Says what a dataset holds, as figures: for people (inspect) and for JSON reports.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/dataset/dataset.h"
#include "partition_tool/progress.h"

namespace hopfeed {

struct DegreeSummary {
  std::int64_t min = 0, median = 0, max = 0;  // in-degrees; the lower median
  double mean = 0;
};

/// Sums up in-degrees over all rows of an edge type. Throws kCorrupt where offsets fall.
DegreeSummary summarise_degrees(const Dataset& dataset, int edge_type);

/// SizeSummary has the bytes on disk by kind, over all partitions.
struct SizeSummary {
  std::int64_t rows = 0, indices = 0, edge_ids = 0, attrs = 0;
  std::int64_t tables = 0;  // made of weights and times
  std::int64_t halos = 0;   // copies of all these
  std::int64_t other = 0, total = 0;
};
SizeSummary summarise_sizes(const Dataset& dataset);

/// HotnessCheck says how well the stored hotness of a node type tells what is read.
struct HotnessCheck {
  double rank_correlation = 0;         // of hotness and counts, over the partition's own nodes
  std::vector<double> hit_rate, best;  // per ratio of `kHitRatios`: reads of own nodes that the first nodes
                                       // of the order serve; the best order's
};
inline constexpr double kHitRatios[] = {0.01, 0.05, 0.10, 0.20};

struct HotnessCheckOptions {
  std::int64_t epochs = 1;
  std::uint64_t seed = 0;
  int threads = 1;
};
/// Checks the hotness of each node type. Batches of `epochs` epochs are really made, from the partition's own
/// training nodes (all of them where it has none) of the first node type that has a split "train".
std::vector<HotnessCheck> check_hotness(const Dataset& dataset, int partition,
                                        const HotnessCheckOptions& options);

}  // namespace hopfeed
