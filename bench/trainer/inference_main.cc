// hopfeed-bench-inference: what a layer of inference over all nodes costs beside its parts alone, one JSON
// line. docs/benchmarks.md says what the keys mean.
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "bench/bench_data.h"
#include "bench/measure.h"
#include "core/base/atomic_file.h"
#include "core/base/parallel_ranges.h"
#include "core/program/json_report.h"
#include "core/program/program_main.h"
#include "results/table_rows.h"
#include "trainer/full_inference.h"
#include "trainer/row_products.h"

namespace hopfeed::bench {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  BenchOptions bench;
  std::string folder = "/var/tmp/hopfeed-bench-inference", json;
  std::int64_t hidden = 128, rounds = 5, memory_mb = 16'384;
};

class NoSink final : public ResultSink {
 public:
  Kind kind() const override { return Kind::kEmbeddings; }
  void take(const ResultRows&) override {}
  void finish() override {}
};

/// Seconds of a whole layer, up to its last shard that is written; the rows are not read again.
double layer_seconds(const Arguments& a, const InferredModel& model, const Dataset& dataset) {
  fs::remove_all(a.folder);
  double done_at = 0;
  FullInference inference(model, dataset,
                          {.folder = a.folder,
                           .memory = static_cast<std::uint64_t>(a.memory_mb) << 20,
                           .threads = a.bench.threads,
                           .progress = [&](std::uint64_t done, std::uint64_t total) {
                             if (done == total && done_at == 0) done_at = now();
                           }});
  NoSink sink;
  const double begin = now();
  inference.run({&sink});
  return done_at - begin;
}

/// Calls body(worker, part, first row of the shard, begin, end) for blocks of rows of all partitions, on the
/// threads, a shard after the other; behind each shard `shard(part, first, count)` is called.
template <class Body, class Shard>
void for_blocks(const Arguments& a, const CscView& csc, std::int64_t height, Body body, Shard shard) {
  for (int part = 0; part < static_cast<int>(csc.parts.size()); ++part) {
    const std::int64_t rows = csc.parts[static_cast<std::size_t>(part)].num_rows;
    for (std::int64_t first = 0; first < rows; first += height) {
      const std::int64_t count = std::min(height, rows - first),
                         blocks = (count + kProductRows - 1) / kProductRows;
      std::atomic<std::int64_t> next{0};
      parallel_ranges(a.bench.threads, a.bench.threads, [&](int worker, std::int64_t, std::int64_t) {
        for (std::int64_t i = next++; i < blocks; i = next++)
          body(worker, part, first, first + i * kProductRows,
               first + std::min(count, (i + 1) * kProductRows));
      });
      shard(part, first, count);
    }
  }
}

/// Seconds of the bare loop: rows gathered and summed in the order of edges, written and synced.
double loop_seconds(const Arguments& a, const Dataset& dataset) {
  fs::remove_all(a.folder);
  fs::create_directories(a.folder);
  const TableRows table(dataset, 0, "x");
  const CscView csc = dataset.csc(0);
  const std::int64_t width = table.rows().width,
                     height = shard_rows(width * static_cast<std::int64_t>(sizeof(float)));
  std::vector<float> buffers[2];
  for (auto& buffer : buffers) buffer.resize(static_cast<std::size_t>(height * width));
  std::future<void> writing;
  int now_in = 0;
  const double begin = now();
  for_blocks(
      a, csc, height,
      [&](int, int part, std::int64_t first, std::int64_t row, std::int64_t end) {
        mean_of_sources(table.rows(), csc, {.part = part, .begin = row, .end = end},
                        buffers[now_in].data() + (row - first) * width, width);
      },
      [&](int part, std::int64_t first, std::int64_t count) {
        if (writing.valid()) writing.get();
        writing = std::async(std::launch::async, [&, part, first, count, at = now_in] {
          AtomicFile file(fs::path(a.folder) / (std::to_string(part) + "." + std::to_string(first)));
          file.write(std::as_bytes(std::span(buffers[at]).first(static_cast<std::size_t>(count * width))));
          file.commit();
        });
        now_in = 1 - now_in;
      });
  writing.get();
  return now() - begin;
}

/// Seconds of the products alone, in the same blocks.
double products_seconds(const Arguments& a, const Dataset& dataset, std::int64_t depth) {
  const CscView csc = dataset.csc(0);
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  std::vector<torch::Tensor> in, out;
  for (int t = 0; t < a.bench.threads; ++t) {
    in.push_back(torch::rand({kProductRows, depth}));
    out.push_back(torch::empty({kProductRows, a.hidden}));
  }
  const torch::Tensor weights = torch::rand({depth, a.hidden});
  const double begin = now();
  for_blocks(
      a, csc, std::int64_t{1} << 16,
      [&](int worker, int, std::int64_t, std::int64_t, std::int64_t) {
        const torch::NoGradGuard no_gradients;
        const auto w = static_cast<std::size_t>(worker);
        at::mm_out(out[w], in[w], weights);
      },
      [](int, std::int64_t, std::int64_t) {});
  const double seconds = now() - begin;
  at::set_num_threads(before);
  return seconds;
}

