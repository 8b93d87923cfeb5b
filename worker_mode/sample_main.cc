// hopfeed-sample: runs a loader without a trainer and prints one line per batch, so that two set-ups can be
// compared with diff; or makes one batch again in this process (--at) and stores it.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "channel/memory.h"
#include "core/batch_maker.h"
#include "core/block_file.h"
#include "core/dataset.h"
#include "core/error.h"
#include "core/program/json_report.h"
#include "core/program/program_main.h"
#include "core/program/progress_bar.h"
#include "core/seed_list.h"
#include "worker_mode/loader.h"

namespace hopfeed {
namespace {

struct SampleArguments {
  LoaderOptions loader;
  std::string fanouts = "15,10,5";
  std::string cores;
  std::int64_t epochs = 1;
  std::int64_t start = 0;
  bool no_shuffle = false;
  std::string at, dump, json;
};

/// Splits at commas and reads whole numbers; throws kInvalid naming the option and the part.
std::vector<std::int64_t> numbers(const std::string& text, const char* option) {
  std::vector<std::int64_t> values;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::int64_t value = 0;
    const auto [rest, error] = std::from_chars(text.data() + begin, text.data() + end, value);
    if (error != std::errc{} || rest != text.data() + end) {
      throw Error(ErrorCode::kInvalid,
                  fmt::format("{}: '{}' is no whole number", option, text.substr(begin, end - begin)));
    }
    values.push_back(value);
    begin = end + 1;
  }
  return values;
}

/// "0,2-4" -> {0, 2, 3, 4}.
std::vector<int> parse_cores(const std::string& text) {
  std::vector<int> cores;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const std::size_t dash = part.find('-', 1);
    const std::int64_t low = numbers(part.substr(0, dash), "--cores")[0];
    const std::int64_t high = dash == std::string::npos ? low : numbers(part.substr(dash + 1), "--cores")[0];
    if (low < 0 || high < low || high >= 65'536)
      throw Error(ErrorCode::kInvalid, fmt::format("--cores: '{}' is no range of cores", part));
    for (std::int64_t core = low; core <= high; ++core) cores.push_back(static_cast<int>(core));
    begin = end + 1;
  }
  return cores;
}

void print_line(const BatchView& batch) {
  std::printf("%ld %ld %ld %ld %ld %016lx\n", batch.key().epoch, batch.key().first, batch.key().count,
              batch.num_nodes(), batch.num_edges(), batch.digest());
}

void flush_lines() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    throw_errno("cannot write to standard output", errno);
}

/// The 64-byte aligned home of one block.
struct BlockBuffer {
  explicit BlockBuffer(std::size_t size)
      : bytes(static_cast<std::byte*>(::operator new (size, std::align_val_t{kBlockAlignment}))),
        size(size) {}
  ~BlockBuffer() { ::operator delete (bytes, std::align_val_t{kBlockAlignment}); }
  BlockBuffer(const BlockBuffer&) = delete;
  BlockBuffer& operator=(const BlockBuffer&) = delete;
  std::byte* bytes;
  std::size_t size;
};

/// Makes the one batch of --at here, without workers.
int sample_one(const SampleArguments& arguments) {
  JsonReport report(arguments.json);
  const LoaderOptions& o = arguments.loader;
  const std::vector<std::int64_t> at = numbers(arguments.at, "--at");
  if (at.size() != 3)
    throw Error(ErrorCode::kInvalid, fmt::format("--at: '{}' is not EPOCH,FIRST,COUNT", arguments.at));
  const Dataset dataset(o.dataset);
  const int node_type = o.node_type.empty() ? 0 : dataset.meta().node_type(o.node_type);
  const SeedList seeds(dataset.split(node_type, o.split), {.node_type = node_type, .shuffle = o.shuffle});
  BatchMaker maker(dataset, seeds, o.batch);
  BlockBuffer block(maker.sample({.seed = o.seed, .epoch = at[0], .first = at[1], .count = at[2]}));
  maker.write({block.bytes, block.size});
  const BatchView view({block.bytes, block.size});
  if (!arguments.dump.empty()) store_block(view, arguments.dump);
  print_line(view);
  flush_lines();
  report.write({{"batches", 1},
                {"nodes", view.num_nodes()},
                {"edges", view.num_edges()},
                {"bytes", block.size},
                {"digest", fmt::format("{:016x}", view.digest())},
                {"dump", arguments.dump}});
  return 0;
}

