// See hotness_command.h.
#include "partition_tool/program/hotness_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "partition_tool/hotness/hotness_policy.h"
#include "partition_tool/node_order.h"
#include "partition_tool/read_dataset.h"

namespace hopfeed {
namespace {

/// Numbered through all types, as order_nodes wants it.
std::vector<std::int32_t> partitions_of(const Dataset& input) {
  std::vector<std::int32_t> partitions;
  for (int t = 0; t < input.num_node_types(); ++t) {
    const std::vector<std::int64_t>& offsets = input.meta().node_types[t].partition_offsets;
    for (std::int64_t v = 0; v < input.num_nodes(t); ++v)
      partitions.push_back(partition_of(offsets, input.dataset_id(t, v)));
  }
  return partitions;
}

/// How hot nodes are for some training nodes, both numbered through all types by imported id.
class PolicyHotness {
 public:
  PolicyHotness(const Dataset& input, const RawGraph& graph, const OrderOptions& options,
                const HotnessOptions& how)
      : input_(input),
        graph_(graph),
        policy_(hotness_policy_from(options.policy)),
        request_{.batch = {.fanouts = how.fanouts},
                 .batch_size = how.batch_size,
                 .epochs = options.epochs,
                 .seed = options.seed,
                 .threads = how.threads} {}

  std::vector<double> operator()(std::span<const std::int64_t> train,
                                 const std::function<void(std::int64_t, std::int64_t)>& progress) const {
    std::vector<double> sum(graph_.num_nodes());
    HotnessRequest request = request_;
    request.progress = progress;
    for (int t = 0; t < input_.num_node_types(); ++t) {
      std::vector<std::int64_t> seeds;
      const std::int64_t first = graph_.first_node(t), end = graph_.first_node(t + 1);
      for (const std::int64_t v : train)
        if (v >= first && v < end) seeds.push_back(v - first);
      if (end == first || (!train.empty() && seeds.empty())) continue;
      request.node_type = t;
      request.seeds = seeds;
      add(node_hotness(input_, policy_, request), sum);
      if (policy_ == HotnessPolicy::kDegree) break;  // knows no seeds
    }
    return sum;
  }

 private:
  void add(const std::vector<std::vector<double>>& hot, std::vector<double>& sum) const {
    for (int t = 0; t < input_.num_node_types(); ++t)
      for (std::int64_t v = 0; v < input_.num_nodes(t); ++v)
        sum[graph_.first_node(t) + v] += hot[t][input_.dataset_id(t, v)];
  }

  const Dataset& input_;
  const RawGraph& graph_;
  const HotnessPolicy policy_;
  const HotnessRequest request_;
};

}  // namespace

void order_dataset(const OrderOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const HotnessPolicy policy = hotness_policy_from(options.policy);
  const Dataset input(options.input);
  const DatasetMeta& meta = input.meta();
  const HotnessOptions hotness = input_hotness(options, meta);
  JsonReport json(options.json);
  DatasetWriter writer(options.folder, {.overwrite = options.overwrite});
  Bars bars;
  const RawGraph graph = read_dataset(input, options.threads, bars.progress());
  const std::vector<std::int32_t> partitions = partitions_of(input);
  // vip takes the way of `partition` and `import`, training nodes of all types in one product: the same bits.
  const std::vector<NodeOrder> orders =
      policy == HotnessPolicy::kVip
          ? order_nodes(graph, partitions, meta.partitions, hotness, bars.progress())
          : order_nodes_by(graph, partitions, meta.partitions, PolicyHotness(input, graph, options, hotness),
                           bars.progress());
  CutMeta cut = meta.cut;  // the cut stays; its edges are counted anew
  cut.fanouts = hotness.fanouts;
  cut.batch_size = hotness.batch_size;
  cut.edges_cut = 0;
  cut.policy = options.policy;
  DatasetBuildResult result = build_dataset(writer, graph, orders,
                                            {.cut = cut,
                                             .made_by = options.command_line,
                                             .threads = options.threads,
                                             .sharded_ids = meta.sharded_ids},
                                            bars.progress());
  require_same_content(options.input, meta, result.meta);
  if (meta.has_halos()) write_halos_of(writer, result.meta, bars);
  writer.commit(result.meta);
  bars.finish();
  fmt::print("nodes are ordered by {}, for fanouts {} and batches of {}\n", options.policy,
             fmt::join(hotness.fanouts, ","), hotness.batch_size);
  nlohmann::json report = report_dataset(
      options.folder, result,
      {.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()});
  report["policy"] = options.policy;
  report["epochs"] = options.epochs;
  json.write(report);
}

}  // namespace hopfeed
