// See failpoint.h. Compiled only where HOPFEED_FAILPOINTS is on.
#include "channel/failpoint.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <string>
#include <thread>

#include "core/error.h"

namespace hopfeed {
namespace {

struct Armed {
  std::string action;
  long at = 0;  // 0: not armed
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
    return {std::string(item.substr(equals + 1, at - equals - 1)),
            std::atol(std::string(item.substr(at + 1)).c_str())};
  }
  return {};
}

bool act(const std::string& action) {
  if (action == "kill") kill(getpid(), SIGKILL);
  if (action == "stop") kill(getpid(), SIGSTOP);
  if (action == "exit") _exit(3);
  if (action.starts_with("sleep:"))
    std::this_thread::sleep_for(std::chrono::milliseconds(std::atol(action.c_str() + 6)));
  return action == "error";
}

}  // namespace

bool failpoint_hit(std::string_view name) {
  static std::array<std::atomic<long>, std::size(kFailpoints)> hits{};
  std::size_t number = 0;
  while (kFailpoints[number] != name) ++number;
  if (std::getenv("HOPFEED_FAIL") == nullptr) {  // read each time: a test arms and disarms within one process
    hits[number] = 0;
    return false;
  }
  const long hit = hits[number].fetch_add(1) + 1;
  const Armed armed = parse(name);
  return armed.at == hit && act(armed.action);
}

}  // namespace hopfeed
