// Reads what the launcher says through environment variables: torchrun, Slurm and Kubernetes set the same
// ones. There is no Torch here.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace hopfeed {

/// LocalRanks says which of this machine's ranks this is, of how many: LOCAL_RANK and LOCAL_WORLD_SIZE.
struct LocalRanks {
  int rank = 0, world = 1;
  /// It is false where LOCAL_WORLD_SIZE is not set and there may be other ranks (Lightning sets LOCAL_RANK
  /// and WORLD_SIZE alone): then `world` counts all that may be on this machine.
  bool known = true;
};
/// Reads them. Throws kInvalid naming the variable where one is set to something else than a number in range.
LocalRanks local_ranks();
/// Tells what a process group knows and the environment does not say: so many trainers the run has. It is for
/// processes that were started without the variables.
void tell_world_size(int world_size);

struct TorchrunEnvironment {
  int rank = 0, world_size = 1;
  LocalRanks local;
  std::string master_addr;
  std::uint16_t master_port = 0;
  int restart_count = 0;     // how often torchrun has started this group of trainers again
  bool agent_store = false;  // torchrun's agent hosts the store; otherwise rank 0 does
  bool one_machine() const { return local.known && local.world == world_size; }
};

/// Reads the environment; nothing where no RANK and no WORLD_SIZE are set: one trainer by itself. Throws
/// kInvalid naming the variable where the environment is set in part or holds no numbers.
std::optional<TorchrunEnvironment> torchrun_environment();

}  // namespace hopfeed
