// hopfeed-bench-trainer: the cost of a training step on batches in memory, one JSON line. docs/benchmarks.md
// says what the keys mean; sage_step_pyg.py runs PyG on the batches and first parameters that --dump stores.
#include <filesystem>
#include <iostream>
#include <string>

#include "bench/trainer/sage_step.h"
#include "bench/trainer/step_batches.h"
#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/batch/batch_options.h"
#include "core/program/json_report.h"
#include "core/program/program_main.h"

namespace hopfeed::bench {
namespace {

struct StepArguments {
  BenchOptions bench;
  std::string fanouts = "15,10,5", dump, json;
  std::int64_t hidden = 256, batches = 4;
  double dropout = 0;
};

void add_options(CommandLine& line, StepArguments& a) {
  BenchOptions& o = a.bench;
  line.option("--data", o.data, "Dataset folder; default: a generated one, kept in the user's cache folder");
  line.option("--nodes", o.nodes, "Nodes of the generated graph");
  line.option("--edges", o.edges, "Edges of the generated graph");
  line.option("--features", o.features, "Features (float32) of the generated graph");
  line.option("--fanouts", a.fanouts, "Neighbours per hop, a layer each; -1 for all");
  line.option("--batch-size", o.batch_size, "Seeds per batch", {.min = 1, .max = kMaxBatchSize});
  line.option("--batches", a.batches, "Different batches, taken in turn", {.positive = true});
  line.option("--hidden", a.hidden, "Width of the hidden layers", {.positive = true});
  line.option("--dropout", a.dropout, "Share of hidden units dropped");
  line.option("--threads", o.threads, "Torch's threads", {.min = 1, .max = 1024});
  line.option("--seconds", o.seconds, "Length of the measurement", {.positive = true});
  line.option("--dump", a.dump,
              "Only store the batches (.npz) and the first parameters (.npy) in this folder, for NumPy",
              {.output = true});
  line.option("--json", a.json, "Also write the line to this file", {.output = true});
}

Report report_of(const StepArguments& a, const StepBatches& data, const Cost& tensors,
                 const StepReport& steps) {
  Report report{{"bench", "trainer"},
                {"threads", a.bench.threads},
                {"fanouts", a.bench.fanouts},
                {"batch_size", a.bench.batch_size},
                {"hidden", a.hidden},
                {"dropout", a.dropout},
                {"features", data.features},
                {"classes", data.classes},
                {"batches", data.batches.size()},
                {"steps", steps.steps},
                {"losses", steps.losses},
                {"tensors_cpu_ms", tensors.cpu_ms},
                {"tensors_wall_ms", tensors.wall_ms},
                {"cpu_ms", steps.median.step.cpu_ms},
                {"wall_ms", steps.median.step.wall_ms}};
  for (std::size_t i = 0; i < kNumParts; ++i) {
    report[std::string(kPartNames[i]) + "_cpu_ms"] = steps.median.parts[i].cpu_ms;
    report[std::string(kPartNames[i]) + "_wall_ms"] = steps.median.parts[i].wall_ms;
  }
  double nodes = 0, edges = 0;
  for (const BatchTensors& batch : data.batches) {
    nodes += static_cast<double>(batch.num_nodes());
    edges += static_cast<double>(batch.edge_index.size(1));
  }
  report["nodes_per_batch"] = nodes / static_cast<double>(data.batches.size());
  report["edges_per_batch"] = edges / static_cast<double>(data.batches.size());
  return report;
}

void make_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw_errno("--dump: cannot make the folder " + folder, error.value());
}

void run(StepArguments& a) {
  JsonReport file(a.json);
  a.bench.fanouts = parse_fanouts(a.fanouts);
  BatchOptions{.fanouts = a.bench.fanouts}.validate();  // before a graph is generated for it
  at::set_num_threads(a.bench.threads);
  if (!a.dump.empty()) make_folder(a.dump);
  const StepBatches data = make_batches(a.bench, a.batches, a.dump);
  torch::manual_seed(1);
  GraphSage model(ModelOptions{.hops = std::ssize(a.bench.fanouts),
                               .features = data.features,
                               .hidden = a.hidden,
                               .classes = data.classes,
                               .dropout = a.dropout});
  if (!a.dump.empty()) {
    store_parameters(model, a.dump);
    return;
  }
  const Cost tensors = measure_tensors(data.blocks, a.bench.seconds / 4);
  const Report report = report_of(a, data, tensors, measure_steps(model, data.batches, a.bench.seconds));
  std::cout << report.dump() << std::endl;
  file.write(report);
}

}  // namespace
}  // namespace hopfeed::bench

int main(int argc, char** argv) {
  using namespace hopfeed;
  using namespace hopfeed::bench;
  CommandLine line("hopfeed-bench-trainer",
                   "Measures what a training step of GraphSAGE costs on batches that are in memory: CPU time "
                   "of all threads\n"
                   "and time on the clock, medians over the steps; prints one JSON line.\n\n"
                   "Example: hopfeed-bench-trainer --threads 1 --seconds 5");
  StepArguments arguments;
  add_options(line, arguments);
  line.action([&] { run(arguments); });
  stop_on_signals();
  return program_main(line, argc, argv);
}
