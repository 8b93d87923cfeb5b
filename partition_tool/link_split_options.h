// LinkSplitOptions says which links are split off, and how many: what split_links.h is asked for.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hopfeed {

/// A LinkShare is a number of links, or a share of all.
struct LinkShare {
  std::optional<double> ratio;  // [0, 1)
  std::int64_t count = 0;       // the number of links, where there is no ratio
  /// Reads a ratio ("0.1") or a number ("1000"). Throws kInvalid naming the option.
  static LinkShare parse(const std::string& text, const char* option);
  /// Returns how many of `all` links the share is, rounded down.
  std::int64_t of(std::int64_t all) const;
};

enum class SplitBy { kRandom, kTime };

struct LinkSplitOptions {
  std::vector<std::string> edge_types;  // "src__rel__dst" or "rel"; empty: the only one that is no reverse
  std::vector<std::string> rev_edge_types;  // one for each, or "none"; empty: those that the dataset knows
  LinkShare num_val{.ratio = 0.1}, num_test{.ratio = 0.2};
  LinkShare disjoint_train;  // of the training links: they leave the graph as well
  SplitBy by = SplitBy::kRandom;
  std::string time;  // int64 edge attribute; empty: the only one that rows are ordered by, or "time"
  bool is_undirected = false;  // each edge is there both ways, and one link stands for both
  bool add_negative_train_samples = false;
  double neg_sampling_ratio = 1;  // of negatives to positives in valid and test (and train, where asked for)
  std::uint64_t seed = 0;
  int threads = 1;
};

}  // namespace hopfeed
