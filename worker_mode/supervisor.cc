// See supervisor.h.
#include "worker_mode/supervisor.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "channel/bell.h"
#include "core/base/quiet_thread.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kTick = 500ms;        // looks around at least this often
constexpr std::chrono::milliseconds kPendingTick = 20ms;  // while somebody waits for memory
constexpr std::chrono::milliseconds kDeviceTick = 1ms;    // while a slot waits for work of a device
constexpr std::chrono::milliseconds kLeave = 500ms;       // for a worker to leave by itself
constexpr std::chrono::milliseconds kMaxBackoff = 1000ms;
constexpr std::chrono::milliseconds kNoHeartbeat = 1000ms;  // however short batch_deadline is

/// What a worker said before it left; nothing where it was silent.
std::optional<Error> reported(const WorkerRecord& record) {
  if (record.state.load() != static_cast<std::uint32_t>(WorkerState::kFailed) || record.error_code == 0)
    return {};
  return Error(static_cast<ErrorCode>(record.error_code - 1),
               std::string(record.error, strnlen(record.error, sizeof(record.error))));
}

/// None after a worker's first death, however many died with it; then 10 ms doubling to a second: a batch
/// that kills every worker must not melt the machine.
std::chrono::milliseconds backoff(int deaths_in_a_row) {
  if (deaths_in_a_row <= 1) return 0ms;
  return std::min(kMaxBackoff, 10ms * (1 << std::min(deaths_in_a_row - 2, 7)));
}

/// How many of `workers` are on a device; they have `devices` in turn (none: all have the same one).
std::int64_t workers_on(int device, const std::vector<int>& devices, std::int64_t workers) {
  if (devices.empty()) return workers;
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < workers; ++i)
    count += devices[static_cast<std::size_t>(i) % devices.size()] == device;
  return count;
}

}  // namespace

Supervisor::Supervisor(std::shared_ptr<ChannelHost> host, SupervisorOptions options)
    : host_(std::move(host)),
      options_(std::move(options)),
      keeper_(host_),
      workers_(options_.cores.size()),
      pids_(options_.cores.size(), -1) {
  thread_ = start_quiet_thread("cannot start a thread for the sampling workers", [this] { run(); });
}

Supervisor::~Supervisor() {
  stopping_ = true;
  ring(stop_bell_.fd());
  thread_.join();
}

void Supervisor::run() {
  while (!stopping_) {
    try {
      start_due_workers();
      wait_for_events();
      answer_questions();
      reap_the_dead();
      bury_the_dead();
      keeper_.serve();
      kill_the_hung();
    } catch (const std::exception& error) {  // of this thread nobody else would hear
      host_->fail(Error(ErrorCode::kIo,
                        fmt::format("the supervisor of the sampling workers failed: {}", error.what())));
      std::this_thread::sleep_for(kPendingTick);
    }
  }
  end_workers();
}

void Supervisor::wait_for_events() {
  std::vector<pollfd> fds{{.fd = stop_bell_.fd(), .events = POLLIN, .revents = 0}};
  if (options_.answers_doorbell)
    fds.push_back({.fd = host_->doorbell().fd(), .events = POLLIN, .revents = 0});
  for (const Worker& worker : workers_) {
    if (worker.process) fds.push_back({.fd = worker.process->pidfd(), .events = POLLIN, .revents = 0});
    if (worker.jobs) fds.push_back({.fd = worker.jobs.get(), .events = POLLIN, .revents = 0});
  }
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(next_deadline());
  poll(fds.data(), fds.size(), static_cast<int>(wait.count()));
  if (options_.answers_doorbell) host_->doorbell().drain();
}

Supervisor::Clock::duration Supervisor::next_deadline() const {
  Clock::duration wait =
      std::min<Clock::duration>(kTick, std::max<Clock::duration>(options_.batch_deadline / 4, 5ms));
  if (host_->grants_pending()) wait = std::min<Clock::duration>(wait, kPendingTick);
  const bool kernels_left = std::ranges::any_of(workers_, &Worker::unburied);
  if (kernels_left || host_->slots_leaving()) wait = std::min<Clock::duration>(wait, kDeviceTick);
  if (host_->failure()) return wait;  // nobody is started any more
  const Clock::time_point now = Clock::now();
  for (const Worker& worker : workers_) {
    if (!worker.process && !worker.unburied)
      wait = std::min(wait, std::max(worker.start_at - now, Clock::duration::zero()));
  }
  return wait;
}

// ---- starts and deaths

void Supervisor::start_due_workers() {
  if (host_->failure()) return;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].process || workers_[i].unburied || workers_[i].start_at > Clock::now()) continue;
    try {
      start(i);
    } catch (const Error& error) {
      host_->fail(error);
    }
  }
}

