// See loader.h. What happens here is the opening: options are checked, sizes found, and a channel and its
// supervisor made. The rest is LoaderChannel's.
#include "worker_mode/loader.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <utility>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/owned_fd.h"
#include "core/batch/deal.h"
#include "core/dataset/dataset.h"
#include "core/maker/batch_maker.h"
#include "core/sampler/cluster_sampler.h"
#include "core/sampler/sampler_plugin.h"
#include "core/sampler/sampler_registry.h"
#include "core/seeds/node_set.h"
#include "worker_mode/channel_sizing.h"
#include "worker_mode/core_placement.h"
#include "worker_mode/loader_channel.h"
#include "worker_mode/plugin_trial.h"
#include "worker_mode/supervisor.h"
#include "worker_mode/torchrun_environment.h"
#include "worker_mode/worker_config.h"
#include "worker_mode/worker_process.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;

void check_deadline(std::chrono::milliseconds deadline, const char* option) {
  require_valid(
      deadline.count() >= 1 && deadline.count() <= kMaxDeadlineMs,
      fmt::format("{} is {} ms; choose 1 to {} (a year)", option, deadline.count(), kMaxDeadlineMs));
}

void check_options(const LoaderOptions& o) {
  o.batch.validate();
  require_valid(o.batch_size >= 1 && o.batch_size <= kMaxBatchSize,
                fmt::format("batch_size is {}; choose 1 to {}", o.batch_size, kMaxBatchSize));
  require_valid(o.num_workers >= 1 && o.num_workers <= kMaxWorkers,
                fmt::format("num_workers is {}; choose 1 to {}", o.num_workers, kMaxWorkers));
  require_valid(o.world_size >= 1 && o.world_size <= kMaxWorldSize,
                fmt::format("world_size is {}; choose 1 to {}", o.world_size, kMaxWorldSize));
  require_valid(
      o.rank >= 0 && o.rank < o.world_size,
      fmt::format("rank is {}; choose 0 to {} (world_size {})", o.rank, o.world_size - 1, o.world_size));
  check_deadline(o.batch_deadline, "batch_deadline");
  check_deadline(o.start_deadline, "start_deadline");
  require_valid(o.max_worker_restarts >= 0,
                fmt::format("max_worker_restarts is {}; choose 0 or more", o.max_worker_restarts));
  for (int core : o.cores)
    require_valid(core >= 0 && core < CPU_SETSIZE,
                  fmt::format("core {} cannot be; choose 0 to {}", core, CPU_SETSIZE - 1));
}

bool is_of_plugin(const std::string& sampler) {
  return sampler != BatchOptions::kNeighborSampler && sampler != BatchOptions::kWalkSampler &&
         sampler != BatchOptions::kClusterSampler;
}

bool runnable(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

/// The program of the workers, by the rule in LoaderOptions::worker_program.
std::string find_worker_program(const std::string& option) {
  const char* environment = std::getenv("HOPFEED_WORKER");
  const std::string named = !option.empty() ? option : environment != nullptr ? environment : "";
  if (!named.empty()) {
    if (!runnable(named))
      throw Error(
          ErrorCode::kNotFound,
          fmt::format(
              "the worker program {} does not exist or cannot be run; set worker_program or HOPFEED_WORKER",
              named));
    return fs::absolute(named).string();
  }
  std::error_code ignored;
  const fs::path beside = fs::read_symlink("/proc/self/exe", ignored).parent_path() / "hopfeed-worker";
  if (runnable(beside)) return beside.string();
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (!folder.empty() && runnable(fs::path(folder) / "hopfeed-worker"))
      return fs::absolute(fs::path(folder) / "hopfeed-worker").string();
  }
  throw Error(
      ErrorCode::kNotFound,
      "hopfeed-worker is neither beside this program nor on PATH; set worker_program or HOPFEED_WORKER");
}

std::vector<std::vector<int>> worker_cores(const LoaderOptions& options) {
  const auto workers = static_cast<std::size_t>(options.num_workers);
  if (options.cores.empty()) return plan_cores(query_cores(static_cast<int>(options.num_workers))).workers;
  std::vector<std::vector<int>> cores(workers);
  for (std::size_t i = 0; i < workers; ++i) cores[i] = {options.cores[i % options.cores.size()]};
  return cores;
}

}  // namespace

