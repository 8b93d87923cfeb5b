// A policy says how hot nodes are, and so in which order rows are kept close. It gives a number per node, the
// hotter the larger; equal numbers go by the smaller original id.
//
//   policy      what the number is                                                    from
//   vip         probability that one batch reads the row (hotness.h)                   SALIENT++, MLSys 2023
//   degree      how many edges leave the node, over all edge types                     PaGraph, SoCC 2020
//   presample   batches that read it in the epochs before those that count             GNNLab, EuroSys 2022
//   oracle      batches that read it in the very epochs that count: no order is better
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/batch/batch_options.h"
#include "core/dataset/dataset.h"

namespace hopfeed {

enum class HotnessPolicy { kVip, kDegree, kPresample, kOracle };

/// Returns the name: "vip", "degree", ...
const char* to_string(HotnessPolicy policy);
/// Returns the policy of a name; throws kInvalid for an unknown name and lists the names.
HotnessPolicy hotness_policy_from(std::string_view name);

struct HotnessRequest {
  /// It says what is sampled: fanouts, kind of sampling. vip has a closed form for some kinds;
  /// has_closed_form() tells.
  BatchOptions batch;
  std::int64_t batch_size = 1024;
  int node_type = 0;                    // of the seeds
  std::span<const std::int64_t> seeds;  // original ids of the training nodes; empty: every node
  std::int64_t epochs = 1;              // sampled by presample and oracle
  std::uint64_t seed = 0;               // of the epochs that count; presample draws from another one
  int threads = 1;
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};  // may throw to stop
};

/// Returns whether vip's formula holds for what the batch options ask for: plain neighbour sampling, of
/// graphs of one type and of several (each edge type draws its own fanout, which the formula's products
/// know), with any kind of subgraph. Weighted, temporal, disjoint, layer-dependent, walk, cluster, link and
/// plugins' sampling and draws with replacement have none: pre-sampling takes its place.
bool has_closed_form(const Dataset& dataset, const BatchOptions& batch);

/// Returns a number per node type [N] by dataset id, the hotter the larger: the same for a node whatever the
/// cut and the number of threads. Throws kUnsupported for vip without a closed form, kInvalid for a seed that
/// is no node, kCorrupt naming the file where the graph is damaged, and what BatchMaker throws.
std::vector<std::vector<double>> node_hotness(const Dataset& dataset, HotnessPolicy policy,
                                              const HotnessRequest& request);

}  // namespace hopfeed