struct Totals {
  std::int64_t batches = 0, nodes = 0, edges = 0, bytes = 0;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void sample_epoch(Loader& loader, std::int64_t epoch, std::int64_t start, Totals& totals) {
  const WaitTimes waited = loader.stats().waits;
  const auto begin = std::chrono::steady_clock::now();
  loader.begin_epoch(epoch, start);
  ProgressBar bar(fmt::format("epoch {}", epoch), static_cast<std::uint64_t>(loader.steps()),
                  {.unit = "batches", .quiet = isatty(STDERR_FILENO) == 0});
  while (const std::optional<Batch> batch = loader.next()) {
    const BatchView& view = batch->view();
    print_line(view);
    if (std::ferror(stdout) != 0) flush_lines();  // nobody reads: stop now
    stop_if_asked();
    ++totals.batches;
    totals.nodes += view.num_nodes();
    totals.edges += view.num_edges();
    totals.bytes += static_cast<std::int64_t>(view.bytes().size());
    bar.add(1);
  }
  const double seconds = seconds_since(begin);
  bar.note(to_text((loader.stats().waits - waited)
                       .shares_of(seconds, seconds * static_cast<double>(loader.worker_pids().size()))));
}

int sample_epochs(const SampleArguments& arguments) {
  if (!arguments.dump.empty())
    throw Error(ErrorCode::kInvalid, "--dump stores the one batch that --at names; give both");
  if (arguments.epochs < 1)
    throw Error(ErrorCode::kInvalid, fmt::format("--epochs is {}; at least 1", arguments.epochs));
  JsonReport report(arguments.json);
  Loader loader(arguments.loader);
  Totals totals;
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t epoch = 0; epoch < arguments.epochs; ++epoch) {
    sample_epoch(loader, epoch, epoch == 0 ? arguments.start : 0, totals);
    flush_lines();
  }
  const double seconds = seconds_since(begin);
  const LoaderStats stats = loader.stats();
  report.write({{"epochs", arguments.epochs},
                {"batches", totals.batches},
                {"nodes", totals.nodes},
                {"edges", totals.edges},
                {"bytes", totals.bytes},
                {"seconds", seconds},
                {"wait_seconds", stats.waits.trainer()},
                {"waited_for_sampling", stats.waits.for_sampling},
                {"waited_for_gather", stats.waits.for_gather},
                {"waited_for_handover", stats.waits.for_handover},
                {"workers_waited_for_slot", stats.waits.for_slot},
                {"workers_waited_for_memory", stats.waits.for_memory},
                {"channel_bytes", stats.channel_bytes},
                {"channel_huge_bytes", channel_huge_bytes()},
                {"dataset_resident_bytes", stats.dataset_pages.resident},
                {"dataset_huge_bytes", stats.dataset_pages.huge},
                {"worker_deaths", stats.worker_deaths},
                {"batches_remade", stats.batches_remade}});
  return 0;
}

void add_options(CLI::App& app, SampleArguments& a) {
  LoaderOptions& o = a.loader;
  app.add_option("DIR", o.dataset, "Dataset folder")->required();
  app.add_option("--fanouts", a.fanouts, "Neighbours per hop, -1 for all")->capture_default_str();
  app.add_option("--batch-size", o.batch_size, "Seeds per batch and rank")->capture_default_str();
  app.add_option_function<std::string>(
         "--huge-pages", [&o](const std::string& text) { o.huge_pages = parse_huge_pages(text); },
         "2 MiB pages for the dataset: auto asks for them, always fails where there are none")
      ->check(CLI::IsMember({"auto", "never", "always"}))
      ->default_str("auto");
  app.add_option("--epochs", a.epochs, "Epochs to run, from epoch 0")->capture_default_str();
  app.add_option("--seed", o.seed, "Seed of all random numbers")->capture_default_str();
  app.add_option("--split", o.split, "Seeds: this split of the dataset")->capture_default_str();
  app.add_option("--node-type", o.node_type, "Node type of the seeds; the first where not given");
  app.add_option("--start", a.start, "Seed position where the first epoch begins (a resumed run)")
      ->capture_default_str();
  app.add_option("--rank", o.rank, "Which trainer's batches")->capture_default_str();
  app.add_option("--world-size", o.world_size, "Trainers that share an epoch")->capture_default_str();
  app.add_option("--num-workers", o.num_workers, "Sampling processes")->capture_default_str();
  app.add_option("--channel-size", o.channel_size,
                 "Bytes that batches in shared memory may take (4G, 512M); default: by the memory available")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--cores", a.cores, "Cores of the workers, dealt in turn (0,2-3); default: shared out");
  app.add_flag("--replace", o.batch.replace, "Draw with replacement");
  app.add_flag("--no-shuffle", a.no_shuffle, "Seeds in the order of the split");
  app.add_flag("--drop-last", o.drop_last, "Drop the incomplete last round");
  app.add_flag("--e-id", o.batch.edge_ids, "Carry the original position of each edge (e_id)");
  app.add_flag("--dataset-ids", o.batch.dataset_ids, "n_id in the dataset's own order");
  app.add_option("--at", a.at, "EPOCH,FIRST,COUNT: make this one batch, in this process");
  app.add_option("--dump", a.dump,
                 "With --at: store its block here; FILE.npz for NumPy arrays by their PyG names");
  app.add_option("--json", a.json, "Write a report of the run to this file");
}

}  // namespace
}  // namespace hopfeed

int main(int argc, char** argv) {
  using namespace hopfeed;
  CLI::App app(
      "Samples mini-batches of a dataset and prints one line for each: epoch first count nodes edges "
      "digest.\n"
      "The digest (XXH3-64) covers the whole block: equal lines mean equal bytes, whatever the number of "
      "workers,\n"
      "ranks or partitions.\n\nExample: hopfeed-sample data --fanouts 15,10,5 --batch-size 1024 --seed 1 "
      "--num-workers 2",
      "hopfeed-sample");
  SampleArguments arguments;
  add_options(app, arguments);
  stop_on_signals();
  return program_main(app, argc, argv, [&] {
    arguments.loader.batch.fanouts = parse_fanouts(arguments.fanouts);
    arguments.loader.cores = parse_cores(arguments.cores);
    arguments.loader.shuffle = !arguments.no_shuffle;
    return arguments.at.empty() ? sample_epochs(arguments) : sample_one(arguments);
  });
}
