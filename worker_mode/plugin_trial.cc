// See plugin_trial.h. The process says that it came through in a memfd: a library can end it with any exit
// code.
#include "worker_mode/plugin_trial.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "core/base/error.h"
#include "core/base/owned_fd.h"
#include "core/sampler/sampler_plugin.h"
#include "worker_mode/worker_config.h"
#include "worker_mode/worker_process.h"

namespace hopfeed {
namespace {

using Clock = std::chrono::steady_clock;

bool ends_by(const WorkerProcess& process, Clock::time_point give_up) {
  pollfd poller{.fd = process.pidfd(), .events = POLLIN, .revents = 0};
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(give_up - Clock::now());
    // What poll takes ends at 24 days; the loop goes on behind them.
    const int ended = poll(&poller, 1, static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, INT_MAX)));
    if (ended > 0) return true;
    if (Clock::now() >= give_up || (ended < 0 && errno != EINTR)) return false;
  }
}

std::string text_of(const OwnedFd& memory) {
  std::string text(kMaxTrialReport, '\0');
  const ssize_t bytes = pread(memory.get(), text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, bytes)));
  return text;
}

/// Runs `program` until it is done. Throws kTimeout with `hangs` where it is not by the deadline, kInvalid
/// with what it said, or with `ends` and how it ended, where it did not come through.
struct Trial {
  const std::string& program;
  std::vector<std::string> arguments;
  std::vector<InheritedFd> inherited;  // behind the report
  std::chrono::milliseconds deadline;
  std::string hangs, ends;

  void run() && {
    const OwnedFd report = memfd_of("hopfeed-plugin-trial", nullptr, 0);
    inherited.insert(inherited.begin(), {.from = report.get(), .to = kTrialFd});
    const Clock::time_point give_up = Clock::now() + deadline;
    WorkerProcess process(program, std::move(arguments), inherited);
    if (!ends_by(process, give_up))
      throw Error(ErrorCode::kTimeout,
                  fmt::format("{} within {} ms; mend it, or raise start_deadline", hangs, deadline.count()));
    const std::string end = process.reap(), said = text_of(report);
    if (said == kTrialPassed) return;
    throw Error(ErrorCode::kInvalid, !said.empty() ? said : ends + ": " + end);
  }
};

}  // namespace

void try_plugin(const std::string& program, const std::string& plugin, std::chrono::milliseconds deadline) {
  const std::string fails = fmt::format("the plugin {} does not load", plugin);
  Trial{.program = program,
        .arguments = {"--try-plugin", plugin},
        .inherited = {},
        .deadline = deadline,
        .hangs = fails + ": its constructors were not done",
        .ends = fails + ", its constructors end the process"}
      .run();
}

std::string load_tried_plugin(const std::string& program, const std::string& plugin,
                              std::chrono::milliseconds deadline) {
  try_plugin(program, plugin_path(plugin).string(), deadline);
  return load_sampler_plugin(plugin);
}

void try_sampler(const SamplerTrial& trial) {
  const OwnedFd config = memfd_of("hopfeed-config", trial.config.data(), trial.config.size());
  std::vector<InheritedFd> inherited{{.from = config.get(), .to = kConfigFd}};
  if (trial.seeds_fd >= 0) {
    inherited.push_back({.from = config.get(), .to = kDoorbellFd});  // no gap may be before the seeds
    inherited.push_back({.from = trial.seeds_fd, .to = kSeedsFd});
  }
  std::vector<std::string> arguments{"--try-sampler", std::to_string(trial.batch_size)};
  arguments.insert(arguments.end(), trial.plugins.begin(), trial.plugins.end());
  const std::string whose =
      fmt::format("the sampler '{}' of the plugin {}", trial.sampler, fmt::join(trial.plugins, ", "));
  Trial{.program = trial.program,
        .arguments = std::move(arguments),
        .inherited = std::move(inherited),
        .deadline = trial.deadline,
        .hangs = whose + " was not made, or did not say how large its batches can be,",
        .ends = whose + " ends the process where it is made or says how large its batches can be"}
      .run();
}

}  // namespace hopfeed
