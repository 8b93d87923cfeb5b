// See change_dataset.h.
#include "partition_tool/program/change_dataset.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "partition_tool/check_input.h"

namespace hopfeed {
namespace {

using nlohmann::json;

/// What a tool made and what it has to say: `tell` prints, and returns the same for the report.
struct Changed {
  RawGraph graph;
  std::function<json()> tell;
};

/// `change(dataset, progress)` reads and changes; the rest is the same for all tools.
template <class Change>
void change_dataset(const ChangeOptions& options, const char* name, const Change& change) {
  const auto begin = std::chrono::steady_clock::now();
  const Dataset input(options.input);
  const HotnessOptions hotness = input_hotness(options, input.meta());
  JsonReport report_file(options.json);
  DatasetWriter writer(options.folder, {.overwrite = options.overwrite});
  Bars bars;
  check_input(input, options.threads, bars.progress());
  Changed changed = change(input, bars.progress());
  const DatasetBuildResult result =
      write_whole(writer, changed.graph, hotness,
                  {.cut = {}, .made_by = options.command_line, .threads = options.threads}, bars);
  json about = changed.tell();
  json report = report_dataset(
      options.folder, result,
      {.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()});
  report[name] = std::move(about);
  report_file.write(report);
}

json tell_split(const std::vector<SplitType>& types) {
  json about = json::array();
  for (const SplitType& type : types) {
    fmt::print("{}: {} edges, {} stay in the graph; links: {} train, {} valid, {} test, {} negatives\n",
               type.edge_type, type.edges, type.message, type.train, type.valid, type.test, type.negatives);
    if (!type.reverse.empty())
      fmt::print("{}: {} reverse edges left the graph\n", type.reverse, type.reverse_removed);
    about.push_back({{"edge_type", type.edge_type},
                     {"reverse", type.reverse},
                     {"edges", type.edges},
                     {"message", type.message},
                     {"train", type.train},
                     {"valid", type.valid},
                     {"test", type.test},
                     {"negatives", type.negatives},
                     {"reverse_removed", type.reverse_removed}});
  }
  return about;
}

json tell_edited(const std::vector<EditedType>& types) {
  json about = json::array();
  for (const EditedType& type : types) {
    fmt::print("{}: {} edges, where it had {}\n", type.edge_type, type.after, type.before);
    about.push_back({{"edge_type", type.edge_type}, {"before", type.before}, {"after", type.after}});
  }
  if (types.empty()) fmt::print("nothing to do: every chosen edge type is as it should be\n");
  return about;
}

Changed edited(EditedGraph graph) {
  return {.graph = std::move(graph.graph),
          .tell = [types = std::move(graph.types)] { return tell_edited(types); }};
}

}  // namespace

void split_links_of(const ChangeOptions& options, const LinkSplitOptions& how) {
  change_dataset(options, "split_links", [&](const Dataset& input, const Progress& progress) -> Changed {
    SplitGraph split = split_links(input, how, progress);
    return {.graph = std::move(split.graph),
            .tell = [types = std::move(split.types)] { return tell_split(types); }};
  });
}

void make_undirected(const ChangeOptions& options, const EditOptions& how) {
  change_dataset(options, "to_undirected", [&](const Dataset& input, const Progress& progress) {
    return edited(to_undirected(input, how, progress));
  });
}

void deduplicate_edges(const ChangeOptions& options, const EditOptions& how) {
  change_dataset(options, "deduplicate", [&](const Dataset& input, const Progress& progress) {
    return edited(deduplicate(input, how, progress));
  });
}

void add_loops(const ChangeOptions& options, const SelfLoopOptions& how) {
  change_dataset(options, "add_self_loops", [&](const Dataset& input, const Progress& progress) {
    return edited(add_self_loops(input, how, progress));
  });
}

void count_co_occurrence(const ChangeOptions& options, const CoOccurrenceOptions& how) {
  change_dataset(options, "co_occurrence", [&](const Dataset& input, const Progress& progress) -> Changed {
    CoOccurrence counted = co_occurrence(input, how, progress);
    const std::int64_t users = counted.users, left_out = counted.users_left_out, pairs = counted.pairs,
                       edges = counted.edges_left_out;
    return {.graph = std::move(counted.graph), .tell = [=] {
              fmt::print(
                  "{} pairs of items share {} users or more; {} of {} users have more than {} items and were "
                  "left out, "
                  "with {} edges\n",
                  pairs, how.min_users, left_out, users, how.max_user_degree, edges);
              return json{{"pairs", pairs},
                          {"users", users},
                          {"users_left_out", left_out},
                          {"edges_left_out", edges},
                          {"min_users", how.min_users},
                          {"max_user_degree", how.max_user_degree}};
            }};
  });
}

void convert_attributes(const ChangeOptions& options, const ConvertOptions& how) {
  change_dataset(options, "convert", [&](const Dataset& input, const Progress& progress) -> Changed {
    ConvertedGraph converted = convert_attrs(input, how, progress);
    return {.graph = std::move(converted.graph), .tell = [attrs = std::move(converted.attrs)] {
              json about = json::array();
              for (const ConvertedAttr& attr : attrs) {
                fmt::print("{}: {} is {}, where it was {}\n", attr.whose, attr.name, to_string(attr.after),
                           to_string(attr.before));
                about.push_back({{"type", attr.whose},
                                 {"attr", attr.name},
                                 {"before", to_string(attr.before)},
                                 {"after", to_string(attr.after)}});
              }
              return about;
            }};
  });
}

}  // namespace hopfeed
