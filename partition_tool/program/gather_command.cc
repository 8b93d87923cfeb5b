// See gather_command.h.
#include "partition_tool/program/gather_command.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "core/program/json_report.h"
#include "partition_tool/program/tool.h"

namespace hopfeed {
namespace {

void gather(const GatherChoices& choices) {
  const auto begin = std::chrono::steady_clock::now();
  JsonReport report(choices.json);
  Bars bars;
  const GatherResult result = gather_results(choices.gather, bars.progress());
  bars.finish();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::vector<std::string> files, folders;
  for (const auto& file : result.files) files.push_back(file.string());
  for (const auto& folder : choices.gather.folders) folders.push_back(folder.string());
  fmt::print(
      "{}: {} rows of '{}', {} of width {}, {} ({:.1f} s)\n", fmt::join(files, ", "), result.rows,
      result.node_type, result.dtype, result.width,
      result.rows == result.count ? "all nodes in original order" : fmt::format("of {} nodes", result.count),
      seconds);
  if (result.keys_left_out)
    fmt::print(
        "keys were left out, since not all folders have them; --keys-from names a dataset that does\n");
  report.write({{"files", files},
                {"folders", folders},
                {"output", result.output},
                {"node_type", result.node_type},
                {"dtype", result.dtype},
                {"rows", result.rows},
                {"width", result.width},
                {"count", result.count},
                {"keys", result.keys == KeyType::kNone ? nlohmann::json() : to_string(result.keys)},
                {"run", result.run},
                {"fingerprint", result.fingerprint},
                {"bytes", result.bytes},
                {"seconds", seconds}});
}

}  // namespace

void add_gather_command(CommandLine& line, GatherChoices& choices) {
  GatherOptions& options = choices.gather;
  CommandLine& command = line.command(
      "gather",
      "Make one array in original order of results: of their folder, or of the folders that several machines "
      "have written");
  command.repeatable_option("RESULTS", "DIR", "Folders of results, one of each machine",
                            [&options](const std::string& text) { options.folders.emplace_back(text); });
  command.option(
      "--out", options.out,
      "FILE.npy gets the rows, row i those of node i; FILE.keys.npy keys where there are some (and "
      "FILE.key_offsets.npy: where each text begins). Rows of some nodes lie in rising order of their ids, "
      "which are in FILE.ids.npy",
      {.required = true, .output = true});
  command.option("--node-type", options.node_type, "Whose rows; default: of the only type that there is");
  command.option("--output", options.output, "embeddings, scores, ...; default: the only one that there is");
  command.option("--keys-from", options.keys_from,
                 "Dataset folder with keys, where the folders of results have none");
  command.flag(
      "--some", options.some,
      "Rows of fewer nodes than the run has chosen are no error: a machine's folder alone, or results of a "
      "release that did not say that nodes were chosen");
  command.size_option("--memory", options.memory,
                      "Memory for rows that wait to be written in order: more is faster where the array is "
                      "larger than the machine's memory");
  command.option("--json", choices.json, "Write a report as JSON to this file", {.output = true});
  command.action([&choices] { gather(choices); });
}

}  // namespace hopfeed
