// hopfeed-partition: makes, cuts, shows and checks datasets. Here are the options of its commands; the work
// lies in the files beside this one, which know no command line.
#include <fmt/format.h>

#include <map>
#include <optional>
#include <string>
#include <thread>

#include "core/base/error.h"
#include "core/program/program_main.h"
#include "partition_tool/generate.h"
#include "partition_tool/generate_bipartite.h"
#include "partition_tool/import_debian.h"
#include "partition_tool/import_numpy.h"
#include "partition_tool/import_ogb.h"
#include "partition_tool/program/change_commands.h"
#include "partition_tool/program/cluster_dataset.h"
#include "partition_tool/program/gather_command.h"
#include "partition_tool/program/hotness_command.h"
#include "partition_tool/program/make_dataset.h"
#include "partition_tool/program/partition_dataset.h"
#include "partition_tool/program/push_command.h"
#include "partition_tool/program/python_imports.h"
#include "partition_tool/program/show_dataset.h"
#include "partition_tool/program/tool.h"
#include "partition_tool/program/tune_command.h"

namespace hopfeed {
namespace {

/// Everything that options can say.
struct Choices {
  MakeOptions make;
  DebianImportOptions debian;
  OgbImportOptions ogb;
  NumpyImportOptions numpy;
  GenerateOptions generate;
  BipartiteOptions bipartite;
  std::string generate_kind = "classes";
  std::optional<std::int64_t> nodes, edges, features, classes, users, items, interactions, tastes, span;
  std::optional<double> homophily, train_fraction, valid_fraction, loyalty;
  ChangeChoices change;
  CutOptions cut;
  ClusterOptions cluster;
  OrderOptions order;
  ShowOptions show;
  TuneChoices tune;
  PushOptions push;
  GatherChoices gather;
};

void add_threads_option(CommandLine& command, int& threads) {
  threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  command.option("--threads", threads, "Threads to work with; the result is the same with any number",
                 {.min = 1, .max = 1024});
}

void add_json_option(CommandLine& command, std::string& json) {
  command.option("--json", json, "Write a report as JSON to this file", {.output = true});
}

/// What --help says stands in for what is not given.
struct OrderDefaults {
  const char *fanouts = "those of DIR", *batch_size = "that of DIR";
};

/// The options that all commands have which write a dataset.
void add_write_options(CommandLine& command, const char* folder, WriteOptions& options,
                       const OrderDefaults& defaults) {
  const auto order = [](const char* what, const char* otherwise) {
    return fmt::format("{} that the node order is computed for; default: {}", what, otherwise);
  };
  command.option(folder, options.folder, "Dataset folder to make", {.required = true, .dataset = true});
  command.option("--fanouts", options.fanouts, order("Fanouts", defaults.fanouts));
  command.option("--batch-size", options.batch_size, order("Batch size", defaults.batch_size));
  command.flag("--overwrite", options.overwrite, fmt::format("Replace a dataset that is in {}", folder));
  add_json_option(command, options.json);
  add_threads_option(command, options.threads);
}

void add_by_id_flag(CommandLine& command, bool& by_id) {
  command.flag("--by-id", by_id,
               "Order each row by source ids too (4 bytes an edge): strict negatives then search long rows "
               "instead of reading them");
}

/// The options of all commands that make a dataset from something else.
void add_make_options(CommandLine& command, Choices& choices) {
  add_write_options(command, "DIR", choices.make, {.fanouts = "15,10,5", .batch_size = "1024"});
  command.flag("--no-edge-ids", choices.make.no_edge_ids,
               "Store no edge ids (saves up to half of the graph; batches then cannot carry e_id)");
  add_by_id_flag(command, choices.make.by_id);
  command.flag("--reject-nonfinite", choices.make.reject_nonfinite,
               "Refuse features that are NaN or infinite, instead of counting them");
}

/// Runs `import(options)` and the shared stage.
template <class Options>
void run_make(Choices& choices, Options& options, RawGraph (*import)(const Options&, const Progress&)) {
  options.keep_edge_ids = !choices.make.no_edge_ids;
  options.threads = choices.make.threads;
  make_dataset(choices.make, [&](const Progress& progress, const TellMemory& tell) {
    options.tell_memory = tell;
    return import(options, progress);
  });
}

/// Does so where the command is chosen.
template <class Options>
void make_by(CommandLine& command, Choices& choices, Options& options,
             RawGraph (*import)(const Options&, const Progress&)) {
  add_make_options(command, choices);
  command.action([&choices, &options, import] { run_make(choices, options, import); });
}

void add_debian(CommandLine& import, Choices& choices) {
  CommandLine& command = import.command(
      "debian", "The package graph that apt knows: relations, sections as classes, descriptions as features");
  make_by(command, choices, choices.debian, import_debian);
  command.option("--dump", choices.debian.dump,
                 "Read this saved output of `apt-cache dumpavail` instead of asking apt");
  command.flag(
      "--hetero", choices.debian.hetero,
      "Types: packages (as without), source packages, maintainers and tags; an edge type for each kind of "
      "dependency, built_from, maintained_by and tagged, and a reverse rev_... of each");
  command.option("--min-class-size", choices.debian.min_class_size,
                 "Sections of fewer packages are left unlabelled", {.positive = true});
}

void add_ogb(CommandLine& import, Choices& choices) {
  CommandLine& command = import.command(
      "ogb", "A dataset in the raw CSV layout of OGB downloads, of one type or (raw/relations) of several");
  make_by(command, choices, choices.ogb, import_ogb);
  command.option("--raw", choices.ogb.raw, "Folder that holds raw/ and split/", {.required = true});
  command.option("--split-scheme", choices.ogb.split_scheme,
                 "Folder under split/; needed where there are several");
  command.flag(
      "--add-inverse-edge", choices.ogb.add_inverse_edge,
      "Follow each edge by its inverse, as OGB does for undirected datasets; of several types, each edge "
      "type by one that leads back (rev_...)");
}

/// "NAME=FILE".
NamedArray named_file(const std::string& text, const char* option) {
  const std::size_t at = text.find('=');
  if (at == 0 || at == std::string::npos || at + 1 == text.size())
    throw Error(ErrorCode::kInvalid, fmt::format("{} is '{}'; give NAME=FILE", option, text));
  return {.name = text.substr(0, at), .source = std::filesystem::path(text.substr(at + 1))};
}

void add_numpy_attrs(CommandLine& command, NumpyImportOptions& options) {
  command.repeatable_option(
      "--node-attr", "NAME=FILE", "[N] or [N, W] of any element type; may be repeated",
      [&options](const std::string& text) { options.node_attrs.push_back(named_file(text, "--node-attr")); });
  command.repeatable_option(
      "--edge-attr", "NAME=FILE",
      "[E] or [E, W] of any element type, in the order of the edge index; may be repeated",
      [&options](const std::string& text) { options.edge_attrs.push_back(named_file(text, "--edge-attr")); });
  command.repeatable_option(
      "--weight", "NAME", "Edge attribute, a number each: make alias tables, so that batches can draw by it",
      [&options](const std::string& name) { options.weights.push_back(name); });
  command.repeatable_option("--time", "NAME",
                            "Edge attribute, or else node attribute (of the sources), int64: order rows by "
                            "it for temporal sampling",
                            [&options](const std::string& name) { options.times.push_back(name); });
}

void add_numpy(CommandLine& import, Choices& choices) {
  CommandLine& command = import.command("numpy", "A graph in .npy files");
  make_by(command, choices, choices.numpy, import_numpy);
  command.option("--edge-index", choices.numpy.edge_index,
                 "[2, E] integers: row 0 source, row 1 destination; or [E, 2]");
  command.option("--features", choices.numpy.features, "[N, F] float16, float32 or float64");
  command.option("--labels", choices.numpy.labels, "[N] class numbers; negative or NaN: unlabelled");
  for (const char* split : {"train", "valid", "test"}) {
    command.option(std::string("--") + split, choices.numpy.splits[split],
                   "[S] node ids, or a mask [N] of bool");
  }
  command.option(
      "--hetero", choices.numpy.hetero,
      "A graph of several types instead: a JSON file with the lists nodes (name; count, features, labels, "
      "splits, attrs) and edges (src, rel, dst, index; attrs, weights, times), whose files lie beside it; "
      "docs/importing.md has an example");
  add_numpy_attrs(command, choices.numpy);
  command.option(
      "--num-nodes", choices.numpy.num_nodes,
      "Number of nodes; default: the rows of features, labels or node attributes, else the largest id + 1",
      {.positive = true});
}

void add_import(CommandLine& line, Choices& choices) {
  CommandLine& import = line.command("import", "Make a dataset of one partition from a graph that exists");
  add_debian(import, choices);
  add_ogb(import, choices);
  add_numpy(import, choices);
  add_python_imports(import);
}

/// Moves a number to where the chosen kind of graph has it, null: it has no use for it, and refuses it.
template <class T>
void take(const char* option, const std::optional<T>& given, T* number) {
  if (given && !number)
    throw Error(ErrorCode::kInvalid, fmt::format("{} is for the other --kind; leave it out", option));
  if (given) *number = *given;
}

/// Takes a number that has no default, and throws kInvalid where it lacks.
void take_required(const char* option, const std::optional<std::int64_t>& given, std::int64_t* number) {
  if (!given && number) throw Error(ErrorCode::kInvalid, fmt::format("{} is required", option));
  take(option, given, number);
}

void generate(Choices& choices) {
  GenerateOptions& classes = choices.generate;
  BipartiteOptions& bipartite = choices.bipartite;
  const bool users = choices.generate_kind == "bipartite";
  take_required("--nodes", choices.nodes, users ? nullptr : &classes.num_nodes);
  take_required("--edges", choices.edges, users ? nullptr : &classes.num_edges);
  take_required("--features", choices.features, users ? nullptr : &classes.num_features);
  take_required("--classes", choices.classes, users ? nullptr : &classes.num_classes);
  take("--homophily", choices.homophily, users ? nullptr : &classes.homophily);
  take("--train-fraction", choices.train_fraction, users ? nullptr : &classes.train_fraction);
  take("--valid-fraction", choices.valid_fraction, users ? nullptr : &classes.valid_fraction);
  take_required("--users", choices.users, users ? &bipartite.num_users : nullptr);
  take_required("--items", choices.items, users ? &bipartite.num_items : nullptr);
  take_required("--interactions", choices.interactions, users ? &bipartite.num_interactions : nullptr);
  take("--tastes", choices.tastes, users ? &bipartite.num_tastes : nullptr);
  take("--loyalty", choices.loyalty, users ? &bipartite.loyalty : nullptr);
  take("--span", choices.span, users ? &bipartite.span : nullptr);
  bipartite.seed = classes.seed;
  if (users)
    run_make(choices, bipartite, generate_bipartite);
  else
    run_make(choices, classes, generate_graph);
}

void add_generate(CommandLine& line, Choices& choices) {
  CommandLine& command = line.command(
      "generate",
      "Make up a graph: power-law degrees, planted classes, features with some signal; or users, items and "
      "their interactions with planted tastes");
  const GenerateOptions& classes = choices.generate;
  const BipartiteOptions& bipartite = choices.bipartite;
  const auto with_default = [](const char* what, auto value) {
    return fmt::format("{}; default: {}", what, value);
  };
  add_make_options(command, choices);
  command.action([&choices] { generate(choices); });
  command.option("--kind", choices.generate_kind,
                 "classes: nodes, edges, features, classes; bipartite: users, items, interactions with times",
                 {.one_of = {"classes", "bipartite"}});
  command.option("--nodes", choices.nodes, "Number of nodes");
  command.option("--edges", choices.edges, "Number of edges");
  command.option("--features", choices.features, "Features per node (float32)");
  command.option("--classes", choices.classes, "Number of classes");
  command.option("--users", choices.users, "Number of users (bipartite)");
  command.option("--items", choices.items, "Number of items (bipartite)");
  command.option("--interactions", choices.interactions, "Number of interactions (bipartite)");
  command.option("--tastes", choices.tastes,
                 with_default("Planted tastes (bipartite)", bipartite.num_tastes));
  command.option("--loyalty", choices.loyalty,
                 with_default("Share of the interactions with items of the user's taste (bipartite)",
                              bipartite.loyalty));
  command.option("--span", choices.span, with_default("Times are below (bipartite)", bipartite.span));
  command.option("--seed", choices.generate.seed, "The same seed makes the same graph, everywhere",
                 {.required = true});
  command.option(
      "--homophily", choices.homophily,
      with_default("Share of the edges that stay in their class on purpose (classes)", classes.homophily));
  command.option("--train-fraction", choices.train_fraction,
                 with_default("Share of the nodes in the split train (classes)", classes.train_fraction));
  command.option("--valid-fraction", choices.valid_fraction,
                 with_default("Share of the nodes in the split valid, the rest is test (classes)",
                              classes.valid_fraction));
}

void add_cut_options(CommandLine& command, CutChoice& choice, const char* methods) {
  command.option("--method", choice.method, methods, {.one_of = {"metis", "random"}});
  command.option(
      "--metis-degree", choice.metis_degree,
      "METIS sees about this many neighbours of each node, 0: all; default: all, or as many as memory allows",
      {.min = 0, .max = 1'000'000'000});
  command.option("--seed", choice.seed, "Another seed makes another cut");
}

void add_partition(CommandLine& line, Choices& choices) {
  CommandLine& command =
      line.command("partition", "Cut a dataset into partitions; batches stay the same whatever the cut");
  CutOptions& options = choices.cut;
  command.option("DIR", options.input, "Dataset to read, of any number of partitions", {.required = true});
  add_write_options(command, "OUT", options, {});
  command.option("--parts", options.parts, "Number of partitions", {.required = true});
  command.option(
      "--halo", options.halo,
      "1: each partition gets copies of the rows and attributes of the nodes elsewhere that its own "
      "rows have edges from, so that its machine asks others less; 0: none",
      {.min = 0, .max = 1});
  command.option(
      "--ids", options.ids,
      "replicated: every machine has the ids of all nodes and all splits; sharded: a share of them, "
      "and asks for others; auto: sharded from 100 million nodes of a type on",
      {.one_of = {"auto", "replicated", "sharded"}});
  add_cut_options(command, options,
                  "metis: few edges cut, training nodes balanced; random: nodes dealt evenly");
  add_by_id_flag(command, options.by_id);
  command.action([&choices] { partition_dataset(choices.cut); });
}

void add_cluster(CommandLine& line, Choices& choices) {
  CommandLine& command = line.command(
      "cluster",
      "Give nodes the number of their cluster, as an attribute for batches of whole clusters (Cluster-GCN); "
      "OUT has one partition, cut it after");
  ClusterOptions& options = choices.cluster;
  command.option("DIR", options.input, "Dataset to read, of any number of partitions", {.required = true});
  add_write_options(command, "OUT", options, {});
  command.option("--clusters", options.clusters, "Number of clusters", {.required = true, .min = 1});
  command.option("--attr", options.attr, "Name of the attribute");
  command.option("--node-type", options.node_type,
                 "Type whose nodes are clustered, by the edges between them; default: the first");
  add_cut_options(command, options,
                  "metis: few edges between clusters of like size; random: nodes dealt evenly");
  command.action([&choices] { cluster_dataset(choices.cluster); });
}

void add_hotness(CommandLine& line, Choices& choices) {
  CommandLine& command = line.command(
      "hotness", "Order the nodes of each partition anew, by another policy; cut and batches stay the same");
  OrderOptions& options = choices.order;
  command.option("DIR", options.input, "Dataset to read, of any number of partitions", {.required = true});
  add_write_options(command, "OUT", options, {});
  command.option("--policy", options.policy,
                 "vip: computed; degree: edges that leave; presample: epochs are made; oracle: the very "
                 "epochs of --seed");
  command.option("--epochs", options.epochs, "Epochs that presample and oracle make",
                 {.min = 1, .max = 1000});
  command.option("--seed", options.seed, "Of the epochs that count (oracle; presample makes others)");
  command.action([&choices] { order_dataset(choices.order); });
}

void add_inspect(CommandLine& line, Choices& choices) {
  CommandLine& command = line.command("inspect", "Show what a dataset holds");
  command.option("DIR", choices.show.folder, "Dataset folder", {.required = true});
  command.option("--presample", choices.show.presample,
                 "Make the batches of this many epochs and compare what they read with the stored hotness",
                 {.min = 0, .max = 1000});
  add_json_option(command, choices.show.json);
  add_threads_option(command, choices.show.threads);
  command.action([&choices] { show_dataset(choices.show); });
}

void add_verify(CommandLine& line, Choices& choices) {
  CommandLine& command = line.command(
      "verify", "Read every byte of a dataset and check it; of one with some partitions the checksums");
  command.option("DIR", choices.show.folder, "Dataset folder", {.required = true});
  add_json_option(command, choices.show.json);
  command.action([&choices] { verify_dataset(choices.show); });
}

}  // namespace
}  // namespace hopfeed

int main(int argc, char** argv) {
  hopfeed::become_python_import(argc, argv);
  hopfeed::Choices choices;
  for (int i = 0; i < argc; ++i) choices.make.command_line += (i > 0 ? " " : "") + std::string(argv[i]);
  choices.cut.command_line = choices.cluster.command_line = choices.order.command_line =
      choices.change.where.command_line = choices.make.command_line;
  hopfeed::CommandLine line("hopfeed-partition",
                            "Makes, changes, clusters, partitions, pushes, inspects and verifies hopfeed "
                            "datasets, and gathers results "
                            "computed over them.\n\n"
                            "Example: hopfeed-partition import debian imported\n"
                            "         hopfeed-partition partition imported dataset --parts 2");
  hopfeed::add_import(line, choices);
  hopfeed::add_generate(line, choices);
  hopfeed::add_partition(line, choices);
  hopfeed::add_cluster(line, choices);
  hopfeed::add_hotness(line, choices);
  hopfeed::add_change_commands(line, choices.change,
                               [](hopfeed::CommandLine& command, hopfeed::WriteOptions& options) {
                                 hopfeed::add_write_options(command, "OUT", options, {});
                               });
  hopfeed::add_tune_command(line, choices.tune);
  hopfeed::add_push_command(line, choices.push);
  hopfeed::add_gather_command(line, choices.gather);
  hopfeed::add_inspect(line, choices);
  hopfeed::add_verify(line, choices);
  hopfeed::stop_on_signals();
  return hopfeed::program_main(line, argc, argv);
}