void Supervisor::start(std::size_t number) {
  Worker& worker = workers_[number];
  keeper_.welcome(static_cast<std::uint32_t>(number));
  WorkerConfig config = options_.config;
  config.worker = static_cast<std::uint32_t>(number);
  config.parent = getpid();
  config.cores = options_.cores[number];
  const bool sixth = options_.seeds_fd >= 0 || options_.find_job;  // they follow each other without a gap
  int next_fd = sixth ? kSeedsFd + 1 : kSeedsFd;
  const DeviceSide* const device = host_->device_side();
  const int device_fd = device == nullptr ? -1 : device->shared_fd();
  const std::vector<int>& devices = config.execution.gpu.worker_devices;
  if (device != nullptr) {
    config.device = devices.empty() ? device->device() : devices[number % devices.size()];
    config.gpu_cache_sharers = workers_on(config.device, devices, std::ssize(workers_));
  }
  if (options_.row_cache_fd >= 0) config.row_cache_fd = next_fd++;
  if (device_fd >= 0) config.device_fd = next_fd++;
  const std::string json = config.to_json();
  const OwnedFd config_fd = memfd_of("hopfeed-worker-config", json.data(), json.size());
  std::vector<InheritedFd> inherited{{.from = host_->memory_fd(), .to = kChannelFd},
                                     {.from = config_fd.get(), .to = kConfigFd},
                                     {.from = host_->doorbell().fd(), .to = kDoorbellFd}};
  if (options_.seeds_fd >= 0) inherited.push_back({.from = options_.seeds_fd, .to = kSeedsFd});
  std::optional<JobSockets> jobs;
  if (options_.find_job) {
    jobs.emplace();
    inherited.push_back({.from = jobs->workers.get(), .to = kJobsFd});
    worker.jobs = std::move(jobs->ours);
  }
  if (options_.row_cache_fd >= 0)
    inherited.push_back({.from = options_.row_cache_fd, .to = config.row_cache_fd});
  if (device_fd >= 0) inherited.push_back({.from = device_fd, .to = config.device_fd});
  std::vector<std::string> arguments;
  for (const std::string& plugin : options_.plugins) arguments.insert(arguments.end(), {"--plugin", plugin});
  worker.activity = {};
  worker.active_since = Clock::now();
  const MutexLock lock(mutex_);  // from the start on: a worker that is ready is also listed
  worker.process = std::make_unique<WorkerProcess>(options_.program, arguments, inherited);
  pids_[number] = worker.process->pid();
  host_->view()
      .worker(static_cast<std::uint32_t>(number))
      .pid.store(static_cast<std::uint32_t>(worker.process->pid()));
}

void Supervisor::answer_questions() {
  for (Worker& worker : workers_) {
    if (worker.jobs && !answer_jobs(worker.jobs.get(), options_.find_job)) worker.jobs = OwnedFd();
  }
}

void Supervisor::reap_the_dead() {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    if (!worker.process) continue;
    pollfd poller{.fd = worker.process->pidfd(), .events = POLLIN, .revents = 0};
    if (poll(&poller, 1, 0) <= 0) continue;
    worker.cause = worker.process->reap();
    worker.unburied = true;
    forget_pid(i);
    worker.process.reset();
    worker.jobs = OwnedFd();
  }
}

/// Its slots are nobody's before that: a kernel goes on writing when its process is dead.
bool Supervisor::work_ended(std::size_t number) const {
  DeviceSide* const device = host_->device_side();
  return device == nullptr || device->ended(static_cast<std::uint32_t>(number));
}

void Supervisor::bury_the_dead() {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (!workers_[i].unburied || !work_ended(i)) continue;
    workers_[i].unburied = false;
    const WorkerDeath death = death_of(i, workers_[i].cause);
    const int deaths_of_batch = options_.on_death ? options_.on_death(death) : 0;
    keeper_.bury(static_cast<std::uint32_t>(i));  // its batches are planned again before anybody replaces it
    count_death(i, death, deaths_of_batch);
  }
}

WorkerDeath Supervisor::death_of(std::size_t number, const std::string& cause) const {
  const std::uint32_t worker = static_cast<std::uint32_t>(number), name = keeper_.name_of(worker);
  WorkerDeath death{.worker = worker, .cause = cause, .claims = {}};
  if (const std::optional<Error> report = reported(host_->view().worker(worker)))
    death.cause += ": " + report->message();
  const std::uint32_t at = host_->view().worker(worker).at_slot.load();
  const MutexLock lock(host_->mutex);
  for (const SlotPool::Filling& slot : host_->pool().filling()) {
    if (slot.owner != name) continue;
    const PlannedBatch batch = host_->pool().batch_of(slot.slot);
    if (at == slot.slot + 1) {
      death.claims = {batch};
      break;
    }
    death.claims.push_back(batch);
  }
  return death;
}

