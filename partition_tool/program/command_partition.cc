// hopfeed-partition partition.
#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "core/error.h"
#include "core/limits.h"
#include "partition_tool/node_order.h"
#include "partition_tool/partition_nodes.h"
#include "partition_tool/program/make_dataset.h"
#include "partition_tool/read_dataset.h"

namespace hopfeed {
namespace {

struct CutOptions {
  std::string input, output, method = "metis", json;
  std::optional<std::string> fanouts;
  std::optional<std::int64_t> batch_size;
  std::int64_t parts = 1;
  std::uint64_t seed = 0;
  bool overwrite = false;
  int threads = 1;
};

void partition(const Tool& tool, const CutOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const Dataset input(options.input);
  const DatasetMeta& meta = input.meta();
  const std::int64_t num_nodes = meta.node_types[0].count;
  if (options.parts < 1 || options.parts > std::min(num_nodes, kMaxPartitions)) {
    throw Error(ErrorCode::kInvalid, fmt::format("--parts {} is out of range (1 to {}, for {} nodes)", options.parts, std::min(num_nodes, kMaxPartitions), num_nodes));
  }
  HotnessOptions hotness = hotness_options(options.fanouts.value_or(""), options.batch_size.value_or(meta.cut.batch_size), options.threads);
  if (!options.fanouts) hotness.fanouts = meta.cut.fanouts;
  JsonReport json(options.json);
  DatasetWriter writer(options.output, {.overwrite = options.overwrite});
  Bars bars;
  const RawGraph graph = read_dataset(input, options.threads, bars.progress());
  const PartitionOptions how{.partitions = static_cast<int>(options.parts), .seed = options.seed, .threads = options.threads};
  const std::vector<std::int32_t> partition_of = options.method == "metis" ? partition_by_metis(graph, how, bars.progress()) : partition_randomly(graph, how);
  const NodeOrder order = order_nodes(graph, partition_of, how.partitions, hotness, bars.progress());
  const CutMeta cut{.method = options.method, .fanouts = hotness.fanouts, .batch_size = hotness.batch_size, .edges_cut = 0, .seed = options.seed};
  const DatasetBuildResult result = build_dataset(writer, graph, order, {.cut = cut, .made_by = tool.command_line, .threads = options.threads}, bars.progress());
  if (result.meta.fingerprint != meta.fingerprint) {
    throw Error(ErrorCode::kCorrupt, fmt::format("{} is damaged: its content has the fingerprint {}, its meta.json says {}; run hopfeed-partition verify", options.input,
                                                 result.meta.fingerprint, meta.fingerprint));
  }
  writer.commit(result.meta);
  bars.finish();
  report_dataset(options.output, result, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), json);
}

}  // namespace

void add_partition(CLI::App& app, Tool& tool) {
  CLI::App& command = *app.add_subcommand("partition", "Cut a dataset into partitions; batches stay the same whatever the cut");
  const auto options = std::make_shared<CutOptions>();
  command.add_option("DIR", options->input, "Dataset to read, of any number of partitions")->required();
  command.add_option("OUT", options->output, "Dataset folder to make")->required();
  command.add_option("--parts", options->parts, "Number of partitions")->required();
  command.add_option("--method", options->method, "metis: few edges cut, training nodes balanced; random: nodes dealt evenly")->check(CLI::IsMember({"metis", "random"}))->capture_default_str();
  command.add_option("--seed", options->seed, "Another seed makes another cut")->check(CLI::NonNegativeNumber)->capture_default_str();
  command.add_option("--fanouts", options->fanouts, "Fanouts that the node order is computed for; default: those of DIR");
  command.add_option("--batch-size", options->batch_size, "Batch size that the node order is computed for; default: that of DIR");
  command.add_flag("--overwrite", options->overwrite, "Replace a dataset that is in OUT");
  command.add_option("--json", options->json, "Write a report of what was done to this file");
  add_threads_option(command, options->threads);
  command.callback([&tool, options] { tool.run = [&tool, options] { partition(tool, *options); }; });
}

}  // namespace hopfeed
