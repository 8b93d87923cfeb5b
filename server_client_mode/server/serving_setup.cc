// See serving.h. What a server opens before it serves.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/base/error.h"
#include "core/base/memory_limits.h"
#include "core/base/owned_fd.h"
#include "core/sampler/sampler_plugin.h"
#include "core/sampler/sampler_registry.h"
#include "gpu/device/gpu_sampling.h"
#include "server_client_mode/server/serving.h"
#include "worker_mode/plugin_trial.h"
#include "worker_mode/worker_program.h"

namespace hopfeed {
namespace {

constexpr std::size_t kSmallestPool = std::size_t{16} << 20;

const ServerOptions& valid(const ServerOptions& options) {
  options.validate();
  require_graph_mode(options.gpu);
  return options;
}

int duplicate(int fd) {
  const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 64);
  if (copy < 0) throw_errno("cannot listen for the sampling workers", errno);
  return copy;
}

std::string name_of_server() {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  return fmt::format("{}:{}", host, getpid());
}

}  // namespace

Serving::Plugins Serving::load_plugins(const ServerOptions& options) {
  Plugins plugins{.worker_program = find_worker_program(options.worker_program), .paths = {}, .samplers = {}};
  for (const std::string& plugin : options.plugins) {
    const std::string sampler = load_tried_plugin(plugins.worker_program, plugin, options.start_deadline);
    plugins.paths.push_back(plugin_path(plugin).string());
    plugins.samplers.push_back({.name = sampler, .sha256 = sampler_file_sha256(sampler)});
  }
  return plugins;
}

std::size_t Serving::memory_of(const ServerOptions& options) {
  const AvailableMemory available = available_memory();
  const std::size_t bytes =
      options.max_memory != 0 ? options.max_memory : std::max(kSmallestPool, available.bytes / 4);
  require_memory(plan_sampling_pool(options.num_workers, bytes).needed, available,
                 fmt::format("the server ({} {})", marked("max_memory"), format_bytes(bytes)),
                 "lower " + marked("max_memory"));
  return bytes;
}

/// Without --state there is none.
StateRoom Serving::room_of_state(const ServerOptions& options, const ServedDatasets& datasets,
                                 std::size_t max_memory) {
  if (options.state.empty()) return {};
  const AvailableMemory available = available_memory();
  const std::size_t bytes =
      options.max_state_memory != 0 ? options.max_state_memory : std::max(kSmallestPool, available.bytes / 4);
  require_memory(plan_sampling_pool(options.num_workers, max_memory).needed + bytes, available,
                 fmt::format("the server ({} {}, {} {})", marked("max_memory"), format_bytes(max_memory),
                             marked("max_state_memory"), format_bytes(bytes)),
                 fmt::format("lower {} or {}", marked("max_state_memory"), marked("max_memory")));
  return {.folders = make_state_folders(options.state, datasets), .max_memory = bytes};
}

SamplingPoolOptions Serving::pool_options() {
  SamplingPoolOptions pool;
  pool.num_workers = options_.num_workers;
  pool.gpu = options_.gpu;
  pool.features = options_.features;
  pool.partitions = options_.partitions;
  pool.worker_program = plugins_.worker_program;
  pool.plugins = plugins_.paths;
  pool.max_memory = max_memory_;
  pool.max_batch_memory = options_.max_batch_memory;
  pool.state_memory = state_room_.max_memory;
  pool.batch_deadline = options_.batch_deadline;
  pool.start_deadline = options_.start_deadline;
  pool.max_worker_deaths = options_.max_worker_deaths;
  pool.find_job = [this](std::uint32_t job) { return jobs_.find(job); };
  pool.on_death = [this](const WorkerDeath& death) {
    on_loop([this, death] {
      std::string jobs;
      for (const PlannedBatch& batch : death.claims)
        jobs += fmt::format("{}{}", jobs.empty() ? "" : ",", batch.job);
      log_.add("worker_died",
               {{"worker", std::to_string(death.worker)}, {"jobs", jobs}, {"why", unmarked(death.cause)}});
    });
  };
  pool.on_refused = [this](std::uint32_t job, const Error& cause) {
    jobs_.refuse(job, cause);
    on_loop([this, job, cause] { note_refused(job, cause); });
  };
  return pool;
}

wire::Offer Serving::make_offer() const {
  return {.software = "hopfeed 0.1.0",
          .server = name_of_server(),
          .checksums = tls_ == nullptr,
          .datasets = datasets_.offer(),
          .samplers = plugins_.samplers};
}

Serving::Serving(const ServerOptions& options)
    : options_(valid(options)),
      log_(options.log),
      plugins_(load_plugins(options)),
      max_memory_(memory_of(options)),
      datasets_(options.datasets, options.features, options.partitions),
      state_room_(room_of_state(options, datasets_, max_memory_)),
      tls_(options.tls.cert.empty() ? nullptr : wire::TlsContext::server(options.tls)),
      listener_(loop_.get_executor(), options.listen),
      peers_(datasets_, loop_.get_executor(), static_cast<std::size_t>(options.peer_threads)),
      state_(options.state.empty()
                 ? nullptr
                 : std::make_unique<StateAnswers>(datasets_, state_room_, loop_.get_executor(),
                                                  static_cast<std::size_t>(options.peer_threads))),
      results_(options.results.empty()
                   ? nullptr
                   : std::make_unique<ServedResults>(options.results, loop_.get_executor(),
                                                     static_cast<std::size_t>(options.peer_threads))),
      seeds_({.max_bytes = max_memory_ / 4, .kept = options.seeds_kept}),
      jobs_(datasets_,
            {.largest_block = plan_sampling_pool(options.num_workers, max_memory_).shape.slot_stride,
             .kept = options.seeds_kept,
             .worker_program = plugins_.worker_program,
             .plugins = plugins_.paths,
             .start_deadline = options.start_deadline}),
      pool_(pool_options()),
      context_{.options = options_,
               .datasets = datasets_,
               .log = log_,
               .seeds = seeds_,
               .jobs = jobs_,
               .pool = pool_,
               .beside = beside_,
               .openers = openers_,
               .peers = peers_,
               .state = state_.get(),
               .results = results_.get()},
      doorbell_(loop_, duplicate(pool_.doorbell())) {
  context_.offer = make_offer();
  context_.status = [this] { return recent_status(); };
  if (options_.metrics) metrics_listener_.emplace(loop_.get_executor(), *options_.metrics);
  pages_ = {.metrics = [this] { return recent_metrics(); },
            .ready = [this] { return !context_.draining && !pool_.failure() && !ending_; }};
}

Serving::~Serving() { stop(); }  // NOLINT(bugprone-exception-escape): as declared

std::optional<wire::Address> Serving::metrics_address() const {
  if (!metrics_listener_) return {};
  return metrics_listener_->address();
}

}  // namespace hopfeed
