// See supervisor.h.
#include "worker_mode/supervisor.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <system_error>

#include "channel/futex.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kTick = 500ms;        // looks around at least this often
constexpr std::chrono::milliseconds kPendingTick = 20ms;  // while somebody waits for memory
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

}  // namespace

Supervisor::Supervisor(std::shared_ptr<LoaderChannel> channel, SupervisorOptions options)
    : channel_(std::move(channel)), options_(std::move(options)), workers_(options_.cores.size()) {
  // The trainer's signals are for its own threads; a thread inherits the mask of the one that starts it.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw_errno("cannot start a thread for the sampling workers", error.code().value());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Supervisor::~Supervisor() {
  stopping_ = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = write(channel_->doorbell(), &one, sizeof(one));
  thread_.join();
}

void Supervisor::run() {
  while (!stopping_) {
    try {
      start_due_workers();
      wait_for_events();
      bury_the_dead();
      channel_->service();
      kill_the_hung();
    } catch (const std::exception& error) {  // of this thread nobody else would hear
      channel_->fail(Error(ErrorCode::kIo,
                           fmt::format("the supervisor of the sampling workers failed: {}", error.what())));
      std::this_thread::sleep_for(kPendingTick);
    }
  }
  end_workers();
}

void Supervisor::wait_for_events() {
  std::vector<pollfd> fds{{.fd = channel_->doorbell(), .events = POLLIN, .revents = 0}};
  for (const Worker& worker : workers_) {
    if (worker.process) fds.push_back({.fd = worker.process->pidfd(), .events = POLLIN, .revents = 0});
  }
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(next_deadline());
  poll(fds.data(), fds.size(), static_cast<int>(wait.count()));
  std::uint64_t rings = 0;
  [[maybe_unused]] const ssize_t ignored =
      read(channel_->doorbell(), &rings, sizeof(rings));  // does not block
}

Supervisor::Clock::duration Supervisor::next_deadline() const {
  Clock::duration wait =
      std::min<Clock::duration>(kTick, std::max<Clock::duration>(options_.batch_deadline / 4, 5ms));
  if (channel_->grants_pending()) wait = std::min<Clock::duration>(wait, kPendingTick);
  if (channel_->failure()) return wait;  // nobody is started any more
  const Clock::time_point now = Clock::now();
  for (const Worker& worker : workers_) {
    if (!worker.process) wait = std::min(wait, std::max(worker.start_at - now, Clock::duration::zero()));
  }
  return wait;
}

// ---- starts and deaths

void Supervisor::start_due_workers() {
  if (channel_->failure()) return;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].process || workers_[i].start_at > Clock::now()) continue;
    try {
      start(i);
    } catch (const Error& error) {
      channel_->fail(error);
    }
  }
}

void Supervisor::start(std::size_t number) {
  Worker& worker = workers_[number];
  worker.incarnation = last_incarnation_ =
      last_incarnation_ % kMaxIncarnation + 1;  // never 0, which means nobody
  WorkerRecord& record = channel_->view().worker(static_cast<std::uint32_t>(number));
  record.error_code = 0;
  record.waiting_since.store(0);  // of the one before, killed while it waited
  record.state.store(static_cast<std::uint32_t>(WorkerState::kStarting));
  record.incarnation.store(worker.incarnation);
  WorkerConfig config = options_.config;
  config.worker = static_cast<std::uint32_t>(number);
  config.parent = getpid();
  config.cores = options_.cores[number];
  const std::string json = config.to_json();
  const OwnedFd config_fd = memfd_of("hopfeed-worker-config", json.data(), json.size());
  std::vector<InheritedFd> inherited{{.from = channel_->memory_fd(), .to = kChannelFd},
                                     {.from = config_fd.get(), .to = kConfigFd},
                                     {.from = channel_->doorbell(), .to = kDoorbellFd}};
  if (options_.seeds_fd >= 0) inherited.push_back({.from = options_.seeds_fd, .to = kSeedsFd});
  std::vector<std::string> arguments;
  for (const std::string& plugin : options_.plugins) arguments.insert(arguments.end(), {"--plugin", plugin});
  worker.activity = {};
  worker.active_since = Clock::now();
  const std::lock_guard lock(mutex_);  // from the start on: a worker that is ready is also listed
  worker.process = std::make_unique<WorkerProcess>(options_.program, arguments, inherited);
  record.pid.store(static_cast<std::uint32_t>(worker.process->pid()));
}

