// See run_worker.h. A worker samples batches into a channel until its loader (or its server) says stop or
// dies. Started by a supervisor (supervisor.cc) and by nobody else; knows no Torch, prints nothing, and tells
// its errors through the channel.
#include "worker_mode/program/run_worker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "channel/channel_view.h"
#include "channel/futex.h"
#include "channel/memory.h"
#include "channel/worker_port.h"
#include "core/base/error.h"
#include "core/base/failpoint.h"
#include "core/base/notes.h"
#include "core/base/owned_fd.h"
#include "core/dataset/dataset.h"
#include "core/maker/batch_maker.h"
#include "core/maker/batch_source.h"
#include "core/program/bus_error.h"
#include "core/program/patient_write.h"
#include "core/program/standard_descriptors.h"
#include "core/sampler/sampler_plugin.h"
#include "gpu/memory/setup_times.h"
#include "stream/batch_memory.h"
#include "worker_mode/batch_filler.h"
#include "worker_mode/batch_window.h"
#include "worker_mode/job_files.h"
#include "worker_mode/job_makers.h"
#include "worker_mode/worker_config.h"

namespace hopfeed {
namespace {

constexpr std::chrono::milliseconds kNap{
    100};  // the longest that a dead parent or a lost wake-up goes unnoticed

/// The loader's process. The kernel's death signal comes at once, but only if the parent lived when it was
/// asked for; the pidfd is looked at between batches, no more than once in kLook: small batches take less
/// than a look.
class Parent {
 public:
  explicit Parent(std::int64_t pid) {
    pidfd_ = OwnedFd(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)));
    alive_ = pidfd_ && getppid() == pid;  // asked too late: we were given to another parent already
  }
  bool alive() {
    const std::int64_t now = monotonic_now();
    if (now < look_again_) return alive_;
    look_again_ = now + kLook;
    pollfd poller{.fd = pidfd_.get(), .events = POLLIN, .revents = 0};
    alive_ = alive_ && poll(&poller, 1, 0) == 0;
    return alive_;
  }

 private:
  static constexpr std::int64_t kLook = 10'000'000;  // nanoseconds
  OwnedFd pidfd_;
  bool alive_ = false;
  std::int64_t look_again_ = 0;
};

std::string read_config() {
  return text_of_memfd(kConfigFd, "a worker has no configuration; it is started by a loader or a server");
}

/// What the spec names by its hash alone; nothing where it names a split.
MappedSeeds given_seeds(const BatchSpec& spec) {
  return MappedSeeds(spec.seeds.sha256.empty() ? -1 : kSeedsFd);
}

void place_on(const std::vector<int>& cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int core : cores) CPU_SET(static_cast<std::size_t>(core), &set);
  if (sched_setaffinity(0, sizeof(set), &set) != 0) {
    throw Error(ErrorCode::kInvalid, fmt::format("a worker cannot run on core {}: {}; change cores", cores[0],
                                                 std::strerror(errno)));
  }
}

/// What the claim's batch is filled with. Nothing where that cannot be made; then the error is published in
/// the batch's place.
BatchFiller* filler_of(JobMakers& makers, WorkerPort& port, const Claim& claim) {
  try {
    return &makers.filler(claim.batch.job);
  } catch (const BrokenProcess&) {
    throw;
  } catch (const Error& error) {
    port.publish_error(claim, error.code(), error.message());
  } catch (const std::bad_alloc&) {
    port.publish_error(claim, ErrorCode::kNoSpace, "there is no memory to open what the batch is made of");
  } catch (const std::exception& error) {
    port.publish_error(claim, ErrorCode::kIo, fmt::format("the job cannot be opened: {}", error.what()));
  }
  return nullptr;
}

/// The slots of a channel whose blocks lie on a device, and what writes them.
class DeviceSlots {
 public:
  DeviceSlots(const WorkerConfig& config, ChannelMemory& memory, RoomNamed room_named)
      : room_(room_named(config.device_room, config.device)),
        slots_(room_->import_slots(memory, config.device_fd, config.worker)),
        options_{.place = config.execution.gpu.graph_mode == GraphMode::kCuda ? gpu::GraphPlace::kDevice
                                                                              : gpu::GraphPlace::kHost,
                 .cache = config.execution.gpu.row_cache(),
                 .graph_cache = config.execution.gpu.graph_cache(),
                 .sharers = config.gpu_cache_sharers} {}
  std::unique_ptr<BlockMaker> maker(const Dataset& dataset, const BatchSource& source,
                                    const BatchOptions& batch) {
    return room_->maker(dataset, source, batch, options_, *slots_);
  }

