// See core_placement.h.
#include "worker_mode/core_placement.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>

#include "stream/torchrun_environment.h"

namespace hopfeed {
namespace {

std::vector<int> cores_of(pid_t pid) {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(pid, sizeof(set), &set) != 0) return cores;  // more than 1024 cores: place nothing
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(static_cast<std::size_t>(core), &set)) cores.push_back(core);
  }
  return cores;
}

}  // namespace

CorePlan plan_cores(const CoreQuery& query) {
  const int n = static_cast<int>(query.cores.size());
  CorePlan plan{.trainer = {},
                .workers = std::vector<std::vector<int>>(static_cast<std::size_t>(query.num_workers))};
  if (n == 0) return plan;
  std::vector<int> share;
  if (query.local_world > n) {
    share = {query.cores[static_cast<std::size_t>(query.local_rank % n)]};
  } else {
    share.assign(query.cores.begin() + query.local_rank * n / query.local_world,
                 query.cores.begin() + (query.local_rank + 1) * n / query.local_world);
  }
  const int k = static_cast<int>(share.size()), w = query.num_workers;
  plan.trainer = share;
  if (w >= k) {
    std::fill(plan.workers.begin(), plan.workers.end(), share);
    return plan;
  }
  plan.trainer.resize(static_cast<std::size_t>(k - w));
  for (int i = 0; i < w; ++i)
    plan.workers[static_cast<std::size_t>(i)] = {share[static_cast<std::size_t>(k - w + i)]};
  return plan;
}

CoreQuery query_cores(int num_workers) {
  const LocalRanks local = local_ranks();
  if (!local.known) return {.cores = {}, .num_workers = num_workers};
  CoreQuery query{.cores = cores_of(0), .num_workers = num_workers};
  if (local.world > 1 && cores_of(getppid()) == query.cores) {
    query.local_world = local.world;
    query.local_rank = local.rank;
  }
  return query;
}

}  // namespace hopfeed
