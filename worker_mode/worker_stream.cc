// See worker_stream.h.
#include "worker_mode/worker_stream.h"

#include <filesystem>
#include <utility>

#include "core/base/notes.h"
#include "core/maker/batch_maker.h"
#include "core/sampler/sampler_plugin.h"
#include "gpu/device/gpu_sampling.h"
#include "worker_mode/core_placement.h"
#include "worker_mode/plugin_trial.h"
#include "worker_mode/shared_row_cache.h"
#include "worker_mode/supervisor.h"
#include "worker_mode/worker_config.h"
#include "worker_mode/worker_process.h"
#include "worker_mode/worker_program.h"

namespace hopfeed {
namespace {

std::vector<std::vector<int>> worker_cores(const LocalExecution& options) {
  const auto workers = static_cast<std::size_t>(options.num_workers);
  if (options.cores.empty()) return plan_cores(query_cores(static_cast<int>(options.num_workers))).workers;
  std::vector<std::vector<int>> cores(workers);
  for (std::size_t i = 0; i < workers; ++i) cores[i] = {options.cores[i % options.cores.size()]};
  return cores;
}

std::vector<std::string> plugin_paths(const LocalExecution& options) {
  std::vector<std::string> paths;
  for (const std::string& plugin : options.plugins) paths.push_back(plugin_path(plugin).string());
  return paths;
}

}  // namespace

std::unique_ptr<WorkerStream> WorkerStream::open(const LoaderOptions& options,
                                                 const std::shared_ptr<gpu::DeviceRoom>& room) {
  const LocalExecution& execution = options.execution;
  const std::string program = find_worker_program(execution.worker_program);
  // Its sampler says how large a batch can be.
  const auto load_plugin = [&](const std::string& plugin) {
    load_tried_plugin(program, plugin, execution.start_deadline);
  };
  // Every partition has a server, or the stream is not opened. Workers wait for those that are lost later.
  // They read the dataset, and this process does not.
  LoaderParts parts = open_parts(options, HugePages::kAuto, load_plugin);
  const Dataset& dataset = *parts.dataset;
  std::unique_ptr<WorkerStream> stream(new WorkerStream(options, parts));
  WorkerConfig config = stream->worker_config(options, dataset);
  if (room) config.device_room = room->name();
  if (!stream->spec().sampler_sha256.empty()) {
    try_sampler({.program = program,
                 .plugins = plugin_paths(execution),
                 .sampler = options.batch.sampler,
                 .config = config.to_json(),
                 .seeds_fd = stream->seeds_fd_.get(),
                 .batch_size = options.deal.batch_size,
                 .deadline = execution.start_deadline});
  }
  // On a device the CPU's sampler makes what the device's does not (gpu/batches/block_maker_on.h).
  stream->make_shared_channel(
      options,
      parts.source->maker(dataset, options.batch,
                          room ? nullptr : neighbor_samplers(execution.gpu, SamplerFor::kBounds)),
      room.get());
  config.batch_memory = stream->memory_of_worker(options);
  stream->row_cache_ = shared_row_cache(dataset, execution.features);
  stream->start_workers(execution, program, config);
  if (dataset.peers() != nullptr && notes_are_taken()) stream->watched_ = std::move(parts.dataset);
  return stream;
}

WorkerStream::WorkerStream(const LoaderOptions& options, const LoaderParts& parts)
    : ChannelStream(options, parts.spec, parts.dataset->meta(), parts.source->size()) {
  if (!parts.source->given()) return;
  const std::vector<std::byte> packed = parts.source->pack();
  seeds_fd_ = memfd_of("hopfeed-seeds", packed.data(), packed.size());
}

WorkerConfig WorkerStream::worker_config(const LoaderOptions& options, const Dataset& dataset) const {
  return {.dataset = std::filesystem::absolute(dataset.folder()).string(),
          .manifest = manifest_hash(dataset.meta()),
          .spec = spec(),
          .execution = options.execution,
          .worker = 0,
          .parent = 0,
          .cores = {},
          .asks_for_jobs = false,
          .max_scratch = 0};
}

void WorkerStream::make_shared_channel(const LoaderOptions& options, const BatchMaker& maker,
                                       gpu::DeviceRoom* room) {
  if (room == nullptr) return make_channel(options, maker);
  ChannelNeeds needs = needs_of(maker);
  needs.device = room->available();
  make_channel(options, needs, {.workers = options.execution.num_workers},
               [room](std::size_t size) { return room->shared_slots(make_shared_memory(size)); });
}

WorkerStream::~WorkerStream() {
  if (!host()) return;              // its opening was refused
  if (!host()->in_own_process()) {  // workers and slots are the other process's
    [[maybe_unused]] const SlotFillers* left_alone = fillers_.release();
    [[maybe_unused]] const Dataset* unwatched = watched_.release();
    return;
  }
  fillers_.reset();
  host()->close();
}

void WorkerStream::start_workers(const LocalExecution& execution, const std::string& program,
                                 const WorkerConfig& config) {
  SupervisorOptions supervision;
  supervision.program = program;
  supervision.config = config;
  supervision.plugins = plugin_paths(execution);
  supervision.cores = worker_cores(execution);
  supervision.seeds_fd = seeds_fd_.get();
  supervision.row_cache_fd = row_cache_ ? row_cache_->fd() : -1;
  supervision.batch_deadline = execution.batch_deadline;
  supervision.start_deadline = execution.start_deadline;
  supervision.max_restarts = execution.max_worker_restarts;
  fillers_ = std::make_unique<Supervisor>(host(), std::move(supervision));
  fillers_->wait_until_ready();
}

}  // namespace hopfeed
