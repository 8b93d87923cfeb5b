// The options of programs that open a loader. Most stand for fields, whose names, ranges and help come from
// the options structs (core/base/field_visitor.h), so --fanouts means the same, reads the same and is refused
// the same in hopfeed-sample, in the examples and in the benchmarks. What is read from files, and `auto`, are
// added here.
#pragma once
#include <cstdint>
#include <optional>
#include <set>
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
  explicit LoaderArguments(LoaderOptions& options) : options_(options) {}
  LoaderArguments(const LoaderArguments&) = delete;
  LoaderArguments& operator=(const LoaderArguments&) = delete;

  /// Adds the options of these groups: those that fields name (Field::group), and "graph mode" (with
  /// --gpu-device) and "partitions". Throws std::logic_error for a group that there is not.
  void add(CommandLine& line, const std::set<std::string>& groups);

  /// Reads the texts and files of the groups that were added. Throws kInvalid, kNotFound or kCorrupt naming
  /// option and file.
  void take();
  /// For a run whose batches come from servers: throws kInvalid naming an option that was given and is of
  /// sampling on this machine.
  void refuse_of_workers() const;

 private:
  void add_files_of_seeds(CommandLine& line);
  void add_files_of_links(CommandLine& line);
  void add_by_hand(CommandLine& line, const std::string& group);
  void take_files();
  void take_graph_mode();

  LoaderOptions& options_;
  PartitionArguments partitions_;
  std::string graph_mode_ = "cpu", plugin_;
  std::string seeds_, seeds_by_key_, seed_times_, seed_weights_, links_, labels_, link_times_;
  std::vector<std::pair<const CommandLine*, std::string>> of_workers_;  // where it was added, and its name
  const CommandLine* line_ = nullptr;                                   // that has --partitions
  std::int64_t labor_batches_ = 1;
};

/// Adds --graph-mode and --gpu-device: `name` is for take_graph_mode().
void add_graph_mode(CommandLine& line, std::string& name, int& gpu_device);
/// Sets the graph mode of that name. Of `auto` it says on standard error which one was taken, and why;
/// `gpu_device` becomes 0 where that is the CPU, and the CPU samples where the GPU is lost.
void take_graph_mode(const std::string& name, const std::vector<std::string>& datasets,
                     std::int64_t num_workers, GpuOptions& gpu);
/// Says on standard error, once, where io_uring is not to be had and features are read from files all the
/// same.
void tell_how_features_are_read(FeaturesFrom from);

}  // namespace hopfeed