 private:
  const std::shared_ptr<gpu::DeviceRoom> room_;
  const std::unique_ptr<ChannelMemory> slots_;
  const gpu::DeviceBlockOptions options_;
};

void work(WorkerPort& port, const WorkerConfig& config, ChannelMemory& memory, Parent& parent,
          RoomNamed room_named) {
  place_on(config.cores);
  const std::shared_ptr<ScratchBudget> budget =
      batch_budget(config.batch_memory, config.asks_for_jobs ? WhoseOption::kServer : WhoseOption::kLoader);
  JobMakers::Options options{.execution = config.execution,
                             .budget = budget,
                             .max_scratch = std::min<std::size_t>(config.max_scratch, budget->limit() / 2)};
  std::optional<DeviceSlots> device;
  if (!config.device_room.empty()) {
    device.emplace(config, memory, room_named);
    options.make = [&device](const Dataset& dataset, const BatchSource& source, const BatchOptions& batch) {
      return device->maker(dataset, source, batch);
    };
  }
  if (config.asks_for_jobs) {
    const std::chrono::milliseconds patience = config.execution.start_deadline;
    options.ask = [patience](std::uint32_t job) { return ask_for_job(kJobsFd, job, patience); };
    options.ask_for_gone = [patience](std::span<const std::uint32_t> jobs) {
      return ask_for_gone(kJobsFd, jobs, patience);
    };
  }
  JobMakers makers(port, std::move(options));
  // A loader's job is made before the first batch is asked for: what is wrong with it is an error at the
  // start.
  if (!config.asks_for_jobs)
    makers.add(0,
               {.dataset = config.dataset,
                .manifest = config.manifest,
                .spec = config.spec,
                .check_finite = config.execution.check_finite},
               given_seeds(config.spec), config.row_cache_fd);
  port.report_ready();
  const auto leaving = [&] { return port.terminating() || !parent.alive(); };
  BatchWindow window(
      port, {.filler = [&](const Claim& claim) { return filler_of(makers, port, claim); },
             .ahead = [&](const PlannedBatch& batch) { return config.execution.batches_ahead(batch.count); },
             .leaving = leaving,
             .nap = kNap});
  for (std::uint64_t batches = 0; !leaving();) {
    makers.drop_gone();
    // Asking the kernel takes milliseconds, so it is asked ever more seldom.
    if (!window.step() || !std::has_single_bit(++batches)) continue;
    if (const Dataset* dataset = makers.dataset()) port.note_pages(dataset->page_use());
    port.note_gpu_setup(gpu::setup_times());
  }
}

WorkerPort* port_of_this_process = nullptr;

/// A signal handler: no memory may be asked for.
void tell_truncated(const char* path) {
  char message[sizeof(WorkerRecord::error)] = "";
  const char* pieces[] = {
      path, " was truncated while a worker read it; restore the file, and change no dataset that is in use"};
  for (const char* piece : pieces) std::strncat(message, piece, sizeof(message) - 1 - std::strlen(message));
  port_of_this_process->report_failure(ErrorCode::kCorrupt, message);
}

int worker_main(std::span<char* const> plugins, RoomNamed room_named) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGINT, SIG_IGN);  // Ctrl-C is for the trainer to answer; we end when it does
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // a limit on files is an error of the write
  FAILPOINT("worker.start");
  const WorkerConfig config = WorkerConfig::from_json(read_config());
  Parent parent(config.parent);
  if (!parent.alive()) return 1;
  const std::unique_ptr<ChannelMemory> memory = attach_shared_memory(kChannelFd);
  WorkerPort port(ChannelView::open(*memory), config.worker, kDoorbellFd);
  port_of_this_process = &port;
  on_truncated_file(tell_truncated);
  take_warnings([](const std::string& line) {
    write_patiently(STDERR_FILENO, "hopfeed-worker: warning: " + unmarked(line) + "\n", kLastLinePatienceMs);
  });
  try {
    for (const char* plugin : plugins) load_sampler_plugin(plugin);
    work(port, config, *memory, parent, room_named);
    return 0;
  } catch (const Error& error) {
    port.report_failure(error.code(), error.message());
  } catch (const std::exception& error) {
    port.report_failure(ErrorCode::kIo, fmt::format("a worker failed: {}", error.what()));
  }
  return 1;
}