std::unique_ptr<NodeSet> loader_seeds(const LoaderOptions& options, const Dataset& dataset) {
  const int node_type = seed_node_type(dataset.meta(), options.node_type);
  NodeInput input{.split = options.split,
                  .ids = options.seeds,
                  .mask = options.seed_mask,
                  .times = options.seed_times,
                  .weights = options.seed_weights};
  if (options.batch.sampler == BatchOptions::kClusterSampler && !input.ids && !input.mask)
    input.ids = cluster_seeds(dataset, node_type, options.batch.cluster);
  return std::make_unique<NodeSet>(dataset, node_type, input);
}

std::unique_ptr<BatchSource> loader_source(const LoaderOptions& options, const Dataset& dataset) {
  if (!options.batch.link.on()) {
    require_valid(!options.links, "links are given, but not of which edge type; name it (batch.link)");
    return std::make_unique<BatchSource>(
        loader_seeds(options, dataset),
        NodeSet::ListOptions{.node_type = seed_node_type(dataset.meta(), options.node_type),
                             .shuffle = options.shuffle});
  }
  const auto refuse = [](bool given, const char* what) {
    require_valid(!given, fmt::format("the seeds are links, so option {} is not read; leave it out", what));
  };
  refuse(options.seeds || options.seed_mask, "seeds");
  refuse(!options.seed_times.empty(), "seed_times");
  refuse(!options.seed_weights.empty(), "seed_weights");
  refuse(!options.node_type.empty(), "node_type");
  refuse(options.split != LoaderOptions{}.split, "split");
  const LinkInput links = options.links.value_or(LinkInput{});
  require_valid(links.times.empty() || !options.batch.time.empty(),
                "link times are given, but no time to sample by (time)");
  const int edge_type = dataset.meta().edge_type(options.batch.link.edge_type);
  return std::make_unique<BatchSource>(
      std::make_unique<LinkSet>(dataset, edge_type, links),
      LinkSet::ListOptions{.edge_type = edge_type, .shuffle = options.shuffle});
}

// ---- batches

struct Batch::Lease {
  std::shared_ptr<LoaderChannel> channel;
  std::uint32_t slot;
  Lease(std::shared_ptr<LoaderChannel> owner, std::uint32_t number)
      : channel(std::move(owner)), slot(number) {}
  ~Lease() { channel->release(slot); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
};

BatchTimes Batch::times() const { return lease_->channel->times(lease_->slot); }

// ---- the loader

class Loader::Impl {
 public:
  explicit Impl(const LoaderOptions& options) : options_(options) {
    check_deadline(options.start_deadline, "start_deadline");
    const std::string program = find_worker_program(options.worker_program);
    for (const std::string& plugin : options.plugins) {  // its sampler says how large a batch can be
      try_plugin(program, plugin_path(plugin).string(), options.start_deadline);
      load_sampler_plugin(plugin);
    }
    require_sampler(options.batch.sampler);  // else its options would be told that it does not know them
    check_options(options);
    const Dataset dataset(options.dataset);
    const std::unique_ptr<BatchSource> source = loader_source(options, dataset);
    num_seeds_ = source->size();
    require_valid(
        deal(0).steps() > 0,  // more ranks than seeds: deal() says so
        fmt::format("drop_last leaves no batch: {} seeds are less than a round of {} batches of {}; lower "
                    "batch_size or leave drop_last out",
                    num_seeds_, options.world_size, options.batch_size));
    if (source->given()) {
      const std::vector<std::byte> packed = source->pack();
      seeds_fd_ = memfd_of("hopfeed-seeds", packed.data(), packed.size());
    }
    if (is_of_plugin(options.batch.sampler)) try_sampler(program, dataset);
    const BatchMaker maker = source->maker(dataset, options.batch);
    const ChannelPlan plan = plan_channel(options, {.worst_block = maker.max_block_bytes(options.batch_size),
                                                    .scratch = maker.scratch(options.batch_size),
                                                    .available = available_memory(),
                                                    .local_world = local_ranks().world});
    channel_ = std::make_shared<LoaderChannel>(plan, options);
    start_workers(program, dataset);
  }

