// See plugin_trial.h. The process says that it came through in a memfd: a library can end it with any exit
// code.
#include "worker_mode/plugin_trial.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "core/base/error.h"
#include "core/base/owned_fd.h"
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

}  // namespace

void try_plugin(const std::string& program, const std::string& plugin, std::chrono::milliseconds deadline) {
  const OwnedFd report = memfd_of("hopfeed-plugin-trial", nullptr, 0);
  const Clock::time_point give_up = Clock::now() + deadline;
  WorkerProcess process(program, {"--try-plugin", plugin}, {{.from = report.get(), .to = kTrialFd}});
  if (!ends_by(process, give_up)) {
    throw Error(ErrorCode::kTimeout,
                fmt::format("the plugin {} does not load: its constructors were not done within {} ms; mend "
                            "them, or raise start_deadline",
                            plugin, deadline.count()));
  }
  const std::string end = process.reap(), said = text_of(report);
  if (said == kTrialPassed) return;
  throw Error(ErrorCode::kInvalid,
              !said.empty() ? said
                            : fmt::format("the plugin {} does not load, its constructors end the process: {}",
                                          plugin, end));
}

}  // namespace hopfeed
