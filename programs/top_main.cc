// hopfeed-top: shows what the loaders of a running process do, once a second, until the process ends.
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/error.h"
#include "core/base/owned_fd.h"
#include "core/program/json_report.h"
#include "core/program/program_main.h"
#include "programs/top_screen.h"
#include "worker_mode/loader_watch.h"

namespace hopfeed {
namespace {

struct TopArguments {
  std::int64_t pid = 0;
  bool once = false;
  std::string json;
};

class Top {
 public:
  explicit Top(const TopArguments& arguments) : arguments_(arguments), report_(arguments.json) {
    process_ = OwnedFd(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(arguments.pid), 0)));
    if (!process_ && errno == ESRCH)
      throw Error(ErrorCode::kNotFound, fmt::format("there is no process {}", arguments.pid));
    if (!process_) throw_errno(fmt::format("cannot watch process {}", arguments.pid), errno);
    find_loaders();
    if (loaders_.empty()) {
      throw Error(ErrorCode::kNotFound,
                  fmt::format("process {} has no loader; name a trainer or a hopfeed-sample that runs",
                              arguments.pid));
    }
  }

  void run() {
    while (sleep_a_second()) {
      show();
      if (arguments_.once) return;
      find_loaders();
    }
    fmt::print("process {} has ended\n", arguments_.pid);
  }

 private:
  struct Watched {
    LoaderWatch watch;
    LoaderSnapshot before;
  };

  /// Those that are gone are dropped, new ones join. A process that dies meanwhile is noticed by
  /// sleep_a_second.
  void find_loaders() {
    std::vector<FoundChannel> found;
    try {
      found = find_channels(arguments_.pid);
    } catch (const Error&) {
      if (loaders_.empty() && alive(0)) throw;
    }
    std::map<ino_t, Watched> now;
    for (const FoundChannel& channel : found) {
      if (auto known = loaders_.extract(channel.inode)) {
        now.insert(std::move(known));
        continue;
      }
      LoaderWatch watch(channel.fd.get());
      const LoaderSnapshot first = watch.look();
      now.emplace(channel.inode, Watched{.watch = std::move(watch), .before = first});
    }
    loaders_ = std::move(now);
  }

  void show() {
    if (isatty(STDOUT_FILENO) != 0) std::fputs("\033[H\033[J", stdout);
    if (loaders_.empty()) fmt::print("process {} has no loader at the moment\n", arguments_.pid);
    nlohmann::json loaders = nlohmann::json::array();
    for (auto& [inode, loader] : loaders_) {
      const LoaderSnapshot now = loader.watch.look();
      std::fputs(screen_of(loader.before, now).c_str(), stdout);
      loaders.push_back(json_of(loader.before, now));
      loader.before = now;
    }
    if (std::fflush(stdout) != 0) throw_errno("cannot write to standard output", errno);
    report_.write({{"process", arguments_.pid}, {"loaders", loaders}});
  }

  bool alive(int wait_ms) const {
    pollfd poller{.fd = process_.get(), .events = POLLIN, .revents = 0};
    return poll(&poller, 1, wait_ms) <= 0;
  }
  /// False once the process has ended.
  bool sleep_a_second() const {
    const bool lives = alive(1000);
    stop_if_asked();
    return lives;
  }

  const TopArguments arguments_;
  JsonReport report_;
  OwnedFd process_;  // pidfd: readable once the process has ended
  std::map<ino_t, Watched> loaders_;
};

}  // namespace
}  // namespace hopfeed

int main(int argc, char** argv) {
  using namespace hopfeed;
  CommandLine line(
      "hopfeed-top",
      "Shows what the loaders of a running process of yours do: slots, workers, rates, and who waits for "
      "whom.\nA screen a second until the process ends; Ctrl-C leaves earlier. The loader notices nothing "
      "of it.\n\nExample: hopfeed-top $(pgrep -n node_classific)");
  TopArguments arguments;
  line.option("PID", arguments.pid, "Process of a trainer or of hopfeed-sample",
              {.required = true, .min = 1, .max = 4'194'304});
  line.flag("--once", arguments.once, "One screen, of one second");
  line.option("--json", arguments.json, "Write each screen to this file too, in place of the one before",
              {.output = true});
  stop_on_signals();
  line.action([&] {
    try {
      Top(arguments).run();
    } catch (const Interrupted&) {  // the way to leave it
    }
  });
  return program_main(line, argc, argv);
}