  ~Impl() {
    if (!channel_->in_own_process()) {  // workers and slots are the other process's
      [[maybe_unused]] const Supervisor* left_alone = supervisor_.release();
      return;
    }
    supervisor_.reset();
    channel_->close();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void begin_epoch(std::int64_t epoch, std::int64_t start) {
    require_own_process();
    require_valid(epoch >= 0, fmt::format("epoch is {}; epochs count from 0", epoch));
    channel_->begin_epoch(epoch, deal(start));
  }

  std::optional<Batch> next() {
    require_own_process();
    const auto patience = 2 * options_.batch_deadline + options_.start_deadline;
    const std::optional<LoaderChannel::Taken> taken = channel_->next(patience);
    if (!taken) return {};
    auto lease = std::make_shared<const Batch::Lease>(channel_, taken->slot);
    return Batch(BatchView(taken->block), std::move(lease));
  }

  std::int64_t num_seeds() const { return num_seeds_; }
  const LoaderChannel& channel() const { return *channel_; }
  std::vector<int> pids() const { return supervisor_->pids(); }

 private:
  void require_own_process() const {
    if (channel_->in_own_process()) return;
    throw Error(
        ErrorCode::kInvalid,
        fmt::format(
            "process {} was forked from the one that this loader belongs to, and forks have none of its "
            "threads; make a loader in each process",
            getpid()));
  }

  Deal deal(std::int64_t start) const {
    return Deal({.num_seeds = num_seeds_,
                 .start = start,
                 .batch_size = options_.batch_size,
                 .world_size = options_.world_size,
                 .drop_last = options_.drop_last});
  }

  /// Of the workers, but for what tells them apart.
  WorkerConfig worker_config(const Dataset& dataset) const {
    return {.dataset = fs::absolute(dataset.folder()).string(),
            .fingerprint = dataset.meta().fingerprint,
            .batch = options_.batch,
            .node_type = options_.node_type,
            .split = options_.links ? options_.links->split : options_.split,
            .seeds_inherited = seeds_fd_.get() >= 0,
            .shuffle = options_.shuffle,
            .check_finite = options_.check_finite,
            .seed = options_.seed,
            .worker = 0,
            .parent = 0,
            .cores = {},
            .huge_pages = to_string(options_.huge_pages)};
  }

  std::vector<std::string> plugin_paths() const {
    std::vector<std::string> paths;
    for (const std::string& plugin : options_.plugins) paths.push_back(plugin_path(plugin).string());
    return paths;
  }

  void try_sampler(const std::string& program, const Dataset& dataset) const {
    hopfeed::try_sampler({.program = program,
                          .plugins = plugin_paths(),
                          .sampler = options_.batch.sampler,
                          .config = worker_config(dataset).to_json(),
                          .seeds_fd = seeds_fd_.get(),
                          .batch_size = options_.batch_size,
                          .deadline = options_.start_deadline});
  }

  void start_workers(const std::string& program, const Dataset& dataset) {
    SupervisorOptions supervision;
    supervision.program = program;
    supervision.config = worker_config(dataset);
    supervision.plugins = plugin_paths();
    supervision.cores = worker_cores(options_);
    supervision.seeds_fd = seeds_fd_.get();
    supervision.batch_deadline = options_.batch_deadline;
    supervision.start_deadline = options_.start_deadline;
    supervision.max_restarts = options_.max_worker_restarts;
    supervisor_ = std::make_unique<Supervisor>(channel_, std::move(supervision));
    supervisor_->wait_until_ready();
  }

  const LoaderOptions options_;
  std::int64_t num_seeds_ = 0;
  std::shared_ptr<LoaderChannel> channel_;
  OwnedFd seeds_fd_;
  std::unique_ptr<Supervisor> supervisor_;  // ends before what it uses
};

Loader::Loader(const LoaderOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Loader::~Loader() = default;

void Loader::begin_epoch(std::int64_t epoch, std::int64_t start) { impl_->begin_epoch(epoch, start); }
std::optional<Batch> Loader::next() { return impl_->next(); }
std::int64_t Loader::steps() const { return impl_->channel().steps(); }
std::int64_t Loader::num_seeds() const { return impl_->num_seeds(); }
std::int64_t Loader::next_position() const { return impl_->channel().next_position(); }
LoaderStats Loader::stats() const { return impl_->channel().stats(); }
std::vector<int> Loader::worker_pids() const { return impl_->pids(); }

}  // namespace hopfeed
