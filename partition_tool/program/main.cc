// hopfeed-partition: makes, cuts, shows and checks datasets. Here are the options of its commands; the work
// lies in the files beside this one, which know no command line (CLI11 takes long to compile).
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "core/program/program_main.h"
#include "partition_tool/generate.h"
#include "partition_tool/import_debian.h"
#include "partition_tool/import_numpy.h"
#include "partition_tool/import_ogb.h"
#include "partition_tool/program/make_dataset.h"
#include "partition_tool/program/partition_dataset.h"
#include "partition_tool/program/show_dataset.h"
#include "partition_tool/program/tool.h"

namespace hopfeed {
namespace {

/// Everything that options can say. One command is chosen, and sets `run`.
struct Choices {
  MakeOptions make;
  DebianImportOptions debian;
  OgbImportOptions ogb;
  NumpyImportOptions numpy;
  GenerateOptions generate;
  CutOptions cut;
  ShowOptions show;
  std::function<void()> run;
};

void add_threads_option(CLI::App& command, int& threads) {
  threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  command.add_option("--threads", threads, "Threads to work with; the result is the same with any number")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
}

void add_json_option(CLI::App& command, std::string& json) {
  command.add_option("--json", json, "Write a report of what was done to this file");
}

/// The options that import and generate have in common.
void add_make_options(CLI::App& command, MakeOptions& make) {
  command.add_option("DIR", make.folder, "Dataset folder to make")->required();
  command.add_option("--fanouts", make.fanouts, "Fanouts that the node order is computed for")
      ->capture_default_str();
  command.add_option("--batch-size", make.batch_size, "Batch size that the node order is computed for")
      ->capture_default_str();
  command.add_flag("--no-edge-ids", make.no_edge_ids,
                   "Store no edge ids (saves up to half of the graph; batches then cannot carry e_id)");
  command.add_flag("--reject-nonfinite", make.reject_nonfinite,
                   "Refuse features that are NaN or infinite, instead of counting them");
  command.add_flag("--overwrite", make.overwrite, "Replace a dataset that is in DIR");
  add_json_option(command, make.json);
  add_threads_option(command, make.threads);
}

/// Runs `import(options)` and the shared stage where the command is chosen.
template <class Options>
void make_by(CLI::App& command, Choices& choices, Options& options,
             RawGraph (*import)(const Options&, const Progress&)) {
  add_make_options(command, choices.make);
  command.callback([&choices, &options, import] {
    choices.run = [&choices, &options, import] {
      options.keep_edge_ids = !choices.make.no_edge_ids;
      options.threads = choices.make.threads;
      make_dataset(choices.make, [&](const Progress& progress) { return import(options, progress); });
    };
  });
}

void add_debian(CLI::App& import, Choices& choices) {
  CLI::App& command = *import.add_subcommand(
      "debian", "The package graph that apt knows: relations, sections as classes, descriptions as features");
  make_by(command, choices, choices.debian, import_debian);
  command.add_option("--dump", choices.debian.dump,
                     "Read this saved output of `apt-cache dumpavail` instead of asking apt");
  command
      .add_option("--min-class-size", choices.debian.min_class_size,
                  "Sections of fewer packages are left unlabelled")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

void add_ogb(CLI::App& import, Choices& choices) {
  CLI::App& command =
      *import.add_subcommand("ogb", "A node-classification dataset in the raw CSV layout of OGB downloads");
  make_by(command, choices, choices.ogb, import_ogb);
  command.add_option("--raw", choices.ogb.raw, "Folder that holds raw/ and split/")->required();
  command.add_option("--split-scheme", choices.ogb.split_scheme,
                     "Folder under split/; needed where there are several");
  command.add_flag("--add-inverse-edge", choices.ogb.add_inverse_edge,
                   "Follow each edge by its inverse, as OGB does for undirected datasets");
}

void add_numpy(CLI::App& import, Choices& choices) {
  CLI::App& command = *import.add_subcommand("numpy", "A graph in .npy files");
  make_by(command, choices, choices.numpy, import_numpy);
  command
      .add_option("--edge-index", choices.numpy.edge_index,
                  "[2, E] int32 or int64: row 0 source, row 1 destination")
      ->required();
  command.add_option("--features", choices.numpy.features, "[N, F] float16, float32 or float64");
  command.add_option("--labels", choices.numpy.labels, "[N] class numbers; negative or NaN: unlabelled");
  for (const char* split : {"train", "valid", "test"}) {
    command.add_option(std::string("--") + split, choices.numpy.splits[split],
                       "[S] node ids, or a mask [N] of bool");
  }
  command
      .add_option("--num-nodes", choices.numpy.num_nodes,
                  "Number of nodes; default: the rows of features or labels, else the largest id + 1")
      ->check(CLI::PositiveNumber);
}

void add_import(CLI::App& app, Choices& choices) {
  CLI::App& import =
      *app.add_subcommand("import", "Make a dataset of one partition from a graph that exists");
  import.require_subcommand(0, 1);
  add_debian(import, choices);
  add_ogb(import, choices);
  add_numpy(import, choices);
}

void add_generate(CLI::App& app, Choices& choices) {
  CLI::App& command = *app.add_subcommand(
      "generate", "Make up a graph: power-law degrees, planted classes, features with some signal");
  GenerateOptions& options = choices.generate;
  make_by(command, choices, options, generate_graph);
  command.add_option("--nodes", options.num_nodes, "Number of nodes")->required();
  command.add_option("--edges", options.num_edges, "Number of edges")->required();
  command.add_option("--features", options.num_features, "Features per node (float32)")->required();
  command.add_option("--classes", options.num_classes, "Number of classes")->required();
  command.add_option("--seed", options.seed, "The same seed makes the same graph, everywhere")
      ->check(CLI::NonNegativeNumber)
      ->required();
  command
      .add_option("--homophily", options.homophily, "Share of the edges that stay in their class on purpose")
      ->capture_default_str();
  command.add_option("--train-fraction", options.train_fraction, "Share of the nodes in the split train")
      ->capture_default_str();
  command
      .add_option("--valid-fraction", options.valid_fraction,
                  "Share of the nodes in the split valid; the rest is test")
      ->capture_default_str();
}

void add_partition(CLI::App& app, Choices& choices) {
  CLI::App& command = *app.add_subcommand(
      "partition", "Cut a dataset into partitions; batches stay the same whatever the cut");
  CutOptions& options = choices.cut;
  command.add_option("DIR", options.input, "Dataset to read, of any number of partitions")->required();
  command.add_option("OUT", options.output, "Dataset folder to make")->required();
  command.add_option("--parts", options.parts, "Number of partitions")->required();
  command
      .add_option("--method", options.method,
                  "metis: few edges cut, training nodes balanced; random: nodes dealt evenly")
      ->check(CLI::IsMember({"metis", "random"}))
      ->capture_default_str();
  command.add_option("--seed", options.seed, "Another seed makes another cut")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("--fanouts", options.fanouts,
                     "Fanouts that the node order is computed for; default: those of DIR");
  command.add_option("--batch-size", options.batch_size,
                     "Batch size that the node order is computed for; default: that of DIR");
  command.add_flag("--overwrite", options.overwrite, "Replace a dataset that is in OUT");
  add_json_option(command, options.json);
  add_threads_option(command, options.threads);
  command.callback([&choices] { choices.run = [&choices] { partition_dataset(choices.cut); }; });
}

void add_inspect(CLI::App& app, Choices& choices) {
  CLI::App& command = *app.add_subcommand("inspect", "Show what a dataset holds");
  command.add_option("DIR", choices.show.folder, "Dataset folder")->required();
  command
      .add_option("--presample", choices.show.presample,
                  "Make the batches of this many epochs and compare what they read with the stored hotness")
      ->check(CLI::Range(0, 1000));
  add_json_option(command, choices.show.json);
  add_threads_option(command, choices.show.threads);
  command.callback([&choices] { choices.run = [&choices] { show_dataset(choices.show); }; });
}

void add_verify(CLI::App& app, Choices& choices) {
  CLI::App& command = *app.add_subcommand("verify", "Read every byte of a dataset and check it");
  command.add_option("DIR", choices.show.folder, "Dataset folder")->required();
  add_json_option(command, choices.show.json);
  command.callback([&choices] { choices.run = [&choices] { verify_dataset(choices.show); }; });
}

int run(Choices& choices) {
  if (!choices.run)
    throw Error(ErrorCode::kInvalid,
                "name a command: import debian|ogb|numpy, generate, partition, inspect or verify (see "
                "hopfeed-partition --help)");
  std::erase_if(choices.numpy.splits, [](const auto& split) { return split.second.empty(); });
  choices.run();
  return 0;
}

}  // namespace
}  // namespace hopfeed

int main(int argc, char** argv) {
  hopfeed::Choices choices;
  for (int i = 0; i < argc; ++i) choices.make.command_line += (i > 0 ? " " : "") + std::string(argv[i]);
  choices.cut.command_line = choices.make.command_line;
  CLI::App app("Makes, partitions, inspects and verifies hopfeed datasets", "hopfeed-partition");
  app.require_subcommand(0, 1);  // that one is there is checked in run(): so a mistyped one is named
  hopfeed::add_import(app, choices);
  hopfeed::add_generate(app, choices);
  hopfeed::add_partition(app, choices);
  hopfeed::add_inspect(app, choices);
  hopfeed::add_verify(app, choices);
  hopfeed::stop_on_signals();
  return hopfeed::program_main(app, argc, argv, [&] { return hopfeed::run(choices); });
}
