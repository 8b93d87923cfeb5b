// hopfeed-bench: each subcommand measures one part and prints one JSON line. docs/benchmarks.md says what the
// keys mean.
#include <iostream>

#include "bench/bench_options.h"
#include "core/batch/batch_options.h"
#include "core/program/json_report.h"
#include "core/program/program_main.h"
#include "core/program/stop_signals.h"
#include "programs/options/loader_arguments.h"

int main(int argc, char** argv) {
  using namespace hopfeed;
  using namespace hopfeed::bench;
  CommandLine line(
      "hopfeed-bench",
      "Measures hopfeed against what this machine allows; each benchmark prints one JSON line.\n\n"
      "Example: hopfeed-bench sampler --threads 2 --seconds 5");
  BenchOptions options;
  LoaderOptions loader;
  LoaderArguments from_line(loader);
  std::string output = "topology", json;
  struct Command {
    const char* name;
    const char* help;
    Report (*run)(const BenchOptions&);
  };
  const Command commands[] = {
      {"limits", "This machine: random reads, row gather, copy and sequential reads, one and all cores",
       bench_limits},
      {"sampler", "Sampled edges per second and their share of the limit", bench_sampler},
      {"gather", "Feature rows gathered per second and their share of the limit", bench_gather},
      {"made-graph",
       "Neighbours sampled on the CUDA card, of a graph of ogbn-papers100M's size that a kernel makes in "
       "pinned memory",
       bench_made_graph},
      {"file", "Feature rows read from a file per second, and their share of what fio reads of it",
       bench_file},
      {"cache", "Hits of the dynamic cache against Belady's and a static prefix's, and what a row costs",
       bench_cache},
      {"channel", "Microseconds from publication to the trainer's view, small batches per second, idle CPU",
       bench_channel},
      {"loader", "Batches per second from worker processes, and their share of sampler and gather",
       bench_loader},
      {"rows", "Batches per second with features stored as each row type, and what float32 of them costs",
       bench_rows},
      {"startup", "Time until workers are ready, their own memory, opening a dataset of 100 GB",
       bench_startup},
      {"server",
       "Server-client mode over loopback: blocks and small batches per second, CPU, sharing, floods, "
       "failover",
       bench_server},
      {"state",
       "Rows that two servers own, over loopback: pulled, pushed, learned by ranks together, written to a "
       "checkpoint, and their memory",
       bench_state}};
  for (const Command& command : commands) {
    CommandLine& sub = line.command(command.name, command.help);
    sub.option("--data", options.data,
               "Dataset folder; default: a generated one, kept in the user's cache folder");
    sub.option("--nodes", options.nodes, "Nodes of the generated graph");
    sub.option("--edges", options.edges, "Edges of the generated graph");
    sub.option("--features", options.features, "Features (float32) of the generated graph");
    from_line.add(sub, {"fanouts"});
    sub.option("--seconds", options.seconds, "Length of each measurement", {.positive = true});
    sub.option("--threads,--num-workers", options.threads,
               "Samplers or workers side by side, one per core (channel has one)",
               {.min = command.run == bench_loader ? 0 : 1, .max = 1024});
    sub.option("--output", output,
               "What sampler makes: topology: local ids only; batch: every default field but features",
               {.one_of = {"topology", "batch"}});
    from_line.add(sub, {"pages"});
    sub.flag("--e-id", options.edge_ids, "With original edge positions");
    sub.flag("--verify", options.verify, "Check what was computed");
    if (command.run == bench_sampler) {
      sub.option("--kind", options.kind,
                 "How neighbours are drawn, or links with a negative each; weights and times are made up, or "
                 "those of "
                 "--data",
                 {.one_of = {"uniform", "replace", "weighted", "weighted-replace", "temporal",
                             "temporal-last", "disjoint", "labor", "induced", "walk", "hetero", "link",
                             "link-strict", "link-exclude"}});
      sub.option("--labor-batches", options.labor_batches,
                 "With --kind labor: so many batches in a row take the same neighbours where they can",
                 {.min = 1, .max = 1 << 20});
      sub.option("--instructions", options.instructions,
                 "Of the processor, no wider ones than these: what a machine without AVX-512 would do",
                 {.one_of = {"best", "avx2", "sse4"}});
      from_line.add(sub, {"graph mode", "gpu graph cache"});
      sub.flag("--device-batches", options.device_batches,
               "With --graph-mode uva or cuda: samples stay in the GPU's memory");
    }
    if (command.run == bench_loader) {
      from_line.add(sub, {"graph mode", "gpu graph cache"});
      sub.flag("--device-batches", options.device_batches,
               "With --graph-mode uva or cuda: batches lie in the GPU's memory (--num-workers 0: made by "
               "this process)");
    }
    if (command.run == bench_made_graph) {
      sub.flag("--host", options.host, "Without a card, by the host's twin of its backend: to try it");
      sub.option(
          "--hot-bytes", options.hot_bytes,
          "With --graph-mode uva: of the card's memory for the hottest rows; default: a sixteenth of it");
      from_line.add(sub, {"graph mode"});
    }
    if (command.run == bench_server) {
      sub.option(
          "--part", options.part, "What is measured",
          {.one_of = {"all", "blocks", "small", "epoch", "sharing", "floods", "large", "failover", "idle"}});
    }
    if (command.run == bench_state) {
      sub.option("--part", options.part, "What is measured",
                 {.one_of = {"all", "pull", "push", "step", "checkpoint", "memory"}});
      sub.option("--rows", options.rows, "Rows of the table, one for each node of a generated graph",
                 {.min = 1'000, .max = 1'000'000'000});
      sub.option("--width", options.width, "float32 of a row", {.min = 1, .max = 65'536});
      sub.option("--ids", options.ids, "Rows of a pull, of a push, and of a rank's batch",
                 {.min = 1, .max = 10'000'000});
      sub.option("--folder", options.folder,
                 "Where checkpoints are written, and removed again; default: the cache folder");
    }
    if (command.run == bench_gather) {
      sub.flag(
          "--gpu", options.gpu,
          "Rows of a table into the memory of the CUDA card instead: held there, read over UVA, and mixed");
      sub.option("--row-bytes", options.row_bytes, "With --gpu: bytes of a row; default: 400, then 512",
                 {.min = 1, .max = 1 << 20});
    }
    if (command.run == bench_limits) {
      sub.flag("--gpu", options.gpu, "Measure the CUDA card and its link to host memory instead");
      sub.option("--row-bytes", options.row_bytes,
                 "Bytes of a gathered row; default: those of the dataset's features",
                 {.min = 1, .max = 1 << 20});
    }
    if (command.run == bench_cache) {
      sub.option("--held", options.held, "Share of the rows that the cache has room for",
                 {.min = 0, .max = 1});
      sub.option("--window", options.window, "Batches that are announced ahead", {.min = 0, .max = 31});
      sub.option("--batches", options.batches, "At most so many batches, spread over the epoch",
                 {.min = 1, .max = 1'000'000});
      sub.option("--row-bytes", options.row_bytes, "Bytes of a row; default: 64", {.min = 8, .max = 1 << 20});
    }
    sub.option("--json", json, "Also write the line to this file", {.output = true});
    sub.action([&] {
      loader.dataset = options.data.empty() ? "generated" : options.data;  // --graph-mode auto looks at it
      from_line.take();
      options.fanouts = loader.batch.fanouts;
      options.batch_size = loader.deal.batch_size;
      BatchOptions{.fanouts = options.fanouts}.validate();  // before a graph is generated for it
      options.huge_pages = loader.execution.huge_pages;
      options.graph_mode = loader.execution.gpu.graph_mode;
      options.gpu_device = loader.execution.gpu.gpu_device;
      options.gpu_graph_cache = loader.execution.gpu.gpu_graph_cache;
      options.topology = output == "topology";
      JsonReport file(json);  // opened first: an hour of measuring is not lost to a wrong name
      Report report = command.run(options);
      report["bench"] = command.name;
      std::cout << report.dump() << std::endl;
      file.write(report);
    });
  }
  stop_on_signals();
  return program_main(line, argc, argv);
}
