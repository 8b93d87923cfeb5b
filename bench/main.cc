// hopfeed-bench: each subcommand measures one part and prints one JSON line. docs/benchmarks.md says what the keys mean.
#include <iostream>

#include "bench/bench_options.h"
#include "core/batch_options.h"
#include "core/program/json_report.h"
#include "core/program/program_main.h"

int main(int argc, char** argv) {
  using namespace hopfeed;
  using namespace hopfeed::bench;
  CLI::App app(
      "Measures hopfeed against what this machine allows; each benchmark prints one JSON line.\n\n"
      "Example: hopfeed-bench sampler --threads 2 --seconds 5",
      "hopfeed-bench");
  app.require_subcommand(1);
  BenchOptions options;
  std::string fanouts = "15,10,5", output = "topology", huge_pages = "auto", json;
  struct Command {
    const char* name;
    const char* help;
    Report (*run)(const BenchOptions&);
  };
  const Command commands[] = {
      {"limits", "This machine: random reads, row gather, copy and sequential reads, one and all cores",
       bench_limits},
      {"sampler", "Sampled edges per second and their share of the limit", bench_sampler},
      {"gather", "Feature rows gathered per second and their share of the limit", bench_gather}};
  for (const Command& command : commands) {
    CLI::App& sub = *app.add_subcommand(command.name, command.help);
    sub.add_option("--data", options.data,
                   "Dataset folder; default: a generated one, kept in the user's cache folder");
    sub.add_option("--nodes", options.nodes, "Nodes of the generated graph")->capture_default_str();
    sub.add_option("--edges", options.edges, "Edges of the generated graph")->capture_default_str();
    sub.add_option("--features", options.features, "Features (float32) of the generated graph")
        ->capture_default_str();
    sub.add_option("--fanouts", fanouts, "Neighbours per hop, -1 for all")->capture_default_str();
    sub.add_option("--batch-size", options.batch_size, "Seeds per batch")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    sub.add_option("--seconds", options.seconds, "Length of each measurement")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    sub.add_option("--threads,--num-workers", options.threads,
                   "Samplers or workers side by side, one per core")
        ->capture_default_str()
        ->check(CLI::Range(1, 1024));
    sub.add_option("--output", output, "topology: local ids only; batch: every default field but features")
        ->check(CLI::IsMember({"topology", "batch"}))
        ->capture_default_str();
    sub.add_option("--huge-pages", huge_pages,
                   "2 MiB pages: auto asks for them, never refuses, always fails without")
        ->check(CLI::IsMember({"auto", "never", "always"}))
        ->capture_default_str();
    sub.add_flag("--e-id", options.edge_ids, "With original edge positions");
    sub.add_flag("--verify", options.verify, "Check what was computed");
    if (command.run == bench_limits) {
      sub.add_flag("--gpu", options.gpu, "Measure the CUDA card and its link to host memory instead");
      sub.add_option("--row-bytes", options.row_bytes,
                     "Size of the gathered rows; default: the dataset's features")
          ->check(CLI::Range(1, 1 << 20));
    }
    sub.add_option("--json", json, "Also write the line to this file");
  }
  return program_main(app, argc, argv, [&] {
    options.fanouts = parse_fanouts(fanouts);
    BatchOptions{.fanouts = options.fanouts}.validate();  // before a graph is generated for it
    options.huge_pages = parse_huge_pages(huge_pages);
    options.topology = output == "topology";
    JsonReport report_file(json);  // opened first: an hour of measuring is not lost to a wrong name
    for (const Command& command : commands) {
      if (!app.got_subcommand(command.name)) continue;
      Report report = command.run(options);
      report["bench"] = command.name;
      std::cout << report.dump() << std::endl;
      report_file.write(report);
    }
    return 0;
  });
}
