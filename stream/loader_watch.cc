// See loader_watch.h.
#include "stream/loader_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "channel/futex.h"
#include "core/base/error.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;

double in_seconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

/// 0 where `since` is.
double seconds_since(std::int64_t since, std::int64_t now) {
  return since == 0 ? 0 : in_seconds(now - since);
}

WorkerActivity activity_of(const ChannelView& view, std::uint32_t number) {
  const WorkerRecord& worker = view.worker(number);
  const auto state = static_cast<WorkerState>(worker.state.load());
  if (state == WorkerState::kStarting) return WorkerActivity::kStarting;
  if (state == WorkerState::kFailed) return WorkerActivity::kFailed;
  for (std::uint32_t i = 0; i < view.shape().num_slots; ++i) {
    const SlotRecord& slot = view.slot(i);
    const SlotWord word = SlotWord::unpack(slot.word.load());
    if (word.state != SlotState::kFilling || word.owner != worker.incarnation.load()) continue;
    if (slot.wanted.load() == 0) return WorkerActivity::kSampling;
    return slot.wanted.load() > slot.granted.load() ? WorkerActivity::kWaitingForMemory
                                                    : WorkerActivity::kGathering;
  }
  return worker.waiting_since.load() != 0 ? WorkerActivity::kWaitingForSlot : WorkerActivity::kResting;
}

/// The value of a line of /proc/PID/status.
std::string status_line(const fs::path& process, const std::string& key) {
  std::ifstream status(process / "status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key + ":\t")) return line.substr(key.size() + 2);
  }
  return "";
}

[[noreturn]] void throw_unreadable(std::int64_t pid, int error) {
  if (error == ENOENT || error == ESRCH)
    throw Error(ErrorCode::kNotFound, fmt::format("there is no process {}", pid));
  if (error == EACCES || error == EPERM) {
    throw Error(
        ErrorCode::kInvalid,
        fmt::format(
            "process {} may not be looked at: it belongs to another user; run hopfeed-top as that user",
            pid));
  }
  throw_errno(fmt::format("cannot look at process {}", pid), error);
}

}  // namespace

const char* to_string(WorkerActivity activity) {
  switch (activity) {
    case WorkerActivity::kStarting:
      return "starting";
    case WorkerActivity::kFailed:
      return "failed";
    case WorkerActivity::kResting:
      return "resting";
    case WorkerActivity::kWaitingForSlot:
      return "waits for a slot";
    case WorkerActivity::kSampling:
      return "sampling";
    case WorkerActivity::kWaitingForMemory:
      return "waits for memory";
    case WorkerActivity::kGathering:
      return "gathering";
  }
  return "?";
}

LoaderSnapshot snapshot(const ChannelView& view) {
  const LoaderRecord& loader = view.control().loader;
  const std::int64_t now = monotonic_now();
  LoaderSnapshot result{.time = in_seconds(now),
                        .rank = loader.rank.load(),
                        .world_size = loader.world_size.load(),
                        .epoch = loader.epoch.load(),
                        .steps = loader.steps.load(),
                        .taken = loader.taken.load(),
                        .batches = loader.batches.load(),
                        .bytes = loader.bytes.load(),
                        .waiting = seconds_since(loader.waiting_since.load(), now),
                        .waits = wait_times(view),
                        .tiers = tiers_of(view)};
  for (std::uint32_t i = 0; i < view.shape().num_slots; ++i) {
    const auto state = static_cast<std::size_t>(SlotWord::unpack(view.slot(i).word.load()).state);
    if (state < result.slots.size()) ++result.slots[state];
    result.granted_bytes += view.slot(i).granted.load();
  }
  for (std::uint32_t i = 0; i < view.shape().num_workers; ++i) {
    const WorkerRecord& worker = view.worker(i);
    const std::int64_t since = worker.waiting_since.load();
    result.workers.push_back(
        {.pid = worker.pid.load(),
         .activity = activity_of(view, i),
         .batches = worker.batches.load(),
         .sampling = in_seconds(worker.sampling.load()),
         .gathering = in_seconds(worker.gathering.load()),
         .waited_for_slot = in_seconds(worker.waited_for_slot.load()) + seconds_since(since, now),
         .waited_for_memory = in_seconds(worker.waited_for_grant.load())});
  }
  return result;
}

LoaderWatch::LoaderWatch(int fd) : memory_(look_at_shared_memory(fd)), view_(ChannelView::open(*memory_)) {}

std::vector<FoundChannel> find_channels(std::int64_t pid) {
  const fs::path process = fmt::format("/proc/{}", pid);
  std::error_code error;
  fs::directory_iterator entries(process / "fd", error);
  if (error) throw_unreadable(pid, error.value());
  if (status_line(process, "Name") == "hopfeed-worker") {
    throw Error(ErrorCode::kInvalid,
                fmt::format("process {} is a sampling worker; its loader is in process {}", pid,
                            status_line(process, "PPid")));
  }
  std::vector<FoundChannel> found;
  for (; entries != fs::directory_iterator(); entries.increment(error)) {
    if (error) throw_unreadable(pid, error.value());
    const fs::path target = fs::read_symlink(entries->path(), error);
    if (error || !target.string().starts_with("/memfd:hopfeed-channel")) continue;  // or closed meanwhile
    OwnedFd fd(open(entries->path().c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (!fd || fstat(fd.get(), &status) != 0) continue;
    const bool known = std::any_of(found.begin(), found.end(),
                                   [&](const FoundChannel& other) { return other.inode == status.st_ino; });
    if (!known) found.push_back({.inode = status.st_ino, .fd = std::move(fd)});
  }
  std::sort(found.begin(), found.end(),
            [](const FoundChannel& a, const FoundChannel& b) { return a.inode < b.inode; });
  return found;
}

}  // namespace hopfeed
