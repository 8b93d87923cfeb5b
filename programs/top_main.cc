// hopfeed-top: shows what the loaders of a running process do, or what a server does, once a second, until
// the process ends or the server is gone.
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/base/owned_fd.h"
#include "core/program/json_report.h"
#include "core/program/parse_option.h"
#include "core/program/program_main.h"
#include "programs/options/server_arguments.h"
#include "programs/top_screen.h"
#include "programs/top_server.h"
#include "server_client_mode/client/remote_loader.h"
#include "stream/loader_watch.h"

namespace hopfeed {
namespace {

struct TopArguments {
  std::string what;      // a process or a server
  std::int64_t pid = 0;  // where it is a process
  ServerArguments servers{"PID"};
  bool once = false;
  std::string json;
};

class Top {
 public:
  explicit Top(TopArguments arguments) : arguments_(std::move(arguments)), report_(arguments_.json) {
    arguments_.pid = parse_whole<std::int64_t>(arguments_.what, "PID", 1, 4'194'304);
    process_ = OwnedFd(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(arguments_.pid), 0)));
    if (!process_ && errno == ESRCH)
      throw Error(ErrorCode::kNotFound, fmt::format("there is no process {}", arguments_.pid));
    if (!process_) throw_errno(fmt::format("cannot watch process {}", arguments_.pid), errno);
    find_loaders();
    if (loaders_.empty()) {
      throw Error(ErrorCode::kNotFound,
                  fmt::format("process {} has no loader; name a trainer or a hopfeed-sample that runs",
                              arguments_.pid));
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

  TopArguments arguments_;
  JsonReport report_;
  OwnedFd process_;  // pidfd: readable once the process has ended
  std::map<ino_t, Watched> loaders_;
};

void sleep_a_second_in_parts() {
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    stop_if_asked();
  }
}

void watch_server(const TopArguments& arguments) {
  const RemoteExecution server = arguments.servers.options_for(arguments.what);
  JsonReport report(arguments.json);
  nlohmann::json before = parse_json(ask_status(server));
  do {
    sleep_a_second_in_parts();
    const nlohmann::json now = parse_json(ask_status(server));
    if (isatty(STDOUT_FILENO) != 0) std::fputs("\033[H\033[J", stdout);
    std::fputs(server_screen(before, now).c_str(), stdout);
    if (std::fflush(stdout) != 0) throw_errno("cannot write to standard output", errno);
    report.write(server_report(before, now));
    before = now;
  } while (!arguments.once);
}

/// A number is a process, all else an address.
bool is_process(const std::string& what) {
  return what.find_first_not_of("0123456789", what.starts_with('-') ? 1 : 0) == std::string::npos;
}

}  // namespace
}  // namespace hopfeed

int main(int argc, char** argv) {
  using namespace hopfeed;
  CommandLine line(
      "hopfeed-top",
      "Shows what the loaders of a running process of yours do, or what a server does: slots, workers, "
      "rates, "
      "and who waits for whom.\nA screen a second until the process ends; Ctrl-C leaves earlier. A loader "
      "notices nothing of it.\n\nExamples: hopfeed-top $(pgrep -n node_classific)\n"
      "          hopfeed-top 127.0.0.1:9470 --token-file token");
  TopArguments arguments;
  line.option("PID", arguments.what,
              "Process of a trainer or of hopfeed-sample; or the address of a server (HOST:PORT, unix:PATH)",
              {.required = true});
  arguments.servers.add_security(line);
  line.flag("--once", arguments.once, "One screen, of one second");
  line.option("--json", arguments.json, "Write each screen to this file too, in place of the one before",
              {.output = true});
  stop_on_signals();
  line.action([&] {
    try {
      if (is_process(arguments.what))
        Top(arguments).run();
      else
        watch_server(arguments);
    } catch (const Interrupted&) {  // the way to leave it
    }
  });
  return program_main(line, argc, argv);
}
