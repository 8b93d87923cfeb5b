// The options of programs that open a loader, each said once: --fanouts means the same, reads the same and is
// refused the same in hopfeed-sample, in the examples and in the benchmarks. A program adds the groups that
// it has and calls take() before it uses the LoaderOptions.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/program/command_line.h"
#include "programs/options/partition_arguments.h"
#include "stream/loader_options.h"

namespace hopfeed {

class LoaderArguments {
 public:
  /// `options` gets what is given; what it holds now are the defaults. It must outlive the command line's
  /// run.
  explicit LoaderArguments(LoaderOptions& options);
  LoaderArguments(const LoaderArguments&) = delete;
  LoaderArguments& operator=(const LoaderArguments&) = delete;

  // ---- groups of options
  /// --fanouts and --batch-size, of seeds that are called so ("Seeds", "Links").
  void add_fanouts(CommandLine& line, const std::string& seeds);
  /// --edge-fanouts.
  void add_edge_fanouts(CommandLine& line);
  /// How neighbours are drawn: --replace to --time-window.
  void add_draws(CommandLine& line);
  /// Who samples: --sampler to --sampler-options.
  void add_samplers(CommandLine& line);
  /// --node-type, and in its place or beside: a split, files of seeds, times and weights.
  void add_seeds(CommandLine& line);
  /// --link, and its splits and files.
  void add_links(CommandLine& line);
  /// --amount, --strict and --exclude, whatever the mode of the negatives.
  void add_negatives(CommandLine& line);
  /// What a batch carries: --attrs to --dataset-ids.
  void add_contents(CommandLine& line);
  /// --rank, --world-size, --drop-last and --no-shuffle.
  void add_deal(CommandLine& line);
  /// --num-workers, --channel-size and --max-batch-memory.
  void add_workers(CommandLine& line);
  /// --huge-pages.
  void add_pages(CommandLine& line);
  /// --graph-mode and --gpu-device.
  void add_graph_mode(CommandLine& line);
  /// --gpu-graph-cache, of programs that have --graph-mode.
  void add_gpu_graph_cache(CommandLine& line);
  /// --gpu-cache, of programs whose batches may stay on a GPU.
  void add_gpu_cache(CommandLine& line);
  /// What --gpu-cache says of batches that stay there; as many rows as fit where it was not given. Throws
  /// kInvalid for text that is no size, and where it was given and batches do not stay there.
  void take_gpu_cache(ExecutionOptions& execution) const;
  /// --partitions, --peers and what goes with them.
  void add_partitions(CommandLine& line);
  /// --features-from, --row-cache and --window.
  void add_features_from(CommandLine& line);
  /// --check-finite.
  void add_check_finite(CommandLine& line);

  /// Reads the texts and files of the groups that were added. Throws kInvalid, kNotFound or kCorrupt naming
  /// option and file.
  void take();
  /// For a run whose batches come from servers: throws kInvalid naming an option that was given and is of
  /// sampling on this machine.
  void refuse_of_workers() const;
  /// Adds such an option, which the program itself has.
  void add_of_workers(CommandLine& line, const std::string& option) {
    of_workers_.emplace_back(&line, option);
  }

 private:
  void take_draws();
  void take_links();
  void take_graph_mode();

  LoaderOptions& options_;
  std::string fanouts_, edge_fanouts_, huge_pages_, graph_mode_, features_from_, subgraph_,
      temporal_strategy_, attrs_ = "all", edge_attrs_, metapath_, plugin_;
  std::string gpu_cache_, gpu_graph_cache_;
  PartitionArguments partitions_;
  std::string seeds_, seed_times_, seed_weights_, links_, labels_, link_times_, negatives_, exclude_;
  std::vector<std::pair<const CommandLine*, std::string>> of_workers_;  // where it was added, and its name
  const CommandLine* line_ = nullptr;                                   // that add_partitions() was given
  std::int64_t labor_batches_ = 1;
  bool no_shuffle_ = false;
};

/// Adds --features-from and what goes with it for a program that has no loader: `name` is for
/// features_from().
void add_features_from(CommandLine& line, std::string& name, FeatureTiers& tiers);
/// Adds --graph-mode and --gpu-device for a program that has no loader: `name` is for take_graph_mode().
void add_graph_mode(CommandLine& line, std::string& name, int& gpu_device);
/// The mode of that name; of `auto` it says on standard error which one was taken, and why. `gpu_device` is 0
/// where that is the CPU.
GraphMode take_graph_mode(const std::string& name, int& gpu_device, const std::vector<std::string>& datasets,
                          std::int64_t num_workers);
/// Adds --gpu-graph-cache: `text` is for take_gpu_graph_cache(), which throws kInvalid for what is no size,
/// and gives none where it was not given.
void add_gpu_graph_cache(CommandLine& line, std::string& text);
std::optional<GpuCache> take_gpu_graph_cache(const std::string& text);
/// Says on standard error, once, where io_uring is not to be had and features are read from files all the
/// same.
void tell_how_features_are_read(FeaturesFrom from);

}  // namespace hopfeed