void Supervisor::bury_the_dead() {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    if (!worker.process) continue;
    pollfd poller{.fd = worker.process->pidfd(), .events = POLLIN, .revents = 0};
    if (poll(&poller, 1, 0) <= 0) continue;
    const std::string cause = worker.process->reap();
    {
      const std::lock_guard lock(mutex_);
      worker.process.reset();
    }
    channel_->note_death();
    channel_->reclaim(worker.incarnation);  // its batches are planned again before anybody replaces it
    count_death(i, cause);
  }
}

void Supervisor::count_death(std::size_t number, const std::string& cause) {
  const std::uint64_t published = channel_->view().control().published.load();
  if (published != published_at_death_) {
    for (Worker& worker : workers_) worker.deaths_in_a_row = 0;
  }
  published_at_death_ = published;
  const int deaths = ++workers_[number].deaths_in_a_row;
  workers_[number].start_at = Clock::now() + backoff(deaths);
  const std::optional<Error> report = reported(channel_->view().worker(static_cast<std::uint32_t>(number)));
  // What is wrong with the dataset or the options is no better for the next worker.
  const bool hopeless = report && report->code() != ErrorCode::kIo && report->code() != ErrorCode::kNoSpace;
  if (report && (hopeless || published == 0 || deaths > options_.max_restarts))
    return channel_->fail(*report);
  if (deaths <= options_.max_restarts) return;
  channel_->fail(
      Error(ErrorCode::kPeerDied,
            fmt::format("sampling worker {}: {}; {} deaths in a row without a finished batch, so no "
                        "more are started (max_worker_restarts {}, program {})",
                        number, cause, deaths, options_.max_restarts, options_.program)));
}

void Supervisor::end_workers() {
  channel_->terminate();
  const Clock::time_point give_up = Clock::now() + kLeave;
  for (Worker& worker : workers_) {
    if (!worker.process) continue;
    pollfd poller{.fd = worker.process->pidfd(), .events = POLLIN, .revents = 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(give_up - Clock::now());
    poll(&poller, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
    const std::lock_guard lock(mutex_);
    worker.process.reset();  // kills it where it lives, and waits
  }
}

// ---- hangs

Supervisor::Activity Supervisor::activity_of(std::size_t number,
                                             const std::vector<SlotPool::Filling>& filling) const {
  const WorkerRecord& record = channel_->view().worker(static_cast<std::uint32_t>(number));
  if (record.state.load() == static_cast<std::uint32_t>(WorkerState::kStarting))
    return {.kind = Activity::Kind::kStarting};
  for (const SlotPool::Filling& slot : filling) {
    if (slot.owner != workers_[number].incarnation) continue;
    if (slot.waits_for_grant) break;  // for us
    return {.kind = Activity::Kind::kFilling, .slot = slot.slot, .generation = slot.generation};
  }
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
  const std::vector<SlotPool::Filling> filling = channel_->filling();
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
  reclaim_forged(filling);
}

/// A slot whose owner is none of ours will never be finished; whatever lives under that number, it is no
/// worker of this channel.
void Supervisor::reclaim_forged(const std::vector<SlotPool::Filling>& filling) {
  for (const SlotPool::Filling& slot : filling) {
    const bool known = std::any_of(workers_.begin(), workers_.end(), [&](const Worker& worker) {
      return worker.process && worker.incarnation == slot.owner;
    });
    if (!known) channel_->reclaim(slot.owner);
  }
}

// ---- the loader's thread

void Supervisor::wait_until_ready() {
  const Clock::time_point give_up = Clock::now() + options_.start_deadline;
  const ChannelView& view = channel_->view();
  for (;;) {
    const std::uint32_t seen = view.control().loader_event.load();
    if (const std::optional<Error> failure = channel_->failure()) throw *failure;
    std::size_t ready = 0;
    while (ready < workers_.size() && view.worker(static_cast<std::uint32_t>(ready)).state.load() ==
                                          static_cast<std::uint32_t>(WorkerState::kReady))
      ++ready;
    if (ready == workers_.size()) return;
    if (Clock::now() > give_up) {
      throw Error(
          ErrorCode::kTimeout,
          fmt::format("sampling worker {} was not ready within {} ms; see whether {} runs by itself, or "
                      "raise start_deadline",
                      ready, options_.start_deadline.count(), options_.program));
    }
    view.control().loader_event.wait(seen, 50ms);
  }
}

std::vector<int> Supervisor::pids() const {
  const std::lock_guard lock(mutex_);
  std::vector<int> pids;
  for (const Worker& worker : workers_) {
    if (worker.process) pids.push_back(worker.process->pid());
  }
  return pids;
}

}  // namespace hopfeed
