// hopfeed-worker: samples batches into a channel until its loader says stop or dies. Started by the loader's
// supervisor (supervisor.cc) and by nobody else; knows no Torch, prints nothing, and tells its errors through
// the channel.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

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
#include <vector>

#include "channel/channel_view.h"
#include "channel/futex.h"
#include "channel/memory.h"
#include "channel/worker_port.h"
#include "core/base/error.h"
#include "core/base/failpoint.h"
#include "core/base/owned_fd.h"
#include "core/batch/nonfinite.h"
#include "core/dataset/dataset.h"
#include "core/maker/batch_maker.h"
#include "core/maker/batch_source.h"
#include "core/program/bus_error.h"
#include "core/sampler/sampler_plugin.h"
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

std::string read_all(int fd) {
  struct stat status {};
  if (fstat(fd, &status) != 0) throw_errno("a worker has no configuration; it is started by a loader", errno);
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  const ssize_t got = pread(fd, text.data(), text.size(), 0);
  if (got != static_cast<ssize_t>(text.size())) throw_errno("cannot read a worker's configuration", errno);
  return text;
}

/// The seeds that the user gave, mapped: one physical copy for all workers.
std::span<const std::byte> inherited_seeds() {
  struct stat status {};
  if (fstat(kSeedsFd, &status) != 0) throw_errno("a worker has no seeds", errno);
  const auto bytes = static_cast<std::size_t>(status.st_size);
  void* address = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, kSeedsFd, 0);
  if (address == MAP_FAILED) throw_errno("a worker cannot map its seeds", errno);
  return {static_cast<const std::byte*>(address), bytes};
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

/// Samples one claimed batch into its slot. Returns early where the epoch was left or the end has come.
void make_batch(WorkerPort& port, const Claim& claim, BatchMaker& maker, const WorkerConfig& config,
                Parent& parent) {
  if (FAILPOINT("worker.batch")) throw Error(ErrorCode::kIo, "failpoint worker.batch");
  if (FAILPOINT("worker.allocate")) throw std::bad_alloc();
  const std::size_t bytes = maker.sample({.seed = config.seed,
                                          .epoch = claim.batch.epoch,
                                          .first = claim.batch.first,
                                          .count = claim.batch.count});
  port.note_sampled(claim);
  FAILPOINT("worker.after_sample");
  port.ask(claim, bytes);
  WorkerPort::Grant grant = WorkerPort::Grant::kWaiting;
  while ((grant = port.await_grant(claim, bytes, kNap)) == WorkerPort::Grant::kWaiting) {
    if (port.terminating() || !parent.alive()) return;
  }
  if (grant == WorkerPort::Grant::kAbandoned) {
    port.publish(claim, 0);
    return;
  }
  FAILPOINT("worker.before_write");
  if constexpr (kFailpointsEnabled) {  // torn on purpose: who reads an unpublished block sees it
    std::memset(port.block(claim, bytes).data(), 0xEE, bytes / 2);
    FAILPOINT("worker.mid_write");
  }
  maker.write(port.block(claim, bytes), [&] { port.announce(claim); });
  if (config.check_finite) require_finite(BatchView(port.block(claim, bytes)));
  port.note_gathered(claim);
  port.publish(claim, bytes);
}

/// As make_batch; what goes wrong with one batch is published in its place, for next() to throw when its turn
/// comes.
void serve(WorkerPort& port, const Claim& claim, BatchMaker& maker, const WorkerConfig& config,
           Parent& parent) {
  try {
    make_batch(port, claim, maker, config, parent);
  } catch (const Error& error) {
    port.publish_error(claim, error.code(), error.what());
  } catch (const std::bad_alloc&) {
    port.publish_error(claim, ErrorCode::kNoSpace,
                       fmt::format("a worker has no memory for the batch of {} seeds from position {}: "
                                   "lower batch_size, fanouts or num_workers",
                                   claim.batch.count, claim.batch.first));
  }
}

