// See change_commands.h.
#include "partition_tool/program/change_commands.h"

#include <fmt/format.h>

#include "core/base/error.h"

namespace hopfeed {
namespace {

using AddWriteOptions = std::function<void(CommandLine& command, WriteOptions& options)>;

/// "a,b" to its parts, behind those that are there.
void add_names(const char* option, const std::string& text, std::vector<std::string>& names) {
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    if (end == at)
      throw Error(ErrorCode::kInvalid, fmt::format("{} is '{}'; give NAME or NAME,NAME", option, text));
    names.push_back(text.substr(at, end - at));
    at = end + 1;
  }
}

CommandLine& add_command(CommandLine& line, ChangeChoices& choices, const AddWriteOptions& add_write_options,
                         const char* name, const char* what) {
  CommandLine& command = line.command(name, std::string(what) + "; OUT has one partition, cut it after");
  command.option("DIR", choices.where.input, "Dataset to read, of any number of partitions",
                 {.required = true});
  add_write_options(command, choices.where);
  return command;
}

void add_names_option(CommandLine& command, const char* option, std::vector<std::string>& names,
                      const char* help) {
  command.repeatable_option(option, "NAME,...", help,
                            [&names, option](const std::string& text) { add_names(option, text, names); });
}

/// Runs `change` where the command is chosen.
template <class How>
void change_by(CommandLine& command, ChangeChoices& choices, How& how,
               void (*change)(const ChangeOptions& options, const How& how)) {
  command.action([&choices, &how, change] {
    how.threads = choices.where.threads;
    change(choices.where, how);
  });
}

void add_split_links(CommandLine& line, ChangeChoices& choices, const AddWriteOptions& add_write_options) {
  CommandLine& command = add_command(
      line, choices, add_write_options, "split-links",
      "Split the edges of a type into links to train, validate and test on; held-out ones leave the "
      "graph, with their reverse edges");
  LinkSplitOptions& split = choices.split;
  add_names_option(command, "--edge-types", split.edge_types,
                   "Edge types to split (src__rel__dst or rel); default: the only one that is no reverse");
  add_names_option(command, "--rev-edge-types", split.rev_edge_types,
                   "Their reverses, one each, or none; default: those that the dataset knows");
  command.option("--num-val", choices.num_val, "Validation links: a share (0.1) or a number (1000)");
  command.option("--num-test", choices.num_test, "Test links, likewise");
  command.option(
      "--by", choices.by,
      "random: pairs of nodes, with all their edges; time: the latest edges are test, those before "
      "them validation",
      {.one_of = {"random", "time"}});
  command.option(
      "--time", split.time,
      "int64 edge attribute that tells the time, kept with the links; default: the one that rows are "
      "ordered by, or time");
  command.flag("--is-undirected", split.is_undirected,
               "Each edge is there both ways: one link stands for both, and both leave the graph");
  command.option(
      "--neg-sampling-ratio", split.neg_sampling_ratio,
      "Negative links for each valid and test link, labelled 0 where links are 1; 0: none, no labels");
  command.flag("--add-negative-train-samples", split.add_negative_train_samples,
               "The same for training links; without, the loader draws new ones in each epoch");
  command.option(
      "--disjoint-train-ratio", choices.disjoint_train,
      "Training links that leave the graph, so that none is a message too; the other edges are no links");
  command.option("--seed", split.seed, "Another seed makes another split");
  command.action([&choices] {
    LinkSplitOptions& how = choices.split;
    how.num_val = LinkShare::parse(choices.num_val, "--num-val");
    how.num_test = LinkShare::parse(choices.num_test, "--num-test");
    how.disjoint_train = LinkShare::parse(choices.disjoint_train, "--disjoint-train-ratio");
    how.by = choices.by == "time" ? SplitBy::kTime : SplitBy::kRandom;
    how.threads = choices.where.threads;
    split_links_of(choices.where, how);
  });
}

void add_edits(CommandLine& line, ChangeChoices& choices, const AddWriteOptions& add_write_options) {
  const char* all = "Edge types (src__rel__dst or rel); default: all that it is for";
  CommandLine& undirected = add_command(
      line, choices, add_write_options, "to-undirected",
      "Add reverse edges: merged into the type where both ends are of one node type, each pair once; "
      "else as a type rev_...");
  add_names_option(undirected, "--edge-types", choices.edit.edge_types, all);
  change_by(undirected, choices, choices.edit, make_undirected);
  CommandLine& once =
      add_command(line, choices, add_write_options, "deduplicate",
                  "Keep the first of all edges between the same two nodes, with its attributes");
  add_names_option(once, "--edge-types", choices.edit.edge_types, all);
  change_by(once, choices, choices.edit, deduplicate_edges);
  CommandLine& loops =
      add_command(line, choices, add_write_options, "add-self-loops",
                  "Give each node that has none an edge to itself, behind its other in-edges");
  add_names_option(loops, "--edge-types", choices.loops.edge_types, all);
  loops.repeatable_option(
      "--fill", "NAME=NUMBER", "What the new edges have as this edge attribute; needed for each one there is",
      [&choices](const std::string& text) {
        const std::size_t at = text.find('=');
        if (at == 0 || at == std::string::npos)
          throw Error(ErrorCode::kInvalid, fmt::format("--fill is '{}'; give NAME=NUMBER", text));
        if (!choices.loops.fill.emplace(text.substr(0, at), text.substr(at + 1)).second)
          throw Error(ErrorCode::kInvalid, fmt::format("--fill {} is given twice", text.substr(0, at)));
      });
  change_by(loops, choices, choices.loops, add_loops);
}

void add_convert(CommandLine& line, ChangeChoices& choices, const AddWriteOptions& add_write_options) {
  CommandLine& command =
      add_command(line, choices, add_write_options, "convert",
                  "Give attributes another element type: float32 becomes float16, bfloat16, "
                  "int8 or int4 (with a scale per row), or these float32 again");
  command.repeatable_option(
      "--attr", "NAME=TYPE", "Attribute of nodes or edges, and float16, bfloat16, int8, int4 or float32",
      [&choices](const std::string& text) {
        const std::size_t at = text.find('=');
        if (at == 0 || at == std::string::npos)
          throw Error(ErrorCode::kInvalid, fmt::format("--attr is '{}'; give NAME=TYPE (x=float16)", text));
        if (!choices.convert.attrs.emplace(text.substr(0, at), convertible_type(text.substr(at + 1))).second)
          throw Error(ErrorCode::kInvalid, fmt::format("--attr {} is given twice", text.substr(0, at)));
      });
  change_by(command, choices, choices.convert, convert_attributes);
}

void add_co_occurrence(CommandLine& line, ChangeChoices& choices, const AddWriteOptions& add_write_options) {
  CommandLine& command = add_command(
      line, choices, add_write_options, "co-occurrence",
      "From edges user -> item an edge type between items that share users; of training edges alone");
  CoOccurrenceOptions& how = choices.co_occurrence;
  command.option("--edge-type", how.edge_type, "From users to items (src__rel__dst or rel)",
                 {.required = true});
  command.option("--rel", how.rel, "Name of the relation that is made");
  command.option("--min-users", how.min_users, "Users that two items share at least",
                 {.min = 1, .max = std::int64_t{1} << 31});
  command.option("--max-user-degree", how.max_user_degree,
                 "Users of more different items are left out, counted and shown",
                 {.min = 1, .max = 1'000'000'000});
  command.flag("--weighted", how.weighted,
               "Make alias tables, so that batches can draw by the users in common");
  command.flag("--all-edges", how.all_edges,
               "Count an edge type that has no edge split train: no links of it will be held out");
  change_by(command, choices, how, count_co_occurrence);
}

}  // namespace

void add_change_commands(CommandLine& line, ChangeChoices& choices,
                         const AddWriteOptions& add_write_options) {
  add_split_links(line, choices, add_write_options);
  add_edits(line, choices, add_write_options);
  add_co_occurrence(line, choices, add_write_options);
  add_convert(line, choices, add_write_options);
}

}  // namespace hopfeed
