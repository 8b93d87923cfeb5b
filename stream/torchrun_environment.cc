// See torchrun_environment.h.
#include "stream/torchrun_environment.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "core/base/error.h"
#include "core/base/limits.h"

namespace hopfeed {
namespace {

constexpr const char* kHow =
    "; start with torchrun --no-python --nproc-per-node=N PROGRAM, or unset RANK, WORLD_SIZE and their "
    "LOCAL_ ones to "
    "run alone";

const char* value_of(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? value : nullptr;
}

const char* required(const char* name) {
  const char* value = value_of(name);
  if (!value)
    throw Error(ErrorCode::kInvalid,
                std::string("the torchrun environment is incomplete: ") + name + " is not set" + kHow);
  return value;
}

int number(const char* name, const char* value, int min, int max) {
  int result = 0;
  const auto [end, error] = std::from_chars(value, value + std::strlen(value), result);
  if (error != std::errc() || *end != '\0' || result < min || result > max) {
    throw Error(ErrorCode::kInvalid, std::string(name) + " is '" + value + "', not a number from " +
                                         std::to_string(min) + " to " + std::to_string(max) + kHow);
  }
  return result;
}

int number_or(const char* name, int otherwise, int min, int max) {
  const char* value = value_of(name);
  return value ? number(name, value, min, max) : otherwise;
}

std::atomic<int> told_world_size{1};

}  // namespace

void tell_world_size(int world_size) { told_world_size = world_size; }

LocalRanks local_ranks() {
  constexpr int kMost = static_cast<int>(kMaxWorldSize);
  LocalRanks local;
  if (value_of("LOCAL_WORLD_SIZE")) {
    local.world = number_or("LOCAL_WORLD_SIZE", 1, 1, kMost);
    local.rank = number_or("LOCAL_RANK", 0, 0, local.world - 1);
    return local;
  }
  local.rank = number_or("LOCAL_RANK", 0, 0, kMost - 1);
  local.world = std::max({number_or("WORLD_SIZE", 1, 1, kMost), local.rank + 1, told_world_size.load()});
  local.known = local.world == 1;
  return local;
}

std::optional<TorchrunEnvironment> torchrun_environment() {
  if (!value_of("RANK") && !value_of("WORLD_SIZE")) return std::nullopt;
  TorchrunEnvironment env;
  env.world_size = number("WORLD_SIZE", required("WORLD_SIZE"), 1, static_cast<int>(kMaxWorldSize));
  env.rank = number("RANK", required("RANK"), 0, env.world_size - 1);
  env.master_addr = required("MASTER_ADDR");
  env.master_port = static_cast<std::uint16_t>(
      number("MASTER_PORT", required("MASTER_PORT"), 1, std::numeric_limits<std::uint16_t>::max()));
  env.local = local_ranks();
  if (!env.local.known) number_or("LOCAL_RANK", 0, 0, env.world_size - 1);
  if (env.local.known && env.local.world > env.world_size) {
    throw Error(ErrorCode::kInvalid, "LOCAL_WORLD_SIZE is " + std::to_string(env.local.world) +
                                         ", more than WORLD_SIZE " + std::to_string(env.world_size) + kHow);
  }
  env.restart_count = number_or("TORCHELASTIC_RESTART_COUNT", 0, 0, std::numeric_limits<int>::max());
  const char* agent = value_of("TORCHELASTIC_USE_AGENT_STORE");
  env.agent_store = agent && (std::strcmp(agent, "True") == 0 || std::strcmp(agent, "1") == 0);
  return env;
}

}  // namespace hopfeed