std::unique_ptr<BatchSource> open_source(const Dataset& dataset, const WorkerConfig& config) {
  if (config.batch.link.on()) {
    const int edge_type = dataset.meta().edge_type(config.batch.link.edge_type);
    return std::make_unique<BatchSource>(
        config.seeds_inherited
            ? std::make_unique<LinkSet>(inherited_seeds())
            : std::make_unique<LinkSet>(dataset, edge_type, LinkInput{.split = config.split}),
        LinkSet::ListOptions{.edge_type = edge_type, .shuffle = config.shuffle});
  }
  const int node_type = seed_node_type(dataset.meta(), config.node_type);
  return std::make_unique<BatchSource>(
      config.seeds_inherited
          ? std::make_unique<NodeSet>(inherited_seeds())
          : std::make_unique<NodeSet>(dataset, node_type, NodeInput{.split = config.split}),
      NodeSet::ListOptions{.node_type = node_type, .shuffle = config.shuffle});
}

void work(WorkerPort& port, const WorkerConfig& config, Parent& parent) {
  place_on(config.cores);
  const Dataset dataset(config.dataset, {.huge_pages = parse_huge_pages(config.huge_pages)});
  if (dataset.meta().fingerprint != config.fingerprint) {
    throw Error(
        ErrorCode::kInvalid,
        fmt::format("the dataset {} was replaced while a loader used it; start again", config.dataset));
  }
  const std::unique_ptr<BatchSource> source = open_source(dataset, config);
  BatchMaker maker = source->maker(dataset, config.batch);
  port.report_ready();
  for (std::uint64_t batches = 0; !port.terminating() && parent.alive();) {
    const std::optional<Claim> claim = port.claim(kNap);
    if (!claim) continue;
    serve(port, *claim, maker, config, parent);
    // Asking the kernel takes milliseconds, so it is asked ever more seldom.
    if (std::has_single_bit(++batches)) port.note_pages(dataset.page_use());
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

int worker_main(std::span<char* const> plugins) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGINT, SIG_IGN);  // Ctrl-C is for the trainer to answer; we end when it does
  signal(SIGPIPE, SIG_IGN);
  FAILPOINT("worker.start");
  const WorkerConfig config = WorkerConfig::from_json(read_all(kConfigFd));
  Parent parent(config.parent);
  if (!parent.alive()) return 1;
  const std::unique_ptr<ChannelMemory> memory = attach_shared_memory(kChannelFd);
  WorkerPort port(ChannelView::open(*memory), config.worker, kDoorbellFd);
  port_of_this_process = &port;
  on_truncated_file(tell_truncated);
  try {
    for (const char* plugin : plugins) load_sampler_plugin(plugin);
    work(port, config, parent);
    return 0;
  } catch (const Error& error) {
    port.report_failure(error.code(), error.what());
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
    const WorkerConfig config = WorkerConfig::from_json(read_all(kConfigFd));
    for (const char* plugin : plugins) load_sampler_plugin(plugin);
    const Dataset dataset(config.dataset);
    const std::unique_ptr<BatchSource> source = open_source(dataset, config);
    const BatchMaker maker = source->maker(dataset, config.batch);
    maker.max_block_bytes(std::atoll(batch_size));
    maker.scratch(std::atoll(batch_size));
  } catch (const std::exception&) {  // the loader will hear of it, where it can be caught
  }
  report_trial(kTrialPassed);
  _exit(0);
}

bool is_trial() { return fcntl(kTrialFd, F_GET_SEALS) >= 0; }  // a memfd

}  // namespace
}  // namespace hopfeed

constexpr const char* kHelp =
    "hopfeed-worker: samples batches for a loader, which starts it; it is of no use by itself (see "
    "hopfeed-sample --help)\n"
    "  --plugin FILE       a shared library with a sampler of one's own; may be given again\n"
    "  --try-plugin FILE   alone: only load it, and leave; for a loader, which reads from a descriptor how "
    "that went\n"
    "  --try-sampler N FILE...   the same of the sampler that a loader with batches of N seeds will make\n"
    "  --help              this text\n";

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--try-plugin" && hopfeed::is_trial())
    return hopfeed::try_plugin(argv[2]);
  if (argc > 3 && std::string(argv[1]) == "--try-sampler" && hopfeed::is_trial())
    return hopfeed::try_sampler(argv[2], std::span(argv + 3, argv + argc));
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
  if (!understood || fcntl(hopfeed::kConfigFd, F_GETFD) < 0) {
    std::fprintf(
        stderr, "hopfeed-worker: samples batches for a loader, which starts it; it is of no use by itself\n");
    return 2;
  }
  try {
    return hopfeed::worker_main(plugins);
  } catch (const std::exception& error) {  // without a channel there is no other way to tell
    std::fprintf(stderr, "hopfeed-worker: %s\n", error.what());
    return 1;
  }
}
