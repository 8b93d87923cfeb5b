// See launched_run.h.
#include "trainer/launched_run.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <random>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "core/base/error.h"
#include "stream/torchrun_environment.h"

namespace hopfeed {
namespace {

constexpr const char* kKey = "hopfeed/run";  // beside the keys that each attempt has (world.cc)

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string random_id() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) {
    char word[9];
    std::snprintf(word, sizeof word, "%08x", random());
    id += word;
  }
  return id;
}

/// The number in the store of torchrun's agent, which the first one to ask has left there.
std::string id_in_store(const TorchrunEnvironment& env, std::chrono::milliseconds timeout) {
  std::string id = random_id();
  translate_torch_errors("asking torchrun's store which run this is", [&] {
    c10d::TCPStoreOptions options;
    options.port = env.master_port;
    options.waitWorkers = false;
    options.timeout = timeout;
    c10d::TCPStore store(env.master_addr, options);
    const std::vector<std::uint8_t> mine(id.begin(), id.end());
    const std::vector<std::uint8_t> there = store.compareSet(kKey, {}, mine);
    id.assign(there.begin(), there.end());
  });
  return id;
}

LaunchedRun asked(const World& world) {
  LaunchedRun run{.restarts = world.restart_count(), .id = ""};
  const std::string begun_again = variable("HOPFEED_RESTART");
  if (!begun_again.empty()) {
    std::int64_t times = 1;  // whatever else it says, it does not say that this is the first start
    std::from_chars(begun_again.data(), begun_again.data() + begun_again.size(), times);
    run.restarts += times;
    run.id = variable("HOPFEED_RUN");
    return run;
  }
  const std::optional<TorchrunEnvironment> env = torchrun_environment();
  if (env && env->agent_store && env->rank == 0) run.id = id_in_store(*env, world.timeout());
  return run;
}

}  // namespace

const LaunchedRun& launched_run(const World& world) {
  static const LaunchedRun run = asked(world);  // of this process
  return run;
}

}  // namespace hopfeed
