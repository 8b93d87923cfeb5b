// hopfeed-partition generate.
#include <memory>

#include "partition_tool/generate.h"
#include "partition_tool/program/make_dataset.h"

namespace hopfeed {

void add_generate(CLI::App& app, Tool& tool) {
  CLI::App& command = *app.add_subcommand("generate", "Make up a graph: power-law degrees, planted classes, features with some signal");
  const auto make = std::make_shared<MakeOptions>();
  const auto options = std::make_shared<GenerateOptions>();
  add_make_options(command, *make);
  command.add_option("--nodes", options->num_nodes, "Number of nodes")->required();
  command.add_option("--edges", options->num_edges, "Number of edges")->required();
  command.add_option("--features", options->num_features, "Features per node (float32)")->required();
  command.add_option("--classes", options->num_classes, "Number of classes")->required();
  command.add_option("--seed", options->seed, "The same seed makes the same graph, everywhere")->check(CLI::NonNegativeNumber)->required();
  command.add_option("--homophily", options->homophily, "Share of the edges that stay in their class on purpose")->capture_default_str();
  command.add_option("--train-fraction", options->train_fraction, "Share of the nodes in the split train")->capture_default_str();
  command.add_option("--valid-fraction", options->valid_fraction, "Share of the nodes in the split valid; the rest is test")->capture_default_str();
  command.callback([&tool, make, options] {
    tool.run = [&tool, make, options] {
      options->keep_edge_ids = !make->no_edge_ids;
      options->threads = make->threads;
      make_dataset(tool, *make, [&](const Progress& progress) { return generate_graph(*options, progress); });
    };
  });
}

}  // namespace hopfeed