void Supervisor::count_death(std::size_t number, const WorkerDeath& death, int deaths_of_batch) {
  const std::uint64_t published = host_->view().control().published.load();
  if (published != published_at_death_) {
    for (Worker& worker : workers_) worker.deaths_in_a_row = 0;
  }
  published_at_death_ = published;
  // What kills through one job is no reason to have the others wait.
  if (options_.on_death && !death.claims.empty()) {
    workers_[number].start_at = Clock::now() + backoff(deaths_of_batch);
    return;
  }
  const int deaths = ++workers_[number].deaths_in_a_row;
  workers_[number].start_at = Clock::now() + backoff(deaths);
  const WorkerRecord& record = host_->view().worker(static_cast<std::uint32_t>(number));
  const std::optional<Error> report = reported(record);
  const bool was_ready = record.state.load() == static_cast<std::uint32_t>(WorkerState::kReady);
  if (options_.on_death && was_ready) return;
  // What is wrong with the dataset or the options is no better for the next worker.
  const bool hopeless = report && report->code() != ErrorCode::kIo && report->code() != ErrorCode::kNoSpace;
  const bool first = published == 0 && !options_.on_death;
  if (report && (hopeless || first || deaths > options_.max_restarts)) return host_->fail(*report);
  if (deaths <= options_.max_restarts) return;
  host_->fail(Error(ErrorCode::kPeerDied,
                    fmt::format("sampling worker {}: {}; {} deaths in a row without a finished batch, so no "
                                "more are started (max_worker_restarts {}, program {})",
                                number, death.cause, deaths, options_.max_restarts, options_.program)));
}

void Supervisor::forget_pid(std::size_t number) {
  const MutexLock lock(mutex_);
  pids_[number] = -1;
}

void Supervisor::end_workers() {
  host_->terminate();
  const Clock::time_point give_up = Clock::now() + kLeave;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    if (!worker.process) continue;
    pollfd poller{.fd = worker.process->pidfd(), .events = POLLIN, .revents = 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(give_up - Clock::now());
    poll(&poller, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
    forget_pid(i);
    worker.process.reset();  // kills it where it lives, and waits
  }
}

// ---- hangs

Supervisor::Activity Supervisor::activity_of(std::size_t number,
                                             const std::vector<SlotPool::Filling>& filling) const {
  const WorkerRecord& record = host_->view().worker(static_cast<std::uint32_t>(number));
  if (record.state.load() == static_cast<std::uint32_t>(WorkerState::kStarting))
    return {.kind = Activity::Kind::kStarting};
  const std::uint32_t name = keeper_.name_of(static_cast<std::uint32_t>(number));
  const SlotPool::Filling* oldest = nullptr;  // of its slots; claimed lowest first
  bool waits = false;                         // for us: those that it has sampled ahead do so with the lowest
  for (const SlotPool::Filling& slot : filling) {
    if (slot.owner != name) continue;
    waits = waits || slot.waits_for_grant;
    if (oldest == nullptr || slot.sequence < oldest->sequence) oldest = &slot;
  }
  if (oldest != nullptr && !waits)
    return {.kind = Activity::Kind::kFilling,
            .slot = oldest->slot,
            .generation = oldest->generation,
            .heartbeat = record.heartbeat.load()};
  return {.kind = Activity::Kind::kWaiting, .heartbeat = record.heartbeat.load()};
}

Supervisor::Clock::duration Supervisor::patience_with(const Activity& activity) const {
  switch (activity.kind) {
    case Activity::Kind::kStarting:
      return options_.start_deadline;
    case Activity::Kind::kFilling:
      return options_.batch_deadline;
    default:
      return std::max<Clock::duration>(options_.batch_deadline, kNoHeartbeat);
  }
}

void Supervisor::kill_the_hung() {
  const std::vector<SlotPool::Filling> filling = host_->filling();
  const Clock::time_point now = Clock::now();
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    if (!worker.process) continue;
    const Activity activity = activity_of(i, filling);
    if (activity != worker.activity) {
      worker.activity = activity;
      worker.active_since = now;
    }
    // Its slots go back when the pidfd says that it is dead, no earlier: a hung process may wake up and go on
    // writing.
    if (now - worker.active_since > patience_with(activity)) worker.process->kill();
  }
  keeper_.reclaim_ownerless(filling);
}

// ---- the loader's thread

void Supervisor::wait_until_ready() {
  const std::optional<std::uint32_t> late = await_ready(*host_, options_.start_deadline);
  if (!late) return;
  throw Error(ErrorCode::kTimeout,
              fmt::format("sampling worker {} was not ready within {} ms; see whether {} runs by itself, or "
                          "raise start_deadline",
                          *late, options_.start_deadline.count(), options_.program));
}

std::vector<int> Supervisor::pids() const {
  const MutexLock lock(mutex_);
  std::vector<int> pids = pids_;
  std::erase(pids, -1);
  return pids;
}

}  // namespace hopfeed
