// See failpoint.h. Compiled only where HOPFEED_FAILPOINTS is on.
#include "core/base/failpoint.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <random>
#include <string>
#include <thread>

#include "core/base/error.h"

namespace hopfeed {
namespace {

struct Armed {
  std::string action;
  long at = 0;  // 0: not armed, -1: at every hit
};

Armed parse(std::string_view name) {
  const char* value = std::getenv("HOPFEED_FAIL");
  std::string_view rest = value ? value : "";
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    const std::size_t equals = item.find('='), at = item.rfind('@');
    if (equals == std::string_view::npos || at == std::string_view::npos || at < equals) {
      throw Error(ErrorCode::kInvalid, "HOPFEED_FAIL: '" + std::string(item) + "' is not name=action@n");
    }
    if (item.substr(0, equals) != name) continue;
    const std::string hit(item.substr(at + 1));
    return {std::string(item.substr(equals + 1, at - equals - 1)), hit == "*" ? -1 : std::atol(hit.c_str())};
  }
  return {};
}

/// Whether this process is the first of all that share the file; true where there is none.
bool first_of_all() {
  const char* file = std::getenv("HOPFEED_FAIL_ONCE");
  return file == nullptr || unlink(file) == 0;
}

void yield_or_nap() {
  thread_local std::minstd_rand random(std::random_device{}());
  if (random() % 4 == 0) return std::this_thread::sleep_for(std::chrono::microseconds(random() % 50));
  std::this_thread::yield();
}

bool act(const std::string& action) {
  if (action == "kill") kill(getpid(), SIGKILL);
  if (action == "stop") kill(getpid(), SIGSTOP);
  if (action == "exit") _exit(3);
  if (action == "yield") yield_or_nap();
  if (action.starts_with("sleep:"))
    std::this_thread::sleep_for(std::chrono::milliseconds(std::atol(action.c_str() + 6)));
  return action == "error";
}

void log_hit(std::string_view name) {
  const char* file = std::getenv("HOPFEED_FAIL_LOG");
  const int fd = file == nullptr ? -1 : open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return;
  const std::string line = std::string(name) + "\n";
  [[maybe_unused]] const ssize_t ignored = write(fd, line.data(), line.size());
  close(fd);
}

}  // namespace

bool failpoint_hit(std::string_view name) {
  static std::array<std::atomic<long>, std::size(kFailpoints)> hits{};
  std::size_t number = 0;
  while (kFailpoints[number] != name) ++number;
  log_hit(name);
  if (std::getenv("HOPFEED_FAIL") == nullptr) {  // read each time: a test arms and disarms within one process
    hits[number] = 0;
    return false;
  }
  const long hit = hits[number].fetch_add(1) + 1;
  const Armed armed = parse(name);
  return (armed.at == hit || armed.at == -1) && first_of_all() && act(armed.action);
}

}  // namespace hopfeed