void report_trial(std::string_view text) {
  text = text.substr(0, kMaxTrialReport);
  if (pwrite(kTrialFd, text.data(), text.size(), 0) < 0) _exit(1);
}

[[noreturn]] void report_termination() {
  try {
    std::rethrow_exception(std::current_exception());
  } catch (const std::exception& error) {  // load_sampler_plugin names the plugin
    report_trial(error.what());
  } catch (...) {
  }
  _exit(1);
}

/// Loads a plugin for a loader that will only then do so itself.
int try_plugin(const char* plugin) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::set_terminate(report_termination);
  try {
    load_sampler_plugin(plugin);
  } catch (const Error&) {  // the loader will hear of it, where it can be caught
  }
  report_trial(kTrialPassed);
  _exit(0);
}

/// Makes what a loader will only then make itself, and asks what it will ask.
int try_sampler(const char* batch_size, std::span<char* const> plugins) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    const WorkerConfig config = WorkerConfig::from_json(read_config());
    for (const char* plugin : plugins) load_sampler_plugin(plugin);
    const Dataset dataset(config.dataset);
    const MappedSeeds seeds = given_seeds(config.spec);
    const std::unique_ptr<BatchSource> source = open_source(dataset, config.spec, seeds.bytes());
    const BatchMaker maker = source->maker(dataset, config.spec.batch);
    maker.max_block_bytes(std::atoll(batch_size));
    maker.scratch(std::atoll(batch_size));
  } catch (const std::exception&) {  // the loader will hear of it, where it can be caught
  }
  report_trial(kTrialPassed);
  _exit(0);
}

bool is_trial() { return fcntl(kTrialFd, F_GET_SEALS) >= 0; }  // a memfd

constexpr const char* kHelp =
    "hopfeed-worker: samples batches for a loader, which starts it; it is of no use by itself (see "
    "hopfeed-sample --help)\n"
    "  --plugin FILE       a shared library with a sampler of one's own; may be given again\n"
    "  --try-plugin FILE   alone: only load it, and leave; for a loader, which reads from a descriptor how "
    "that went\n"
    "  --try-sampler N FILE...   the same of the sampler that a loader with batches of N seeds will make\n"
    "  --help              this text\n";

}  // namespace

int run_worker(int argc, char** argv, RoomNamed room_named) {
  if (!fill_standard_descriptors()) return 1;
  if (argc == 3 && std::string(argv[1]) == "--try-plugin" && is_trial()) return try_plugin(argv[2]);
  if (argc > 3 && std::string(argv[1]) == "--try-sampler" && is_trial())
    return try_sampler(argv[2], std::span(argv + 3, argv + argc));
  std::vector<char*> plugins;
  bool understood = true;
  for (int i = 1; i < argc; i += 2) {
    const std::string word = argv[i];
    if (word == "--help") {
      std::fputs(kHelp, stdout);
      return 0;
    }
    if (word != "--plugin" || i + 1 == argc) understood = false;
    if (i + 1 < argc) plugins.push_back(argv[i + 1]);
  }
  if (!understood || fcntl(kConfigFd, F_GETFD) < 0) {
    std::fprintf(
        stderr, "hopfeed-worker: samples batches for a loader, which starts it; it is of no use by itself\n");
    return 2;
  }
  try {
    return worker_main(plugins, room_named);
  } catch (const std::exception& error) {  // without a channel there is no other way to tell
    const std::string line = std::string("hopfeed-worker: ") + error.what() + "\n";
    write_patiently(STDERR_FILENO, line, kLastLinePatienceMs);
    return 1;
  }
}

}  // namespace hopfeed
