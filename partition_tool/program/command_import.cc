// hopfeed-partition import debian | ogb | numpy.
#include <memory>

#include "partition_tool/import_debian.h"
#include "partition_tool/import_numpy.h"
#include "partition_tool/import_ogb.h"
#include "partition_tool/program/make_dataset.h"

namespace hopfeed {
namespace {

void add_debian(CLI::App& import, Tool& tool) {
  CLI::App& command = *import.add_subcommand("debian", "The package graph that apt knows: relations, sections as classes, descriptions as features");
  const auto make = std::make_shared<MakeOptions>();
  const auto options = std::make_shared<DebianImportOptions>();
  add_make_options(command, *make);
  command.add_option("--dump", options->dump, "Read this saved output of `apt-cache dumpavail` instead of asking apt");
  command.add_option("--min-class-size", options->min_class_size, "Sections of fewer packages are left unlabelled")->check(CLI::PositiveNumber)->capture_default_str();
  command.callback([&tool, make, options] {
    tool.run = [&tool, make, options] {
      options->keep_edge_ids = !make->no_edge_ids;
      options->threads = make->threads;
      make_dataset(tool, *make, [&](const Progress& progress) { return import_debian(*options, progress); });
    };
  });
}

void add_ogb(CLI::App& import, Tool& tool) {
  CLI::App& command = *import.add_subcommand("ogb", "A node-classification dataset in the raw CSV layout of OGB downloads");
  const auto make = std::make_shared<MakeOptions>();
  const auto options = std::make_shared<OgbImportOptions>();
  add_make_options(command, *make);
  command.add_option("--raw", options->raw, "Folder that holds raw/ and split/")->required();
  command.add_option("--split-scheme", options->split_scheme, "Folder under split/; needed where there are several");
  command.add_flag("--add-inverse-edge", options->add_inverse_edge, "Follow each edge by its inverse, as OGB does for undirected datasets");
  command.callback([&tool, make, options] {
    tool.run = [&tool, make, options] {
      options->keep_edge_ids = !make->no_edge_ids;
      options->threads = make->threads;
      make_dataset(tool, *make, [&](const Progress& progress) { return import_ogb(*options, progress); });
    };
  });
}

void add_numpy(CLI::App& import, Tool& tool) {
  struct Splits {
    std::string train, valid, test;
  };
  CLI::App& command = *import.add_subcommand("numpy", "A graph in .npy files");
  const auto make = std::make_shared<MakeOptions>();
  const auto options = std::make_shared<NumpyImportOptions>();
  const auto splits = std::make_shared<Splits>();
  add_make_options(command, *make);
  command.add_option("--edge-index", options->edge_index, "[2, E] int32 or int64: row 0 source, row 1 destination")->required();
  command.add_option("--features", options->features, "[N, F] float16, float32 or float64");
  command.add_option("--labels", options->labels, "[N] class numbers; negative or NaN: unlabelled");
  command.add_option("--train", splits->train, "[S] node ids, or a mask [N] of bool");
  command.add_option("--valid", splits->valid, "As --train");
  command.add_option("--test", splits->test, "As --train");
  command.add_option("--num-nodes", options->num_nodes, "Number of nodes; default: the rows of features or labels, else the largest id + 1")->check(CLI::PositiveNumber);
  command.callback([&tool, make, options, splits] {
    tool.run = [&tool, make, options, splits] {
      options->keep_edge_ids = !make->no_edge_ids;
      options->threads = make->threads;
      if (!splits->train.empty()) options->splits["train"] = splits->train;
      if (!splits->valid.empty()) options->splits["valid"] = splits->valid;
      if (!splits->test.empty()) options->splits["test"] = splits->test;
      make_dataset(tool, *make, [&](const Progress& progress) { return import_numpy(*options, progress); });
    };
  });
}

}  // namespace

void add_import(CLI::App& app, Tool& tool) {
  CLI::App& import = *app.add_subcommand("import", "Make a dataset of one partition from a graph that exists");
  import.require_subcommand(0, 1);
  add_debian(import, tool);
  add_ogb(import, tool);
  add_numpy(import, tool);
}

}  // namespace hopfeed
