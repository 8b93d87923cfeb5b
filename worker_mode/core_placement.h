// Which cores trainers and sampling workers run on, so that they do not fight: each rank of a machine gets an
// equal share, and in it every worker a core of its own at the end where there are enough. A trainer program
// places itself and hands the workers' part to its loaders (LocalExecution::cores); a loader that is told
// nothing places its workers only.
#pragma once
#include <vector>

namespace hopfeed {

struct CoreQuery {
  std::vector<int> cores;  // the cores that this process may use, rising
  int local_rank = 0;
  int local_world = 1;  // ranks that share these cores
  int num_workers = 1;
};

struct CorePlan {
  std::vector<int> trainer;               // the trainer's threads
  std::vector<std::vector<int>> workers;  // [num_workers]
};

/// Plans by pure arithmetic. With a share of k cores and w workers: where w < k the last w cores go to one
/// worker each and the trainer keeps the rest; else all run on the whole share and the kernel balances.
CorePlan plan_cores(const CoreQuery& query);

/// Returns the query for this process: its affinity, and LOCAL_RANK and LOCAL_WORLD_SIZE as torchrun sets
/// them. Where the launcher has given this rank other cores than it has itself, they are not shared out
/// again. It has no cores where the launcher does not tell how many ranks are on this machine: then nothing
/// is placed, and the kernel balances.
CoreQuery query_cores(int num_workers);

}  // namespace hopfeed