/// Seconds of a layer that only averages: its shards as inference computes and writes them.
double means_seconds(const Arguments& a, const Dataset& dataset) {
  fs::remove_all(a.folder);
  const TableRows table(dataset, 0, "x");
  const CscView csc = dataset.csc(0);
  const std::int64_t width = table.rows().width, row_bytes = width * static_cast<std::int64_t>(sizeof(float)),
                     height = shard_rows(row_bytes);
  std::vector<RowTerm> terms;
  terms.push_back({.write =
                       [&](int part, std::int64_t begin, std::int64_t end, float* out, std::int64_t stride) {
                         mean_of_sources(table.rows(), csc, {.part = part, .begin = begin, .end = end}, out,
                                         stride);
                       },
                   .width = width});
  const RowProducts rows(std::move(terms), {}, false, width, torch::kCPU);
  const LayerFolder folder{.path = fs::path(a.folder) / "layers", .run = {.high = 1, .low = 1}};
  std::vector<float> next, written;
  std::future<void> writing;
  const double begin = now();
  for (int part = 0; part < dataset.meta().partitions; ++part) {
    const std::int64_t all = csc.parts[static_cast<std::size_t>(part)].num_rows;
    for (std::int64_t first = 0; first < all; first += height) {
      const std::int64_t count = std::min(height, all - first);
      next.resize(static_cast<std::size_t>(count * width));
      rows.compute(part, first, first + count, a.bench.threads, next.data());
      if (writing.valid()) writing.get();
      std::swap(next, written);
      writing = std::async(std::launch::async, [&, part, first, count] {
        folder.write({.table = "h1", .node_type = "node"},
                     {.partition = part, .first = first, .count = count, .row_bytes = row_bytes},
                     std::as_bytes(std::span(written).first(static_cast<std::size_t>(count * width))));
      });
    }
  }
  writing.get();
  return now() - begin;
}

void run(Arguments& a) {
  JsonReport file(a.json);
  const Dataset dataset(dataset_folder(a.bench));
  require_valid(dataset.num_node_types() == 1 && dataset.num_edge_types() == 1,
                "--data: give a dataset of one node and one edge type");
  at::set_num_threads(a.bench.threads);
  torch::manual_seed(1);
  const std::int64_t features = dataset.attr(0, "x").row_elements;
  const InferredModel model{.title = "a layer",
                            .layers = {{{{0,
                                          torch::rand({a.hidden, features}),
                                          torch::rand({a.hidden}),
                                          {{0, torch::rand({a.hidden, features})}}}}}},
                            .results = {0},
                            .learned = {DistEmbedding(nullptr)}};
  std::map<std::string, std::vector<double>> seconds, ratios;
  for (std::int64_t round = 0; round < a.rounds; ++round) {
    const double loop = loop_seconds(a, dataset), means = means_seconds(a, dataset),
                 layer = layer_seconds(a, model, dataset),
                 products = products_seconds(a, dataset, 2 * features);
    for (const auto& [name, value] :
         {std::pair{"loop", loop}, {"means", means}, {"layer", layer}, {"products", products}})
      seconds[name].push_back(value);
    ratios["means_to_loop"].push_back(means / loop);
    ratios["layer_to_loop_and_products"].push_back(layer / (loop + products));
  }
  fs::remove_all(a.folder);
  Report report{{"bench", "inference"},
                {"threads", a.bench.threads},
                {"nodes", dataset.num_nodes(0)},
                {"edges", dataset.csc(0).num_edges},
                {"features", features},
                {"hidden", a.hidden},
                {"rounds", a.rounds}};
  for (const auto& [name, values] : seconds) report[name + "_seconds"] = median(values);
  for (const auto& [name, values] : ratios) report[name] = median(values);
  std::cout << report.dump() << std::endl;
  file.write(report);
}

}  // namespace
}  // namespace hopfeed::bench

int main(int argc, char** argv) {
  using namespace hopfeed;
  using namespace hopfeed::bench;
  CommandLine line(
      "hopfeed-bench-inference",
      "Measures a layer of inference over all nodes beside its parts alone, by turns: the loop that "
      "gathers, sums\nand writes, and the products; prints one JSON line.\n\n"
      "Example: hopfeed-bench-inference --nodes 2400000 --edges 62000000 --features 128");
  Arguments a;
  line.option("--data", a.bench.data,
              "Dataset folder; default: a generated one, kept in the user's cache folder");
  line.option("--nodes", a.bench.nodes, "Nodes of the generated graph");
  line.option("--edges", a.bench.edges, "Edges of the generated graph");
  line.option("--features", a.bench.features, "Features (float32) of the generated graph");
  line.option("--hidden", a.hidden, "Width of what the layer gives", {.positive = true});
  line.option("--threads", a.bench.threads, "Threads", {.min = 1, .max = 1024});
  line.option("--rounds", a.rounds, "Rounds; medians are told", {.positive = true});
  line.option("--memory-mb", a.memory_mb, "Memory for source rows in MiB", {.positive = true});
  line.option("--folder", a.folder, "Folder for what is written, which is removed", {.output = true});
  line.option("--json", a.json, "Also write the line to this file", {.output = true});
  line.action([&] { run(a); });
  stop_on_signals();
  return program_main(line, argc, argv);
}
